//! Checkpoints: everything a training run needs to go on as if it had never stopped.
//!
//! A checkpoint is one file, `checkpoint.safetensors`, in a directory of the user's choice. Weights have their plain
//! keys, as in any file of weights; optimiser state and running totals have keys that begin with `dahl/`; a JSON text
//! in the metadata has the rest, and a checksum is over all of it. One file, because one rename is then the commit:
//! whenever the process dies, the directory holds the previous checkpoint or the new one, complete. Resuming with
//! another model, other data or other settings is refused rather than approximated, naming the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use dahl_data::{Identity, Normalise};

use crate::Step;
use crate::model::Model;
use crate::train::versions;
use crate::weights::{self, Data, Notes, Tensor, Weights, WeightsError, checksum};

mod folder;
#[cfg(test)]
mod tests;

pub use folder::CheckpointFolder;
pub(crate) use folder::OpenFolder;

/// The file in a checkpoint's directory.
pub const FILE: &str = "checkpoint.safetensors";

/// The key of the JSON text in the file's metadata.
const NOTE: &str = "dahl_checkpoint";

/// Raised when what is written changes its meaning.
const FORMAT: u64 = 3;

/// The setting that says what computes.
pub(crate) const ARITHMETIC: &str = "arithmetic";

/// What the keys of all tensors begin with that are no weights.
const STATE: &str = "dahl/";

/// Whether a tensor of a checkpoint is no weight, but belongs to the run.
pub(crate) fn is_training_state(key: &str) -> bool {
    key.starts_with(STATE)
}

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
    /// The data it has seen; none before any.
    pub data: Option<Identity>,
    /// Names of classes, where the data has some.
    pub class_names: Vec<String>,
    /// How images are normalised; none if they are not.
    pub normalise: Option<Normalise>,
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
    /// Another process writes checkpoints there.
    #[error("{} is in use: another process writes checkpoints there; wait for it, or choose another folder", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// There is a checkpoint that this run did not write.
    #[error(
        "{} has a checkpoint already ({found}): --resume goes on from it, --overwrite replaces it; \
         or choose another folder",
        dir.display()
    )]
    Occupied {
        /// The folder.
        dir: PathBuf,
        /// What is there.
        found: String,
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
    /// The optimiser's state is not complete.
    #[error(
        "the optimiser's state in the checkpoint does not fit: {key}; it was not written by this program"
    )]
    Optimizer {
        /// What is missing or has another shape.
        key: String,
    },
    /// It belongs to a run on other data.
    #[error(
        "the checkpoint was made with {saved}, this run has {given}; what differs: {differs}. Resume with the same data, \
         limit, normalisation and augmentation, or start a new run"
    )]
    OtherData {
        /// What the checkpoint was made with.
        saved: Box<Identity>,
        /// What this run has.
        given: Box<Identity>,
        /// In what they differ.
        differs: String,
    },
    /// It belongs to a run with other settings.
    #[error(
        "the checkpoint was made with {}: resume with the same settings, or start a new run",
        differences.join("; ")
    )]
    OtherSettings {
        /// Every setting that differs: its name, its value in the checkpoint and its value now.
        differences: Vec<String>,
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
    data: Option<Identity>,
}

/// The JSON part of a checkpoint, its format checked; none if the notes are those of plain weights.
pub(crate) fn note(notes: &Notes) -> Result<Option<Value>, String> {
    let Some(text) = notes.get(NOTE) else {
        return Ok(None);
    };
    let note: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    match note.get("format").and_then(Value::as_u64) {
        Some(FORMAT) => Ok(Some(note)),
        Some(other) => Err(format!(
            "it is a checkpoint of format {other}, this program reads {FORMAT}: with the version of DAHL that \
             wrote it, resume it and save its weights, then start a new run from these"
        )),
        None => Err("it does not say its format".into()),
    }
}

impl Checkpoint {
    /// Saves into a directory, which is made if need be; replaces the checkpoint that is there, if all
    /// goes well.
    pub fn save(&self, dir: &Path) -> Result<(), CheckpointError> {
        make_folder(dir)?;
        let note = Note {
            format: FORMAT,
            model_fingerprint: self.model_fingerprint,
            model_toml: self.model_toml.clone(),
            step: self.step,
            epoch: self.epoch,
            batch_in_epoch: self.batch_in_epoch,
            seed: self.seed,
            settings: self.settings.clone(),
            data: self.data.clone(),
        };
        let path = dir.join(FILE);
        let note = serde_json::to_string(&note).map_err(|e| CheckpointError::Format {
            file: path.display().to_string(),
            message: e.to_string(),
        })?;
        let mut notes = weights::notes(&self.class_names, self.normalise.as_ref());
        notes.insert(NOTE.into(), note);
        checksum::reserve(&mut notes);
        // Totals are tensors, because JSON has no infinities and no NaN.
        let total = |(key, &x): (&String, &f64)| {
            let data = Data::F64(vec![x]);
            let shape = Vec::new();
            (format!("{STATE}totals/{key}"), Tensor { shape, data })
        };
        let totals: Weights = self.totals.iter().map(total).collect();
        let keys = self.optimizer.keys();
        let keys: Vec<String> = keys.map(|k| format!("{STATE}optimizer/{k}")).collect();
        let optimizer = keys.iter().zip(self.optimizer.values());
        let all = self.weights.iter().chain(optimizer).chain(&totals);
        let all = all.map(|(key, tensor)| (key.as_str(), tensor));
        Ok(weights::write_with_notes(&path, all, notes)?)
    }

