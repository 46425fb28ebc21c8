//! Losses between scores and targets of the same extents, averaged over the elements of a sample.
//!
//! ```text
//!     MSE  (s − t)²        L1  |s − t|        BCE with logits  max(s, 0) − s · t + ln(1 + e^−|s|)
//! ```
//!
//! Scores are N×C×H×W or rows of features (1×1×N×F): as many losses as there are samples say which.

use dahl_core::view::for_rows;
use dahl_core::{View, ViewMut};

use crate::activation::kernels::one::sigmoid;
use crate::activation::special::Special;

/// What is compared how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// The square of the difference.
    Mse,
    /// The difference's absolute value; its slope at 0 is 0.
    L1,
    /// Binary cross-entropy of a logit with a probability.
    BceWithLogits,
}

impl Distance {
    /// The loss of one element.
    #[inline(always)]
    fn value<T: Special>(self, s: T, t: T) -> T {
        match self {
            Distance::Mse => (s - t) * (s - t),
            Distance::L1 => (s - t).abs(),
            Distance::BceWithLogits => {
                let positive = if s <= T::ZERO { T::ZERO } else { s };
                positive - s * t + (-s.abs()).exp().ln_1p()
            }
        }
    }

    /// Its slope by the score.
    #[inline(always)]
    fn slope<T: Special>(self, s: T, t: T) -> T {
        match self {
            Distance::Mse => (s - t) + (s - t),
            Distance::L1 if s > t => T::ONE,
            Distance::L1 if s < t => -T::ONE,
            // Zero, or not a number if one of them is not.
            Distance::L1 => s - t,
            Distance::BceWithLogits => sigmoid(s) - t,
        }
    }
}

/// Extents of one of `samples` samples and the axis that counts them, if these are their extents.
pub(crate) fn sample(scores: [usize; 4], samples: usize) -> Option<([usize; 4], usize)> {
    let [n, c, h, w] = scores;
    if n == samples {
        return Some(([1, c, h, w], 0));
    }
    ([n, c, h] == [1, 1, samples]).then_some(([1, 1, 1, w], 2))
}

/// A loss per sample (1×1×1×N) and, if asked, the gradient of `scale · Σ loss` by the scores.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn losses<T: Special>(
    distance: Distance,
    scores: View<'_, T>,
    targets: View<'_, T>,
    mut losses: ViewMut<'_, T>,
    gradient: Option<(T, ViewMut<'_, T>)>,
) {
    let [one, two, three, samples] = losses.dims();
    let found = sample(scores.dims(), samples).filter(|_| [one, two, three] == [1; 3]);
    let (size, axis) = found.unwrap_or_else(|| {
        panic!(
            "loss: {:?} losses of {:?} scores",
            losses.dims(),
            scores.dims()
        )
    });
    assert_eq!(targets.dims(), scores.dims(), "loss: target extents");
    let count = T::from_f64(size.iter().product::<usize>() as f64);
    let (scale, mut gradient) = gradient.unzip();
    if let Some(g) = &gradient {
        assert_eq!(g.dims(), scores.dims(), "loss: gradient extents");
    }
    for (n, loss) in losses.row([0, 0, 0]).iter_mut().enumerate() {
        let mut from = [0; 4];
        from[axis] = n;
        let (s, t) = (scores.part(from, size), targets.part(from, size));
        // In double precision: a sample may have very many elements.
        let mut sum = 0.0;
        for_rows(size, |at| {
            let row = s.row(at).iter().zip(t.row(at));
            sum += row
                .map(|(&s, &t)| distance.value(s, t).to_f64())
                .sum::<f64>();
        });
        *loss = T::from_f64(sum / count.to_f64());
        if let (Some(g), Some(scale)) = (&mut gradient, scale) {
            let (mut g, factor) = (g.part(from, size), scale / count);
            for_rows(size, |at| {
                let row = s.row(at).iter().zip(t.row(at));
                for (g, (&s, &t)) in g.row(at).iter_mut().zip(row) {
                    *g = factor * distance.slope(s, t);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;

    const ALL: [Distance; 3] = [Distance::Mse, Distance::L1, Distance::BceWithLogits];
    const S: [f64; 8] = [0.5, -1.0, 2.0, 0.25, 3.0, -30.0, -2.0, 1.0];
    const T: [f64; 8] = [0.0, 1.0, 0.3, 0.75, 1.0, 0.0, 0.5, 0.9];

    fn run(d: Distance, s: &[f64], dims: [usize; 4]) -> (Vec<f64>, Vec<f64>) {
        let samples = if dims[0] > 1 { dims[0] } else { dims[2] };
        let (mut out, mut grad) = (vec![0.0; samples], vec![0.0; 8]);
        let row = [1, 1, 1, samples];
        let (sv, tv) = (View::from_slice(s, dims), View::from_slice(&T, dims));
        let g = ViewMut::from_slice(&mut grad, dims);
        losses(
            d,
            sv,
            tv,
            ViewMut::from_slice(&mut out, row),
            Some((0.5, g)),
        );
        let mut again = vec![0.0; samples];
        losses(d, sv, tv, ViewMut::from_slice(&mut again, row), None);
        assert_eq!(out, again);
        (out, grad)
    }

    #[test]
    fn gradients_match_finite_differences() {
        let h = 1e-6;
        for d in ALL {
            for dims in [[1, 1, 2, 4], [2, 2, 1, 2], [4, 1, 2, 1]] {
                let (_, grad) = run(d, &S, dims);
                let total = |k: usize, by: f64| {
                    let mut s = S;
                    s[k] += by;
                    0.5 * run(d, &s, dims).0.iter().sum::<f64>()
                };
                let differences: Vec<f64> = (0..8)
                    .map(|k| (total(k, h) - total(k, -h)) / (2.0 * h))
                    .collect();
                assert_close(&format!("{d:?}"), &grad, &differences, 1e-8, 0);
            }
        }
    }

    #[test]
    fn values_by_hand() {
        let (mse, _) = run(Distance::Mse, &S, [1, 1, 2, 4]);
        assert_close(
            "mse",
            &mse[..1],
            &[(0.25 + 4.0 + 1.7 * 1.7 + 0.25) / 4.0],
            1e-15,
            2,
        );
        let (l1, grad) = run(Distance::L1, &T, [1, 1, 2, 4]);
        assert_eq!((l1, grad), (vec![0.0; 2], vec![0.0; 8]));
        // Logit −30 against 0 costs about e⁻³⁰, which naive formulas lose.
        let (bce, _) = run(Distance::BceWithLogits, &S, [8, 1, 1, 1]);
        assert_close("bce", &bce[5..6], &[(-30f64).exp()], 1e-12, 0);
    }

    #[test]
    fn samples_are_found_by_their_number() {
        assert_eq!(sample([3, 2, 4, 5], 3), Some(([1, 2, 4, 5], 0)));
        assert_eq!(sample([1, 1, 7, 5], 7), Some(([1, 1, 1, 5], 2)));
        assert_eq!(sample([1, 1, 7, 5], 1), Some(([1, 1, 7, 5], 0)));
        assert_eq!(sample([3, 2, 4, 5], 4), None);
    }
}
