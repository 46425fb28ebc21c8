//! Checkpoints: everything a training run needs to go on as if it had never stopped.
//!
//! A checkpoint is one file, `checkpoint.safetensors`, in a directory of the user's choice: tensors for
//! weights, optimiser state and running totals, and a JSON text in the metadata for the rest. One file,
//! because one rename is then the commit: whenever the process dies, the directory holds the previous
//! checkpoint or the new one, complete. Resuming with other settings is refused rather than
//! approximated, naming the first difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Model;
use crate::weights::{self, Data, Tensor, Weights, WeightsError};

/// The file in a checkpoint's directory.
pub const FILE: &str = "checkpoint.safetensors";

/// The key of the JSON text in the file's metadata.
const NOTE: &str = "dahl_checkpoint";

/// Raised when what is written changes its meaning.
const FORMAT: u64 = 2;

/// The state of a training run between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// [`Model::fingerprint`] of the model that is trained.
    pub model_fingerprint: u64,
    /// The model itself, for people and for tools that have only the checkpoint.
    pub model_toml: String,
    /// Parameters and buffers.
    pub weights: Weights,
    /// The optimiser's tensors.
    pub optimizer: Weights,
    /// Steps done since the beginning.
    pub step: u64,
    /// Epochs finished.
    pub epoch: u64,
    /// Batches of the current epoch that are done.
    pub batch_in_epoch: u64,
    /// The seed of the run.
    pub seed: u64,
    /// Sums over the current epoch so far, such as loss and correct predictions.
    pub totals: BTreeMap<String, f64>,
    /// What the run was started with, compared on resuming.
    pub settings: Value,
}

/// Why a checkpoint could not be saved, loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no checkpoint.
    #[error("there is no checkpoint in {}: {FILE} is missing", dir.display())]
    Missing {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// The directory cannot be made.
    #[error("cannot make the directory {}: {source}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be read or written, or its tensors do not fit.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The file is a safetensors file, but not a checkpoint.
    #[error("{file} is not a usable checkpoint: {message}")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// It belongs to another model.
    #[error(
        "the checkpoint is of another model than {model:?}: its layers, names or sizes differ; \
         resume with the model it was made from"
    )]
    OtherModel {
        /// The model that was given.
        model: String,
    },
    /// It belongs to a run with other settings.
    #[error(
        "the checkpoint was made with {key} = {saved}, this run has {given}: resume with the same \
         settings, or start a new run"
    )]
    OtherSettings {
        /// The first setting that differs.
        key: String,
        /// Its value in the checkpoint.
        saved: String,
        /// Its value now.
        given: String,
    },
}

/// The JSON part.
#[derive(Serialize, Deserialize)]
struct Note {
    format: u64,
    model_fingerprint: u64,
    model_toml: String,
    step: u64,
    epoch: u64,
    batch_in_epoch: u64,
    seed: u64,
    settings: Value,
}

impl Checkpoint {
    /// Saves into a directory, which is made if need be; replaces the checkpoint that is there, if all
    /// goes well.
    pub fn save(&self, dir: &Path) -> Result<(), CheckpointError> {
        std::fs::create_dir_all(dir).map_err(|source| CheckpointError::Directory {
            dir: dir.to_owned(),
            source,
        })?;
        let note = Note {
            format: FORMAT,
            model_fingerprint: self.model_fingerprint,
            model_toml: self.model_toml.clone(),
            step: self.step,
            epoch: self.epoch,
            batch_in_epoch: self.batch_in_epoch,
            seed: self.seed,
            settings: self.settings.clone(),
        };
        let path = dir.join(FILE);
        let note = serde_json::to_string(&note).map_err(|e| CheckpointError::Format {
            file: path.display().to_string(),
            message: e.to_string(),
        })?;
        // Totals are tensors, because JSON has no infinities and no NaN.
        let totals: Vec<(String, Tensor)> = self
            .totals
            .iter()
            .map(|(key, &x)| {
                (
                    format!("totals/{key}"),
                    Tensor {
                        shape: Vec::new(),
                        data: Data::F64(vec![x]),
                    },
                )
            })
            .collect();
        let prefixed = |prefix: &str, tensors: &Weights| -> Vec<String> {
            tensors.keys().map(|key| format!("{prefix}{key}")).collect()
        };
        let (weights, optimizer) = (
            prefixed("weights/", &self.weights),
            prefixed("optimizer/", &self.optimizer),
        );
        let all = weights
            .iter()
            .map(String::as_str)
            .zip(self.weights.values());
        let all = all.chain(
            optimizer
                .iter()
                .map(String::as_str)
                .zip(self.optimizer.values()),
        );
        let all = all.chain(totals.iter().map(|(key, tensor)| (key.as_str(), tensor)));
        Ok(weights::write_with_note(&path, all, (NOTE, &note))?)
    }

