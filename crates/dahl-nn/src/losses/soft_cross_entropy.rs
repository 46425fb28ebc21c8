//! Cross-entropy with a share per class, the softmax included.

use dahl_core::Mode::{Read, Write};
use dahl_ops::cross_entropy::Scale;
use dahl_ops::loss::soft::{
    SOFT_CROSS_ENTROPY, SOFT_CROSS_ENTROPY_EVALUATE, SoftEvaluate, SoftTrain,
};
use serde::{Deserialize, Serialize};

use super::{Criterion, Named, Targets};
use crate::lower::LossTape;

/// `torch.nn.CrossEntropyLoss` of class probabilities: what mixed samples need. Class numbers of a data set count as
/// shares of 1; a prediction is right where the largest score is that of the largest share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftCrossEntropy {}

impl Named for SoftCrossEntropy {
    const NAME: &'static str = "soft_cross_entropy";
}

impl Criterion for SoftCrossEntropy {
    fn targets(&self) -> Targets {
        Targets::Shares
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        let scale = 1.0 / tape.batch() as f64;
        for part in tape.parts() {
            let (logits, shares) = (part.output.with(Read), part.targets.with(Read));
            let (losses, correct) = (part.losses.with(Write), part.correct.with(Write));
            match &part.gradient {
                Some(gradient) => {
                    let operands = SoftTrain {
                        logits,
                        shares,
                        losses,
                        correct,
                        gradient: gradient.with(Write),
                    };
                    SOFT_CROSS_ENTROPY.submit(tape.recorder(), operands, Scale { scale });
                }
                None => {
                    let operands = SoftEvaluate {
                        logits,
                        shares,
                        losses,
                        correct,
                    };
                    SOFT_CROSS_ENTROPY_EVALUATE.submit(tape.recorder(), operands, ());
                }
            }
        }
    }
}
