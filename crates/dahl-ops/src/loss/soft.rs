//! Cross-entropy with a share per class in place of one class: what mixed samples have.

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::cost;
use super::kernels::soft::losses;
use crate::cross_entropy::Scale;
use crate::declare::{Shaped, operands};
use crate::op::{Done, Op, by_type, cpu, elements, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`SOFT_CROSS_ENTROPY`].
    SoftTrain {
        logits: one [Read] 2 "samples × classes",
        shares: one [Read] 2 "each sample's share of each class, as large",
        losses: one [Write] 1 "each sample's loss",
        correct: one [Write] 0 "how many samples have their largest logit at their largest share",
        gradient: one [Write] 2 "the gradient by the logits of the scaled sum of losses, as large",
    }
}

operands! {
    /// Operands of [`SOFT_CROSS_ENTROPY_EVALUATE`].
    SoftEvaluate {
        logits: one [Read] 2 "samples × classes",
        shares: one [Read] 2 "each sample's share of each class, as large",
        losses: one [Write] 1 "each sample's loss",
        correct: one [Write] 0 "how many samples have their largest logit at their largest share",
    }
}

/// Losses, the count of correct predictions and the gradient of the scaled sum of losses.
pub static SOFT_CROSS_ENTROPY: Op<SoftTrain, Scale> = Op::new(|| {
    let check = |call: &Call| {
        let all = SoftTrain::shapes(call);
        all.gradient.expect_like(&all.logits)?;
        rule(&all.logits, &all.shares, &all.losses)
    };
    Codelet::new("soft_cross_entropy")
        .rule(check)
        .cost(cost)
        .with(only(by_type!(train)))
});

/// Losses and the count of correct predictions.
pub static SOFT_CROSS_ENTROPY_EVALUATE: Op<SoftEvaluate> = Op::new(|| {
    let check = |call: &Call| {
        let all = SoftEvaluate::shapes(call);
        rule(&all.logits, &all.shares, &all.losses)
    };
    let scratch = |call: &Call| elements(call, call.shape(0).dims4()[3]);
    Codelet::new("soft_cross_entropy_evaluate")
        .rule(check)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(evaluate)))
});

fn rule(logits: &Shaped, shares: &Shaped, losses: &Shaped) -> Result<(), String> {
    let [_, _, batch, _] = logits.dims();
    shares.expect_like(logits)?;
    losses.expect([1, 1, 1, batch])
}

fn train<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Scale { scale }) = (SoftTrain::at(ops.len()), Scale::of(ops.params()));
    let (logits, shares) = (ops.read::<T>(at.logits), ops.read(at.shares));
    let gradient = Some((T::from_f64(scale), ops.write(at.gradient)));
    let correct = losses(logits, shares, ops.write(at.losses), gradient, &mut []);
    count::<T>(ops, at.correct, correct)
}

fn evaluate<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = SoftEvaluate::at(ops.len());
    let (logits, shares) = (ops.read::<T>(at.logits), ops.read(at.shares));
    let row = ops.scratch::<T>(logits.dims()[3]);
    let correct = losses(logits, shares, ops.write(at.losses), None, row);
    count::<T>(ops, at.correct, correct)
}

fn count<T: Lane>(ops: &Operands<'_>, at: usize, correct: usize) -> Done {
    ops.write::<T>(at).fill(T::from_f64(correct as f64));
    Ok(())
}

/// Losses, correct predictions and the gradient of `scale` times the sum of losses.
#[track_caller]
pub fn soft_cross_entropy_into<T: Lane>(
    recorder: &Recorder,
    logits: &Array<'_, T, 2>,
    shares: &Array<'_, T, 2>,
    scale: f64,
    losses: &mut Array<'_, T, 1>,
    correct: &mut Array<'_, T, 0>,
    gradient: &mut Array<'_, T, 2>,
) {
    let operands = SoftTrain {
        logits: logits.read(),
        shares: shares.read(),
        losses: losses.write(),
        correct: correct.write(),
        gradient: gradient.write(),
    };
    SOFT_CROSS_ENTROPY.submit(recorder, operands, Scale { scale });
}

/// Losses and correct predictions.
#[track_caller]
pub fn soft_cross_entropy_evaluate_into<T: Lane>(
    recorder: &Recorder,
    logits: &Array<'_, T, 2>,
    shares: &Array<'_, T, 2>,
    losses: &mut Array<'_, T, 1>,
    correct: &mut Array<'_, T, 0>,
) {
    let operands = SoftEvaluate {
        logits: logits.read(),
        shares: shares.read(),
        losses: losses.write(),
        correct: correct.write(),
    };
    SOFT_CROSS_ENTROPY_EVALUATE.submit(recorder, operands, ());
}
