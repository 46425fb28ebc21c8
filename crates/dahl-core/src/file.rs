//! The one atomic file writer: readers, also those after a crash, find the old content or the new,
//! complete, and never something in between. Beside it, what a program asks before hours of work: whether a
//! file can be written, and whether another process writes it; and before it reads: whether it is a file at all.
//!
//! The new content goes to a temporary file in the same directory, is flushed to the disk, and takes
//! the old one's place by a rename. An error on the way (a full disk) leaves the old file alone. A
//! process that was killed leaves a temporary file behind; the next one to replace the same file
//! removes it, telling it from one still being written by the lock that only the living hold.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file through `write`, all or nothing. A device such as `/dev/null` is written to, not
/// replaced: a rename would put a file in its place.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        write(&mut out)?;
        return out.flush();
    }
    let path = target(path)?;
    let (temporary, file) = temporary(&path)?;
    let dir = folder_of(&path);
    let result = fill(file, write).and_then(|_file| fs::rename(&temporary, &path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result?;
    sync_directory(dir)
}

/// Whether [`write_atomically`] could write a file, as far as can be known before: its folder takes new files, or
/// the device can be opened. Leaves nothing behind.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return OpenOptions::new().write(true).open(path).map(drop);
    }
    if path.is_dir() {
        let why = "it is a folder: name a file to write to";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, why));
    }
    let dir = folder_of(path);
    if !dir.exists() {
        let why = format!("create {} first", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let (temporary, _file) = temporary(&target(path)?)?;
    fs::remove_file(temporary)
}

/// Opens a regular file, and says how many bytes it has. What else has a name is refused before it is opened: opening
/// a pipe waits for somebody to write, and a device has no end.
pub fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let regular = |meta: fs::Metadata| match meta.is_file() {
        true => Ok(meta.len()),
        false => Err(io::Error::other("it is not a regular file")),
    };
    regular(fs::metadata(path)?)?;
    let file = File::open(path)?;
    let length = regular(file.metadata()?)?;
    Ok((file, length))
}

/// The text of a file or a pipe. A device is refused: `/dev/zero` ends when memory does.
pub fn read_text(path: &Path) -> io::Result<String> {
    no_device(path).and_then(fs::read_to_string)
}

/// The bytes of a file or a pipe; devices as in [`read_text`].
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    no_device(path).and_then(fs::read)
}

fn no_device(path: &Path) -> io::Result<&Path> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = fs::metadata(path)?.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Err(io::Error::other("it is a device, not a file"));
        }
    }
    Ok(path)
}

/// The right to write a file or a folder that other processes respect if they ask, too. It ends with the value or
/// the process, however that ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Option<File>);

impl Lock {
    /// Takes the lock of a file or folder that exists; none if another process has it. Where the file system
    /// knows no locks, everybody gets one.
    pub fn take(path: &Path) -> io::Result<Option<Lock>> {
        // Folders cannot be opened everywhere.
        let Ok(file) = File::open(path) else {
            fs::metadata(path)?;
            return Ok(Some(Lock(None)));
        };
        Ok(match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            _ => Some(Lock(Some(file))),
        })
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// A new temporary file beside the one that it will replace.
fn temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("the path names no file"))?;
    let dir = folder_of(path);
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    sweep(dir, &prefix);

    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = prefix;
    name.push(format!("{}-{count}.tmp", std::process::id()));
    let temporary = dir.join(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    // A file system without locks loses only the protection from another process's sweep.
    let _ = file.try_lock();
    Ok((temporary, file))
}

/// Writes and flushes; gives the file back so that its lock outlives the rename.
fn fill(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    write(&mut out)?;
    let file = out.into_inner().map_err(|e| e.into_error())?;
    file.sync_all()?;
    Ok(file)
}

/// What to replace: behind a symbolic link its target, so that the link stays.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => fs::canonicalize(path),
        Ok(_) => Err(io::Error::other("it exists and is not a regular file")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(e) => Err(e),
    }
}

/// Removes what dead processes left. Failure is harmless: such files are only ever in the way of space.
fn sweep(dir: &Path, prefix: &OsString) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if !(bytes.starts_with(prefix.as_encoded_bytes()) && bytes.ends_with(b".tmp")) {
            continue;
        }
        if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the rename itself durable.
#[cfg(unix)]
fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_dir: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty directory that goes away with the value.
    struct TempDir(PathBuf);

    impl TempDir {
        fn new() -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("dahl-core-{}-{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            TempDir(path)
        }

        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_content_survives_an_error() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |out| {
            out.write_all(&[7; 100_000])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a"]);
        write_atomically(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn leftovers_of_the_dead_go_and_those_of_the_living_stay() {
        let dir = TempDir::new();
        fs::write(dir.path().join(".a.1-0.tmp"), b"dead").unwrap();
        fs::write(dir.path().join(".b.1-0.tmp"), b"not ours").unwrap();
        let alive = File::create(dir.path().join(".a.2-0.tmp")).unwrap();
        alive.lock().unwrap();
        write_atomically(&dir.path().join("a"), |out| out.write_all(b"x")).unwrap();
        assert_eq!(names(dir.path()), [".a.2-0.tmp", ".b.1-0.tmp", "a"]);
    }

    #[test]
    fn folders_are_refused_and_devices_written_to() {
        write_atomically(Path::new("/dev/null"), |out| out.write_all(b"x")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let dir = TempDir::new();
        let path = dir.path().join("folder");
        fs::create_dir(&path).unwrap();
        assert!(write_atomically(&path, |out| out.write_all(b"x")).is_err());
        assert!(write_atomically(&dir.path().join("none/a"), |out| out.write_all(b"x")).is_err());
        assert!(write_atomically(Path::new("/"), |_| Ok(())).is_err());
        assert_eq!(names(dir.path()), ["folder"]);
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        check_writable(&path).unwrap();
        check_writable(Path::new("/dev/null")).unwrap();
        assert_eq!(names(dir.path()), [""; 0]);
        fs::write(&path, b"old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        for wrong in [dir.path().join("none/a"), path.join("b"), dir.path().into()] {
            assert!(check_writable(&wrong).is_err(), "{}", wrong.display());
        }
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn only_files_are_opened_to_be_read() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        fs::write(&path, b"four").unwrap();
        assert_eq!(open_regular(&path).unwrap().1, 4);
        for other in [dir.path(), Path::new("/dev/null")] {
            let error = open_regular(other).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        let error = open_regular(&dir.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // Where pipes are welcome, devices are not.
        assert_eq!(read_text(&path).unwrap(), "four");
        assert_eq!(read_bytes(&path).unwrap(), b"four");
        #[cfg(unix)]
        for device in ["/dev/null", "/dev/zero"] {
            let error = read_bytes(Path::new(device)).unwrap_err().to_string();
            assert!(error.contains("it is a device"), "{error}");
        }
    }

    #[test]
    fn one_at_a_time_has_a_lock() {
        let dir = TempDir::new();
        let file = dir.path().join("a");
        fs::write(&file, b"").unwrap();
        for path in [dir.path(), &file] {
            let first = Lock::take(path).unwrap();
            assert!(first.is_some() && Lock::take(path).unwrap().is_none());
            drop(first);
            assert!(Lock::take(path).unwrap().is_some());
        }
        assert!(Lock::take(&dir.path().join("none")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_keeps_pointing() {
        let dir = TempDir::new();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_atomically(&link, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
