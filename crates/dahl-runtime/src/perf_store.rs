//! Performance models on disk, shared by all the processes of a machine.
//!
//! One JSON file, one record a line, with a version. The rules:
//!
//! - A reader sees the old file or the new one, never a part: a file is written beside the old one,
//!   flushed to the disk and renamed over it. Whatever fails on the way leaves the old file as it was.
//! - No process loses another's samples: a writer takes an advisory lock (on a file of its own, since
//!   the data file is replaced), reads what is there *now*, adds what it measured since it last wrote,
//!   and only that, and writes. [`PerfStore`] keeps track of which samples these are.
//! - A file that cannot be understood is never a crash and never overwritten: it is renamed to
//!   `<name>.damaged-<n>`, a [`Warning`] says so, and the model starts empty.
//!
//! This module does not decide when to save, nor where: callers do, and print the warnings.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dahl_core::{Cost, Seconds};
use dahl_sched::model::{Key, PerfModel, Record, Verdict};
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// The version of the format that this program reads and writes.
pub const VERSION: u64 = 1;

/// Larger files are not ours: a hundred thousand shapes take less.
const MAX_BYTES: u64 = 256 << 20;
/// How long to wait for another process. Holding the lock takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file that was found unusable; the run goes on without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
    /// Where it is now, or why it could not be moved.
    pub moved_to: Result<PathBuf, String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "performance model {} is unusable: {}",
            self.path.display(),
            self.reason
        )?;
        match &self.moved_to {
            Ok(to) => write!(f, "; kept as {}, starting afresh", to.display()),
            Err(why) => write!(f, "; it stays there ({why}), starting afresh"),
        }
    }
}

/// Why a model could not be read or written. The file on disk is as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is there and cannot be read.
    #[error("cannot read performance model {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The new file cannot be written or put in place.
    #[error("cannot write performance model {path}: {source}", path = .path.display())]
    Write {
        /// The file that failed: the model, its lock, or what was to become it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process keeps the lock.
    #[error("performance model is locked by another process: {path}", path = .path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// A file that cannot be understood is in the way and cannot be moved.
    #[error("{0}")]
    InTheWay(Warning),
}

/// What a file turned out to hold.
enum Content {
    Missing,
    Model(PerfModel),
    Damaged(String),
}

/// The model in a file: empty if there is none, empty with a warning if it cannot be understood.
pub fn load(path: &Path) -> Result<(PerfModel, Option<Warning>), StoreError> {
    let path = &real(path);
    let reason = match read(path)? {
        Content::Missing => return Ok((PerfModel::new(), None)),
        Content::Model(model) => return Ok((model, None)),
        Content::Damaged(reason) => reason,
    };
    // Somebody may have repaired or moved it since: look again, alone.
    let lock = match lock(path) {
        Ok(lock) => lock,
        Err(e) => {
            let warning = Warning {
                path: path.clone(),
                reason,
                moved_to: Err(e.to_string()),
            };
            return Ok((PerfModel::new(), Some(warning)));
        }
    };
    let found = understand(path);
    drop(lock);
    found
}

/// Adds `fresh` to the model in a file, and returns what the file now holds. `fresh` must hold only
/// samples that are not in the file yet. The directory is made if missing.
pub fn save(path: &Path, fresh: &PerfModel) -> Result<(PerfModel, Option<Warning>), StoreError> {
    let path = &real(path);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        })
        .map_err(|source| StoreError::Write {
            path: dir.to_owned(),
            source,
        })?;
    }
    let lock = lock(path)?;
    let (mut model, warning) = understand(path)?;
    if let Some(warning) = &warning
        && warning.moved_to.is_err()
    {
        return Err(StoreError::InTheWay(warning.clone()));
    }
    model.merge(fresh);
    let bytes = encode(&model).map_err(|e| StoreError::Write {
        path: path.clone(),
        source: e.into(),
    })?;
    replace(path, &bytes)?;
    drop(lock);
    Ok((model, warning))
}

/// A model, where it is kept, and which of its samples are not there yet.
#[derive(Debug)]
pub struct PerfStore {
    path: PathBuf,
    model: PerfModel,
    fresh: PerfModel,
}