    /// Loads the checkpoint of a directory.
    pub fn load(dir: &Path) -> Result<Checkpoint, CheckpointError> {
        let path = dir.join(FILE);
        let (tensors, note) = weights::read_with_note(&path, NOTE).map_err(|e| match e {
            WeightsError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                CheckpointError::Missing {
                    dir: dir.to_owned(),
                }
            }
            other => other.into(),
        })?;
        let wrong = |message: String| CheckpointError::Format {
            file: path.display().to_string(),
            message,
        };
        let note = note.ok_or_else(|| wrong("it holds tensors, but no training state".into()))?;
        let note: Value = serde_json::from_str(&note).map_err(|e| wrong(e.to_string()))?;
        match note.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(other) => {
                let m = format!(
                    "its format is {other}, this program reads {FORMAT}: resume it with the version of \
                     DAHL that wrote it, or start a new run from its weights"
                );
                return Err(wrong(m));
            }
            None => return Err(wrong("it does not say its format".into())),
        }
        let note: Note = serde_json::from_value(note).map_err(|e| wrong(e.to_string()))?;
        let mut checkpoint = Checkpoint {
            model_fingerprint: note.model_fingerprint,
            model_toml: note.model_toml,
            weights: Weights::new(),
            optimizer: Weights::new(),
            step: note.step,
            epoch: note.epoch,
            batch_in_epoch: note.batch_in_epoch,
            seed: note.seed,
            totals: BTreeMap::new(),
            settings: note.settings,
        };
        for (key, tensor) in tensors {
            match (key.split_once('/'), &tensor.data) {
                (Some(("weights", key)), _) => {
                    checkpoint.weights.insert(key.to_owned(), tensor);
                }
                (Some(("optimizer", key)), _) => {
                    checkpoint.optimizer.insert(key.to_owned(), tensor);
                }
                (Some(("totals", key)), Data::F64(x)) if x.len() == 1 => {
                    checkpoint.totals.insert(key.to_owned(), x[0]);
                }
                _ => return Err(wrong(format!("{key:?} has no place in a checkpoint"))),
            }
        }
        Ok(checkpoint)
    }

    /// Whether the checkpoint is of this model, with all its weights.
    pub fn check_model(&self, model: &Model) -> Result<(), CheckpointError> {
        if self.model_fingerprint != model.fingerprint() {
            return Err(CheckpointError::OtherModel {
                model: model.name.clone(),
            });
        }
        Ok(weights::check(&self.weights, model)?)
    }

    /// Whether a run with these settings continues this one; the error names the first difference.
    pub fn check_settings(&self, settings: &Value) -> Result<(), CheckpointError> {
        match difference(&self.settings, settings, "") {
            None => Ok(()),
            Some((key, saved, given)) => Err(CheckpointError::OtherSettings { key, saved, given }),
        }
    }
}

/// The first place where two JSON values differ: its path and both values.
fn difference(saved: &Value, given: &Value, path: &str) -> Option<(String, String, String)> {
    if let (Value::Object(a), Value::Object(b)) = (saved, given) {
        let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        return keys.into_iter().find_map(|key| {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            match (a.get(key), b.get(key)) {
                (Some(x), Some(y)) => difference(x, y, &path),
                (x, y) => {
                    let text = |v: Option<&Value>| v.map_or("nothing".into(), Value::to_string);
                    Some((path, text(x), text(y)))
                }
            }
        });
    }
    let key = if path.is_empty() { "settings" } else { path };
    (saved != given).then(|| (key.to_owned(), saved.to_string(), given.to_string()))
}

#[cfg(test)]
mod tests;
