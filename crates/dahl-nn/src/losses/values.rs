//! What losses between arrays share: each sample's output against as many numbers.

use dahl_core::Mode::{Read, Write};
use dahl_ops::cross_entropy::Scale;
use dahl_ops::loss::values::{ValuesEvaluate, ValuesTrain};
use dahl_ops::op::Op;

use crate::lower::LossTape;

/// Submits the tasks of a loss with these codelets. There are no classes, so no prediction is right or wrong.
pub(super) fn lower(
    tape: &LossTape<'_>,
    train: &Op<ValuesTrain, Scale>,
    evaluate: &Op<ValuesEvaluate>,
) {
    let scale = 1.0 / tape.batch() as f64;
    for part in tape.parts() {
        let (scores, targets) = (part.output.with(Read), part.targets.with(Read));
        let losses = part.losses.with(Write);
        match &part.gradient {
            Some(gradient) => {
                let gradient = gradient.with(Write);
                let operands = ValuesTrain {
                    scores,
                    targets,
                    losses,
                    gradient,
                };
                train.submit(tape.recorder(), operands, Scale { scale });
            }
            None => {
                let operands = ValuesEvaluate {
                    scores,
                    targets,
                    losses,
                };
                evaluate.submit(tape.recorder(), operands, ());
            }
        }
    }
}
