//! Data sets: where images come from, in which order, and how they become batches.
//!
//! A data set is described in one line ([`DataSpec`]), opened for one [`Split`] by [`open`] and read
//! through [`Dataset`]: bytes and class numbers, nothing else. [`Batches`] puts the items in a seeded
//! order and converts them to floating point where the caller says; [`Prefetcher`] does so ahead of
//! time on threads of its own. This module knows nothing of arrays, tasks or models, downloads
//! nothing, and holds no more of a data set in memory than its compressed files require.
//!
//! | Description | What |
//! |---|---|
//! | `fashion-mnist-small` | 10,000 + 2,000 images of Fashion-MNIST, part of the program |
//! | `fashion-mnist` | the full set, in a folder of that name under one of the roots |
//! | `idx:DIR` | files named and made like MNIST's, plain (mapped) or `.gz` (unpacked once) |
//! | `cifar-10:DIR`, `cifar-100:DIR` | CIFAR, binary version (mapped) |
//! | `folder:DIR` | JPEG and PNG pictures in a sub-folder per class or with tables of labels, read as they are needed |
//! | `tar:DIR`, `tar:FILE` | pictures in tar archives (mapped), read as they are needed |
//! | `npy:DIR`, `npz:FILE` | NumPy's arrays: images, or rows of features |
//! | `synthetic:CxHxW:N[:CLASSES]` | learnable images made on the fly |
//!
//! # Folders of pictures
//!
//! A folder has one sub-folder per class, `CLASS/PICTURE`, in `train` and `val` or directly; in the latter case, or if there is
//! nothing but `train`, a tenth of the pictures is for validation. Or tables say which class a picture has:
//!
//! The folder holds either `train.csv` and `val.csv`, or one `labels.csv`; pictures are anywhere below.
//! A line is `file,label` or `file,label,split`: the file relative to the folder, the label a name or
//! an integer, the split `train` or `val` (`test` is left out of both; nothing means `train`). Fields
//! may be quoted; a first line `file,label` is a heading. If `labels.csv` names no split, a tenth of
//! its lines, chosen by a hash of the file's name, are for validation. Classes are the labels that
//! occur in either split, sorted as numbers if all are integers, else by name. Pictures are stretched
//! to the model's height and width, smoothly, and made grey or RGB as the model has 1 or 3 channels.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use dahl_data::{Batches, DataError, DataSpec, Dataset, Split, default_roots, open};
//!
//! # fn main() -> Result<(), DataError> {
//! let spec = DataSpec::parse("fashion-mnist-small")?;
//! let data = open(&spec, Split::Train, [1, 28, 28], Some(100), &default_roots())?;
//! assert_eq!((data.len(), data.classes()), (100, 10));
//!
//! let mut batches = Batches::<f32>::new(data, 32)?.shuffled(42);
//! assert_eq!(batches.per_epoch(), 4);
//! let (mut inputs, mut targets) = (Vec::new(), Vec::new());
//! for batch in 0..batches.per_epoch() {
//!     let images = batches.fill(0, batch, &mut inputs, &mut targets)?;
//!     assert_eq!(images, if batch < 3 { 32 } else { 4 });
//!     assert!(targets.iter().all(|&label| label < 10.0));
//! }
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), warn(unreachable_pub))]

mod arrays;
mod augment;
mod batches;
mod bytes;
mod cache;
mod cifar;
#[cfg(feature = "images")]
mod class_folders;
mod describe;
mod error;
#[cfg(feature = "images")]
mod folder;
mod identity;
mod idx;
mod memory;
mod named;
mod normalise;
mod npy;
mod order;
#[cfg(feature = "images")]
mod picture;
#[cfg(feature = "images")]
mod pictures;
mod prefetch;
mod random;
#[cfg(feature = "images")]
mod resize;
mod samples;
mod source;
mod spec;
mod split;
mod synthetic;
#[cfg(feature = "images")]
mod table;
#[cfg(feature = "images")]
mod tar;
#[cfg(test)]
mod tests;
#[cfg(feature = "images")]
mod view;
mod zip;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use augment::{Augment, Transform};
pub use batches::Batches;
pub use cache::cached;
pub use describe::describe;
pub use error::DataError;
pub use identity::Identity;
pub use memory::InMemory;
pub use named::{FASHION_CLASSES, default_roots};
pub use normalise::Normalise;
pub use order::Order;
#[cfg(feature = "images")]
pub use picture::read_picture;
pub use prefetch::{Part, Prefetch, Prefetcher, Prepared};
pub use samples::{Expects, Labels, Samples};
pub use source::{Batch, Generated, Source};
pub use spec::DataSpec;
#[cfg(feature = "images")]
pub use view::BatchView;

