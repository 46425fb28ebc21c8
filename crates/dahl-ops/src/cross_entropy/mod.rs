//! Cross-entropy from logits, with its gradient and the count of correct predictions.
//!
//! Labels are class numbers, stored as elements. A label that is no class gives a loss that is not a
//! number: values are not known when a graph is recorded.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{copy_into, cross_entropy};
//!
//! let arena = Arena::new();
//! let logits = arena.from_slice([2, 2], &[3.0f64, 3.0, 0.0, 9.0])?;
//! let labels = arena.from_slice([2], &[0.0f64, 1.0])?;
//! let mut correct = arena.zeros::<f64, 0>([])?;
//!
//! let recorder = Recorder::new();
//! let result = cross_entropy(&recorder, &logits, &labels);
//! copy_into(&recorder, &result.correct, &mut correct);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&correct)?, [2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod kernel;

use dahl_core::{Call, Codelet, Cost, Matrix, Operands, Recorder, Scalar, Vector};

use crate::declare::{operands, params};
use crate::op::{Done, Op, by_type, cpu, elements, extents, like, only};
use crate::reduce::mean;
use crate::simd::Lane;

operands! {
    /// Operands of [`TRAIN`].
    Train {
        logits: one [Read] 2 "samples × classes",
        labels: one [Read] 1 "each sample's class",
        losses: one [Write] 1 "each sample's loss",
        correct: one [Write] 0 "how many samples have their largest logit at the label",
        gradient: one [Write] 2 "the gradient by the logits of the scaled sum of losses",
    }
}

operands! {
    /// Operands of [`EVALUATE`].
    Evaluate {
        logits: one [Read] 2 "samples × classes",
        labels: one [Read] 1 "each sample's class",
        losses: one [Write] 1 "each sample's loss",
        correct: one [Write] 0 "how many samples have their largest logit at the label",
    }
}

params! {
    /// The parameter of [`TRAIN`].
    Scale {
        scale: f64, "what the sum of losses is multiplied by: one over the batch for its mean";
    }
}

fn cost(call: &Call) -> Cost {
    Cost {
        flops: 20.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Losses, the count of correct predictions and the gradient of the scaled sum of losses.
pub static TRAIN: Op<Train, Scale> = Op::new(|| {
    let rule = |call: &Call| {
        let all = Train::shapes(call);
        let [_, _, batch, _] = all.logits.dims();
        all.labels.expect([1, 1, 1, batch])?;
        all.losses.expect([1, 1, 1, batch])?;
        all.gradient.expect_like(&all.logits)
    };
    Codelet::new("cross_entropy")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(train)))
});

/// Losses and the count of correct predictions.
pub static EVALUATE: Op<Evaluate> = Op::new(|| {
    let rule = |call: &Call| {
        let all = Evaluate::shapes(call);
        let [_, _, batch, _] = all.logits.dims();
        all.labels.expect([1, 1, 1, batch])?;
        all.losses.expect([1, 1, 1, batch])
    };
    let scratch = |call: &Call| {
        let [.., classes] = Evaluate::shapes(call).logits.dims();
        elements(call, classes)
    };
    Codelet::new("cross_entropy_evaluate")
        .rule(rule)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(evaluate)))
});

fn train<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, scale) = (Train::at(ops.len()), Scale::of(ops.params()).scale);
    let totals = kernel::forward_backward(
        ops.read::<T>(at.logits),
        ops.read::<T>(at.labels),
        T::from_f64(scale),
        ops.write::<T>(at.losses),
        ops.write::<T>(at.gradient),
    );
    ops.write::<T>(at.correct)
        .fill(T::from_f64(totals.correct as f64));
    Ok(())
}

fn evaluate<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = Evaluate::at(ops.len());
    let logits = ops.read::<T>(at.logits);
    let labels = ops.read::<T>(at.labels);
    let row = ops.scratch::<T>(logits.dims()[3]);
    let totals = kernel::forward(logits, labels, ops.write::<T>(at.losses), row);
    ops.write::<T>(at.correct)
        .fill(T::from_f64(totals.correct as f64));
    Ok(())
}

/// What [`cross_entropy`] returns.
#[derive(Debug)]
pub struct CrossEntropy<'r, T: Lane> {
    /// The mean of the losses.
    pub loss: Scalar<'r, T>,
    /// The loss of each sample.
    pub losses: Vector<'r, T>,
    /// How many samples have their largest logit at the label.
    pub correct: Scalar<'r, T>,
    /// The gradient of the mean loss by the logits.
    pub gradient: Matrix<'r, T>,
}

/// Loss, correct predictions and gradient of logits (samples × classes) for these labels. Forms:
/// [`cross_entropy`], [`cross_entropy_into`]; without the gradient [`cross_entropy_evaluate_into`].
#[track_caller]
pub fn cross_entropy<'r, T: Lane>(
    recorder: &'r Recorder,
    logits: &Matrix<'_, T>,
    labels: &Vector<'_, T>,
) -> CrossEntropy<'r, T> {
    let samples = extents(logits)[0];
    let mut losses = recorder.temporary([samples]);
    let mut correct = recorder.temporary([]);
    let mut gradient = like(recorder, logits);
    cross_entropy_into(
        recorder,
        logits,
        labels,
        T::from_f64(1.0 / samples as f64),
        &mut losses,
        &mut correct,
        &mut gradient,
    );
    let loss = mean(recorder, &losses);
    CrossEntropy {
        loss,
        losses,
        correct,
        gradient,
    }
}

/// The loss of each sample, the count of correct predictions, and the gradient of `scale · Σ loss`.
/// For the mean over a batch of which `logits` is a part, `scale` is one over the whole batch.
#[track_caller]
pub fn cross_entropy_into<T: Lane>(
    recorder: &Recorder,
    logits: &Matrix<'_, T>,
    labels: &Vector<'_, T>,
    scale: T,
    losses: &mut Vector<'_, T>,
    correct: &mut Scalar<'_, T>,
    gradient: &mut Matrix<'_, T>,
) {
    let operands = Train {
        logits: logits.read(),
        labels: labels.read(),
        losses: losses.write(),
        correct: correct.write(),
        gradient: gradient.write(),
    };
    let scale = scale.to_f64();
    TRAIN.submit(recorder, operands, Scale { scale });
}

/// The loss of each sample and the count of correct predictions, without the gradient.
#[track_caller]
pub fn cross_entropy_evaluate_into<T: Lane>(
    recorder: &Recorder,
    logits: &Matrix<'_, T>,
    labels: &Vector<'_, T>,
    losses: &mut Vector<'_, T>,
    correct: &mut Scalar<'_, T>,
) {
    let operands = Evaluate {
        logits: logits.read(),
        labels: labels.read(),
        losses: losses.write(),
        correct: correct.write(),
    };
    EVALUATE.submit(recorder, operands, ());
}
