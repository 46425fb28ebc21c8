//! Weights: named tensors, and their files.
//!
//! Files are safetensors, little-endian, with the keys of the model's [`crate::model::Param`]s, so that
//! they move to and from PyTorch. Reading trusts nothing in a file: sizes are checked before memory is
//! asked for, and what does not add up is an error. Elements are copied bit for bit, infinities and
//! NaNs included; types other than the three of [`Data`] are refused rather than guessed at. Written
//! files depend on the tensors alone, so equal weights are equal files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use dahl_core::DType;
use dahl_core::file::write_atomically;
use safetensors::{Dtype as FileType, SafeTensors};
use serde_json::{Value, json};

use crate::model::{Model, Role};

/// Tensors by their keys.
pub type Weights = BTreeMap<String, Tensor>;

/// A tensor outside of any arena.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Its elements, the last axis varying fastest.
    pub data: Data,
}

/// The elements of a [`Tensor`].
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Integers.
    I64(Vec<i64>),
}

/// Why weights could not be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be read or written.
    #[error("cannot {verb} {file}: {source}")]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{file} is not a usable safetensors file: {message}")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// The weights are those of another model.
    #[error("the weights do not fit the model {model}:\n  {}", problems.join("\n  "))]
    Unfit {
        /// The model's name.
        model: String,
        /// Every difference.
        problems: Vec<String>,
    },
}

impl Tensor {
    /// A tensor, if the shape has as many elements as there are.
    pub fn new(shape: Vec<usize>, data: Data) -> Option<Self> {
        let len = shape
            .iter()
            .try_fold(1usize, |n, &size| n.checked_mul(size))?;
        (len == data.len()).then_some(Tensor { shape, data })
    }

    /// The same with floating-point elements of type `dtype`; integers stay integers.
    pub fn to_dtype(&self, dtype: DType) -> Tensor {
        let data = match (&self.data, dtype) {
            (Data::I64(_), _) => self.data.clone(),
            (data, DType::F32) => Data::F32(data.to_f32()),
            (data, DType::F64) => Data::F64(data.to_f64()),
        };
        Tensor {
            shape: self.shape.clone(),
            data,
        }
    }
}

impl Data {
    /// How many elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(v) => v.len(),
            Data::F64(v) => v.len(),
            Data::I64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements in single precision, rounded to nearest.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Data::F32(v) => v.clone(),
            Data::F64(v) => v.iter().map(|&x| x as f32).collect(),
            Data::I64(v) => v.iter().map(|&x| x as f32).collect(),
        }
    }

    /// All elements in double precision.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Data::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Data::F64(v) => v.clone(),
            Data::I64(v) => v.iter().map(|&x| x as f64).collect(),
        }
    }

    /// The element type as safetensors calls it, and its size in bytes.
    fn file_type(&self) -> (&'static str, usize) {
        match self {
            Data::F32(_) => ("F32", 4),
            Data::F64(_) => ("F64", 8),
            Data::I64(_) => ("I64", 8),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Data::F32(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
            Data::F64(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
            Data::I64(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        }
    }
}

/// All weights with floating-point elements of type `dtype`; integers stay integers.
pub fn to_dtype(weights: &Weights, dtype: DType) -> Weights {
    weights
        .iter()
        .map(|(key, tensor)| (key.clone(), tensor.to_dtype(dtype)))
        .collect()
}

/// Reads a file of weights.
pub fn read(path: &Path) -> Result<Weights, WeightsError> {
    read_with_note(path, "format").map(|(weights, _)| weights)
}

/// Writes a file of weights, all or nothing.
pub fn write(path: &Path, weights: &Weights) -> Result<(), WeightsError> {
    // PyTorch's loaders look for this note.
    write_with_note(
        path,
        weights.iter().map(|(k, t)| (k.as_str(), t)),
        ("format", "pt"),
    )
}

/// Reads a file, and the text kept under a key of its metadata.
pub(crate) fn read_with_note(
    path: &Path,
    note: &str,
) -> Result<(Weights, Option<String>), WeightsError> {
    let file = path.display().to_string();
    let bytes = read_file(path).map_err(|source| WeightsError::Io {
        verb: "read",
        file: file.clone(),
        source,
    })?;
    let wrong = |message: String| WeightsError::Format {
        file: file.clone(),
        message,
    };
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| wrong(e.to_string()))?;
    let note = header
        .metadata()
        .as_ref()
        .and_then(|notes| notes.get(note))
        .cloned();
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| wrong(e.to_string()))?;
    let mut weights = Weights::new();
    for (key, view) in tensors.iter() {
        let bytes = view.data();
        let data = match view.dtype() {
            FileType::F32 => Data::F32(elements(bytes, f32::from_le_bytes)),
            FileType::F64 => Data::F64(elements(bytes, f64::from_le_bytes)),
            FileType::I64 => Data::I64(elements(bytes, i64::from_le_bytes)),
            other => {
                return Err(wrong(format!(
                    "{key:?} has elements of type {other}; save it as F32 or F64"
                )));
            }
        };
        let tensor = Tensor::new(view.shape().to_vec(), data).ok_or_else(|| {
            wrong(format!(
                "{key:?} has not as many elements as its shape says"
            ))
        })?;
        weights.insert(key.to_owned(), tensor);
    }
    Ok((weights, note))
}