/// Which part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// What the model learns from.
    Train,
    /// What it is judged by.
    Validation,
}

impl Split {
    /// The part that this one is not.
    pub(crate) fn other(self) -> Split {
        match self {
            Split::Train => Split::Validation,
            Split::Validation => Split::Train,
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Train => "train",
            Split::Validation => "validation",
        })
    }
}

/// Images as bytes (channel by channel, row by row), each with a class. Any item can be read at any
/// time from any thread.
pub trait Dataset: Send + Sync {
    /// What a message calls this set.
    fn name(&self) -> &str;

    /// Number of items, never 0 once opened.
    fn len(&self) -> usize;

    /// Whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of classes; every label is below it.
    fn classes(&self) -> usize;

    /// Channels, height and width of an image.
    fn shape(&self) -> [usize; 3];

    /// Writes item `index` into `pixels`, which has exactly as many bytes as [`shape`](Self::shape)
    /// says, and returns its label.
    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError>;

    /// The item where it lies, for sets that have it in memory: saves a copy.
    fn view(&self, _index: usize) -> Option<Result<(&[u8], usize), DataError>> {
        None
    }

    /// The label of an item alone, for sets that know it without its pixels.
    fn label(&self, index: usize) -> Result<usize, DataError> {
        match self.view(index) {
            Some(found) => Ok(found?.1),
            None => self.read(index, &mut vec![0; self.shape().iter().product()]),
        }
    }

    /// How many threads should prepare batches: more than one where items take long to read.
    fn loaders(&self) -> usize {
        1
    }

    /// All samples and labels, for sets whose samples are floats or whose labels are values: such a set has no bytes to
    /// read, and is taken from here.
    fn floats(&self) -> Option<Arc<InMemory>> {
        None
    }

    /// The name of a class, if it has one.
    fn class_name(&self, _class: usize) -> Option<&str> {
        None
    }

    /// A checksum of images and classes, by which a run that goes on knows its data. Unless a set says otherwise,
    /// of all that lie in memory, or of some that are read.
    fn content(&self) -> u64 {
        identity::content(self)
    }
}

/// Opens one split of a data set.
///
/// `input` is the model's input, channels × height × width: pictures are brought to it, other images
/// must have it. `limit` keeps the first so many items. `roots` are the folders where named sets are
/// looked for: [`default_roots`], or the caller's own.
pub fn open(
    spec: &DataSpec,
    split: Split,
    input: [usize; 3],
    limit: Option<usize>,
    roots: &[PathBuf],
) -> Result<Box<dyn Dataset>, DataError> {
    open_drawn(spec, split, input, limit, roots, 0)
}

/// The same; where a set has no split of its own, this seed draws the tenth that is for validation.
pub fn open_drawn(
    spec: &DataSpec,
    split: Split,
    input: [usize; 3],
    limit: Option<usize>,
    roots: &[PathBuf],
    seed: u64,
) -> Result<Box<dyn Dataset>, DataError> {
    sample_size(input)?;
    let name = spec.to_string();
    Ok(match spec {
        DataSpec::FashionMnistSmall => named::fashion_small(split, input, limit)?,
        DataSpec::FashionMnist => named::fashion(split, input, limit, roots)?,
        DataSpec::Idx(dir) => Box::new(idx::IdxSet::open(dir, name, split, input, limit, None)?),
        DataSpec::Cifar10(dir) => {
            let kind = &cifar::CIFAR_10;
            Box::new(cifar::Cifar::open(kind, dir, name, split, input, limit)?)
        }
        DataSpec::Cifar100(dir) => {
            let kind = &cifar::CIFAR_100;
            Box::new(cifar::Cifar::open(kind, dir, name, split, input, limit)?)
        }
        DataSpec::Npy(path) | DataSpec::Npz(path) => {
            Box::new(arrays::Arrays::open(path, name, split, input, limit, seed)?)
        }
        #[cfg(feature = "images")]
        DataSpec::Folder(path) | DataSpec::Tar(path) => {
            let wanted = pictures::Wanted {
                name,
                split,
                input,
                limit,
                seed,
            };
            match spec {
                DataSpec::Tar(_) => Box::new(tar::open(path, wanted)?),
                _ => Box::new(folder::open(path, wanted)?),
            }
        }
        #[cfg(not(feature = "images"))]
        DataSpec::Folder(_) | DataSpec::Tar(_) => {
            return Err(DataError::Spec {
                spec: name,
                reason: "this build cannot decode pictures; build it with the feature `images`"
                    .into(),
            });
        }
        &DataSpec::Synthetic {
            shape,
            count,
            classes,
        } => Box::new(synthetic::Synthetic::new(
            name, shape, count, classes, split, input, limit,
        )?),
    })
}

