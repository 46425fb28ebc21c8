//! Models: which layers there are, what each reads, and which parameters they have.
//!
//! A [`Model`] is a description and nothing else: it holds no weights, allocates no arrays and runs no
//! task. It comes from a file ([`Model::load`]) or from Rust ([`Model::builder`]), and both ways end in
//! the same check, so a model that exists has a known extent for every value and a class score per
//! class at its end. Values are numbered: 0 is the model's input, `i + 1` what layer `i` gives.
//!
//! # The file
//!
//! ```toml
//! name = "residual"
//! input = [1, 28, 28]        # channels, height, width
//! normalise = "0.286/0.353"  # means / deviations, a number per channel; may be left out
//! augment = "flip,crop:2"    # how training images are changed (dahl_data::Augment); may be left out
//!
//! [[layers]]
//! name = "stem"
//! type = "conv2d"
//! out_channels = 8
//! kernel = 3                 # or [height, width]; so are stride and padding
//! padding = 1
//!
//! [[layers]]
//! type = "relu"
//!
//! [[layers]]
//! type = "conv2d"
//! out_channels = 8
//! kernel = 3
//! padding = 1
//! name = "branch"
//!
//! [[layers]]
//! type = "add"
//! from = ["stem", "branch"]  # names, "input" being the model's; without it, the previous layer
//!
//! [[layers]]
//! type = "flatten"
//!
//! [[layers]]
//! type = "linear"
//! out_features = 10
//! ```
//!
//! Which types there are, [`crate::layers::LAYERS`] lists; the keys of each are the public fields of its struct in
//! [`crate::layers`], with PyTorch's defaults.
//!
//! # From Rust
//!
//! ```
//! use dahl_nn::model::Model;
//!
//! # fn main() -> Result<(), dahl_nn::model::ModelError> {
//! let model = Model::builder("residual", [1, 28, 28])
//!     .conv2d(8, 3).padding(1).named("stem")
//!     .relu()
//!     .conv2d(8, 3).padding(1).named("branch")
//!     .add(["stem", "branch"])
//!     .flatten()
//!     .linear(10)
//!     .build()?;
//! assert_eq!(model.classes(), 10);
//! assert_eq!(Model::from_toml(&model.to_toml(), "residual.toml")?.fingerprint(), model.fingerprint());
//! # Ok(())
//! # }
//! ```

mod builder;
mod check;
mod error;
mod extent;
mod param;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use dahl_core::hash::StableHasher;
use dahl_data::{Augment, Normalise};

use crate::Registry;
use crate::keys::Key;
use crate::layers::Layer;

pub use builder::ModelBuilder;
pub use error::{ModelError, Place};
pub use extent::Extent;
pub use param::{Fill, Param, Role};

/// No array of a model (a value for one sample, a parameter) may have more elements than this.
pub(crate) const MAX_ELEMENTS: usize = 1 << 32;

/// A network, checked: see the module's text.
#[derive(Clone, Debug)]
pub struct Model {
    /// What people call it.
    pub name: String,
    /// Channels, height and width of an input image.
    pub input: [usize; 3],
    /// The layers, each after those it reads.
    pub layers: Vec<Entry>,
    /// How training images are changed at random, unless a run says otherwise. Like the next, it does not count for
    /// what the model computes.
    pub augment: Option<Augment>,
    /// How images are normalised, unless a run says otherwise.
    pub normalise: Option<Normalise>,
    /// The file it was read from.
    pub file: Option<String>,
    extents: Vec<Extent>,
    params: Vec<Param>,
}

/// One layer of a model, with its place among the others.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name, if it was given one; names are unique within a model.
    pub name: Option<String>,
    /// What it computes.
    pub layer: Arc<dyn Layer>,
    /// Its keys, as files and tables write them.
    pub keys: Vec<Key>,
    /// The values it reads: 0 is the model's input, `i + 1` the output of layer `i`.
    pub from: Vec<usize>,
    /// Where it stands in the model's file, counted from 1.
    pub line: Option<usize>,
}

impl Model {
    /// Reads a model from the text of a file; `file` is what errors call it.
    pub fn from_toml(text: &str, file: &str) -> Result<Model, ModelError> {
        read::from_toml(text, file, &Registry::default())
    }

    /// As [`Model::from_toml`]; the file may name layers that a program has added to the registry.
    pub fn from_toml_with(
        text: &str,
        file: &str,
        registry: &Registry,
    ) -> Result<Model, ModelError> {
        read::from_toml(text, file, registry)
    }

    /// Reads a model from a file.
    pub fn load(path: &Path) -> Result<Model, ModelError> {
        read::load(path, &Registry::default())
    }

    /// As [`Model::load`]; the file may name layers that a program has added to the registry.
    pub fn load_with(path: &Path, registry: &Registry) -> Result<Model, ModelError> {
        read::load(path, registry)
    }

    /// Starts a model in Rust code: channels, height and width of its input, then a call per layer.
    #[track_caller]
    pub fn builder(name: impl Into<String>, input: [usize; 3]) -> ModelBuilder {
        ModelBuilder::new(name.into(), input)
    }

    /// The extent of each value for one sample: at 0 the input's, at `i + 1` that of layer `i`.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// All parameters and buffers, in the order of the layers.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Those of one layer, each with its place among all.
    pub(crate) fn params_of(&self, layer: usize) -> impl Iterator<Item = (usize, &Param)> {
        let first = self.params.partition_point(|p| p.layer < layer);
        let own = self.params.iter().enumerate().skip(first);
        own.take_while(move |(_, p)| p.layer == layer)
    }

    /// How many class scores the model gives.
    pub fn classes(&self) -> usize {
        self.extents.last().map_or(0, Extent::len)
    }

    /// How many numbers training changes; running statistics are not among them.
    pub fn parameter_count(&self) -> usize {
        self.params
            .iter()
            .filter(|p| p.role.is_trained())
            .map(Param::len)
            .sum()
    }

    /// What errors and tables call layer `i`: its name, else `layers[i]`.
    pub fn label(&self, i: usize) -> String {
        check::label(self.layers.get(i).and_then(|l| l.name.as_deref()), i)
    }

    /// The file and line of layer `i`, for errors found later than here.
    pub fn place(&self, i: usize) -> Place {
        match (&self.file, self.layers.get(i).and_then(|l| l.line)) {
            (Some(file), line) => Place::new(file, line),
            (None, _) => Place::default(),
        }
    }

    /// The model as the text of a file, which reads back as the same model.
    pub fn to_toml(&self) -> String {
        write::to_toml(self)
    }

    /// A number that changes with anything that changes the computation or the names of the parameters;
    /// the same on every machine. The model's own name and its file do not count.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = StableHasher::default();
        let text = |hash: &mut StableHasher, text: &str| {
            hash.write_usize(text.len());
            hash.write(text.as_bytes());
        };
        self.input.iter().for_each(|&n| hash.write_usize(n));
        hash.write_usize(self.layers.len());
        for layer in &self.layers {
            text(&mut hash, layer.name.as_deref().unwrap_or(""));
            text(&mut hash, layer.layer.name());
            for key in &layer.keys {
                key.words().iter().for_each(|&w| hash.write_u64(w));
            }
            hash.write_usize(layer.from.len());
            layer.from.iter().for_each(|&v| hash.write_usize(v));
        }
        hash.finish()
    }
}
