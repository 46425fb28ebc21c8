//! Convolutions and their gradients, also with pooling behind them.

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
    window: [i32; 6],
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

/// y from x, w, (bias,) y.
pub fn forward(t: &Task<'_>, s: &mut Steps) {
    let last = t.tensors.len() - 1;
    let bias = (last == 3).then(|| t.tensors[2]);
    let operands = [t.tensors[0], t.tensors[1], t.tensors[last]];
    convolve(operands, bias, t.int(6) != 0, t.window(), s);
}

/// Where matrices overlap fully: x, kernel, out.
pub fn correlate(t: &Task<'_>, s: &mut Steps) {
    let [_, _, h, w] = t.tensors[1].dims.map(|d| d as i32);
    let operands = [t.tensors[0], t.tensors[1], t.tensors[2]];
    convolve(operands, None, false, [h, w, 1, 1, 0, 0], s);
}

fn write_input_grad([dy, w, dx]: [Tensor; 3], window: [i32; 6], s: &mut Steps) {
    let [n, c, h, v] = dx.dims;
    let args = [dy.into(), w.into(), dx.into(), window.into()];
    s.blocks("conv_input_grad", args, [c, n * h * v, 1]);
}

/// dx from dy, w, dx.
pub fn input_grad(t: &Task<'_>, s: &mut Steps) {
    write_input_grad([0, 1, 2].map(|i| t.tensors[i]), t.window(), s);
}

/// `dw +=` from x and dy, the sum over pixels cut into parts if there are few weights.
fn add_filter_grad(x: Tensor, dy: Tensor, dw: Tensor, window: [i32; 6], s: &mut Steps) {
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

/// dw += from x, dy, dw.
pub fn filter_grad(t: &Task<'_>, s: &mut Steps) {
    let [x, dy, dw] = [0, 1, 2].map(|i| t.tensors[i]);
    add_filter_grad(x, dy, dw, t.window(), s);
}

/// The extents of what `y` pools with windows of this side.
fn unpooled(y: Tensor, side: usize) -> [usize; 4] {
    let [n, c, h, w] = y.dims;
    [n, c, h * side, w * side]
}

/// y and codes from x, w, (bias,) y, codes: the convolution goes to scratch memory, then is pooled.
pub fn pooled(t: &Task<'_>, s: &mut Steps) {
    let (n, side) = (t.tensors.len(), t.int(6).max(1) as usize);
    let bias = (n == 5).then(|| t.tensors[2]);
    let (y, codes) = (t.tensors[n - 2], t.tensors[n - 1]);
    let whole = s.scratch(unpooled(y, side));
    convolve(
        [t.tensors[0], t.tensors[1], whole],
        bias,
        false,
        t.window(),
        s,
    );
    let args: [Arg; 5] = [
        whole.into(),
        y.into(),
        codes.into(),
        side.into(),
        y.len().into(),
    ];
    s.items("pool_codes", args, y.len());
}

/// dw += and db += from x, dy, codes, dw, (db): the gradient is expanded in scratch memory.
pub fn pooled_filter_grad(t: &Task<'_>, s: &mut Steps) {
    let [x, dy, codes, dw] = [0, 1, 2, 3].map(|i| t.tensors[i]);
    let side = t.int(6).max(1) as usize;
    let whole = s.scratch(unpooled(dy, side));
    pool::write_expanded(dy, codes, whole, side, s);
    add_filter_grad(x, whole, dw, t.window(), s);
    if let Some(&db) = t.tensors.get(4) {
        sum_axes(whole, db.per_channel(), true, 1.0, s);
    }
}

/// dx from dy, codes, w, dx: the gradient is expanded in scratch memory.
pub fn pooled_input_grad(t: &Task<'_>, s: &mut Steps) {
    let [dy, codes, w, dx] = [0, 1, 2, 3].map(|i| t.tensors[i]);
    let side = t.int(6).max(1) as usize;
    let whole = s.scratch(unpooled(dy, side));
    pool::write_expanded(dy, codes, whole, side, s);
    write_input_grad([whole, w, dx], t.window(), s);
}