/// The most values a sample may have: 2²⁸, far more than any model takes.
const MAX_SAMPLE: usize = 1 << 28;

/// Values of a sample of this shape, if it has some and not too many.
fn sample_size([c, h, w]: [usize; 3]) -> Result<usize, DataError> {
    let size = c.checked_mul(h).and_then(|s| s.checked_mul(w));
    size.filter(|s| (1..=MAX_SAMPLE).contains(s))
        .ok_or_else(|| {
            let shape = error::shape([c, h, w]);
            DataError::Usage(format!(
                "images of {shape}: 1 to {MAX_SAMPLE} values are possible"
            ))
        })
}

/// Checks that a model with so many outputs can tell the classes of a data set apart.
pub fn check_classes(data: &dyn Dataset, outputs: usize) -> Result<(), DataError> {
    if data.classes() <= outputs {
        return Ok(());
    }
    Err(DataError::Classes {
        what: data.name().to_owned(),
        data: data.classes(),
        model: outputs,
    })
}

/// What to say where a model has more outputs than a data set has classes. It can train (the outputs may be for classes
/// yet to come), so it is not refused; but it is rarely meant.
pub fn spare_outputs(data: &dyn Dataset, outputs: usize) -> Option<String> {
    let (name, classes) = (data.name(), data.classes());
    // Targets that are values have no classes.
    let spare = outputs
        .checked_sub(classes)
        .filter(|&n| n > 0 && classes > 0)?;
    Some(format!(
        "{name} has {classes} classes, the model {outputs} outputs: {spare} of them are never right; end the model with \
         {classes} outputs unless that is meant"
    ))
}

/// Refuses shapes that pictures cannot be brought to.
#[cfg(feature = "images")]
fn picture_shape(name: &str, input: [usize; 3]) -> Result<(), DataError> {
    if matches!(input[0], 1 | 3) && !input.contains(&0) {
        return Ok(());
    }
    // Said as a shape: pictures can be brought to one or three channels, not to this.
    Err(DataError::Shape {
        what: name.to_owned(),
        data: [3, input[1], input[2]],
        model: input,
    })
}

/// Checks that images have the shape of the model's input.
fn check_shape(name: &str, data: [usize; 3], model: [usize; 3]) -> Result<(), DataError> {
    if data == model {
        Ok(())
    } else {
        Err(DataError::Shape {
            what: name.to_owned(),
            data,
            model,
        })
    }
}

/// Checks the arguments of [`Dataset::read`].
fn check_read(data: &dyn Dataset, index: usize, pixels: &[u8]) -> Result<(), DataError> {
    if index >= data.len() {
        return Err(no_such_item(data, index));
    }
    let size: usize = data.shape().iter().product();
    if pixels.len() == size {
        return Ok(());
    }
    Err(DataError::Usage(format!(
        "{}: an image has {size} bytes, the buffer {}",
        data.name(),
        pixels.len()
    )))
}

fn no_such_item(data: &dyn Dataset, index: usize) -> DataError {
    DataError::Usage(format!(
        "{}: no item {index} among {}",
        data.name(),
        data.len()
    ))
}

/// [`Dataset::read`] for sets that offer [`Dataset::view`].
fn copy_view(data: &dyn Dataset, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
    check_read(data, index, pixels)?;
    match data.view(index) {
        Some(item) => {
            let (from, label) = item?;
            pixels.copy_from_slice(from);
            Ok(label)
        }
        None => Err(no_such_item(data, index)),
    }
}
