//! Arrays of NumPy as data sets: `npy:DIR` and `npz:FILE`.
//!
//! Samples are `x_train` and `x_test` with labels `y_train` and `y_test`, or `x` and `y`, of which a tenth is drawn for
//! validation; in a folder as `.npy` files, or as members of an archive. Samples of `uint8` are images, N×H×W, N×C×H×W or
//! N×H×W×C, and are divided by 255 like all images; floats are taken as they are, N×FEATURES too. Labels that are whole
//! numbers are classes, floats are values for regression.

use std::path::Path;
use std::sync::Arc;

use super::bytes::{Bytes, map};
use super::error::DataError;
use super::npy::Npy;
use super::samples::Labels;
use super::zip::members;
use super::{Dataset, InMemory, Split, check_shape};

/// Names of the arrays of a split, the first pair that exists; the last is of both splits.
const NAMES: [[&str; 2]; 2] = [["x_train", "y_train"], ["x_test", "y_test"]];
const BOTH: [&str; 2] = ["x", "y"];

/// Images as bytes with classes.
pub(crate) struct Arrays {
    name: String,
    shape: [usize; 3],
    /// The items of this split.
    items: Vec<u32>,
    content: Content,
    labels: Vec<u32>,
    classes: usize,
}

enum Content {
    /// Images where they lie, the first of them at so many bytes; whether channels come last.
    Bytes(Bytes, usize, bool),
    /// Floats, of this split alone.
    Floats(Arc<InMemory>),
}

/// A pair of files' bytes.
type Pair = (Bytes, Bytes);

impl Arrays {
    /// From a folder of `.npy` files or from an archive.
    pub(crate) fn open(
        path: &Path,
        name: String,
        split: Split,
        input: [usize; 3],
        limit: Option<usize>,
        seed: u64,
    ) -> Result<Arrays, DataError> {
        let own = NAMES[usize::from(split == Split::Validation)];
        let load = |names| match path.is_dir() {
            true => from_folder(path, names),
            false => from_archive(path, names),
        };
        let (pair, is_drawn) = match load(own)? {
            Some(pair) => (Some(pair), false),
            None => (load(BOTH)?, true),
        };
        let Some((samples, labels)) = pair else {
            let [x, y] = own;
            return Err(DataError::NotFound {
                what: format!("{x} and {y}, or x and y, in {}", path.display()),
                remedy: "save arrays of these names with numpy.save or numpy.savez".into(),
            });
        };
        let wrong = |which: &str| {
            let path = path.display().to_string();
            let which = which.to_owned();
            move |reason: String| DataError::Usage(format!("{path}, array {which}: {reason}"))
        };
        let x = Npy::parse(&samples).map_err(wrong("x"))?;
        let y = Npy::parse(&labels).map_err(wrong("y"))?;
        let (shape, is_last) = image_shape(&x, input).map_err(wrong("x"))?;
        check_shape(&name, shape, input)?;
        let count = x.extents().first().copied().unwrap_or(0);
        if y.extents().first() != Some(&count) {
            let found = y.extents().first().copied().unwrap_or(0);
            return Err(wrong("y")(format!("{found} labels for {count} samples")));
        }
        let mut items: Vec<u32> = match is_drawn {
            true => super::split::draw(count, split, |i| super::random::mix(seed, i as u64)),
            false => (0..count).collect(),
        }
        .into_iter()
        .map(|i| i as u32)
        .collect();
        items.truncate(limit.unwrap_or(usize::MAX));
        if items.is_empty() {
            return Err(DataError::Empty {
                what: name,
                hint: match split {
                    Split::Train => "",
                    Split::Validation => "; without validation images, say --val-limit 0",
                },
            });
        }
        let is_classes = y.is_whole() && y.extents().iter().skip(1).all(|&d| d == 1);
        let numbers: Vec<f64> = y.values().collect();
        let (classes, class) = match is_classes {
            true => classes(&numbers).map_err(wrong("y"))?,
            false => (0, Vec::new()),
        };
        let content = match x.as_bytes().filter(|_| is_classes) {
            Some(bytes) => {
                let start = samples.len() - bytes.len();
                Content::Bytes(samples, start, is_last)
            }
            None => {
                let width = numbers.len() / count.max(1);
                let labels = match is_classes {
                    true => {
                        Labels::Classes(items.iter().map(|&i| class[i as usize] as usize).collect())
                    }
                    false => {
                        let rows = items
                            .iter()
                            .flat_map(|&i| &numbers[i as usize * width..][..width]);
                        Labels::Values(rows.copied().collect())
                    }
                };
                let memory = InMemory::new(shape, floats(&x, shape, is_last, &items), labels)
                    .map_err(|error| DataError::Usage(format!("{}: {error}", path.display())))?;
                Content::Floats(Arc::new(memory.named(&name)))
            }
        };
        Ok(Arrays {
            name,
            shape,
            items,
            content,
            labels: class,
            classes,
        })
    }

