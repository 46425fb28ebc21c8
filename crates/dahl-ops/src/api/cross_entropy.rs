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

use std::sync::Arc;

use dahl_core::{Codelet, Matrix, Param, Recorder, Scalar, Vector};

use super::{extents, like, mean, submit, submit_checked};
use crate::codelets::{self, Lazy, expect_dims, expect_operands};
use crate::simd::Lane;

/// The evaluating codelet's rule leaves what it writes to its users.
static EVALUATE: Lazy = Lazy::new(|| {
    Arc::new(Codelet::new("cross_entropy_evaluate").rule(|call| {
        expect_operands(call, &[4])?;
        let [a, b, batch, _] = call.shape(0).dims4();
        expect_dims(call, 1, "labels", [a, b, 1, batch])?;
        expect_dims(call, 2, "losses", [a, b, 1, batch])?;
        expect_dims(call, 3, "correct", [1; 4])
    }))
});

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
    let scale = T::from_f64(1.0 / samples as f64);
    cross_entropy_into(
        recorder,
        logits,
        labels,
        scale,
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
    let operands = [
        logits.read(),
        labels.read(),
        losses.write(),
        correct.write(),
        gradient.write(),
    ];
    let scale = Param::Float(scale.to_f64());
    submit(
        recorder,
        &codelets::cross_entropy::TRAIN,
        &operands,
        &[scale],
    );
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
    let operands = [
        logits.read(),
        labels.read(),
        losses.write(),
        correct.write(),
    ];
    let codelet = &codelets::cross_entropy::EVALUATE;
    submit_checked(recorder, codelet, &EVALUATE, &operands, &[]);
}
