//! Reading small files of a system tree, real or made up.
//!
//! A file is opened anew for each reading: a few microseconds, and a domain that was unplugged, or
//! plugged in again, is seen as it is. Nothing is written, and a number is never guessed from a file
//! that holds something else.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Trouble, TroubleKind};

/// Fills a buffer from the beginning of a file, and says how much of it.
type Reader = Arc<dyn Fn(&Path, &mut [u8]) -> io::Result<usize> + Send + Sync>;

/// A tree in the place of `/sys`.
#[derive(Clone)]
pub struct Tree {
    root: PathBuf,
    reader: Reader,
}

/// As much as a file of one value may hold.
const LONGEST: usize = 256;

impl Tree {
    /// The tree under this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self::with_reader(root, Arc::new(read_file))
    }

    /// The tree under this folder, its files read by somebody else: tests refuse and fail this way.
    pub(crate) fn with_reader(root: impl Into<PathBuf>, reader: Reader) -> Self {
        Tree {
            root: root.into(),
            reader,
        }
    }

    /// Whether this is the machine's own, so that asking its kernel and drivers makes sense, too.
    pub(crate) fn is_the_system(&self) -> bool {
        self.root == Path::new("/sys")
    }

    /// The path of something in it.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// Names in a folder, in natural order (`hwmon2` before `hwmon10`).
    pub(crate) fn names(&self, inside: &str) -> Result<Vec<String>, Trouble> {
        let path = self.path(inside);
        let entries = fs::read_dir(&path).map_err(|e| trouble(&path, &e))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| natural(name));
        Ok(names)
    }

    /// A file's text, without white space around it.
    pub(crate) fn text(&self, path: &Path) -> Result<String, Trouble> {
        let mut buffer = [0; LONGEST];
        Ok(self.trimmed(path, &mut buffer)?.to_owned())
    }

    /// A file's text as a number.
    pub(crate) fn number(&self, path: &Path) -> Result<u64, Trouble> {
        let mut buffer = [0; LONGEST];
        let text = self.trimmed(path, &mut buffer)?;
        text.parse().map_err(|_| {
            let start: String = text.chars().take(40).collect();
            garbage(path, &format!("holds {start:?} where a number should be"))
        })
    }

    fn trimmed<'a>(&self, path: &Path, buffer: &'a mut [u8]) -> Result<&'a str, Trouble> {
        let n = (self.reader)(path, buffer).map_err(|e| trouble(path, &e))?;
        let text = std::str::from_utf8(&buffer[..n.min(LONGEST)]);
        Ok(text.map_err(|_| garbage(path, "is not text"))?.trim())
    }
}

fn read_file(path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

fn garbage(path: &Path, what: &str) -> Trouble {
    Trouble::new(TroubleKind::Garbage, format!("{} {what}", path.display()))
}

/// An error of the system's, in words.
pub(crate) fn trouble(path: &Path, error: &io::Error) -> Trouble {
    let path = path.display();
    // A file of a device that was unplugged while open says "no such device" in one of two ways.
    #[cfg(unix)]
    let gone = matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
    #[cfg(not(unix))]
    let gone = false;
    match error.kind() {
        _ if gone => Trouble::new(TroubleKind::Missing, format!("{path}: the device is gone")),
        io::ErrorKind::NotFound => {
            Trouble::new(TroubleKind::Missing, format!("{path} does not exist"))
        }
        io::ErrorKind::PermissionDenied => {
            Trouble::new(TroubleKind::Denied, format!("{path}: permission denied"))
        }
        _ => Trouble::new(TroubleKind::Failed, format!("{path}: {error}")),
    }
}

/// A key that sorts digits as numbers.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit());
        let (head, tail) = rest.split_at(text.unwrap_or(rest.len()));
        let digits = tail.find(|c: char| !c.is_ascii_digit());
        let (number, tail) = tail.split_at(digits.unwrap_or(tail.len()));
        // The text decides first, so it stands in the entry before its number.
        key.push((0, head.to_owned()));
        key.push((number.parse().unwrap_or(u64::MAX), String::new()));
        rest = tail;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_sort_as_numbers() {
        let mut names = ["hwmon10", "hwmon2", "intel-rapl:0:1", "intel-rapl:0", "a"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(
            names,
            ["a", "hwmon2", "hwmon10", "intel-rapl:0", "intel-rapl:0:1"]
        );
    }
}
