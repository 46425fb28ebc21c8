//! Batch normalisation per channel, in pieces that tasks on different tiles can share.
//!
//! ```text
//!     training:  moments of each tile → merged in the graph's order → finish → normalise each tile
//!     backward:  sums of each tile    → added in the graph's order  → parameters, then each tile
//! ```
//!
//! Activations are N×C×H×W tiles; what is kept per channel is a row of C values. PyTorch's
//! conventions: biased variance to normalise with, unbiased in the running variance.

pub mod backward;
pub mod moments;
pub mod normalise;

use dahl_core::View;

use crate::float::Float;

/// The rows of sample `n` and channel `c`, as one slice if they lie in one piece.
#[inline(always)]
pub(crate) fn for_plane<'a, T: Float>(
    x: View<'a, T>,
    [n, c]: [usize; 2],
    mut f: impl FnMut(usize, &'a [T]),
) {
    let [_, _, height, width] = x.dims();
    if height == 1 || x.strides()[2] == width {
        let plane = x.part([n, c, 0, 0], [1, 1, height, width]);
        if let Some(all) = plane.as_slice() {
            return f(0, all);
        }
    }
    for h in 0..height {
        f(h, x.row([n, c, h]));
    }
}

/// Checks that a view is `rows` rows of one value per channel of `x`.
#[track_caller]
pub(crate) fn check_rows(what: &str, dims: [usize; 4], rows: usize, x: [usize; 4]) {
    assert_eq!(dims, [1, 1, rows, x[1]], "batch norm: {what} extents");
}
