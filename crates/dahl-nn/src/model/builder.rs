//! Models from Rust code: a call per layer, calls after it that say more about the last one.
//!
//! Mistakes are kept until [`ModelBuilder::build`], which reports the first one with the line of the
//! program that made it, so that a chain of calls needs one `?`.

use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;

use super::check::{Draft, assemble};
use super::{Model, ModelError, Place, check};
use crate::keys::{Given, KeyError, Named, Reader};
use crate::layers::{Layer, Pair, reader};

/// A model being written down; see [`Model::builder`].
#[derive(Debug)]
pub struct ModelBuilder {
    name: String,
    input: [usize; 3],
    drafts: Vec<Draft>,
    /// How each of them is read from keys.
    readers: Vec<Reader<dyn Layer>>,
    place: Place,
    wrong: Option<ModelError>,
}

#[track_caller]
fn here() -> Place {
    let at = Location::caller();
    Place::new(at.file(), Some(at.line() as usize))
}

impl ModelBuilder {
    #[track_caller]
    pub(super) fn new(name: String, input: [usize; 3]) -> Self {
        ModelBuilder {
            name,
            input,
            drafts: Vec::new(),
            readers: Vec::new(),
            place: here(),
            wrong: None,
        }
    }

    /// Appends a layer, which reads the one before. The layers of this crate have methods of their own,
    /// called as in files.
    #[track_caller]
    pub fn layer<L: Layer + Named>(mut self, layer: L) -> Self {
        self.drafts.push(Draft {
            name: None,
            layer: Arc::new(layer),
            from: None,
            place: here(),
            line: None,
        });
        self.readers.push(reader::<L>());
        self
    }

    /// Gives the last layer a name.
    #[track_caller]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.name = Some(name.into()),
            None => self.refuse("`named` before any layer".into()),
        }
        self
    }

    /// Lets the last layer read other layers than the one before, by their names; `"input"` is the
    /// model's input.
    #[track_caller]
    pub fn from(self, names: &[&str]) -> Self {
        self.reads(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[track_caller]
    pub(crate) fn reads(mut self, names: Vec<String>) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.from = Some(names),
            None => self.refuse("`from` before any layer".into()),
        }
        self
    }

    /// Sets a key of the last layer, as a file would.
    #[track_caller]
    pub fn set(mut self, key: &str, value: impl Serialize) -> Self {
        let (Some(draft), Some(reader)) = (self.drafts.last_mut(), self.readers.last()) else {
            self.refuse(format!("`{key}` before any layer"));
            return self;
        };
        let keys = draft.layer.keys().unwrap_or_default();
        let given = keys.iter().fold(Given::default(), |given, key| {
            given.set(&key.name, Some(&key.value))
        });
        match (reader.read)(given.set(key, Some(value))) {
            Ok(layer) => draft.layer = layer,
            Err(KeyError::Unknown { key, .. }) => self.refuse(format!("has no `{key}`")),
            Err(error) => self.refuse(error.to_string()),
        }
        self
    }

    /// The stride of the last layer, a convolution or pooling.
    #[track_caller]
    pub fn stride(self, value: impl Into<Pair>) -> Self {
        self.set("stride", value.into())
    }

    /// The padding of the last layer, a convolution or pooling.
    #[track_caller]
    pub fn padding(self, value: impl Into<Pair>) -> Self {
        self.set("padding", value.into())
    }

    /// The dilation of the last layer, a convolution.
    #[track_caller]
    pub fn dilation(self, value: impl Into<Pair>) -> Self {
        self.set("dilation", value.into())
    }

    /// The groups of the last layer, a convolution.
    #[track_caller]
    pub fn groups(self, value: usize) -> Self {
        self.set("groups", value)
    }

    /// Whether the last layer, a convolution or linear, adds a bias.
    #[track_caller]
    pub fn bias(self, value: bool) -> Self {
        self.set("bias", value)
    }

    /// Checks the whole and gives the model, or the first mistake.
    pub fn build(self) -> Result<Model, ModelError> {
        match self.wrong {
            Some(error) => Err(error),
            None => assemble(self.name, self.input, self.drafts, None, self.place),
        }
    }

    /// Remembers what is wrong with the last layer.
    #[track_caller]
    fn refuse(&mut self, message: String) {
        let place = here();
        let error = match self.drafts.last() {
            None => ModelError::Model { message, place },
            Some(draft) => ModelError::Layer {
                kind: draft.layer.name().into(),
                layer: check::label(draft.name.as_deref(), self.drafts.len() - 1),
                message,
                place,
            },
        };
        self.wrong.get_or_insert(error);
    }
}
