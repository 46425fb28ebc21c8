//! What can be wrong with a model.

use std::fmt;

/// Where in a model's file, or in the program that builds it, something was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    file: String,
    line: Option<usize>,
}

impl Place {
    /// A line of a file, counted from 1.
    pub fn new(file: impl Into<String>, line: Option<usize>) -> Self {
        Place {
            file: file.into(),
            line,
        }
    }
}

/// Empty if unknown, else with a space before: ` (model.toml:21)`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.is_empty(), self.line) {
            (true, _) => Ok(()),
            (false, Some(line)) => write!(f, " ({}:{line})", self.file),
            (false, None) => write!(f, " ({})", self.file),
        }
    }
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error("cannot read the model {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither a file nor a shipped model has this name.
    #[error("{} (nor is there a file of that name)", dahl_core::text::unknown("model", .0, &crate::models::NAMES))]
    Unknown(String),
    /// The text is not TOML.
    #[error("the model is not valid TOML: {message}{place}")]
    Syntax {
        /// What the parser said.
        message: String,
        /// Where.
        place: Place,
    },
    /// Something outside the layers is wrong.
    #[error("model: {message}{place}")]
    Model {
        /// What, and what to do about it.
        message: String,
        /// Where.
        place: Place,
    },
    /// A layer is wrong.
    #[error("{kind} {layer:?}: {message}{place}")]
    Layer {
        /// The layer's type; `layer` where it has none.
        kind: String,
        /// Its name, or `layers[3]`.
        layer: String,
        /// What, and what to do about it.
        message: String,
        /// Where.
        place: Place,
    },
}
