//! Files that are written whole or not at all: into a temporary file beside, then renamed.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file through `write`. On an error the file that was there before stays as it was, and
/// nothing is left beside it.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::other("the path names no file"));
    };
    // A device such as /dev/null is written, not replaced.
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        write(&mut out)?;
        return out.flush();
    }
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let result = (|| {
        let file = fs::File::create(&temporary)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        write(&mut out)?;
        out.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_leaves_the_old_file_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("dahl-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join("a");
        write_whole(&path, |out| out.write_all(b"old")).expect("written");
        let error = write_whole(&path, |out| {
            out.write_all(&[1; 1 << 20])?;
            Err(io::Error::other("full"))
        });
        assert!(error.is_err());
        assert_eq!(fs::read(&path).expect("readable"), b"old");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        assert!(write_whole(&folder.join("none/a"), |_| Ok(())).is_err());
        assert!(write_whole(Path::new("/"), |_| Ok(())).is_err());
        fs::remove_dir_all(&folder).expect("removable");
    }
}
