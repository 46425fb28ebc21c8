//! Convolutions and their gradients, also with pooling behind them.

use dahl_ops::conv2d::{fused, plain};
use dahl_ops::linalg::rearranged::Correlate;
use dahl_ops::window::Window;

use super::linalg::parts;
use super::pool;
use super::reduce::{add_parts, sum_axes};
use crate::launch::{Arg, Steps, Task};
use crate::tensor::Tensor;

/// `y = x ∗ w (+ bias)`, the positive part of it if asked.
fn convolve(
    [x, w, y]: [Tensor; 3],
    bias: Option<Tensor>,
    positive: bool,
    window: Window,
    s: &mut Steps,
) {
    let args = [
        x.into(),
        w.into(),
        bias.unwrap_or(w).into(),
        bias.is_some().into(),
        positive.into(),
        y.into(),
        window.into(),
    ];
    let [n, o, h, v] = y.dims;
    s.blocks("conv_forward", args, [o, n * h * v, 1]);
}

/// The convolution.
pub(super) fn forward(t: &Task<'_>, s: &mut Steps) {
    let plain::Forward { x, w, bias, y } = plain::Forward::of(t.tensors);
    let given = plain::Params::of(t.params);
    convolve([x, w, y], bias, given.relu, given.window, s);
}

/// Where matrices overlap fully.
pub(super) fn correlate(t: &Task<'_>, s: &mut Steps) {
    let Correlate { x, kernel, y } = Correlate::of(t.tensors);
    let [_, _, h, w] = kernel.dims;
    let window = Window {
        kernel: [h, w],
        stride: [1, 1],
        shift: [0, 0],
    };
    convolve([x, kernel, y], None, false, window, s);
}

fn write_input_grad([dy, w, dx]: [Tensor; 3], window: Window, s: &mut Steps) {
    let [n, c, h, v] = dx.dims;
    let args = [dy.into(), w.into(), dx.into(), window.into()];
    s.blocks("conv_input_grad", args, [c, n * h * v, 1]);
}

/// The gradient by the input.
pub(super) fn input_grad(t: &Task<'_>, s: &mut Steps) {
    let plain::InputGrad { dy, w, dx } = plain::InputGrad::of(t.tensors);
    write_input_grad([dy, w, dx], plain::Slide::of(t.params).window, s);
}

/// `dw +=` from x and dy, the sum over pixels cut into parts if there are few weights.
fn add_filter_grad(x: Tensor, dy: Tensor, dw: Tensor, window: Window, s: &mut Steps) {
    let (o, taps) = (dw.dims[0], dw.len() / dw.dims[0]);
    let pixels = dy.dims[0] * dy.dims[2] * dy.dims[3];
    let block = s.tuning.block();
    let (count, each) = parts(o.div_ceil(block) * taps.div_ceil(block), pixels);
    let split = count > 1;
    let to = if split {
        s.scratch([1, count, o, taps])
    } else {
        dw
    };
    let args = [
        x.into(),
        dy.into(),
        dw.into(),
        to.into(),
        each.into(),
        split.into(),
        window.into(),
    ];
    s.blocks("conv_filter_grad", args, [o, taps, count]);
    if split {
        add_parts(to, count, dw, true, s);
    }
}

/// The gradient by the filters.
pub(super) fn filter_grad(t: &Task<'_>, s: &mut Steps) {
    let plain::FilterGrad { x, dy, dw } = plain::FilterGrad::of(t.tensors);
    add_filter_grad(x, dy, dw, plain::Slide::of(t.params).window, s);
}

/// The extents of what `y` pools with windows of this side.
fn unpooled(y: Tensor, side: usize) -> [usize; 4] {
    let [n, c, h, w] = y.dims;
    [n, c, h * side, w * side]
}

/// With pooling behind it: the convolution goes to scratch memory, then is pooled.
pub(super) fn pooled(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (fused::Forward::of(t.tensors), fused::Params::of(t.params));
    let (y, side) = (all.y, given.side.max(1));
    let whole = s.scratch(unpooled(y, side));
    convolve([all.x, all.w, whole], all.bias, false, given.window, s);
    let args: [Arg; 5] = [
        whole.into(),
        y.into(),
        all.codes.into(),
        side.into(),
        y.len().into(),
    ];
    s.items("pool_codes", args, y.len());
}

/// The gradients by filters and bias: the one by the output is expanded in scratch memory.
pub(super) fn pooled_filter_grad(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (
        fused::FilterGrad::of(t.tensors),
        fused::Params::of(t.params),
    );
    let side = given.side.max(1);
    let whole = s.scratch(unpooled(all.dy, side));
    pool::write_expanded(all.dy, all.codes, whole, side, s);
    add_filter_grad(all.x, whole, all.dw, given.window, s);
    if let Some(db) = all.db {
        sum_axes(whole, db.per_channel(), true, 1.0, s);
    }
}

/// The gradient by the input: the one by the output is expanded in scratch memory.
pub(super) fn pooled_input_grad(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (fused::InputGrad::of(t.tensors), fused::Params::of(t.params));
    let side = given.side.max(1);
    let whole = s.scratch(unpooled(all.dy, side));
    pool::write_expanded(all.dy, all.codes, whole, side, s);
    write_input_grad([whole, all.w, all.dx], given.window, s);
}
