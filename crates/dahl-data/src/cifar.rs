//! CIFAR-10 in its binary version: records of one label and 3 × 32 × 32 bytes.
//!
//! Training is `data_batch_1.bin` to `data_batch_5.bin`, validation `test_batch.bin`, in the folder
//! given or in `cifar-10-batches-bin` below it, as the archive unpacks. Files are mapped; labels are
//! checked as they are read, so that opening the set does not read all of it.

use std::path::{Path, PathBuf};

use super::bytes::{Bytes, map};
use super::error::DataError;
use super::{Dataset, Split, check_shape};

const SHAPE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;
const RECORD: usize = PIXELS + 1;
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
}

impl Part {
    pub(crate) fn new(path: PathBuf, bytes: Bytes) -> Result<Part, DataError> {
        let found = bytes.len();
        let records = found / RECORD;
        if found == 0 || !found.is_multiple_of(RECORD) {
            let expected = ((records + 1) * RECORD) as u64;
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
        })
    }

    pub(crate) fn get(&self, record: usize) -> Result<(&[u8], usize), DataError> {
        let record_bytes = &self.bytes[record * RECORD..][..RECORD];
        let label = usize::from(record_bytes[0]);
        if label >= CLASSES.len() {
            let (path, classes) = (self.path.clone(), CLASSES.len());
            return Err(DataError::Label {
                path,
                index: record,
                label,
                classes,
            });
        }
        Ok((&record_bytes[1..], label))
    }
}

/// A split of CIFAR-10.
pub(crate) struct Cifar {
    name: String,
    parts: Vec<Part>,
    len: usize,
}

impl Cifar {
    pub(crate) fn open(
        dir: &Path,
        name: String,
        split: Split,
        input: [usize; 3],
        limit: Option<usize>,
    ) -> Result<Cifar, DataError> {
        check_shape(&name, SHAPE, input)?;
        let inner = dir.join("cifar-10-batches-bin");
        let dir = if inner.is_dir() { &inner } else { dir };
        let files: Vec<String> = match split {
            Split::Train => (1..=5).map(|i| format!("data_batch_{i}.bin")).collect(),
            Split::Validation => vec!["test_batch.bin".to_owned()],
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
                    remedy: "unpack the *binary version* of CIFAR-10 \
                             (cifar-10-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html) there"
                        .into(),
                });
            }
            let bytes = map(&path)?;
            let part = Part::new(path, bytes)?;
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
        Ok(Cifar { name, parts, len })
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
        CLASSES.len()
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
        CLASSES.get(class).copied()
    }
}
