//! Grouped convolution without gaps as one ordinary convolution per group, for groups of many channels.

use dahl_core::{View, ViewMut};

use super::Grouping;
use crate::conv2d::gemm;
use crate::simd::Lane;

/// Whether this way exists: kernels with gaps need another.
pub(crate) fn supports(g: &Grouping) -> bool {
    g.dilation == [1, 1]
}

/// Extents of a group's part.
fn of_group(dims: [usize; 4], g: &Grouping) -> [usize; 4] {
    [dims[0], dims[1] / g.groups, dims[2], dims[3]]
}

/// Elements of scratch memory that all three need; `x` is the input's extents, `y` the output's.
pub(crate) fn scratch_len(x: [usize; 4], y: [usize; 4], g: &Grouping) -> usize {
    gemm::scratch_len(of_group(x, g), of_group(y, g), &g.window)
}

/// Group `i` of channels.
fn channels<'a, T>(x: View<'a, T>, i: usize, g: &Grouping) -> View<'a, T> {
    let size = of_group(x.dims(), g);
    x.part([0, i * size[1], 0, 0], size)
}

/// Where the filters of group `i` begin, and their extents.
fn filters(w: [usize; 4], i: usize, g: &Grouping) -> ([usize; 4], [usize; 4]) {
    let each = w[0] / g.groups;
    ([i * each, 0, 0, 0], [each, w[1], w[2], w[3]])
}

/// `y = x ∗ w (+ bias) (then the positive part)`.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`scratch_len`].
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    mut y: ViewMut<'_, T>,
    g: &Grouping,
    scratch: &mut [T],
) {
    g.assert(x.dims(), y.dims(), w.dims());
    let size = of_group(y.dims(), g);
    for i in 0..g.groups {
        let (from, extents) = filters(w.dims(), i, g);
        let (x, w) = (channels(x, i, g), w.part(from, extents));
        let bias = bias.map(|b| b.part([0, 0, 0, i * size[1]], [1, 1, 1, size[1]]));
        let y = y.part([0, i * size[1], 0, 0], size);
        gemm::forward(x, w, bias, relu, y, &g.window, scratch);
    }
}

/// `dx`, overwritten, from `dy` and `w`.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`scratch_len`].
pub(crate) fn input_grad<T: Lane>(
    dy: View<'_, T>,
    w: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    g: &Grouping,
    scratch: &mut [T],
) {
    g.assert(dx.dims(), dy.dims(), w.dims());
    let size = of_group(dx.dims(), g);
    for i in 0..g.groups {
        let (from, extents) = filters(w.dims(), i, g);
        let dx = dx.part([0, i * size[1], 0, 0], size);
        gemm::input_grad(
            channels(dy, i, g),
            w.part(from, extents),
            dx,
            &g.window,
            scratch,
        );
    }
}

/// `dw += ` the gradient of the filter.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`scratch_len`].
pub(crate) fn filter_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    mut dw: ViewMut<'_, T>,
    g: &Grouping,
    scratch: &mut [T],
) {
    g.assert(x.dims(), dy.dims(), dw.dims());
    for i in 0..g.groups {
        let (from, extents) = filters(dw.dims(), i, g);
        let (x, dy) = (channels(x, i, g), channels(dy, i, g));
        gemm::filter_grad(x, dy, dw.part(from, extents), &g.window, scratch);
    }
}