/// Writes a file with one note in its metadata: one, because their order would not be fixed.
pub(crate) fn write_with_note<'a>(
    path: &Path,
    tensors: impl Iterator<Item = (&'a str, &'a Tensor)>,
    (note, text): (&str, &str),
) -> Result<(), WeightsError> {
    let mut tensors: Vec<(&str, &Tensor)> = tensors.collect();
    // Larger elements first keeps all of them aligned.
    tensors.sort_by_key(|&(key, t)| (std::cmp::Reverse(t.data.file_type().1), key));
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), json!({ note: text }));
    let mut offset = 0;
    for (key, tensor) in &tensors {
        let (dtype, size) = tensor.data.file_type();
        let end = offset + tensor.data.len() * size;
        let entry = json!({ "dtype": dtype, "shape": tensor.shape, "data_offsets": [offset, end] });
        header.insert((*key).to_owned(), entry);
        offset = end;
    }
    let mut header = Value::Object(header).to_string();
    header.extend(std::iter::repeat_n(
        ' ',
        header.len().next_multiple_of(8) - header.len(),
    ));
    write_atomically(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        tensors
            .iter()
            .try_for_each(|(_, tensor)| tensor.data.write(out))
    })
    .map_err(|source| WeightsError::Io {
        verb: "write",
        file: path.display().to_string(),
        source,
    })
}

fn elements<T, const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&chunk| read(chunk))
        .collect()
}

/// The bytes of a regular file, or an error where memory does not suffice.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let len = usize::try_from(meta.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(io::Error::other)?;
    file.take(meta.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether weights are those of a model; the error lists everything that is not.
pub fn check(weights: &Weights, model: &Model) -> Result<(), WeightsError> {
    let mut problems = Vec::new();
    for param in model.params() {
        let key = &param.key;
        let Some(tensor) = weights.get(key) else {
            // Counts batches for those who ask; PyTorch does without it, too.
            if param.role == Role::Counter {
                continue;
            }
            problems.push(format!("{key:?} is missing (shape {:?})", param.shape));
            continue;
        };
        if tensor.shape != param.shape {
            let (found, expected) = (&tensor.shape, &param.shape);
            problems.push(format!(
                "{key:?} has shape {found:?}, the model expects {expected:?}"
            ));
        }
        let whole = matches!(tensor.data, Data::I64(_));
        if whole != (param.role == Role::Counter) {
            let found = tensor.data.file_type().0;
            let expected = if whole { "F32 or F64" } else { "I64" };
            problems.push(format!(
                "{key:?} has elements of type {found}, the model expects {expected}"
            ));
        }
    }
    let known: std::collections::BTreeSet<&str> =
        model.params().iter().map(|p| p.key.as_str()).collect();
    let unexpected = weights.keys().filter(|key| !known.contains(key.as_str()));
    problems
        .extend(unexpected.map(|key| format!("{key:?} is unexpected: the model has no such key")));
    if problems.is_empty() {
        Ok(())
    } else {
        Err(WeightsError::Unfit {
            model: model.name.clone(),
            problems,
        })
    }
}

#[cfg(test)]
mod tests;
