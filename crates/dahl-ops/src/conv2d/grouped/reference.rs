//! Grouped and dilated convolution by plain loops: what the others are checked against.
//!
//! Nothing here is fast, and nothing should be made so.

use dahl_core::view::{View, ViewMut, for_rows};

use super::Grouping;
use crate::float::Float;

/// Calls `f` with every pair of an input and a kernel position that make output `at` of filter `o`: the
/// input's channel, row and column, and the filter's channel, row and column.
fn each_tap(
    g: &Grouping,
    [o, i, j]: [usize; 3],
    [outs, ins, height, width]: [usize; 4],
    mut f: impl FnMut([usize; 3], [usize; 3]),
) {
    let each = ins / g.groups;
    let first = o / (outs / g.groups) * each;
    for c in 0..each {
        for a in 0..g.window.kernel[0] {
            for b in 0..g.window.kernel[1] {
                let (h, v) = (g.input(0, i, a, height), g.input(1, j, b, width));
                if let (Some(h), Some(v)) = (h, v) {
                    f([first + c, h, v], [c, a, b]);
                }
            }
        }
    }
}

/// Computes `y` from input, filter and bias; negative results become zero if `relu`.
pub(crate) fn forward<T: Float>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    mut y: ViewMut<'_, T>,
    g: &Grouping,
) {
    let ([_, outs, ..], [_, ins, height, width]) = (y.dims(), x.dims());
    for_rows(y.dims(), |[n, o, i]| {
        for (j, out) in y.row([n, o, i]).iter_mut().enumerate() {
            let mut sum = bias.map_or(T::ZERO, |b| b.at([0, 0, 0, o]));
            each_tap(
                g,
                [o, i, j],
                [outs, ins, height, width],
                |[c, h, v], [k, a, b]| {
                    sum += w.at([o, k, a, b]) * x.at([n, c, h, v]);
                },
            );
            *out = if relu && sum < T::ZERO { T::ZERO } else { sum };
        }
    });
}

/// Computes the gradient `dx` of the input from that of the output.
pub(crate) fn input_grad<T: Float>(
    dy: View<'_, T>,
    w: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    g: &Grouping,
) {
    let ([_, outs, ..], [_, ins, height, width]) = (dy.dims(), dx.dims());
    dx.fill(T::ZERO);
    for_rows(dy.dims(), |[n, o, i]| {
        for (j, &grad) in dy.row([n, o, i]).iter().enumerate() {
            each_tap(
                g,
                [o, i, j],
                [outs, ins, height, width],
                |[c, h, v], [k, a, b]| {
                    dx.row([n, c, h])[v] += w.at([o, k, a, b]) * grad;
                },
            );
        }
    });
}

/// Adds the gradient of the filter to `dw`.
pub(crate) fn filter_grad<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    mut dw: ViewMut<'_, T>,
    g: &Grouping,
) {
    let ([_, outs, ..], [_, ins, height, width]) = (dy.dims(), x.dims());
    for_rows(dy.dims(), |[n, o, i]| {
        for (j, &grad) in dy.row([n, o, i]).iter().enumerate() {
            each_tap(
                g,
                [o, i, j],
                [outs, ins, height, width],
                |[c, h, v], [k, a, b]| {
                    dw.row([o, k, a])[b] += grad * x.at([n, c, h, v]);
                },
            );
        }
    });
}
