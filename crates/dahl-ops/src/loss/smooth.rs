//! Cross-entropy with label smoothing and class weights; `kernels::smooth` has the equations.
//!
//! Without weights there is no total. With weights, [`CLASS_WEIGHTS_TOTAL`] first adds up the weights of the
//! whole batch's labels, and each loss is multiplied by `batch / total`, so that their plain mean is PyTorch's
//! weighted one. Weights without a total give losses that are not divided by anything.

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::cost;
use super::kernels::smooth::{Smooth, losses, total};
use crate::declare::{Shaped, operands, params};
use crate::op::{Done, Op, by_type, cpu, elements, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`CROSS_ENTROPY_SMOOTH`].
    SmoothTrain {
        logits: one [Read] 2 "samples × classes",
        labels: one [Read] 1 "each sample's class",
        weights: maybe [Read] 1 "each class's weight",
        total: maybe [Read] 0 "the sum of the weights of the whole batch's labels",
        losses: one [Write] 1 "each sample's loss",
        correct: one [Write] 0 "how many samples have their largest logit at the label",
        gradient: one [Write] 2 "the gradient by the logits of the scaled sum of losses",
    }
}

operands! {
    /// Operands of [`CROSS_ENTROPY_SMOOTH_EVALUATE`].
    SmoothEvaluate {
        logits: one [Read] 2 "samples × classes",
        labels: one [Read] 1 "each sample's class",
        weights: maybe [Read] 1 "each class's weight",
        total: maybe [Read] 0 "the sum of the weights of the whole batch's labels",
        losses: one [Write] 1 "each sample's loss",
        correct: one [Write] 0 "how many samples have their largest logit at the label",
    }
}

operands! {
    /// Operands of [`CLASS_WEIGHTS_TOTAL`].
    WeightsTotal {
        labels: one [Read] 1 "each sample's class",
        weights: one [Read] 1 "each class's weight",
        total: one [Reduce|ReadWrite] 0 "the sum of the labels' weights, added to",
    }
}

params! {
    /// Parameters of [`CROSS_ENTROPY_SMOOTH`].
    SmoothTrainParams {
        smoothing: f64, "the part of a label that is spread over all classes, from 0 to 1";
        batch: usize, "how many samples the whole batch has";
        scale: f64, "what the sum of losses is multiplied by: one over the batch for its mean";
    }
}

params! {
    /// Parameters of [`CROSS_ENTROPY_SMOOTH_EVALUATE`].
    SmoothParams {
        smoothing: f64, "the part of a label that is spread over all classes, from 0 to 1";
        batch: usize, "how many samples the whole batch has";
    }
}

/// Losses, the count of correct predictions and the gradient of the scaled sum of losses.
pub static CROSS_ENTROPY_SMOOTH: Op<SmoothTrain, SmoothTrainParams> = Op::new(|| {
    let check = |call: &Call| {
        let all = SmoothTrain::shapes(call);
        rule(
            &all.logits,
            [&all.labels, &all.losses],
            all.weights.as_ref(),
        )?;
        all.gradient.expect_like(&all.logits)?;
        part(SmoothTrainParams::of(&call.params).smoothing)
    };
    Codelet::new("cross_entropy_smooth")
        .rule(check)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(train)))
});

/// Losses and the count of correct predictions.
pub static CROSS_ENTROPY_SMOOTH_EVALUATE: Op<SmoothEvaluate, SmoothParams> = Op::new(|| {
    let check = |call: &Call| {
        let all = SmoothEvaluate::shapes(call);
        rule(
            &all.logits,
            [&all.labels, &all.losses],
            all.weights.as_ref(),
        )?;
        part(SmoothParams::of(&call.params).smoothing)
    };
    Codelet::new("cross_entropy_smooth_evaluate")
        .rule(check)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(evaluate)))
});

/// `total += Σ weights[label]`
pub static CLASS_WEIGHTS_TOTAL: Op<WeightsTotal> = Op::new(|| {
    Codelet::new("class_weights_total")
        .cost(cost)
        .with(only(by_type!(add_total)))
});

fn rule(logits: &Shaped, rows: [&Shaped; 2], weights: Option<&Shaped>) -> Result<(), String> {
    let [_, _, batch, classes] = logits.dims();
    rows.iter().try_for_each(|r| r.expect([1, 1, 1, batch]))?;
    weights.map_or(Ok(()), |w| w.expect([1, 1, 1, classes]))
}

fn part(smoothing: f64) -> Result<(), String> {
    match (0.0..=1.0).contains(&smoothing) {
        true => Ok(()),
        false => Err(format!(
            "smoothing is {smoothing}, expected a number from 0 to 1"
        )),
    }
}

/// A row of classes.
fn scratch(call: &Call) -> usize {
    elements(call, call.shape(0).dims4()[3])
}

