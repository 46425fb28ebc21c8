//! A step as it is written down: the model as the text of its file, the grain as people write it.

use dahl_core::DType;
use serde::{Deserialize, Serialize};

use super::{Kernels, Step, StepError};
use crate::losses::Loss;
use crate::model::Model;
use crate::optim::Optimizer;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    model: String,
    batch: usize,
    dtype: DType,
    grain: String,
    loss: Loss,
    optimizer: Optimizer,
    clip_norm: Option<f64>,
    seed: u64,
    kernels: Kernels,
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
        }
    }
}

impl TryFrom<Text> for Step {
    type Error = StepError;

    fn try_from(text: Text) -> Result<Step, StepError> {
        let step = Step {
            model: Model::from_toml(&text.model, "the step's model")?,
            batch: text.batch,
            dtype: text.dtype,
            grain: text.grain.parse()?,
            loss: text.loss,
            optimizer: text.optimizer,
            clip_norm: text.clip_norm,
            seed: text.seed,
            kernels: text.kernels,
        };
        step.check()?;
        Ok(step)
    }
}

/// A description as JSON, which is the same wherever it is made. What has no JSON (a NaN among its numbers)
/// is told apart by its error.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| e.to_string())
}
