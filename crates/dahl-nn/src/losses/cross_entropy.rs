//! Cross-entropy of class scores, the softmax included.

use dahl_core::Mode::{Read, Reduce, Write};
use dahl_ops::cross_entropy::{EVALUATE, Evaluate, Scale, TRAIN, Train};
use dahl_ops::loss::smooth::{
    CLASS_WEIGHTS_TOTAL, CROSS_ENTROPY_SMOOTH, CROSS_ENTROPY_SMOOTH_EVALUATE, SmoothEvaluate,
    SmoothParams, SmoothTrain, SmoothTrainParams, WeightsTotal,
};
use serde::{Deserialize, Serialize};

use super::{Criterion, Named, Targets};
use crate::lower::LossTape;
use crate::model::Extent;

/// `torch.nn.CrossEntropyLoss` of class numbers.
///
/// With weights, the mean over a batch is weighted: each sample counts as much as its class. That over several
/// batches is the plain mean of theirs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossEntropy {
    /// A weight per class, 0 or more; all the same unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Vec<f64>>,
    /// The part of a label that is spread over all classes, from 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub label_smoothing: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Named for CrossEntropy {
    const NAME: &'static str = "cross_entropy";
}

impl Criterion for CrossEntropy {
    fn targets(&self) -> Targets {
        Targets::Classes
    }

    fn check(&self, output: Extent) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return Err(format!(
                "label_smoothing is {}; it must be a number from 0 to 1",
                self.label_smoothing
            ));
        }
        let (weights, classes) = (self.weight.as_deref().unwrap_or_default(), output.len());
        if self.weight.is_some() && weights.len() != classes {
            return Err(format!(
                "weight has {} numbers, the model gives {classes} classes: give one for each",
                weights.len()
            ));
        }
        match weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            Some(w) => Err(format!(
                "weight has {w}; weights are finite numbers, 0 or more"
            )),
            None if self.weight.is_some() && weights.iter().all(|w| *w == 0.0) => {
                Err("weight is 0 for every class: at least one must be above 0".into())
            }
            None => Ok(()),
        }
    }

    fn constants(&self) -> Vec<Vec<f64>> {
        self.weight.iter().cloned().collect()
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        match self.weight.is_none() && self.label_smoothing == 0.0 {
            true => plain(tape),
            false => self.lower_with_keys(tape),
        }
    }
}

/// One over the batch: what makes of a sum a mean.
fn mean(tape: &LossTape<'_>) -> f64 {
    1.0 / tape.batch() as f64
}

fn plain(tape: &mut LossTape<'_>) {
    let scale = mean(tape);
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

impl CrossEntropy {
    fn lower_with_keys(&self, tape: &mut LossTape<'_>) {
        let (batch, scale, smoothing) = (tape.batch(), mean(tape), self.label_smoothing);
        let parts = tape.parts();
        // Losses are divided by the weights of the whole batch's labels, so these are added up first.
        let weighted = self.weight.as_ref().map(|_| {
            let (weights, total) = (tape.constant(0), tape.temporary("total weight", &[]));
            for labels in tape.all_targets() {
                let operands = WeightsTotal {
                    labels: labels.with(Read),
                    weights: weights.with(Read),
                    total: total.with(Reduce),
                };
                CLASS_WEIGHTS_TOTAL.submit(tape.recorder(), operands, ());
            }
            (weights, total)
        });
        for part in &parts {
            let (logits, labels) = (part.output.with(Read), part.targets.with(Read));
            let (losses, correct) = (part.losses.with(Write), part.correct.with(Write));
            let weights = weighted.as_ref().map(|(weights, _)| weights.with(Read));
            let total = weighted.as_ref().map(|(_, total)| total.with(Read));
            match &part.gradient {
                Some(gradient) => {
                    let operands = SmoothTrain {
                        logits,
                        labels,
                        weights,
                        total,
                        losses,
                        correct,
                        gradient: gradient.with(Write),
                    };
                    let params = SmoothTrainParams {
                        smoothing,
                        batch,
                        scale,
                    };
                    CROSS_ENTROPY_SMOOTH.submit(tape.recorder(), operands, params);
                }
                None => {
                    let operands = SmoothEvaluate {
                        logits,
                        labels,
                        weights,
                        total,
                        losses,
                        correct,
                    };
                    let params = SmoothParams { smoothing, batch };
                    CROSS_ENTROPY_SMOOTH_EVALUATE.submit(tape.recorder(), operands, params);
                }
            }
        }
    }
}
