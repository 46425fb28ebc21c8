//! Pooling and its gradients.

use dahl_ops::conv2d::fused::{Expand, Side};
use dahl_ops::pool::{Max, MaxGrad, Windows};
use dahl_ops::window::{Planes, PlanesGrad};

use super::reduce::sum_axes;
use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

/// Each window's largest element, and where it is.
pub(super) fn max(t: &Task<'_>, s: &mut Steps) {
    let Max { x, y, places } = Max::of(t.tensors);
    let args = [
        x.into(),
        y.into(),
        places.unwrap_or(y).into(),
        places.is_some().into(),
        y.len().into(),
        Windows::of(t.params).window.into(),
    ];
    s.items("max_pool", args, y.len());
}

/// The gradient goes to where the largest elements were.
pub(super) fn max_grad(t: &Task<'_>, s: &mut Steps) {
    let MaxGrad { dy, places, dx } = MaxGrad::of(t.tensors);
    let args = [
        dy.into(),
        places.into(),
        dx.into(),
        dx.len().into(),
        Windows::of(t.params).window.into(),
    ];
    s.items("max_pool_grad", args, dx.len());
}

fn windowed(kernel: &'static str, from: Tensor, to: Tensor, t: &Task<'_>, s: &mut Steps) {
    let window = Windows::of(t.params).window;
    let args = [from.into(), to.into(), to.len().into(), window.into()];
    s.items(kernel, args, to.len());
}

/// Each window's mean.
pub(super) fn average(t: &Task<'_>, s: &mut Steps) {
    let Planes { x, y } = Planes::of(t.tensors);
    windowed("avg_pool", x, y, t, s);
}

/// The gradient is shared among each window's elements.
pub(super) fn average_grad(t: &Task<'_>, s: &mut Steps) {
    let PlanesGrad { dy, dx } = PlanesGrad::of(t.tensors);
    windowed("avg_pool_grad", dy, dx, t, s);
}

/// The mean of each plane, or of pieces of it.
pub(super) fn planes(t: &Task<'_>, s: &mut Steps) {
    let Planes { x, y } = Planes::of(t.tensors);
    if y.dims[2..] != [1, 1] {
        return s.items(
            "adaptive_pool",
            [x.into(), y.into(), y.len().into()],
            y.len(),
        );
    }
    sum_axes(x, y, false, (x.dims[2] * x.dims[3]) as f64, s);
}

/// The gradient is shared among the elements of each plane, or of pieces of it.
pub(super) fn planes_grad(t: &Task<'_>, s: &mut Steps) {
    let PlanesGrad { dy, dx } = PlanesGrad::of(t.tensors);
    if dy.dims[2..] != [1, 1] {
        let args = [dy.into(), dx.into(), dx.len().into()];
        return s.items("adaptive_pool_grad", args, dx.len());
    }
    let count = (dx.dims[2] * dx.dims[3]) as f64;
    let args = [dy.into(), dx.into(), dx.len().into(), count.into()];
    s.items("spread_planes", args, dx.len());
}

/// The gradient of what was pooled, from that of the pooled and the codes.
pub(super) fn write_expanded(dy: Tensor, codes: Tensor, out: Tensor, side: usize, s: &mut Steps) {
    let args = [
        dy.into(),
        codes.into(),
        out.into(),
        side.into(),
        out.len().into(),
    ];
    s.items("pool_expand", args, out.len());
}

/// The gradient by the convolution's output.
pub(super) fn expand(t: &Task<'_>, s: &mut Steps) {
    let (Expand { dy, codes, full }, given) = (Expand::of(t.tensors), Side::of(t.params));
    write_expanded(dy, codes, full, given.side.max(1), s);
}
