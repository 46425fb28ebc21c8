//! Data sets known by name: the Fashion-MNIST that comes with the program, and the full one.
//!
//! Nothing is downloaded here: a data set that is missing is an error that says how to get it.

use std::path::{Path, PathBuf};

use super::error::DataError;
use super::idx::{IdxFile, IdxSet, Kind};
use super::{Dataset, Split};

/// The ten kinds of clothing, by label.
pub const FASHION_CLASSES: [&str; 10] = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
];

macro_rules! shipped {
    ($file:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/fashion-mnist-small/",
            $file
        ))
    };
}

static TRAIN_IMAGES: &[u8] = shipped!("train-images-idx3-ubyte.gz");
static TRAIN_LABELS: &[u8] = shipped!("train-labels-idx1-ubyte.gz");
static VALIDATION_IMAGES: &[u8] = shipped!("t10k-images-idx3-ubyte.gz");
static VALIDATION_LABELS: &[u8] = shipped!("t10k-labels-idx1-ubyte.gz");

/// Fashion-MNIST under one of its two names.
struct Fashion(IdxSet);

impl Dataset for Fashion {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn classes(&self) -> usize {
        self.0.classes()
    }

    fn shape(&self) -> [usize; 3] {
        self.0.shape()
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        self.0.read(index, pixels)
    }

    fn view(&self, index: usize) -> Option<Result<(&[u8], usize), DataError>> {
        self.0.view(index)
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        FASHION_CLASSES.get(class).copied()
    }
}

/// The subset that is part of the program.
pub(crate) fn fashion_small(
    split: Split,
    input: [usize; 3],
    limit: Option<usize>,
) -> Result<Box<dyn Dataset>, DataError> {
    let (images, labels) = match split {
        Split::Train => (TRAIN_IMAGES, TRAIN_LABELS),
        Split::Validation => (VALIDATION_IMAGES, VALIDATION_LABELS),
    };
    let part = |what: &str| PathBuf::from(format!("fashion-mnist-small {split} {what}"));
    let (at_images, at_labels) = (part("images"), part("labels"));
    let images = IdxFile::packed(&at_images, images.len() as u64, images, Kind::Images, limit)?;
    let labels = IdxFile::packed(&at_labels, labels.len() as u64, labels, Kind::Labels, None)?;
    let name = "fashion-mnist-small".to_owned();
    Ok(Box::new(Fashion(IdxSet::pair(
        name,
        images,
        labels,
        input,
        limit,
        Some(10),
        0,
    )?)))
}

/// The full set, from the first root that has a folder `fashion-mnist`.
pub(crate) fn fashion(
    split: Split,
    input: [usize; 3],
    limit: Option<usize>,
    roots: &[PathBuf],
) -> Result<Box<dyn Dataset>, DataError> {
    let dir = find_root(roots, "fashion-mnist").ok_or_else(|| DataError::NotFound {
        what: "data set `fashion-mnist`".to_owned(),
        remedy: missing_fashion(roots),
    })?;
    let name = "fashion-mnist".to_owned();
    Ok(Box::new(Fashion(IdxSet::open(
        &dir,
        name,
        split,
        input,
        limit,
        Some(10),
    )?)))
}

fn find_root(roots: &[PathBuf], name: &str) -> Option<PathBuf> {
    roots.iter().map(|r| r.join(name)).find(|d| d.is_dir())
}

fn missing_fashion(roots: &[PathBuf]) -> String {
    let looked: Vec<String> = roots
        .iter()
        .map(|r| r.join("fashion-mnist").display().to_string())
        .collect();
    let looked = if looked.is_empty() {
        "nowhere".to_owned()
    } else {
        looked.join(", ")
    };
    format!(
        "looked in {looked}. On Debian and Ubuntu: `sudo apt install dataset-fashion-mnist`. \
         Elsewhere: `git clone --depth 1 https://github.com/zalandoresearch/fashion-mnist`, then \
         copy its data/fashion to a folder named fashion-mnist and set DAHL_DATA to the folder \
         that holds it. Or use fashion-mnist-small, which needs nothing"
    )
}

/// Where named data sets are looked for: `$DAHL_DATA` if set (several folders, separated as in
/// `$PATH`), then `data` in the current folder, then where systems install data sets.
///
/// The only function of this module that reads the environment; programs call it, the library
/// itself never does.
pub fn default_roots() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = std::env::var_os("DAHL_DATA")
        .map(|v| {
            std::env::split_paths(&v)
                .filter(|p| !p.as_os_str().is_empty())
                .collect()
        })
        .unwrap_or_default();
    roots.push(PathBuf::from("data"));
    roots.extend(["/usr/local/share/datasets", "/usr/share/datasets"].map(|p| Path::new(p).into()));
    roots
}