impl PerfStore {
    /// Opens the model in a file, which need not exist. The first `cold` durations of each key do not
    /// enter.
    pub fn open(path: &Path, cold: u32) -> Result<(PerfStore, Option<Warning>), StoreError> {
        let (model, warning) = load(path)?;
        let model = model.with_cold(cold);
        Ok((
            PerfStore {
                path: path.to_owned(),
                model,
                fresh: PerfModel::new(),
            },
            warning,
        ))
    }

    /// Adds a measured duration.
    pub fn record(&mut self, key: &Key, cost: Cost, seconds: Seconds) -> Verdict {
        let verdict = self.model.record(key, cost, seconds);
        // An outlier is passed on too: whether it is one is judged again, beside others' samples.
        if !matches!(verdict, Verdict::Cold | Verdict::Refused) {
            self.fresh.record(key, cost, seconds);
        }
        verdict
    }

    /// The model, with what is not saved yet.
    pub fn model(&self) -> &PerfModel {
        &self.model
    }

    /// Writes what is new, and takes in what others wrote. After an error nothing is lost: the next
    /// save tries again.
    pub fn save(&mut self) -> Result<Option<Warning>, StoreError> {
        let (merged, warning) = save(&self.path, &self.fresh)?;
        self.fresh = PerfModel::new();
        self.model.adopt(merged);
        Ok(warning)
    }
}

/// The file behind symbolic links, so that the lock and the renamed file lie beside it.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The path with something before and after its last part.
fn beside(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

/// Takes the lock of a model; it is released when the file is dropped, or the process dies.
fn lock(path: &Path) -> Result<File, StoreError> {
    let path = beside(path, "", ".lock");
    let failed = |source| StoreError::Write {
        path: path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => {
                return Err(StoreError::Busy { path });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Reads the file; one that cannot be understood is moved aside. The caller holds the lock.
fn understand(path: &Path) -> Result<(PerfModel, Option<Warning>), StoreError> {
    match read(path)? {
        Content::Missing => Ok((PerfModel::new(), None)),
        Content::Model(model) => Ok((model, None)),
        Content::Damaged(reason) => {
            let moved_to = move_aside(path).map_err(|e| e.to_string());
            Ok((
                PerfModel::new(),
                Some(Warning {
                    path: path.to_owned(),
                    reason,
                    moved_to,
                }),
            ))
        }
    }
}

fn move_aside(path: &Path) -> io::Result<PathBuf> {
    for n in 1u64.. {
        let to = beside(path, "", &format!(".damaged-{n}"));
        // `symlink_metadata` also sees a link to nowhere, which a rename would replace.
        if fs::symlink_metadata(&to).is_err() {
            fs::rename(path, &to)?;
            return Ok(to);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn read(path: &Path) -> Result<Content, StoreError> {
    let failed = |source| StoreError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Content::Missing),
        Err(e) => return Err(failed(e)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Ok(Content::Damaged(format!(
            "it is larger than {MAX_BYTES} bytes"
        )));
    }
    Ok(decode(&bytes).map_or_else(Content::Damaged, Content::Model))
}

fn decode(bytes: &[u8]) -> Result<PerfModel, String> {
    #[derive(Deserialize)]
    struct Header {
        version: u64,
    }
    #[derive(Deserialize)]
    struct Body {
        records: Vec<Record>,
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| format!("it is not UTF-8 text (byte {})", e.valid_up_to()))?;
    // The version first: another one may have other records.
    let head: Header = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if head.version != VERSION {
        return Err(format!(
            "it has version {}, this program reads {VERSION}",
            head.version
        ));
    }
    let body: Body = serde_json::from_str(text).map_err(|e| e.to_string())?;
    PerfModel::from_records(body.records)
}

fn encode(model: &PerfModel) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = format!("{{\"version\":{VERSION},\"records\":[").into_bytes();
    for (i, record) in model.records().iter().enumerate() {
        bytes.extend_from_slice(if i == 0 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut bytes, record)?;
    }
    bytes.extend_from_slice(b"\n]}\n");
    Ok(bytes)
}

/// Puts new content in the place of a file, all or nothing. The caller holds the lock.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    dahl_core::file::write_atomically(path, |out| out.write_all(bytes)).map_err(|source| {
        StoreError::Write {
            path: path.to_owned(),
            source,
        }
    })
}
