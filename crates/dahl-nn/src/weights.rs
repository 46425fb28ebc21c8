//! Weights: named tensors, and their files.
//!
//! Files are safetensors, little-endian, with the keys of the model's [`crate::model::Param`]s, so that
//! they move to and from PyTorch. Reading trusts nothing in a file: sizes are checked before memory is
//! asked for, and what does not add up is an error. Elements are copied bit for bit, infinities and
//! NaNs included; half precision (F16, BF16) is widened to F32; other types are refused rather than guessed at.
//! Written files depend on tensors and names of classes alone, so equal weights are equal files. A checkpoint is read
//! as the weights in it.

pub(crate) mod checksum;
mod diff;
mod fit;
mod foreign;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use dahl_core::DType;
use dahl_core::file::{open_regular, write_atomically};
use dahl_data::Normalise;
use safetensors::{Dtype as FileType, SafeTensors};
use serde_json::{Value, json};

use crate::checkpoint;
use crate::model::{Model, Param, Role};

pub use diff::{TensorDiff, Worst, diff, diff_report};
pub(crate) use fit::fit_partly;
pub use fit::{Fitted, fit};

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
    pub(crate) fn to_f32(&self) -> Vec<f32> {
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

/// Weights with what their file says of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The weights.
    pub weights: Weights,
    /// Names of the classes that the model tells apart; empty if the file has none.
    pub class_names: Vec<String>,
    /// How images were normalised that they were trained with; none if the file does not say.
    pub normalise: Option<Normalise>,
}

/// Reads weights: a file of them, a checkpoint's file, or the folder of a checkpoint.
pub fn load(path: &Path) -> Result<Loaded, WeightsError> {
    let path = match path.is_dir() {
        true => path.join(checkpoint::FILE),
        false => path.to_owned(),
    };
    let (mut weights, notes) = read_with_notes(&path)?;
    // Of an older format keys differ: say what it is rather than that nothing fits.
    checkpoint::note(&notes).map_err(|message| WeightsError::Format {
        file: path.display().to_string(),
        message,
    })?;
    weights.retain(|key, _| !checkpoint::is_training_state(key));
    Ok(Loaded {
        weights,
        class_names: class_names(&notes),
        normalise: normalise(&notes),
    })
}

/// The weights alone of what [`load`] reads.
pub fn read(path: &Path) -> Result<Weights, WeightsError> {
    load(path).map(|loaded| loaded.weights)
}

/// Writes a file of weights, all or nothing.
pub fn write(path: &Path, weights: &Weights) -> Result<(), WeightsError> {
    write_named(path, weights, &[], None)
}

/// The same with names of classes, if there are some, and how images were normalised.
pub fn write_named(
    path: &Path,
    weights: &Weights,
    class_names: &[String],
    normalise: Option<&Normalise>,
) -> Result<(), WeightsError> {
    let tensors = weights.iter().map(|(k, t)| (k.as_str(), t));
    write_with_notes(path, tensors, notes(class_names, normalise))
}

/// What a file says besides its tensors, by keys.
pub(crate) type Notes = BTreeMap<String, String>;

/// The key of the names of classes.
const CLASSES: &str = "dahl_classes";

/// The key of the normalisation.
const NORMALISE: &str = "dahl_normalise";

/// The notes of every file: PyTorch's loaders look for the first one.
pub(crate) fn notes(class_names: &[String], normalise: Option<&Normalise>) -> Notes {
    let mut notes = Notes::from([("format".into(), "pt".into())]);
    if !class_names.is_empty() {
        notes.insert(CLASSES.into(), json!(class_names).to_string());
    }
    if let Some(normalise) = normalise {
        notes.insert(NORMALISE.into(), normalise.to_string());
    }
    notes
}

/// The names of classes in notes; none where somebody else wrote something else there.
pub(crate) fn class_names(notes: &Notes) -> Vec<String> {
    let names = notes.get(CLASSES);
    let names = names.and_then(|text| serde_json::from_str(text).ok());
    names.unwrap_or_default()
}

/// The normalisation in notes.
pub(crate) fn normalise(notes: &Notes) -> Option<Normalise> {
    notes.get(NORMALISE)?.parse().ok()
}

/// Reads a file and its notes. Damage to a file with a checksum is an error.
pub(crate) fn read_with_notes(path: &Path) -> Result<(Weights, Notes), WeightsError> {
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
    let (_, header) = SafeTensors::read_metadata(&bytes)
        .map_err(|e| wrong(foreign::recognised(&file, &bytes).unwrap_or_else(|| e.to_string())))?;
    let notes: Notes = match header.metadata() {
        Some(notes) => notes.clone().into_iter().collect(),
        None => Notes::new(),
    };
    if let Some(problem) = checksum::problem(&bytes, &notes) {
        return Err(wrong(problem.into()));
    }
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| wrong(e.to_string()))?;
    let mut weights = Weights::new();
    for (key, view) in tensors.iter() {
        let bytes = view.data();
        let data = match view.dtype() {
            FileType::F32 => Data::F32(elements(bytes, f32::from_le_bytes)),
            FileType::F64 => Data::F64(elements(bytes, f64::from_le_bytes)),
            FileType::I64 => Data::I64(elements(bytes, i64::from_le_bytes)),
            FileType::F16 => Data::F32(elements(bytes, foreign::f16)),
            FileType::BF16 => Data::F32(elements(bytes, foreign::bf16)),
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
    Ok((weights, notes))
}

/// Writes a file with notes in its metadata, and the checksum if they have a place for it.
pub(crate) fn write_with_notes<'a>(
    path: &Path,
    tensors: impl Iterator<Item = (&'a str, &'a Tensor)>,
    notes: Notes,
) -> Result<(), WeightsError> {
    let mut tensors: Vec<(&str, &Tensor)> = tensors.collect();
    // Larger elements first keeps all of them aligned.
    tensors.sort_by_key(|&(key, t)| (std::cmp::Reverse(t.data.file_type().1), key));
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), json!(notes));
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
    let write = |header: &str, out: &mut dyn Write| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        tensors
            .iter()
            .try_for_each(|(_, tensor)| tensor.data.write(out))
    };
    write_atomically(path, |out| {
        checksum::fill_in(&mut header, |header, sum| write(header, sum))?;
        write(&header, out)
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
    let (file, length) = open_regular(path)?;
    let len = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(io::Error::other)?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a tensor cannot be a parameter's values.
fn problem(param: &Param, tensor: &Tensor) -> Option<String> {
    let key = &param.key;
    if tensor.shape != param.shape {
        let (found, expected) = (&tensor.shape, &param.shape);
        return Some(format!(
            "{key:?} has shape {found:?}, the model expects {expected:?}"
        ));
    }
    let whole = matches!(tensor.data, Data::I64(_));
    (whole != (param.role == Role::Counter)).then(|| {
        let found = tensor.data.file_type().0;
        let expected = if whole { "F32 or F64" } else { "I64" };
        format!("{key:?} has elements of type {found}, the model expects {expected}")
    })
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
        problems.extend(problem(param, tensor));
        problems.extend(not_finite(tensor).map(|at| {
            format!("{key:?} has no finite number as element {at}: training went wrong, or the file is damaged")
        }));
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

/// The first element of a tensor that is not a finite number.
fn not_finite(tensor: &Tensor) -> Option<usize> {
    match &tensor.data {
        Data::F32(all) => all.iter().position(|v| !v.is_finite()),
        Data::F64(all) => all.iter().position(|v| !v.is_finite()),
        Data::I64(_) => None,
    }
}

#[cfg(test)]
mod tests;
