//! The training loop: batches in, weights out, on any executor.
//!
//! Steps are launched without waiting for each other. Each batch size has two *phases* (input and
//! output arrays with the graph that uses them), so that the host prepares one step while another
//! computes; losses are collected when a phase is used again, always in the order of steps.

mod phase;
mod session;

pub use phase::{LARGE, Totals};
pub use session::{Event, Session};

use dahl_core::{DType, ExecError};

use crate::lower::Profile;
use crate::lower::grain::Grain;
use crate::optim::Optimizer;
use crate::schedule::Schedule;
use dahl_data::DataError;

/// What decides on a training run, besides model and data.
#[derive(Clone, Debug)]
pub struct Training {
    /// Samples per step.
    pub batch: usize,
    /// Passes over the data.
    pub epochs: u64,
    /// Stop after so many steps, whatever the epochs.
    pub steps: Option<u64>,
    /// Base learning rate.
    pub rate: f64,
    /// How it changes.
    pub schedule: Schedule,
    /// The optimiser.
    pub optimizer: Optimizer,
    /// Whether each epoch has its own order.
    pub shuffle: bool,
    /// Key of everything random.
    pub seed: u64,
    /// Element type.
    pub dtype: DType,
    /// Task sizes.
    pub grain: Grain,
    /// Gradients are scaled to this global norm where it is larger.
    pub clip: Option<f64>,
    /// Who chooses implementations; static costs unless set.
    pub profile: Option<Profile>,
    /// Who adds implementations for other kinds of units; nobody unless set.
    pub extra: Option<dahl_core::graph::Extra>,
}

/// Why training stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model cannot be lowered.
    #[error(transparent)]
    Graph(#[from] dahl_core::GraphError),
    /// Memory.
    #[error(transparent)]
    Memory(#[from] dahl_core::ArenaError),
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
