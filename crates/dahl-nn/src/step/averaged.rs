//! Batches in parts, and averages of weights: what a step does beside one pass and one update.

use super::{Step, StepError};
use crate::lower::tiles::Piece;
use crate::optim::Optimizer;

/// What an average of a parameter is called among the arrays that are kept for it.
pub(crate) const AVERAGE: &str = "average";

impl Step {
    /// Whether the parts of the batch and the decay of the average are in their ranges.
    pub(super) fn check_parts(&self) -> Result<(), StepError> {
        if self.accumulate == 0 || !self.batch.is_multiple_of(self.accumulate) {
            return Err(StepError::Setting {
                setting: "the number of parts of a batch",
                value: format!("{} of {} samples", self.accumulate, self.batch),
                range: "1 or more, and divide the batch",
            });
        }
        if self.accumulate > 1 && (self.micro_batches > 1 || self.versions() > 1) {
            return Err(StepError::Setting {
                setting: "the number of parts of a batch",
                value: self.accumulate.to_string(),
                range: "1 in a pipeline, whose micro-batches take its place",
            });
        }
        match self.ema.filter(|decay| !(0.0..1.0).contains(decay)) {
            None => Ok(()),
            Some(decay) => Err(StepError::Setting {
                setting: "the decay of the average of weights",
                value: decay.to_string(),
                range: "at least 0 and below 1",
            }),
        }
    }

    /// The parts in which so many samples are computed: as large as those of a whole batch, and a smaller one at the end.
    pub(crate) fn parts(&self, samples: usize) -> Vec<Piece> {
        let each = self.batch / self.accumulate.clamp(1, self.batch);
        let starts = (0..samples).step_by(each.max(1));
        starts.map(|n| (n, samples.min(n + each))).collect()
    }

    /// Names of the arrays that are kept for each trained parameter: the optimiser's, and the average behind them.
    pub(crate) fn slots(&self) -> Vec<&'static str> {
        let mut names = self.optimizer.state_slots();
        names.extend(self.ema.map(|_| AVERAGE));
        names
    }

    /// How many values an update reads, and where among them the weight of new parameters in the average is.
    pub(crate) fn value_count(&self) -> (usize, Option<usize>) {
        let own = self.optimizer.values(0.0, 1).len().max(Optimizer::VALUES);
        match self.ema {
            None => (own, None),
            Some(_) => (own + 1, Some(own)),
        }
    }

    /// The values of an update, counted from 1, for a learning rate. The first one takes weights as they are for their
    /// average.
    pub(crate) fn values(&self, rate: f64, update: u64) -> Vec<f64> {
        let mut values = self.optimizer.values(rate, update);
        if let (Some(decay), (_, Some(place))) = (self.ema, self.value_count()) {
            values.resize(place, 0.0);
            values.push(if update == 1 { 1.0 } else { 1.0 - decay });
        }
        values
    }
}
