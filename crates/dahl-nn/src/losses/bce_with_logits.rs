//! Binary cross-entropy of logits, the sigmoid included: several classes may be right at once.

use dahl_ops::loss::values::{BCE_WITH_LOGITS_LOSS, BCE_WITH_LOGITS_LOSS_EVALUATE};
use serde::{Deserialize, Serialize};

use super::{Criterion, Named, Targets, values};
use crate::lower::LossTape;

/// `torch.nn.BCEWithLogitsLoss`: each output is the logit of a probability, each target a probability from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BceWithLogits {}

impl Named for BceWithLogits {
    const NAME: &'static str = "bce_with_logits";
}

impl Criterion for BceWithLogits {
    fn targets(&self) -> Targets {
        Targets::Values
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        values::lower(tape, &BCE_WITH_LOGITS_LOSS, &BCE_WITH_LOGITS_LOSS_EVALUATE);
    }
}
