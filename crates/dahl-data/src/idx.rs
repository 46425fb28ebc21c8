//! Data sets in the format of MNIST: one `idx` file of images and one of labels for each split.
//!
//! Names are `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with `t10k` for
//! validation, plain or `.gz`, with `-` or `.` before `idx`. Only bytes are read (type 0x08), images
//! only as count × height × width: the format knows no channels.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::bytes::{Bytes, map, unpack};
use super::error::DataError;
use super::{Dataset, Split, check_shape};

/// What an idx file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Images,
    Labels,
}

impl Kind {
    fn magic(self) -> u32 {
        match self {
            Kind::Images => 0x0803,
            Kind::Labels => 0x0801,
        }
    }

    fn header(self) -> usize {
        match self {
            Kind::Images => 16,
            Kind::Labels => 8,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Kind::Images => "idx images (bytes, three dimensions)",
            Kind::Labels => "idx labels (bytes, one dimension)",
        }
    }
}

/// One file, its header understood and its length checked.
pub(crate) struct IdxFile {
    path: PathBuf,
    bytes: Bytes,
    kind: Kind,
    /// Items announced.
    announced: usize,
    /// Items held: fewer than announced if a limit was given.
    held: usize,
    /// Height and width; 1 and 1 for labels.
    sides: [usize; 2],
}

struct Header {
    count: u32,
    sides: [u32; 2],
    /// Bytes of the whole file.
    total: u64,
}

/// Reads the header; `bytes` may be short.
fn header(path: &Path, bytes: &[u8], kind: Kind) -> Result<Header, DataError> {
    let word = |i: usize| -> Option<u32> {
        let b = bytes.get(4 * i..4 * i + 4)?;
        Some(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    };
    let short = || DataError::Length {
        path: path.to_owned(),
        expected: kind.header() as u64,
        found: bytes.len() as u64,
    };
    let found = word(0).ok_or_else(short)?;
    if found != kind.magic() {
        let (what, expected) = (kind.what(), kind.magic());
        return Err(DataError::Magic {
            path: path.to_owned(),
            what,
            expected,
            found,
        });
    }
    let count = word(1).ok_or_else(short)?;
    let sides = match kind {
        Kind::Labels => [1, 1],
        Kind::Images => [word(2).ok_or_else(short)?, word(3).ok_or_else(short)?],
    };
    let [count_, rows, columns] = [count, sides[0], sides[1]].map(u128::from);
    let total = count_ * rows * columns + kind.header() as u128;
    let total = u64::try_from(total).map_err(|_| DataError::TooLarge {
        path: path.to_owned(),
        declared: total,
        limit: u64::MAX,
        remedy: "its header is damaged; fetch it again",
    })?;
    Ok(Header {
        count,
        sides,
        total,
    })
}

impl IdxFile {
    /// Takes a whole plain file.
    fn plain(path: &Path, bytes: Bytes, kind: Kind) -> Result<IdxFile, DataError> {
        let h = header(path, &bytes, kind)?;
        let found = bytes.len() as u64;
        if found != h.total {
            return Err(DataError::Length {
                path: path.to_owned(),
                expected: h.total,
                found,
            });
        }
        Ok(IdxFile::new(path, bytes, kind, &h, h.count))
    }

    /// Unpacks a compressed file, no further than the first `limit` items.
    pub(crate) fn packed(
        path: &Path,
        len: u64,
        stream: impl BufRead,
        kind: Kind,
        limit: Option<usize>,
    ) -> Result<IdxFile, DataError> {
        let mut kept = None;
        let bytes = unpack(path, len, stream, kind.header(), |start| {
            let h = header(path, start, kind)?;
            let held = limit.map_or(h.count, |n| h.count.min(n.try_into().unwrap_or(u32::MAX)));
            // Cannot overflow: `h.total` did not.
            let item = u64::from(h.sides[0]) * u64::from(h.sides[1]);
            let wanted = kind.header() as u64 + u64::from(held) * item;
            let total = h.total;
            kept = Some((h, held));
            Ok((total, wanted))
        })?;
        match kept {
            Some((h, held)) => Ok(IdxFile::new(path, Bytes::Held(bytes), kind, &h, held)),
            None => Err(DataError::Usage("the header was not read".into())),
        }
    }

    fn new(path: &Path, bytes: Bytes, kind: Kind, h: &Header, held: u32) -> IdxFile {
        IdxFile {
            path: path.to_owned(),
            bytes,
            kind,
            announced: h.count as usize,
            held: held as usize,
            sides: h.sides.map(|s| s as usize),
        }
    }

    fn open(path: &Path, kind: Kind, limit: Option<usize>) -> Result<IdxFile, DataError> {
        if path.extension().is_some_and(|e| e == "gz") {
            let file = File::open(path).map_err(DataError::io(path, "open it"))?;
            let len = file
                .metadata()
                .map_err(DataError::io(path, "tell its size"))?
                .len();
            IdxFile::packed(
                path,
                len,
                BufReader::with_capacity(1 << 16, file),
                kind,
                limit,
            )
        } else {
            IdxFile::plain(path, map(path)?, kind)
        }
    }

    /// All items held, one after another.
    fn items(&self) -> &[u8] {
        let item = self.sides[0] * self.sides[1];
        &self.bytes[self.kind.header()..][..self.held * item]
    }
}

/// A split of an idx data set.
pub(crate) struct IdxSet {
    name: String,
    images: IdxFile,
    labels: IdxFile,
    len: usize,
    classes: usize,
}

impl IdxSet {
    /// Opens a folder. `classes` is known for named sets; otherwise the labels of both splits tell.
    pub(crate) fn open(
        dir: &Path,
        name: String,
        split: Split,
        input: [usize; 3],
        limit: Option<usize>,
        classes: Option<usize>,
    ) -> Result<IdxSet, DataError> {
        let prefix = prefix(split);
        let images = find(dir, prefix, Kind::Images)?;
        let labels = find(dir, prefix, Kind::Labels)?;
        let images = IdxFile::open(&images, Kind::Images, limit)?;
        // All labels, whatever the limit: they are few, and they tell how many classes there are.
        let labels = IdxFile::open(&labels, Kind::Labels, None)?;
        let mut others = 0;
        if classes.is_none()
            && let Ok(path) = find(dir, self::prefix(split.other()), Kind::Labels)
        {
            others = class_count(IdxFile::open(&path, Kind::Labels, None)?.items());
        }
        IdxSet::pair(name, images, labels, input, limit, classes, others)
    }

    pub(crate) fn pair(
        name: String,
        images: IdxFile,
        labels: IdxFile,
        input: [usize; 3],
        limit: Option<usize>,
        classes: Option<usize>,
        at_least: usize,
    ) -> Result<IdxSet, DataError> {
        if images.announced != labels.announced {
            return Err(DataError::Counts {
                images_path: images.path,
                images: images.announced,
                labels_path: labels.path,
                labels: labels.announced,
            });
        }
        let found = class_count(labels.items());
        if let Some(classes) = classes
            && found > classes
            && let Some(index) = labels
                .items()
                .iter()
                .position(|&l| usize::from(l) >= classes)
        {
            let label = usize::from(labels.items()[index]);
            return Err(DataError::Label {
                path: labels.path,
                index,
                label,
                classes,
            });
        }
        let len = images.held.min(limit.unwrap_or(usize::MAX));
        if len == 0 {
            return Err(DataError::Empty {
                what: name,
                hint: "",
            });
        }
        check_shape(&name, [1, images.sides[0], images.sides[1]], input)?;
        let classes = classes.unwrap_or(found.max(at_least));
        Ok(IdxSet {
            name,
            images,
            labels,
            len,
            classes,
        })
    }
}

fn class_count(labels: &[u8]) -> usize {
    labels.iter().max().map_or(0, |&m| usize::from(m) + 1)
}

fn prefix(split: Split) -> &'static str {
    match split {
        Split::Train => "train",
        Split::Validation => "t10k",
    }
}