/// What a loss is made of, and its two inputs' positions left to the caller.
fn with<'a, T: Lane>(
    ops: &'a Operands<'_>,
    weights: Option<usize>,
    total: Option<usize>,
    SmoothParams { smoothing, batch }: SmoothParams,
) -> Smooth<'a, T> {
    let share = total.map_or(T::ONE, |t| {
        T::from_f64(batch as f64) / ops.read::<T>(t).at([0; 4])
    });
    Smooth {
        weights: weights.map(|w| ops.read::<T>(w)),
        share,
        smoothing: T::from_f64(smoothing),
    }
}

fn train<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = SmoothTrain::at(ops.len());
    let SmoothTrainParams {
        smoothing,
        batch,
        scale,
    } = SmoothTrainParams::of(ops.params());
    let of = with::<T>(ops, at.weights, at.total, SmoothParams { smoothing, batch });
    let logits = ops.read::<T>(at.logits);
    let gradient = Some((T::from_f64(scale), ops.write(at.gradient)));
    let row = ops.scratch::<T>(logits.dims()[3]);
    let labels = ops.read(at.labels);
    let correct = losses(logits, labels, of, ops.write(at.losses), gradient, row);
    ops.write::<T>(at.correct).fill(T::from_f64(correct as f64));
    Ok(())
}

fn evaluate<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = SmoothEvaluate::at(ops.len());
    let of = with::<T>(ops, at.weights, at.total, SmoothParams::of(ops.params()));
    let logits = ops.read::<T>(at.logits);
    let row = ops.scratch::<T>(logits.dims()[3]);
    let labels = ops.read(at.labels);
    let correct = losses(logits, labels, of, ops.write(at.losses), None, row);
    ops.write::<T>(at.correct).fill(T::from_f64(correct as f64));
    Ok(())
}

fn add_total<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = WeightsTotal::at(ops.len());
    let sum = total(ops.read::<T>(at.labels), ops.read(at.weights));
    ops.write::<T>(at.total).row([0, 0, 0])[0] += sum;
    Ok(())
}

/// Class weights, and the sum of the weights of the whole batch's labels.
#[derive(Clone, Copy, Debug)]
pub struct ClassWeights<'a, 'r, T: Lane> {
    /// Each class's weight.
    pub weights: &'a Array<'r, T, 1>,
    /// What [`class_weights_total_reduce`] added up.
    pub total: &'a Array<'r, T, 0>,
}

/// The weights of these labels, added to `total`.
#[track_caller]
pub fn class_weights_total_reduce<T: Lane>(
    recorder: &Recorder,
    labels: &Array<'_, T, 1>,
    weights: &Array<'_, T, 1>,
    total: &mut Array<'_, T, 0>,
) {
    let operands = WeightsTotal {
        labels: labels.read(),
        weights: weights.read(),
        total: total.reduce(),
    };
    CLASS_WEIGHTS_TOTAL.submit(recorder, operands, ());
}

/// Losses, correct predictions and the gradient of the scaled sum of losses.
#[allow(clippy::too_many_arguments)]
#[track_caller]
pub fn cross_entropy_smooth_into<T: Lane>(
    recorder: &Recorder,
    logits: &Array<'_, T, 2>,
    labels: &Array<'_, T, 1>,
    weights: Option<ClassWeights<'_, '_, T>>,
    params: SmoothTrainParams,
    losses: &mut Array<'_, T, 1>,
    correct: &mut Array<'_, T, 0>,
    gradient: &mut Array<'_, T, 2>,
) {
    let operands = SmoothTrain {
        logits: logits.read(),
        labels: labels.read(),
        weights: weights.map(|w| w.weights.read()),
        total: weights.map(|w| w.total.read()),
        losses: losses.write(),
        correct: correct.write(),
        gradient: gradient.write(),
    };
    CROSS_ENTROPY_SMOOTH.submit(recorder, operands, params);
}

/// Losses and correct predictions.
#[track_caller]
pub fn cross_entropy_smooth_evaluate_into<T: Lane>(
    recorder: &Recorder,
    logits: &Array<'_, T, 2>,
    labels: &Array<'_, T, 1>,
    weights: Option<ClassWeights<'_, '_, T>>,
    params: SmoothParams,
    losses: &mut Array<'_, T, 1>,
    correct: &mut Array<'_, T, 0>,
) {
    let operands = SmoothEvaluate {
        logits: logits.read(),
        labels: labels.read(),
        weights: weights.map(|w| w.weights.read()),
        total: weights.map(|w| w.total.read()),
        losses: losses.write(),
        correct: correct.write(),
    };
    CROSS_ENTROPY_SMOOTH_EVALUATE.submit(recorder, operands, params);
}
