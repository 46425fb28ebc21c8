//! Cross-entropy of class scores, the softmax included.

use dahl_core::Mode::{Read, Write};
use dahl_core::Param;
use dahl_ops::codelets::cross_entropy;
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
        let scale = Param::Float(1.0 / tape.batch() as f64);
        for part in tape.parts() {
            let mut operands = vec![
                part.output.with(Read),
                part.targets.with(Read),
                part.losses.with(Write),
                part.correct.with(Write),
            ];
            match &part.gradient {
                Some(gradient) => {
                    operands.push(gradient.with(Write));
                    tape.submit(&cross_entropy::TRAIN, &operands, &[scale]);
                }
                None => tape.submit(&cross_entropy::EVALUATE, &operands, &[]),
            }
        }
    }
}
