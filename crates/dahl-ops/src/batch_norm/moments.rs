//! Mean and variance of each channel, gathered from tiles.
//!
//! The moments of some elements are three rows: how many, their mean, and the sum of squared
//! distances from it. A tile is passed over twice (it is in the cache), so nothing cancels; two sets
//! merge by the formula of Chan, Golub and LeVeque, whose result depends on the order of merging only
//! in rounding, and the graph fixes that order.

use dahl_core::{View, ViewMut};

use super::check_rows;
use crate::float::Float;
use crate::reduce::rows::row_sum;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// Writes the moments (1×1×3×C) of a tile.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn moments<T: Lane>(x: View<'_, T>, mut out: ViewMut<'_, T>) {
    check_rows("moments", out.dims(), 3, x.dims());
    let x = x.planes_as_rows().unwrap_or(x);
    let [samples, channels, height, width] = x.dims();
    let count = T::from_f64((samples * height * width) as f64);
    for c in 0..channels {
        let rows = || (0..samples * height).map(|i| x.row([i / height, c, i % height]));
        let sum: T = rows().map(row_sum).sum();
        let mean = sum / count;
        let square: T = rows().map(|row| T::vectorised(Squares(row, mean))).sum();
        out.row([0, 0, 0])[c] = count;
        out.row([0, 0, 1])[c] = mean;
        out.row([0, 0, 2])[c] = square;
    }
}

struct Squares<'a, T>(&'a [T], T);

impl<T: Lane> Kernel<T> for Squares<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) -> T {
        let Squares(row, mean) = self;
        let centre = s.splat(mean);
        let mut acc = [s.splat(T::ZERO); 2];
        let whole = row.chunks_exact(2 * S::LANES);
        let rest = whole.remainder();
        for chunk in whole {
            for (i, acc) in acc.iter_mut().enumerate() {
                // SAFETY: the chunk holds two registers.
                let x = unsafe { s.load(chunk.as_ptr().add(i * S::LANES)) };
                let d = s.sub(x, centre);
                *acc = s.madd(d, d, *acc);
            }
        }
        let tail: T = rest.iter().map(|&x| (x - mean) * (x - mean)).sum();
        s.sum(s.add(acc[0], acc[1])) + tail
    }
}

/// Merges the moments of other elements into `into`.
///
/// # Panics
/// If the extents differ.
pub(crate) fn merge<T: Float>(from: View<'_, T>, mut into: ViewMut<'_, T>) {
    let dims = from.dims();
    assert_eq!(
        (dims, dims[2]),
        (into.dims(), 3),
        "batch norm: moments extents"
    );
    for c in 0..dims[3] {
        let [count, mean, square] = [0, 1, 2].map(|r| from.row([0, 0, r])[c]);
        let [held, centre, spread] = [0, 1, 2].map(|r| into.row([0, 0, r])[c]);
        let total = held + count;
        if total == T::ZERO {
            continue;
        }
        let delta = mean - centre;
        into.row([0, 0, 0])[c] = total;
        into.row([0, 0, 1])[c] = centre + delta * (count / total);
        into.row([0, 0, 2])[c] = spread + square + delta * delta * (held * count / total);
    }
}

/// Turns moments into what [`super::normalise`] reads (1×1×2×C: mean, and one over the standard
/// deviation), and moves the running mean and variance (each 1×1×1×C) by `momentum` towards them.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn finish<T: Float>(
    moments: View<'_, T>,
    epsilon: T,
    mut out: ViewMut<'_, T>,
    running: Option<(ViewMut<'_, T>, ViewMut<'_, T>, T)>,
) {
    let channels = moments.dims()[3];
    let x = [1, channels, 1, 1];
    check_rows("moments", moments.dims(), 3, x);
    check_rows("statistics", out.dims(), 2, x);
    let [counts, means, squares] = [0, 1, 2].map(|r| moments.row([0, 0, r]));
    out.row([0, 0, 0]).copy_from_slice(means);
    for (c, o) in out.row([0, 0, 1]).iter_mut().enumerate() {
        *o = T::ONE / (squares[c] / counts[c] + epsilon).sqrt();
    }
    if let Some((mut mean, mut var, momentum)) = running {
        check_rows("running mean", mean.dims(), 1, x);
        check_rows("running variance", var.dims(), 1, x);
        let keep = T::ONE - momentum;
        for (c, m) in mean.row([0, 0, 0]).iter_mut().enumerate() {
            *m = keep * *m + momentum * means[c];
        }
        for (c, v) in var.row([0, 0, 0]).iter_mut().enumerate() {
            *v = keep * *v + momentum * (squares[c] / (counts[c] - T::ONE));
        }
    }
}

/// What [`super::normalise`] reads, from running statistics: for evaluation.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn from_running<T: Float>(
    mean: View<'_, T>,
    var: View<'_, T>,
    epsilon: T,
    mut out: ViewMut<'_, T>,
) {
    let x = [1, mean.dims()[3], 1, 1];
    check_rows("running mean", mean.dims(), 1, x);
    check_rows("running variance", var.dims(), 1, x);
    check_rows("statistics", out.dims(), 2, x);
    out.row([0, 0, 0]).copy_from_slice(mean.row([0, 0, 0]));
    for (o, &v) in out.row([0, 0, 1]).iter_mut().zip(var.row([0, 0, 0])) {
        *o = T::ONE / (v + epsilon).sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;

    #[test]
    fn merged_tiles_have_the_moments_of_the_whole() {
        let dims = [3, 2, 5, 7];
        // Far from zero: sums of squares would cancel.
        let x: Vec<f64> = (0..210).map(|i| 1e6 + f64::from(i * i % 37)).collect();
        let v = View::from_slice(&x, dims);
        let (mut whole, mut merged, mut part) = ([0.0; 6], [0.0; 6], [0.0; 6]);
        let rows = [1, 1, 3, 2];
        moments(v, ViewMut::from_slice(&mut whole, rows));
        for (start, size) in [
            ([0, 0, 0, 0], [3, 2, 2, 7]),
            ([0, 0, 2, 0], [3, 2, 3, 4]),
            ([0, 0, 2, 4], [3, 2, 3, 3]),
        ] {
            moments(v.part(start, size), ViewMut::from_slice(&mut part, rows));
            merge(
                View::from_slice(&part, rows),
                ViewMut::from_slice(&mut merged, rows),
            );
        }
        assert_close("moments", &merged, &whole, 1e-13, 0);
        assert_close("spread", &merged[4..], &whole[4..], 1e-9, 0);
        let channel: Vec<f64> = (0..210).filter(|i| i / 35 % 2 == 1).map(|i| x[i]).collect();
        let mean = channel.iter().sum::<f64>() / 105.0;
        let square: f64 = channel.iter().map(|x| (x - mean).powi(2)).sum();
        assert_close("channel", &[whole[3]], &[mean], 1e-15, 0);
        assert_close("channel", &[whole[5]], &[square], 1e-9, 0);
    }
}
