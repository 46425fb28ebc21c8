//! What can go wrong with an experiment: the thing, the place, the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why an experiment could not be read, run or reported.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A mistake in the description.
    #[error("{file}:{line}: {message}")]
    File {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
    /// Something on disk.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file of a session that cannot be what was written.
    #[error("{}:{line}: {message}", path.display())]
    Rows {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Something that is refused, with the reason and the remedy.
    #[error("{0}")]
    Refused(String),
    /// A peer that did not do its part.
    #[error("{0}")]
    Peer(String),
    /// Somebody asked to stop; what was measured is kept.
    #[error("stopped")]
    Stopped,
}

impl ExperimentError {
    /// An error of the system's about a path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> ExperimentError + '_ {
        move |source| ExperimentError::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// A refusal.
    pub(crate) fn refused(text: impl Into<String>) -> ExperimentError {
        ExperimentError::Refused(text.into())
    }
}
