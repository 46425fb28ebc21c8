//! CIFAR in its binary version: records of one or two labels and 3 × 32 × 32 bytes.
//!
//! CIFAR-10 is `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, in the folder given or in
//! `cifar-10-batches-bin` below it, as the archive unpacks; CIFAR-100 is `train.bin` and `test.bin`, in `cifar-100-binary`.
//! Of its two labels the second, fine one is the class; names are in `fine_label_names.txt`, if that is there. Files are mapped; labels are
//! checked as they are read, so that opening the set does not read all of it.

use std::path::{Path, PathBuf};

use super::bytes::{Bytes, map};
use super::error::DataError;
use super::{Dataset, Split, check_shape};

const SHAPE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;

/// Which of the two sets.
pub(crate) struct Kind {
    /// The folder that the archive unpacks.
    folder: &'static str,
    train: &'static [&'static str],
    validation: &'static [&'static str],
    /// Labels of a record; the last is the class.
    labels: usize,
    classes: usize,
    /// A file of names, a line each.
    names: &'static str,
    archive: &'static str,
}

pub(crate) const CIFAR_10: Kind = Kind {
    folder: "cifar-10-batches-bin",
    train: &[
        "data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
    ],
    validation: &["test_batch.bin"],
    labels: 1,
    classes: 10,
    names: "batches.meta.txt",
    archive: "cifar-10-binary.tar.gz",
};

pub(crate) const CIFAR_100: Kind = Kind {
    folder: "cifar-100-binary",
    train: &["train.bin"],
    validation: &["test.bin"],
    labels: 2,
    classes: 100,
    names: "fine_label_names.txt",
    archive: "cifar-100-binary.tar.gz",
};

/// What the classes of CIFAR-10 are called, also where the file of names is not there.
const CLASSES: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];

/// One file of records.
pub(crate) struct Part {
    path: PathBuf,
    bytes: Bytes,
    records: usize,
    labels: usize,
    classes: usize,
}

impl Part {
    pub(crate) fn new(kind: &Kind, path: PathBuf, bytes: Bytes) -> Result<Part, DataError> {
        let (found, record) = (bytes.len(), PIXELS + kind.labels);
        let records = found / record;
        if found == 0 || !found.is_multiple_of(record) {
            let expected = ((records + 1) * record) as u64;
            return Err(DataError::Length {
                path,
                expected,
                found: found as u64,
            });
        }
        Ok(Part {
            path,
            bytes,
            records,
            labels: kind.labels,
            classes: kind.classes,
        })
    }

    pub(crate) fn get(&self, record: usize) -> Result<(&[u8], usize), DataError> {
        let size = PIXELS + self.labels;
        let (labels, pixels) = self.bytes[record * size..][..size].split_at(self.labels);
        let label = usize::from(labels[self.labels - 1]);
        if label >= self.classes {
            let (path, classes) = (self.path.clone(), self.classes);
            return Err(DataError::Label {
                path,
                index: record,
                label,
                classes,
            });
        }
        Ok((pixels, label))
    }
}

/// A split of CIFAR.
pub(crate) struct Cifar {
    name: String,
    parts: Vec<Part>,
    len: usize,
    names: Vec<String>,
}

impl Cifar {
    pub(crate) fn open(
        kind: &Kind,
        dir: &Path,
        name: String,
        split: Split,
        input: [usize; 3],
        limit: Option<usize>,
    ) -> Result<Cifar, DataError> {
        check_shape(&name, SHAPE, input)?;
        let inner = dir.join(kind.folder);
        let dir = if inner.is_dir() { &inner } else { dir };
        let files = match split {
            Split::Train => kind.train,
            Split::Validation => kind.validation,
        };
        let limit = limit.unwrap_or(usize::MAX);
        let (mut parts, mut len) = (Vec::new(), 0);
        for file in files {
            if len >= limit {
                break;
            }
            let path = dir.join(file);
            if !path.is_file() {
                return Err(DataError::NotFound {
                    what: path.display().to_string(),
                    remedy: format!(
                        "unpack the *binary version* ({} from www.cs.toronto.edu/~kriz/cifar.html) there",
                        kind.archive
                    ),
                });
            }
            let bytes = map(&path)?;
            let part = Part::new(kind, path, bytes)?;
            len += part.records;
            parts.push(part);
        }
        len = len.min(limit);
        if len == 0 {
            return Err(DataError::Empty {
                what: name,
                hint: "",
            });
        }
        let names = names(&dir.join(kind.names), kind.classes);
        Ok(Cifar {
            name,
            parts,
            len,
            names,
        })
    }
}

/// The names in a file, a line each; those of CIFAR-10 are known without.
fn names(path: &Path, classes: usize) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let names: Vec<String> = lines.take(classes).map(str::to_owned).collect();
    match names.len() == classes {
        true => names,
        false if classes == CLASSES.len() => CLASSES.map(str::to_owned).to_vec(),
        false => Vec::new(),
    }
}

impl Dataset for Cifar {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> usize {
        self.parts.first().map_or(0, |p| p.classes)
    }

    fn shape(&self) -> [usize; 3] {
        SHAPE
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::copy_view(self, index, pixels)
    }

    fn view(&self, index: usize) -> Option<Result<(&[u8], usize), DataError>> {
        let mut record = index;
        for part in self.parts.iter().filter(|_| index < self.len) {
            if record < part.records {
                return Some(part.get(record));
            }
            record -= part.records;
        }
        Some(Err(super::no_such_item(self, index)))
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        self.names.get(class).map(String::as_str)
    }
}
