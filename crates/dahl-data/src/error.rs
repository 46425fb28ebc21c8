//! What can go wrong with data: one enum, each message naming the file, the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error while choosing, opening or reading a data set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The description of a data set could not be understood.
    #[error("data set `{spec}`: {reason}; {FORMS}")]
    Spec {
        /// What was given.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A pipeline of random changes cannot be understood, or does not fit.
    #[error("augmentation `{text}`: {reason}")]
    Augment {
        /// The pipeline.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A data set or one of its files is not where it should be.
    #[error("{what} not found: {remedy}")]
    NotFound {
        /// The file, folder or data set that is missing.
        what: String,
        /// Where it was looked for and how to get it.
        remedy: String,
    },
    /// The operating system refused an operation.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done, as a verb.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds another number of bytes than its header announces.
    #[error("{}: {expected} bytes expected, {found} found: the file is {}; fetch it again",
        path.display(), if found < expected { "truncated" } else { "longer than its header says" })]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes announced.
        expected: u64,
        /// Bytes there (for a compressed file, at least as many as were unpacked).
        found: u64,
    },
    /// A file does not begin as its format requires.
    #[error("{}: begins with {found:#010x}, not {expected:#010x}: this is not a file of {what}",
        path.display())]
    Magic {
        /// The file.
        path: PathBuf,
        /// What the file should hold.
        what: &'static str,
        /// The number that opens such a file.
        expected: u32,
        /// The number that opens this one.
        found: u32,
    },
    /// A header announces more than a file of that size can hold, or than is sensible.
    #[error("{}: announces {declared} bytes, more than {limit}: {remedy}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What the header announces.
        declared: u128,
        /// The most that is believed.
        limit: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// A compressed file is damaged.
    #[error("{}: damaged gzip data after {unpacked} bytes: {source}; fetch it again",
        path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// Bytes unpacked before the damage was seen.
        unpacked: u64,
        /// What the decoder said.
        source: io::Error,
    },
    /// A label is not one of the classes.
    #[error("{}: item {index} has label {label}, but there are {classes} classes (0 to {})",
        path.display(), classes - 1)]
    Label {
        /// The file.
        path: PathBuf,
        /// Which item of the file, from 0.
        index: usize,
        /// Its label.
        label: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// As many labels as images are needed.
    #[error("{} holds {images} images but {} holds {labels} labels: the files are not a pair",
        images_path.display(), labels_path.display())]
    Counts {
        /// The file of images.
        images_path: PathBuf,
        /// Images in it.
        images: usize,
        /// The file of labels.
        labels_path: PathBuf,
        /// Labels in it.
        labels: usize,
    },
    /// The images are not what the model takes.
    #[error("{what}: data is {}, the model wants {}: use {}", shape(*data), shape(*model), fitting(*model))]
    Shape {
        /// The data set.
        what: String,
        /// Channels, height and width of its images.
        data: [usize; 3],
        /// Channels, height and width of the model's input.
        model: [usize; 3],
    },
    /// The data set has more classes than the model has outputs.
    #[error(
        "{what}: data has {data} classes, the model only {model} outputs: use a model with {data} outputs"
    )]
    Classes {
        /// The data set.
        what: String,
        /// Its classes.
        data: usize,
        /// The model's outputs.
        model: usize,
    },
    /// A table of labels has a line that cannot be used.
    #[error("{}:{line}: {reason}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to train or to validate with.
    #[error("{what}: no images{hint}")]
    Empty {
        /// The data set and split.
        what: String,
        /// Why that may be, or nothing.
        hint: &'static str,
    },
    /// A picture could not be decoded.
    #[error("{} (item {index}): {reason}; replace the picture, or leave it out of the set", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// Which item of the data set, from 0.
        index: usize,
        /// What the decoder said.
        reason: String,
    },
    /// There is not enough memory.
    #[error("out of memory: {what} needs {bytes}; use a smaller batch or smaller images")]
    Memory {
        /// What it was for.
        what: &'static str,
        /// How much that would have been.
        bytes: dahl_core::Bytes,
    },
    /// The program asked for something that makes no sense: a batch of 0, an item that is not there.
    #[error("{0}")]
    Usage(String),
    /// A background thread died.
    #[error("batch {batch} of epoch {epoch}: the thread that read it panicked: {reason}")]
    Panicked {
        /// The epoch, from 0.
        epoch: u64,
        /// The batch of that epoch, from 0.
        batch: usize,
        /// The panic's message.
        reason: String,
    },
}

/// The forms a data set's description may take, for messages and help texts.
pub(crate) const FORMS: &str = "use fashion-mnist-small, fashion-mnist, idx:DIR, cifar-10:DIR, cifar-100:DIR, \
                         folder:DIR, tar:DIR, npy:DIR, npz:FILE or synthetic:CxHxW:N[:CLASSES]";

impl DataError {
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> DataError {
        let path = path.to_owned();
        move |source| DataError::Io {
            path,
            doing,
            source,
        }
    }
}

/// Data sets that a model with this input can take.
fn fitting(model: [usize; 3]) -> String {
    let [c, h, w] = model;
    let real = match model {
        [1, 28, 28] => "fashion-mnist-small, ",
        [3, 32, 32] => "cifar-10:DIR, ",
        _ => "",
    };
    format!("{real}folder:DIR, whose pictures are resized, or synthetic:{c}x{h}x{w}:10000")
}

/// `[3, 32, 32]` as `3×32×32`.
pub(crate) fn shape(s: [usize; 3]) -> String {
    format!("{}×{}×{}", s[0], s[1], s[2])
}
