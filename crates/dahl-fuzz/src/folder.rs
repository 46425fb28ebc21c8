//! A folder for parsers that want files: one for each thread, empty before every input.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A temporary folder, which goes with the thread. In memory where systems have a place for that: files are written
/// over and over, which some file systems answer by flushing them to the disk.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether anybody asked for it since it was empty.
    used: Cell<bool>,
}

impl Folder {
    /// Uses this thread's folder.
    pub(crate) fn with<R>(use_it: impl FnOnce(&Folder) -> R) -> R {
        thread_local! {
            static FOLDER: RefCell<Option<Folder>> = const { RefCell::new(None) };
        }
        FOLDER.with_borrow_mut(|kept| {
            let folder = kept.get_or_insert_with(Folder::new);
            folder.clear();
            use_it(folder)
        })
    }

    fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dahl-fuzz-{}-{count}", std::process::id());
        let memory = std::env::var_os("TMPDIR").is_none() && Path::new("/dev/shm").is_dir();
        let path = match memory {
            true => Path::new("/dev/shm").join(name),
            false => std::env::temp_dir().join(name),
        };
        fs::create_dir_all(&path).expect("a temporary folder");
        let used = Cell::new(false);
        Folder { path, used }
    }

    fn clear(&self) {
        if !self.used.replace(false) {
            return;
        }
        for entry in fs::read_dir(&self.path).expect("the folder").flatten() {
            // Only ever files: parsers that would make folders here are not fed.
            fs::remove_file(entry.path()).expect("a file of ours");
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.used.set(true);
        &self.path
    }

    /// Writes a file, whose path it gives.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).expect("a temporary file");
        path
    }

    /// Writes those parts of a bundle whose names are known.
    pub(crate) fn unpack(&self, parts: &[(&[u8], &[u8])], names: &[&str]) {
        for name in names {
            if parts.iter().any(|(n, _)| *n == name.as_bytes()) {
                self.write(name, crate::bundle::part(parts, name));
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
