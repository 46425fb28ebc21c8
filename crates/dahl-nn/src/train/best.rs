//! The best epoch so far, and whether it is worth going on.

use super::{EpochReport, Session};

/// The epoch with the lowest loss so far: on the validation set, or without one while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Its loss.
    pub loss: f64,
}

impl Session {
    /// The best epoch so far, those before a checkpoint included.
    pub fn best(&self) -> Option<Best> {
        self.best
    }

    /// Whether the last run ended because no epoch had been better for too long ([`super::Training::patience`]).
    pub fn stopped_early(&self) -> bool {
        let last = self.best.zip(self.training.patience);
        last.is_some_and(|(best, patience)| self.epoch.saturating_sub(best.epoch) >= patience)
    }

    /// Whether an epoch is the best so far; remembers it.
    pub(super) fn is_best(&mut self, report: &EpochReport) -> bool {
        let loss = report.validation.unwrap_or(report.train).mean_loss();
        let is_better = self.best.is_none_or(|best| loss < best.loss);
        if is_better {
            let epoch = report.epoch;
            self.best = Some(Best { epoch, loss });
        }
        is_better
    }
}
