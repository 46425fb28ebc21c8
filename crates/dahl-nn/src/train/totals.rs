//! Sums over the samples of an epoch or an evaluation.

use dahl_core::{ExecError, Executor};

use super::phase::Collect;
use crate::lower::state::Io;

/// Sums over the samples seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Of losses.
    pub loss: f64,
    /// Of correct predictions; none where the loss has no classes.
    pub correct: Option<f64>,
    /// Of samples.
    pub samples: u64,
}

impl Totals {
    /// The mean loss.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.samples.max(1) as f64
    }

    /// The share of correct predictions; none where the loss has no classes.
    pub fn accuracy(&self) -> Option<f64> {
        self.correct.map(|right| right / self.samples.max(1) as f64)
    }
}

impl Collect for Totals {
    fn collect(
        &mut self,
        exec: &mut dyn Executor,
        io: &Io,
        samples: usize,
    ) -> Result<(), ExecError> {
        exec.read(&io.losses, &mut |v| self.loss += v.sum())?;
        if io.classes {
            let correct = self.correct.get_or_insert(0.0);
            exec.read(&io.correct, &mut |v| *correct += v.sum())?;
        }
        self.samples += samples as u64;
        Ok(())
    }
}
