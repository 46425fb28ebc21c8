//! The folder that a run writes its checkpoints into: found out before the first step whether it can be written, and
//! whether somebody else's work is there or under way.

use std::path::{Path, PathBuf};

use dahl_core::file::{Lock, check_writable};

use super::{Checkpoint, CheckpointError, FILE, WeightsError, make_folder};

/// Where checkpoints go, and how often.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointFolder {
    /// The folder; it is made if need be.
    pub folder: PathBuf,
    /// After how many steps one is written, besides the end of every epoch.
    pub every: Option<u64>,
    /// Whether another run's checkpoint may be replaced.
    pub overwrite: bool,
    /// Whether the one with the lowest loss is kept in a folder `best` below.
    pub best: bool,
}

/// The folder of the best checkpoint, below that of the last one.
const BEST: &str = "best";

impl CheckpointFolder {
    /// A folder that holds no other run's checkpoint.
    pub fn new(folder: impl Into<PathBuf>) -> CheckpointFolder {
        CheckpointFolder {
            folder: folder.into(),
            ..CheckpointFolder::default()
        }
    }

    /// One every so many steps, too.
    pub fn every(mut self, steps: impl Into<Option<u64>>) -> CheckpointFolder {
        self.every = steps.into().filter(|&n| n > 0);
        self
    }

    /// Whether another run's checkpoint may be replaced.
    pub fn overwrite(mut self, overwrite: bool) -> CheckpointFolder {
        self.overwrite = overwrite;
        self
    }

    /// Whether the one with the lowest loss is kept, too.
    pub fn keep_best(mut self, best: bool) -> CheckpointFolder {
        self.best = best;
        self
    }

    /// Copies the last checkpoint to the folder of the best one, whole or not at all.
    pub(crate) fn copy_best(&self) -> Result<(), CheckpointError> {
        let folder = self.folder.join(BEST);
        make_folder(&folder)?;
        let (from, to) = (self.folder.join(FILE), folder.join(FILE));
        let copied = std::fs::File::open(&from).and_then(|mut from| {
            let copy = |out: &mut dyn std::io::Write| std::io::copy(&mut from, out).map(drop);
            dahl_core::file::write_atomically(&to, copy)
        });
        copied.map_err(|source| {
            CheckpointError::Weights(WeightsError::Io {
                verb: "write",
                file: to.display().to_string(),
                source,
            })
        })
    }

    /// Makes and locks it for a run that goes on from the checkpoint of a folder, or from none.
    pub(crate) fn open(&self, resumed: Option<&Path>) -> Result<OpenFolder, CheckpointError> {
        let dir = &self.folder;
        let made = (!dir.exists()).then(|| dir.clone());
        make_folder(dir)?;
        let file = dir.join(FILE);
        let cannot = |source| {
            CheckpointError::Weights(WeightsError::Io {
                verb: "write",
                file: file.display().to_string(),
                source,
            })
        };
        let lock = Lock::take(dir).map_err(cannot)?;
        let lock = lock.ok_or_else(|| CheckpointError::InUse { dir: dir.clone() })?;
        check_writable(&file).map_err(cannot)?;
        let own = resumed.is_some_and(|from| same(from, dir));
        if file.exists() && !own && !self.overwrite {
            let found = match Checkpoint::load(dir) {
                Ok(checkpoint) => checkpoint.summary(),
                Err(_) => "one that cannot be read".into(),
            };
            let dir = dir.clone();
            return Err(CheckpointError::Occupied { dir, found });
        }
        Ok(OpenFolder { _lock: lock, made })
    }
}

/// The right to write a folder.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    _lock: Lock,
    /// Where it was made for this run.
    made: Option<PathBuf>,
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            // Only if the run ended before its first checkpoint: a folder that is not empty stays.
            let _ = std::fs::remove_dir(made);
        }
    }
}

/// Whether two paths are one folder.
fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
