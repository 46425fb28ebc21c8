//! Cross-entropy with label smoothing and class weights, as PyTorch defines them.
//!
//! ```text
//!     nll(c) = ln Σ eˣ − x[c]          of a sample with label y, ε the smoothing, C classes, weights w
//!     loss = (1 − ε) · w[y] · nll(y) + ε/C · Σ w[c] · nll(c)
//! ```
//!
//! The mean over a batch divides by the sum of its samples' `w[y]` rather than by their number. A task
//! sees some samples only: [`total`] adds up their weights first, and every sample's loss is then multiplied
//! by `batch / total`, so that the plain mean over the batch is PyTorch's. Without class weights all are 1
//! and there is no total. A label that is no class gives a loss and a gradient that are not numbers.

use dahl_core::{View, ViewMut};

use crate::cross_entropy::kernel::{class, first_largest, nan};
use crate::float::Float;
use crate::softmax::kernel::exponentials;

/// What a loss is made of beside logits and labels.
#[derive(Clone, Copy)]
pub(crate) struct Smooth<'a, T> {
    /// A weight per class, 1×1×1×C; all 1 if there are none.
    pub weights: Option<View<'a, T>>,
    /// What each loss is multiplied by: the number of samples of the whole batch over their weights' sum.
    pub share: T,
    /// The part of a label that is spread over all classes.
    pub smoothing: T,
}

/// The sum of the weights of these samples' classes; not-a-number if a label is no class.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn total<T: Float>(labels: View<'_, T>, weights: View<'_, T>) -> T {
    let [a, b, c, samples] = labels.dims();
    assert_eq!([a, b, c], [1; 3], "cross-entropy: label extents");
    let weights = weights.row([0, 0, 0]);
    let of = |n: usize| class(labels, n, weights.len()).map_or(f64::NAN, |c| weights[c].to_f64());
    // In double precision: a batch may have very many samples.
    T::from_f64((0..samples).map(of).sum())
}