    /// Loads the checkpoint of a directory.
    pub fn load(dir: &Path) -> Result<Checkpoint, CheckpointError> {
        let path = dir.join(FILE);
        let (tensors, notes) = weights::read_with_notes(&path).map_err(|e| match e {
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
        let found = note(&notes).map_err(wrong)?;
        let found = found.ok_or_else(|| wrong("it holds tensors, but no training state".into()))?;
        let note: Note = serde_json::from_value(found).map_err(|e| wrong(e.to_string()))?;
        if !checksum::is_there(&notes) {
            return Err(wrong("it has no checksum".into()));
        }
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
            data: note.data,
            class_names: weights::class_names(&notes),
            normalise: weights::normalise(&notes),
        };
        for (key, tensor) in tensors {
            let Some(state) = key.strip_prefix(STATE) else {
                checkpoint.weights.insert(key, tensor);
                continue;
            };
            match (state.split_once('/'), &tensor.data) {
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

    /// What it is of and where it stands, in words.
    pub fn summary(&self) -> String {
        let name = toml::from_str::<toml::Table>(&self.model_toml).ok();
        let name = name.and_then(|t| Some(t.get("name")?.as_str()?.to_owned()));
        let data = self.data.as_ref().map_or("no data", |d| &d.name);
        let at = match self.batch_in_epoch {
            0 => format!("at the end of epoch {}", self.epoch),
            _ => format!("in epoch {}", self.epoch + 1),
        };
        format!(
            "{} on {data}, after step {} {at}",
            name.as_deref().unwrap_or("a model"),
            self.step
        )
    }

    /// Whether the checkpoint is of this model, with all its weights.
    pub(crate) fn check_model(&self, model: &Model) -> Result<(), CheckpointError> {
        if self.model_fingerprint != model.fingerprint() {
            return Err(CheckpointError::OtherModel {
                model: model.name.clone(),
            });
        }
        Ok(weights::check(&self.weights, model)?)
    }

    /// Whether the optimiser's state is that of a step.
    pub(crate) fn check_optimizer(&self, step: &Step) -> Result<(), CheckpointError> {
        let mut expected = 0;
        let slots = step.slots();
        for param in step.model.params().iter().filter(|p| p.role.is_trained()) {
            for slot in &slots {
                let key = format!("{}.{slot}", param.key);
                expected += 1;
                if self.optimizer.get(&key).map(|t| &t.shape) != Some(&param.shape) {
                    return Err(CheckpointError::Optimizer { key });
                }
            }
        }
        for (key, place, _) in versions::keys(step) {
            expected += 1;
            let shape = &step.model.params()[place].shape;
            if self.optimizer.get(&key).map(|t| &t.shape) != Some(shape) {
                return Err(CheckpointError::Optimizer { key });
            }
        }
        match self.optimizer.len() == expected {
            true => Ok(()),
            false => Err(CheckpointError::Optimizer {
                key: "a tensor that is not its own".into(),
            }),
        }
    }

    /// Whether this is the data that the run has seen.
    pub(crate) fn check_data(&self, given: &Identity) -> Result<(), CheckpointError> {
        let Some(saved) = &self.data else {
            return Ok(());
        };
        match saved.difference(given) {
            None => Ok(()),
            Some(differs) => Err(CheckpointError::OtherData {
                saved: Box::new(saved.clone()),
                given: Box::new(given.clone()),
                differs,
            }),
        }
    }

    /// Whether a run with these settings continues this one; the error names every difference.
    pub(crate) fn check_settings(&self, settings: &Value) -> Result<(), CheckpointError> {
        let (mut saved, mut given) = (self.settings.clone(), settings.clone());
        // Compared where both sides say it.
        for (one, other) in [(&mut saved, settings), (&mut given, &self.settings)] {
            if let (Some(fields), None) = (one.as_object_mut(), other.get(ARITHMETIC)) {
                fields.remove(ARITHMETIC);
            }
        }
        let mut differences = Vec::new();
        compare(&saved, &given, "", &mut differences);
        match differences.is_empty() {
            true => Ok(()),
            false => Err(CheckpointError::OtherSettings { differences }),
        }
    }
}

fn make_folder(dir: &Path) -> Result<(), CheckpointError> {
    std::fs::create_dir_all(dir).map_err(|source| CheckpointError::Directory {
        dir: dir.to_owned(),
        source,
    })
}

/// The places where two JSON values differ: paths and both values.
fn compare(saved: &Value, given: &Value, path: &str, differences: &mut Vec<String>) {
    if let (Value::Object(a), Value::Object(b)) = (saved, given) {
        let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for key in keys {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            let [x, y] = [a, b].map(|side| side.get(key).unwrap_or(&Value::Null));
            compare(x, y, &path, differences);
        }
    } else if saved != given {
        let key = match path {
            "" => "settings",
            "delays" => "delays (of --pipeline)",
            other => other,
        };
        let text = |value: &Value| match value {
            Value::Null => "nothing".to_string(),
            other => other.to_string(),
        };
        let (saved, given) = (text(saved), text(given));
        differences.push(format!("{key} = {saved}, this run has {given}"));
    }
}
