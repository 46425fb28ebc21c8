//! The training loop: batches in, weights out, on any executor.
//!
//! Steps are launched without waiting for each other. Each batch size has two *phases* (input and
//! output arrays with the graph that uses them), so that the host prepares one step while another
//! computes; losses are collected when a phase is used again, always in the order of steps.

mod best;
mod evaluation;
mod events;
mod find_rate;
mod phase;
mod predict;
mod predictions;
mod resume;
mod run;
mod session;
mod totals;
pub(crate) mod versions;

pub use best::Best;
pub use evaluation::Evaluation;
pub use events::{EpochReport, Event, Progress};
pub use find_rate::{Found, RateSearch};
pub use predict::{Confusion, Scores};
pub use predictions::Predictions;
pub use session::Session;
pub use totals::Totals;

use dahl_core::ExecError;

use crate::schedule::Schedule;
use crate::step::StepError;
use dahl_data::{Augment, DataError, Normalise};

/// What decides on a training run, besides its step and its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// Passes over the data.
    pub epochs: u64,
    /// Stop after so many steps, whatever the epochs.
    pub steps: Option<u64>,
    /// Base learning rate; the optimiser's default unless set.
    pub rate: Option<f64>,
    /// How it changes.
    pub schedule: Schedule,
    /// Whether each epoch has its own order.
    pub shuffle: bool,
    /// Stop when the validation loss, or without validation the training loss, has not been lower for so many epochs.
    pub patience: Option<u64>,
    /// How training images are changed at random; as the model's file says unless set.
    pub augment: Option<Augment>,
    /// How all images are normalised, beyond the division by 255; as the model's file says unless set.
    pub normalise: Option<Normalise>,
}

impl Default for Training {
    fn default() -> Self {
        Training {
            epochs: 8,
            steps: None,
            rate: None,
            schedule: Schedule::default(),
            shuffle: true,
            patience: None,
            augment: None,
            normalise: None,
        }
    }
}

impl Training {
    /// Whether every setting is in its range, for a learning rate.
    pub(crate) fn check(&self, rate: f64) -> Result<(), TrainError> {
        for (setting, value) in [
            ("epochs", Some(self.epochs)),
            ("steps", self.steps),
            ("the patience", self.patience),
        ] {
            if value == Some(0) {
                return Err(StepError::Setting {
                    setting,
                    value: "0".into(),
                    range: "a whole number, 1 or more",
                }
                .into());
            }
        }
        Ok(self.schedule.check(rate)?)
    }

    /// Steps of the whole run, with so many an epoch.
    fn total(&self, steps: u64) -> Result<u64, TrainError> {
        let all = self.epochs.checked_mul(steps);
        match (all, self.steps) {
            (Some(all), most) => Ok(most.unwrap_or(all).min(all)),
            (None, Some(most)) => Ok(most),
            (None, None) => Err(StepError::Setting {
                setting: "epochs",
                value: self.epochs.to_string(),
                range: "so few that their steps can be counted in 64 bits",
            }
            .into()),
        }
    }
}

/// Why training stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The step cannot be lowered.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The learning rate.
    #[error(transparent)]
    Rate(#[from] crate::optim::OptimizerError),
    /// How the learning rate changes.
    #[error(transparent)]
    Schedule(#[from] crate::schedule::ScheduleError),
    /// A task failed.
    #[error("{0}")]
    Execution(ExecError),
    /// The loss is not a number any more.
    #[error(
        "the loss is {loss} in step {step} (epoch {epoch}): the weights are spoilt; try a lower learning rate"
    )]
    NotANumber {
        /// The loss.
        loss: f64,
        /// The step.
        step: u64,
        /// The epoch, counted from 1.
        epoch: u64,
    },
    /// Weights do not fit the model.
    #[error(transparent)]
    Weights(#[from] crate::weights::WeightsError),
    /// A checkpoint cannot be written or used.
    #[error(transparent)]
    Checkpoint(#[from] crate::checkpoint::CheckpointError),
}

impl From<ExecError> for TrainError {
    fn from(error: ExecError) -> Self {
        TrainError::Execution(error)
    }
}