/// Finds one of the spellings of a file's name; plain files first, for they need no unpacking.
fn find(dir: &Path, prefix: &str, kind: Kind) -> Result<PathBuf, DataError> {
    let (what, dims) = match kind {
        Kind::Images => ("images", 3),
        Kind::Labels => ("labels", 1),
    };
    for end in ["", ".gz"] {
        for dash in ["-", "."] {
            let path = dir.join(format!("{prefix}-{what}{dash}idx{dims}-ubyte{end}"));
            if path.is_file() {
                return Ok(path);
            }
        }
    }
    Err(DataError::NotFound {
        what: dir
            .join(format!("{prefix}-{what}-idx{dims}-ubyte[.gz]"))
            .display()
            .to_string(),
        remedy: if dir.is_dir() {
            "the folder is there, the file is not; put all four idx files in it".into()
        } else {
            "the folder does not exist; check its name".into()
        },
    })
}

impl Dataset for IdxSet {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn shape(&self) -> [usize; 3] {
        [1, self.images.sides[0], self.images.sides[1]]
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::copy_view(self, index, pixels)
    }

    fn view(&self, index: usize) -> Option<Result<(&[u8], usize), DataError>> {
        if index >= self.len {
            return Some(Err(super::no_such_item(self, index)));
        }
        let size = self.images.sides[0] * self.images.sides[1];
        let pixels = &self.images.items()[index * size..][..size];
        Some(Ok((pixels, usize::from(self.labels.items()[index]))))
    }
}

/// Whole files from memory, plain or packed: what fuzzing feeds.
#[cfg(test)]
pub(crate) fn from_memory(bytes: Vec<u8>, kind: Kind, gz: bool) -> Result<IdxFile, DataError> {
    let path = Path::new(if gz { "memory.gz" } else { "memory" });
    if gz {
        IdxFile::packed(path, bytes.len() as u64, bytes.as_slice(), kind, None)
    } else {
        IdxFile::plain(path, Bytes::Held(bytes), kind)
    }
}