/// Losses per sample (1×1×1×B), the gradient of `scale · Σ loss` by the logits (1×1×B×C) if asked, and how
/// many samples had their largest logit (the first, if several) at the label.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn losses<T: Float>(
    logits: View<'_, T>,
    labels: View<'_, T>,
    of: Smooth<'_, T>,
    mut losses: ViewMut<'_, T>,
    mut gradient: Option<(T, ViewMut<'_, T>)>,
    scratch: &mut [T],
) -> usize {
    let [a, b, batch, classes] = logits.dims();
    assert_eq!([a, b], [1, 1], "cross-entropy: logits are not a matrix");
    assert_eq!(
        losses.dims(),
        [1, 1, 1, batch],
        "cross-entropy: loss extents"
    );
    assert_eq!(labels.dims(), losses.dims(), "cross-entropy: label extents");
    if let Some((_, g)) = &gradient {
        assert_eq!(g.dims(), logits.dims(), "cross-entropy: gradient extents");
    }
    let weights = of.weights.map(|w| {
        assert_eq!(
            w.dims(),
            [1, 1, 1, classes],
            "cross-entropy: weight extents"
        );
        w.row([0, 0, 0])
    });
    let weight = |c: usize| weights.map_or(T::ONE, |w| w[c]);
    let all: T = (0..classes).map(weight).sum();
    let (hard, soft) = (
        T::ONE - of.smoothing,
        of.smoothing / T::from_f64(classes as f64),
    );
    let mut correct = 0;
    for (n, loss) in losses.row([0, 0, 0]).iter_mut().enumerate() {
        let (x, e) = (logits.row([0, 0, n]), &mut scratch[..classes]);
        let (sum, most) = exponentials(x, e);
        let label = class(labels, n, classes);
        let Some(y) = label else {
            *loss = nan();
            if let Some((_, g)) = &mut gradient {
                g.row([0, 0, n]).fill(nan());
            }
            continue;
        };
        correct += usize::from(first_largest(x) == y);
        let log = sum.ln();
        let nll = |c: usize| log - (x[c] - most);
        let mut spread = T::ZERO;
        if soft != T::ZERO {
            spread = (0..classes).map(|c| weight(c) * nll(c)).sum();
        }
        *loss = of.share * (hard * weight(y) * nll(y) + soft * spread);
        if let Some((scale, g)) = &mut gradient {
            let scale = *scale * of.share;
            let (own, mass) = (hard * weight(y), hard * weight(y) + soft * all);
            for (c, (g, &e)) in g.row([0, 0, n]).iter_mut().zip(&*e).enumerate() {
                let wanted = soft * weight(c) + if c == y { own } else { T::ZERO };
                *g = scale * (e / sum * mass - wanted);
            }
        }
    }
    correct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;
    use crate::cross_entropy::kernel::forward_backward;

    const X: [f64; 8] = [0.5, -1.0, 2.0, 0.0, 3.0, 3.0, -2.0, 1.0];
    const W: [f64; 4] = [0.5, 2.0, 1.0, 0.25];

    fn run(
        x: &[f64],
        labels: &[f64],
        weights: bool,
        smoothing: f64,
    ) -> (Vec<f64>, Vec<f64>, usize) {
        let (mut out, mut grad, mut scratch) = (vec![0.0; 2], vec![0.0; 8], [0.0; 4]);
        let labels = View::from_slice(labels, [1, 1, 1, 2]);
        let weights = weights.then_some(View::from_slice(&W, [1, 1, 1, 4]));
        let of = Smooth {
            weights,
            share: weights.map_or(1.0, |w| 2.0 / total(labels, w)),
            smoothing,
        };
        let g = ViewMut::from_slice(&mut grad, [1, 1, 2, 4]);
        let lossv = ViewMut::from_slice(&mut out, [1, 1, 1, 2]);
        let logits = View::from_slice(x, [1, 1, 2, 4]);
        let correct = losses(logits, labels, of, lossv, Some((0.5, g)), &mut scratch);
        (out, grad, correct)
    }

    #[test]
    fn gradients_match_finite_differences() {
        let h = 1e-6;
        for (weights, smoothing) in [(false, 0.1), (true, 0.0), (true, 0.3)] {
            let (_, grad, _) = run(&X, &[2.0, 1.0], weights, smoothing);
            let total = |k: usize, by: f64| {
                let mut x = X;
                x[k] += by;
                0.5 * run(&x, &[2.0, 1.0], weights, smoothing)
                    .0
                    .iter()
                    .sum::<f64>()
            };
            let differences: Vec<f64> = (0..8)
                .map(|k| (total(k, h) - total(k, -h)) / (2.0 * h))
                .collect();
            assert_close("gradient", &grad, &differences, 1e-8, 0);
        }
    }

    #[test]
    fn without_weights_and_smoothing_it_is_cross_entropy() {
        let (losses, grad, correct) = run(&X, &[2.0, 1.0], false, 0.0);
        let (mut want, mut dx) = (vec![0.0; 2], vec![0.0; 8]);
        let totals = forward_backward(
            View::from_slice(&X, [1, 1, 2, 4]),
            View::from_slice(&[2.0, 1.0], [1, 1, 1, 2]),
            0.5,
            ViewMut::from_slice(&mut want, [1, 1, 1, 2]),
            ViewMut::from_slice(&mut dx, [1, 1, 2, 4]),
        );
        assert_close("losses", &losses, &want, 1e-15, 2);
        assert_close("gradient", &grad, &dx, 1e-15, 2);
        assert_eq!(correct, totals.correct);
    }

    #[test]
    fn wrong_labels_are_noticed() {
        let (losses, grad, _) = run(&X, &[4.0, 1.0], false, 0.1);
        assert!(losses[0].is_nan() && grad[..4].iter().all(|g| g.is_nan()));
        assert!(losses[1].is_finite());
        assert!(run(&X, &[4.0, 1.0], true, 0.1).0[1].is_nan());
    }
}