    fn item(&self, index: usize) -> Result<usize, DataError> {
        let item = self.items.get(index).map(|&i| i as usize);
        item.ok_or_else(|| super::no_such_item(self, index))
    }
}

/// Maps two files of a folder; none unless both are there.
fn from_folder(dir: &Path, names: [&str; 2]) -> Result<Option<Pair>, DataError> {
    let [x, y] = names.map(|n| dir.join(format!("{n}.npy")));
    match x.is_file() && y.is_file() {
        true => Ok(Some((map(&x)?, map(&y)?))),
        false => Ok(None),
    }
}

/// Unpacks two members of an archive; none unless both are there.
fn from_archive(path: &Path, names: [&str; 2]) -> Result<Option<Pair>, DataError> {
    let wrong = |reason: String| DataError::Usage(format!("{}: {reason}", path.display()));
    let archive = map(path)?;
    let all = members(&archive).map_err(wrong)?;
    let find = |name: &str| {
        let member = all
            .iter()
            .find(|m| m.name.strip_suffix(".npy") == Some(name));
        member
            .map(|m| m.read(&archive).map(Bytes::Held).map_err(wrong))
            .transpose()
    };
    Ok(find(names[0])?.zip(find(names[1])?))
}

/// Channels, height and width of a sample, and whether channels come last.
fn image_shape(x: &Npy<'_>, input: [usize; 3]) -> Result<([usize; 3], bool), String> {
    Ok(match *x.extents() {
        [_, h, w] => ([1, h, w], false),
        [_, h, w, c] if [c, h, w] == input && [h, w, c] != input => ([c, h, w], true),
        [_, c, h, w] => ([c, h, w], false),
        // Plain rows, for models of `[features, 1, 1]` or of any shape with as many values.
        [_, n] if input.iter().product::<usize>() == n => (input, false),
        [_, n] => ([n, 1, 1], false),
        ref other => {
            return Err(format!(
                "its shape is {other:?}; samples need two to four axes"
            ));
        }
    })
}

/// The samples of a split, channels first.
fn floats(x: &Npy<'_>, [c, h, w]: [usize; 3], is_last: bool, items: &[u32]) -> Vec<f64> {
    let all: Vec<f64> = x.values().collect();
    let scale = if x.as_bytes().is_some() { 255.0 } else { 1.0 };
    let (size, plane) = (c * h * w, h * w);
    let mut out = Vec::with_capacity(items.len() * size);
    for &item in items {
        let sample = &all[item as usize * size..][..size];
        out.extend((0..size).map(|at| match is_last {
            true => sample[at % plane * c + at / plane] / scale,
            false => sample[at] / scale,
        }));
    }
    out
}

/// How many classes there are, and that of each sample.
fn classes(numbers: &[f64]) -> Result<(usize, Vec<u32>), String> {
    let class = |(i, &n): (usize, &f64)| match (0.0..65536.0).contains(&n) {
        true => Ok(n as u32),
        false => Err(format!("label {i} is {n}; classes are 0 to 65535")),
    };
    let all = numbers
        .iter()
        .enumerate()
        .map(class)
        .collect::<Result<Vec<u32>, _>>()?;
    Ok((all.iter().max().map_or(0, |&m| m as usize + 1), all))
}

impl Dataset for Arrays {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::check_read(self, index, pixels)?;
        let item = self.item(index)?;
        let Content::Bytes(bytes, start, is_last) = &self.content else {
            return Err(DataError::Usage(format!(
                "{}: its samples are floating-point numbers, not images of bytes: save images as uint8, or change and \
                 normalise them before saving",
                self.name
            )));
        };
        let [c, h, w] = self.shape;
        let from = &bytes[start + item * pixels.len()..][..pixels.len()];
        match is_last {
            false => pixels.copy_from_slice(from),
            true => {
                for (channel, plane) in pixels.chunks_exact_mut(h * w).enumerate() {
                    plane
                        .iter_mut()
                        .zip(from[channel..].iter().step_by(c))
                        .for_each(|(p, &b)| *p = b);
                }
            }
        }
        self.label(index)
    }

    fn label(&self, index: usize) -> Result<usize, DataError> {
        let class = self.labels.get(self.item(index)?);
        class
            .map(|&c| c as usize)
            .ok_or_else(|| super::no_such_item(self, index))
    }

    fn floats(&self) -> Option<Arc<InMemory>> {
        match &self.content {
            Content::Floats(memory) => Some(memory.clone()),
            Content::Bytes(..) => None,
        }
    }
}
