//! Cross-entropy of logits with labels: loss, gradient and correct predictions in one pass.
//!
//! Logits are a 1×1×B×C tile. The loss of a sample is `ln Σ eˣ − x[label]`, computed from the largest
//! logit down so that nothing overflows. A label that is no class gives a loss and a gradient that are
//! not numbers, which is noticed, rather than a panic in a worker.

use dahl_core::{View, ViewMut};

use crate::float::Float;
use crate::softmax::kernel::exponentials;

/// Totals of a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals<T> {
    /// Sum of the samples' losses.
    pub loss: T,
    /// How many samples had their largest logit (the first, if several) at the label.
    pub correct: usize,
}

/// For labels that are class numbers (1×1×1×B): losses per sample (1×1×1×B) and the gradient of `scale · Σ loss` by the logits (1×1×B×C); for
/// the mean over a batch, `scale` is one over the *whole* batch, whatever the tile.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward_backward<T: Float>(
    logits: View<'_, T>,
    labels: View<'_, T>,
    scale: T,
    mut losses: ViewMut<'_, T>,
    mut grad: ViewMut<'_, T>,
) -> Totals<T> {
    let [_, _, batch, classes] = check(logits, labels, losses.dims());
    assert_eq!(
        grad.dims(),
        logits.dims(),
        "cross-entropy: gradient extents"
    );
    let losses = losses.row([0, 0, 0]);
    let mut totals = Totals {
        loss: T::ZERO,
        correct: 0,
    };
    for (b, loss) in losses.iter_mut().enumerate().take(batch) {
        let (x, grad) = (logits.row([0, 0, b]), grad.row([0, 0, b]));
        let (sum, most) = exponentials(x, grad);
        let (factor, log) = (scale / sum, sum.ln());
        grad.iter_mut().for_each(|g| *g *= factor);
        *loss = match class(labels, b, classes) {
            Some(c) => {
                grad[c] -= scale;
                totals.correct += usize::from(first_largest(x) == c);
                log - (x[c] - most)
            }
            None => {
                grad.fill(nan());
                nan()
            }
        };
        totals.loss += *loss;
    }
    totals
}

/// Losses and totals without the gradient, for evaluation. `scratch` holds a row of classes.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than a row.
pub(crate) fn forward<T: Float>(
    logits: View<'_, T>,
    labels: View<'_, T>,
    mut losses: ViewMut<'_, T>,
    scratch: &mut [T],
) -> Totals<T> {
    let [_, _, batch, classes] = check(logits, labels, losses.dims());
    let losses = losses.row([0, 0, 0]);
    let mut totals = Totals {
        loss: T::ZERO,
        correct: 0,
    };
    for b in 0..batch {
        let mut row = ViewMut::from_slice(&mut scratch[..classes], [1, 1, 1, classes]);
        let loss = ViewMut::from_slice(&mut losses[b..=b], [1; 4]);
        let label = labels.part([0, 0, 0, b], [1; 4]);
        let x = logits.part([0, 0, b, 0], [1, 1, 1, classes]);
        let one = forward_backward(x, label, T::ONE, loss, row.reborrow());
        totals.loss += one.loss;
        totals.correct += one.correct;
    }
    totals
}

fn check<T>(logits: View<'_, T>, labels: View<'_, T>, losses: [usize; 4]) -> [usize; 4] {
    let dims = logits.dims();
    let [a, b, batch, _] = dims;
    assert_eq!([a, b], [1, 1], "cross-entropy: logits are not a matrix");
    assert_eq!(losses, [1, 1, 1, batch], "cross-entropy: loss extents");
    assert_eq!(labels.dims(), losses, "cross-entropy: label extents");
    dims
}

/// Not a number.
pub(crate) fn nan<T: Float>() -> T {
    T::from_f64(f64::NAN)
}

/// The class of sample `b`, if its label is one.
pub(crate) fn class<T: Float>(of: View<'_, T>, b: usize, classes: usize) -> Option<usize> {
    let label = of.row([0, 0, 0])[b].to_f64();
    // Not-a-number fails both comparisons.
    (label >= 0.0 && label < classes as f64 && label.fract() == 0.0).then_some(label as usize)
}

/// The first position of the largest element; not-a-number counts as largest.
pub(crate) fn first_largest<T: Float>(x: &[T]) -> usize {
    let mut best = 0;
    for (i, &v) in x.iter().enumerate() {
        if v > x[best] || (v.is_nan() && !x[best].is_nan()) {
            best = i;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;

    const X: [f64; 8] = [0.5, -1.0, 2.0, 0.0, 3.0, 3.0, -2.0, 1.0];

    fn run(x: &[f64], labels: &[f64], scale: f64) -> (Vec<f64>, Vec<f64>, Totals<f64>) {
        let (mut losses, mut grad) = (vec![0.0; 2], vec![0.0; 8]);
        let labels = View::from_slice(labels, [1, 1, 1, 2]);
        let logits = View::from_slice(x, [1, 1, 2, 4]);
        let lossv = ViewMut::from_slice(&mut losses, [1, 1, 1, 2]);
        let gradv = ViewMut::from_slice(&mut grad, [1, 1, 2, 4]);
        let totals = forward_backward(logits, labels, scale, lossv, gradv);
        let (mut again, mut scratch) = (vec![0.0; 2], vec![0.0; 4]);
        let same = forward(
            logits,
            labels,
            ViewMut::from_slice(&mut again, [1, 1, 1, 2]),
            &mut scratch,
        );
        assert_close("without gradient", &again, &losses, 0.0, 0);
        assert_eq!(same.correct, totals.correct);
        (losses, grad, totals)
    }

    #[test]
    fn gradients_match_finite_differences() {
        let (labels, h) = ([2.0, 1.0], 1e-6);
        let (_, grad, _) = run(&X, &labels, 0.5);
        let differences: Vec<f64> = (0..8)
            .map(|k| {
                let (mut up, mut down) = (X, X);
                up[k] += h;
                down[k] -= h;
                0.5 * (run(&up, &labels, 0.5).2.loss - run(&down, &labels, 0.5).2.loss) / (2.0 * h)
            })
            .collect();
        assert_close("gradient", &grad, &differences, 1e-8, 0);
    }

    #[test]
    fn ties_go_to_the_first() {
        assert_eq!(run(&X, &[2.0, 0.0], 1.0).2.correct, 2);
        assert_eq!(run(&X, &[2.0, 1.0], 1.0).2.correct, 1);
    }

    #[test]
    fn extreme_logits_and_wrong_labels() {
        let x = [1e30, 0.0, -1e30, 0.0, 0.0, 0.0, 0.0, 0.0];
        let (losses, grad, _) = run(&x, &[0.0, 3.0], 1.0);
        assert_eq!(losses[0], 0.0);
        assert!(grad.iter().all(|g| g.is_finite()));
        for wrong in [-1.0, 4.0, 0.5] {
            let (losses, grad, totals) = run(&X, &[wrong, 0.0], 1.0);
            assert!(losses[0].is_nan() && grad[..4].iter().all(|g| g.is_nan()));
            assert!(losses[1].is_finite() && totals.correct == 1);
        }
    }
}
