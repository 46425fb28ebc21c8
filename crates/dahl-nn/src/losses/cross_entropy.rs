//! Cross-entropy of class scores, the softmax included.

use dahl_core::Mode::{Read, Write};
use dahl_ops::cross_entropy::{EVALUATE, Evaluate, Scale, TRAIN, Train};
use serde::{Deserialize, Serialize};

use super::{Criterion, Named, Targets};
use crate::lower::LossTape;

/// `torch.nn.CrossEntropyLoss`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossEntropy {}

impl Named for CrossEntropy {
    const NAME: &'static str = "cross_entropy";
}

impl Criterion for CrossEntropy {
    fn targets(&self) -> Targets {
        Targets::Classes
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        let scale = 1.0 / tape.batch() as f64;
        for part in tape.parts() {
            let (logits, labels) = (part.output.with(Read), part.targets.with(Read));
            let (losses, correct) = (part.losses.with(Write), part.correct.with(Write));
            match &part.gradient {
                Some(gradient) => {
                    let operands = Train {
                        logits,
                        labels,
                        losses,
                        correct,
                        gradient: gradient.with(Write),
                    };
                    TRAIN.submit(tape.recorder(), operands, Scale { scale });
                }
                None => {
                    let operands = Evaluate {
                        logits,
                        labels,
                        losses,
                        correct,
                    };
                    EVALUATE.submit(tape.recorder(), operands, ());
                }
            }
        }
    }
}
