//! Losses between scores and targets of the same extents: MSE, L1 and BCE with logits.
//!
//! The loss of a sample is the mean over its elements. Samples are the first extent of an image, or the rows
//! of features: as many as there are losses.

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::cost;
use super::kernels::values::{losses, sample};
use crate::activation::special::Special;
use crate::cross_entropy::Scale;
use crate::declare::{Shaped, operands};
use crate::op::{Done, Op, by_type, only};
use crate::simd::Lane;

pub use super::kernels::values::Distance;

operands! {
    /// Operands of a loss in training.
    ValuesTrain {
        scores: one [Read] any "what the model gives, samples first",
        targets: one [Read] any "what was wanted, as large",
        losses: one [Write] 1 "each sample's loss",
        gradient: one [Write] any "the gradient by the scores of the scaled sum of losses, as large",
    }
}

operands! {
    /// Operands of a loss in evaluation.
    ValuesEvaluate {
        scores: one [Read] any "what the model gives, samples first",
        targets: one [Read] any "what was wanted, as large",
        losses: one [Write] 1 "each sample's loss",
    }
}

/// The mean of `(s − t)²`.
pub static MSE_LOSS: Op<ValuesTrain, Scale> =
    Op::new(|| training("mse_loss").with(only(by_type!(mse))));

/// The same without the gradient.
pub static MSE_LOSS_EVALUATE: Op<ValuesEvaluate> =
    Op::new(|| evaluation("mse_loss_evaluate").with(only(by_type!(mse_evaluate))));

/// The mean of `|s − t|`.
pub static L1_LOSS: Op<ValuesTrain, Scale> =
    Op::new(|| training("l1_loss").with(only(by_type!(l1))));

/// The same without the gradient.
pub static L1_LOSS_EVALUATE: Op<ValuesEvaluate> =
    Op::new(|| evaluation("l1_loss_evaluate").with(only(by_type!(l1_evaluate))));

/// The mean binary cross-entropy of logits with probabilities.
pub static BCE_WITH_LOGITS_LOSS: Op<ValuesTrain, Scale> =
    Op::new(|| training("bce_with_logits_loss").with(only(by_type!(bce))));

/// The same without the gradient.
pub static BCE_WITH_LOGITS_LOSS_EVALUATE: Op<ValuesEvaluate> =
    Op::new(|| evaluation("bce_with_logits_loss_evaluate").with(only(by_type!(bce_evaluate))));

fn rule(scores: &Shaped, targets: &Shaped, losses: &Shaped) -> Result<(), String> {
    targets.expect_like(scores)?;
    let [.., samples] = losses.dims();
    match sample(scores.dims(), samples) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{} has {samples} samples, {} has shape {}",
            losses.name, scores.name, scores.shape
        )),
    }
}

fn training(name: &str) -> Codelet {
    let rule = |call: &Call| {
        let all = ValuesTrain::shapes(call);
        rule(&all.scores, &all.targets, &all.losses)?;
        all.gradient.expect_like(&all.scores)
    };
    Codelet::new(name).rule(rule).cost(cost)
}

fn evaluation(name: &str) -> Codelet {
    let rule = |call: &Call| {
        let all = ValuesEvaluate::shapes(call);
        rule(&all.scores, &all.targets, &all.losses)
    };
    Codelet::new(name).rule(rule).cost(cost)
}

fn train<T: Lane + Special>(ops: &Operands<'_>, distance: Distance) -> Done {
    let at = ValuesTrain::at(ops.len());
    let Scale { scale } = Scale::of(ops.params());
    let (scores, targets) = (ops.read::<T>(at.scores), ops.read(at.targets));
    let gradient = Some((T::from_f64(scale), ops.write(at.gradient)));
    losses(distance, scores, targets, ops.write(at.losses), gradient);
    Ok(())
}

fn evaluate<T: Lane + Special>(ops: &Operands<'_>, distance: Distance) -> Done {
    let at = ValuesEvaluate::at(ops.len());
    let (scores, targets) = (ops.read::<T>(at.scores), ops.read(at.targets));
    losses(distance, scores, targets, ops.write(at.losses), None);
    Ok(())
}

macro_rules! bodies {
    ($($train:ident, $evaluate:ident: $distance:ident;)+) => {
        $(fn $train<T: Lane + Special>(ops: &Operands<'_>) -> Done {
            train::<T>(ops, Distance::$distance)
        }
        fn $evaluate<T: Lane + Special>(ops: &Operands<'_>) -> Done {
            evaluate::<T>(ops, Distance::$distance)
        })+
    };
}

bodies! {
    mse, mse_evaluate: Mse;
    l1, l1_evaluate: L1;
    bce, bce_evaluate: BceWithLogits;
}

/// The functions of a loss, from its statics.
macro_rules! forms {
    ($($about:literal, $train:ident: $into:ident; $evaluate:ident: $evaluate_into:ident;)+) => {
        $(
        #[doc = concat!($about, ": each sample's loss, and the gradient of `scale` times their sum.")]
        #[track_caller]
        pub fn $into<T: Lane, const R: usize>(
            recorder: &Recorder,
            scores: &Array<'_, T, R>,
            targets: &Array<'_, T, R>,
            scale: f64,
            losses: &mut Array<'_, T, 1>,
            gradient: &mut Array<'_, T, R>,
        ) {
            let operands = ValuesTrain {
                scores: scores.read(),
                targets: targets.read(),
                losses: losses.write(),
                gradient: gradient.write(),
            };
            $train.submit(recorder, operands, Scale { scale });
        }

        #[doc = concat!($about, ": each sample's loss.")]
        #[track_caller]
        pub fn $evaluate_into<T: Lane, const R: usize>(
            recorder: &Recorder,
            scores: &Array<'_, T, R>,
            targets: &Array<'_, T, R>,
            losses: &mut Array<'_, T, 1>,
        ) {
            let operands = ValuesEvaluate {
                scores: scores.read(),
                targets: targets.read(),
                losses: losses.write(),
            };
            $evaluate.submit(recorder, operands, ());
        })+
    };
}

forms! {
    "Mean squared error",
    MSE_LOSS: mse_loss_into; MSE_LOSS_EVALUATE: mse_loss_evaluate_into;
    "Mean absolute error",
    L1_LOSS: l1_loss_into; L1_LOSS_EVALUATE: l1_loss_evaluate_into;
    "Binary cross-entropy of logits with probabilities",
    BCE_WITH_LOGITS_LOSS: bce_with_logits_loss_into;
    BCE_WITH_LOGITS_LOSS_EVALUATE: bce_with_logits_loss_evaluate_into;
}
