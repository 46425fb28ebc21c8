//! Which data a run has seen: enough to refuse going on with other data.
//!
//! Two sources are the same if they give the same samples, whatever they are called: a folder may move. What lies in
//! memory or in mapped files is compared whole. Of sets that are decoded or made on the fly some samples are read,
//! of folders also every name and label. Of a program's own function only name, shape and count are known.

use std::fmt;

use dahl_core::Element;
use dahl_core::hash::Checksum;
use serde::{Deserialize, Serialize};

use super::batches::Batches;
use super::error::shape;
use super::samples::{Labels, Samples};
use super::source::Source;
use super::{Dataset, InMemory};

/// Samples that are read of sets that have none in memory, evenly spread.
const READ: usize = 64;

/// Which data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// What messages call it.
    pub name: String,
    /// Samples of an epoch, a limit applied; none where batches are generated.
    pub samples: Option<usize>,
    /// Batches of an epoch.
    pub batches: usize,
    /// Channels, height and width of a sample.
    pub shape: [usize; 3],
    /// How many classes; none where labels are values, or unknown before they are made.
    pub classes: Option<usize>,
    /// Names of classes, where they have some.
    pub class_names: Vec<String>,
    /// A checksum of what bytes become, where samples are bytes.
    pub scaling: Option<String>,
    /// What is changed at random; none for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<String>,
    /// A checksum of samples and labels, where they can be read before training.
    pub content: Option<String>,
}

impl Identity {
    /// What differs in another, in words; none if they are the same data.
    pub fn difference(&self, other: &Identity) -> Option<String> {
        let named = |i: &Identity| i.content.is_none().then(|| i.name.clone());
        let differ = [
            (self.shape != other.shape, "the shape of samples"),
            (self.samples != other.samples, "the number of samples"),
            (self.batches != other.batches, "the number of batches"),
            (self.classes != other.classes, "the number of classes"),
            (
                self.class_names != other.class_names,
                "the names of classes",
            ),
            (self.scaling != other.scaling, "the normalisation"),
            (self.augment != other.augment, "the augmentation"),
            (named(self) != named(other), "the name"),
            (self.content != other.content, "the samples or labels"),
        ];
        let found: Vec<&str> = differ.iter().filter(|d| d.0).map(|d| d.1).collect();
        (!found.is_empty()).then(|| found.join(", "))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.name)?;
        match self.samples {
            Some(n) => write!(f, "{n} samples")?,
            None => write!(f, "{} batches", self.batches)?,
        }
        write!(f, " of {}", shape(self.shape))?;
        if let Some(n) = self.classes {
            write!(f, ", {n} classes")?;
        }
        if let Some(augment) = &self.augment {
            write!(f, ", augmented by {augment}")?;
        }
        if let Some(content) = &self.content {
            write!(f, ", content {content}")?;
        }
        write!(f, ")")
    }
}

impl<T: Element> Batches<T> {
    /// Which data the batches are made of, and how. Reads samples, so it may take a moment.
    pub fn identity(&self) -> Identity {
        let source = self.source();
        let bytes = match source {
            Source::Images(_) => true,
            Source::Memory(data) => matches!(data.samples(), Samples::Bytes(_)),
            Source::Generated(_) => false,
        };
        let content = match source {
            Source::Images(data) => Some(data.content()),
            Source::Memory(data) => Some(in_memory(data)),
            Source::Generated(_) => None,
        };
        Identity {
            name: source.name().to_owned(),
            samples: source.samples(),
            batches: self.per_epoch(),
            shape: source.shape(),
            classes: match source {
                Source::Images(data) => Some(data.classes()),
                _ => None,
            },
            class_names: source.class_names(),
            scaling: bytes.then(|| hex(self.scaling())),
            augment: (!self.augment().is_empty()).then(|| self.augment().to_string()),
            content: content.map(hex),
        }
    }
}

fn hex(sum: u64) -> String {
    format!("{sum:016x}")
}

fn in_memory(data: &InMemory) -> u64 {
    let mut sum = Checksum::default();
    match data.samples() {
        Samples::Bytes(v) => sum.add(v),
        Samples::F32(v) => v.iter().for_each(|x| sum.add(&x.to_le_bytes())),
        Samples::F64(v) => v.iter().for_each(|x| sum.add(&x.to_le_bytes())),
    }
    match data.labels().0 {
        Labels::Classes(v) => v.iter().for_each(|&c| number(&mut sum, c)),
        Labels::Values(v) => v.iter().for_each(|x| sum.add(&x.to_le_bytes())),
    }
    sum.finish()
}

fn number(sum: &mut Checksum, n: usize) {
    sum.add(&(n as u64).to_le_bytes());
}

/// A checksum of images and classes: all of those in memory, else some. One that cannot be read has none; training
/// says why when it comes to it.
pub(crate) fn content(data: &(impl Dataset + ?Sized)) -> u64 {
    let mut sum = Checksum::default();
    let mut pixels = vec![0; data.shape().iter().product()];
    let whole = data.view(0).is_some();
    let step = if whole { 1 } else { data.len().div_ceil(READ) };
    for index in (0..data.len()).step_by(step.max(1)) {
        match data.view(index) {
            Some(Ok((bytes, class))) => {
                sum.add(bytes);
                number(&mut sum, class);
            }
            Some(Err(_)) => {}
            None => {
                if let Ok(class) = data.read(index, &mut pixels) {
                    sum.add(&pixels);
                    number(&mut sum, class);
                }
            }
        }
    }
    sum.finish()
}
