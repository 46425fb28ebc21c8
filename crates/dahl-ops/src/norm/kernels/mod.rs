//! Normalisation within one sample: layer norm and group norm.
//!
//! ```text
//!     x̂ = (x − mean) · inverse                   inverse = 1 / √(variance + ε), the variance biased
//!     y = x̂ · scale + shift
//!     dx = inverse · (g − mean(g) − x̂ · mean(g · x̂)),  g = dy · scale
//!     dscale += Σ dy · x̂        dshift += Σ dy      over samples
//! ```
//!
//! Means are over what is normalised together: the last extents of a sample for layer norm, a group of
//! channels for group norm. Unlike batch norm nothing is shared between samples but the gradients of scale
//! and shift, which are *added* to what is there, so that tasks on different samples can accumulate.
//! Statistics have a row per sample: the means, then the inverses. PyTorch's conventions throughout.

pub(crate) mod channel;
pub(crate) mod group;
pub(crate) mod layer;
#[cfg(test)]
pub(crate) mod testing;

use dahl_core::{View, ViewMut};

use crate::batch_norm::moments::moments;
use crate::simd::Lane;

/// Mean and one over the standard deviation of all elements of a view of one sample.
fn statistics<T: Lane>(x: View<'_, T>, epsilon: T) -> [T; 2] {
    let ([one, c, h, w], [sn, sc, sh, sw]) = (x.dims(), x.strides());
    assert_eq!(one, 1, "norm: several samples");
    // SAFETY: the same elements; what were channels are counted as samples of a single channel.
    let all = unsafe { View::from_raw(x.as_ptr(), [c, 1, h, w], [sc, sn, sh, sw]) };
    let mut found = [T::ZERO; 3];
    moments(all, ViewMut::from_slice(&mut found, [1, 1, 3, 1]));
    let [count, mean, square] = found;
    [mean, T::ONE / (square / count + epsilon).sqrt()]
}

/// Checks the extents of statistics: a row per sample, two numbers for each of its groups.
#[track_caller]
fn check_statistics(dims: [usize; 4], samples: usize, groups: usize) {
    assert_eq!(
        dims,
        [1, 1, samples, 2 * groups],
        "norm: statistics extents"
    );
}
