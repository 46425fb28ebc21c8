//! Mean absolute error.

use dahl_ops::loss::values::{L1_LOSS, L1_LOSS_EVALUATE};
use serde::{Deserialize, Serialize};

use super::{Criterion, Named, Targets, values};
use crate::lower::LossTape;

/// `torch.nn.L1Loss`: the mean of the distances between output and target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct L1 {}

impl Named for L1 {
    const NAME: &'static str = "l1";
}

impl Criterion for L1 {
    fn targets(&self) -> Targets {
        Targets::Values
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        values::lower(tape, &L1_LOSS, &L1_LOSS_EVALUATE);
    }
}
