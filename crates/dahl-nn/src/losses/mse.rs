//! Mean squared error.

use dahl_ops::loss::values::{MSE_LOSS, MSE_LOSS_EVALUATE};
use serde::{Deserialize, Serialize};

use super::{Criterion, Named, Targets, values};
use crate::lower::LossTape;

/// `torch.nn.MSELoss`: the mean of the squared differences between output and target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mse {}

impl Named for Mse {
    const NAME: &'static str = "mse";
}

impl Criterion for Mse {
    fn targets(&self) -> Targets {
        Targets::Values
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        values::lower(tape, &MSE_LOSS, &MSE_LOSS_EVALUATE);
    }
}
