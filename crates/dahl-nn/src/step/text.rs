//! A step as it is written down: the model as the text of its file, the grain as people write it.

use dahl_core::DType;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Kernels, Step, StepError};
use crate::Registry;
use crate::keys::{self, Given};
use crate::losses::Loss;
use crate::model::Model;
use crate::optim::Optimizer;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text<L = Loss, O = Optimizer> {
    model: String,
    batch: usize,
    dtype: DType,
    grain: String,
    loss: L,
    optimizer: O,
    clip_norm: Option<f64>,
    seed: u64,
    kernels: Kernels,
    // What steps without a pipeline have not is left out: texts and checkpoints from before read as before.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    micro_batches: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    delays: Vec<usize>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    accumulate: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ema: Option<f64>,
}

fn one() -> usize {
    1
}

fn is_one(n: &usize) -> bool {
    *n == 1
}

impl From<Step> for Text {
    fn from(step: Step) -> Text {
        Text {
            model: step.model.to_toml(),
            batch: step.batch,
            dtype: step.dtype,
            grain: step.grain.to_string(),
            loss: step.loss,
            optimizer: step.optimizer,
            clip_norm: step.clip_norm,
            seed: step.seed,
            kernels: step.kernels,
            micro_batches: step.micro_batches,
            delays: step.delays,
            accumulate: step.accumulate,
            ema: step.ema,
        }
    }
}

impl TryFrom<Text> for Step {
    type Error = StepError;

    fn try_from(text: Text) -> Result<Step, StepError> {
        text.step(&Registry::default())
    }
}

impl Text {
    fn step(self, registry: &Registry) -> Result<Step, StepError> {
        let text = self;
        let step = Step {
            model: Model::from_toml_with(&text.model, "the step's model", registry)?,
            batch: text.batch,
            dtype: text.dtype,
            grain: text.grain.parse()?,
            loss: text.loss,
            optimizer: text.optimizer,
            clip_norm: text.clip_norm,
            seed: text.seed,
            kernels: text.kernels,
            micro_batches: text.micro_batches,
            delays: text.delays,
            accumulate: text.accumulate,
            ema: text.ema,
        };
        step.check()?;
        Ok(step)
    }
}

/// A loss or optimiser that has not been looked up.
struct Entry(String, Given);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, given) = keys::deserialize(deserializer)?;
        Ok(Entry(name, given))
    }
}

impl Step {
    /// Reads what serde wrote of a step, which may have layers, a loss and an optimiser that a program has added to
    /// the registry. Without these, serde reads it.
    pub fn from_json_with(text: &str, registry: &Registry) -> Result<Step, StepError> {
        let text: Text<Entry, Entry> =
            serde_json::from_str(text).map_err(|e| StepError::Text(e.to_string()))?;
        let Text {
            model,
            batch,
            dtype,
            grain,
            loss,
            optimizer,
            clip_norm,
            seed,
            kernels,
            micro_batches,
            delays,
            accumulate,
            ema,
        } = text;
        let text = Text {
            model,
            batch,
            dtype,
            grain,
            loss: registry.loss(&loss.0, &loss.1)?,
            optimizer: registry.optimizer(&optimizer.0, &optimizer.1)?,
            clip_norm,
            seed,
            kernels,
            micro_batches,
            delays,
            accumulate,
            ema,
        };
        text.step(registry)
    }
}

/// A description as JSON, which is the same wherever it is made. What has no JSON (a NaN among its numbers)
/// is told apart by its error.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| e.to_string())
}
