//! What a run tells while it goes on, and what it leaves.

use dahl_core::Executor;

use super::{Session, Totals, TrainError};
use crate::checkpoint::CheckpointError;
use crate::weights::Weights;

/// Something that happened in a run.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A step has been launched.
    Step {
        /// The epoch, counted from 1.
        epoch: u64,
        /// Steps launched in this epoch.
        step: u64,
        /// Steps an epoch has.
        steps: u64,
        /// Steps of the whole run.
        total: u64,
        /// The learning rate of this step.
        rate: f64,
        /// What has been collected of this epoch; a step or two behind.
        totals: Totals,
    },
    /// An epoch has ended, or the run within one.
    Epoch(EpochReport),
    /// A checkpoint has been written.
    Checkpoint,
    /// A checkpoint could not be written, [`Progress::unsaved`] says why. The run goes on unless its watcher breaks,
    /// and tries again when the next one is due.
    CheckpointFailed,
}

/// How an epoch went.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// As seen during training.
    pub train: Totals,
    /// On the validation set, after the epoch.
    pub validation: Option<Totals>,
}

/// An event, and what a watcher may reach while the run waits for it.
pub struct Progress<'a> {
    /// What happened.
    pub event: Event,
    pub(super) session: &'a Session,
    pub(super) exec: &'a mut dyn Executor,
}

impl Progress<'_> {
    /// The weights after all steps launched so far; waits for them.
    pub fn weights(&mut self) -> Result<Weights, TrainError> {
        self.session.weights(self.exec)
    }

    /// Why the last checkpoint could not be written.
    pub fn unsaved(&self) -> Option<&CheckpointError> {
        self.session.unsaved()
    }

    /// The epoch that has just ended, if that is what happened.
    pub fn epoch(&self) -> Option<EpochReport> {
        match self.event {
            Event::Epoch(report) => Some(report),
            _ => None,
        }
    }
}
