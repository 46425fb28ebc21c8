//! Codelets: the kernels of this crate as operations that tasks can apply.
//!
//! Each file defines the codelets of one operation: what operands must satisfy, what a task costs,
//! which implementations there are and which of them the static costs prefer. [`TABLE`] lists them
//! all; everything that must know every operation (tests, `dahl ops`, other devices) reads it there.

pub mod batch_norm;
pub mod conv2d;
pub mod conv_pool;
pub mod winograd;

pub use crate::{
    activation, cross_entropy, dropout, elementwise, linalg, linear, optim, pool, reduce, softmax,
};

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use dahl_core::{Call, Codelet, Operands, Param};

pub(crate) use crate::op::{Done, by_type, cpu, elements, only};

use crate::simd::Lane;
use crate::window::Window;

/// A codelet, made when it is first used.
pub type Lazy = LazyLock<Arc<Codelet>>;

/// An operation of the table: its codelet.
pub type Listed = dyn Deref<Target = Arc<Codelet>> + Sync;

/// Every codelet of this crate.
pub static TABLE: &[&Listed] = &[
    &elementwise::ADD,
    &elementwise::ADD_ASSIGN,
    &elementwise::SUB,
    &elementwise::MUL,
    &elementwise::DIV,
    &elementwise::SCALE,
    &elementwise::ADD_VALUE,
    &elementwise::SUB_VALUE,
    &elementwise::POWER,
    &elementwise::CLIP,
    &elementwise::ROUND,
    &elementwise::EXP,
    &elementwise::LOG,
    &elementwise::FILL,
    &elementwise::COPY,
    &elementwise::RELU,
    &elementwise::RELU_GRAD,
    &activation::SIGMOID,
    &activation::SIGMOID_GRAD,
    &activation::TANH,
    &activation::TANH_GRAD,
    &activation::LEAKY_RELU,
    &activation::LEAKY_RELU_GRAD,
    &activation::ELU,
    &activation::ELU_GRAD,
    &activation::GELU,
    &activation::GELU_GRAD,
    &activation::GELU_TANH,
    &activation::GELU_TANH_GRAD,
    &activation::SILU,
    &activation::SILU_GRAD,
    &reduce::SUM,
    &reduce::MEAN,
    &reduce::MIN,
    &reduce::MAX,
    &linalg::DOT,
    &linalg::OUTER,
    &linalg::MATVEC,
    &linalg::VECMAT,
    &linalg::MATMUL,
    &linalg::TRANSPOSE,
    &linalg::DIAG,
    &linalg::DIAGONAL,
    &linalg::CORRELATE,
    &softmax::FORWARD,
    &softmax::GRAD,
    &softmax::JACOBIAN,
    &conv2d::FORWARD,
    &conv2d::INPUT_GRAD,
    &conv2d::FILTER_GRAD,
    &conv2d::BIAS_GRAD,
    &winograd::FILTER,
    &winograd::FORWARD,
    &winograd::INPUT_GRAD,
    &winograd::FILTER_GRAD,
    &winograd::FILTER_FINISH,
    &conv_pool::FORWARD,
    &conv_pool::FILTER_GRAD,
    &conv_pool::INPUT_GRAD,
    &conv_pool::EXPAND,
    &pool::MAX,
    &pool::MAX_GRAD,
    &pool::AVERAGE,
    &pool::AVERAGE_GRAD,
    &pool::GLOBAL,
    &pool::GLOBAL_GRAD,
    &linear::FORWARD,
    &linear::INPUT_GRAD,
    &linear::WEIGHT_GRAD,
    &linear::BIAS_GRAD,
    &batch_norm::MOMENTS,
    &batch_norm::FINISH,
    &batch_norm::RUNNING,
    &batch_norm::NORMALISE,
    &batch_norm::SUMS,
    &batch_norm::INPUT_GRAD,
    &dropout::DROPOUT,
    &cross_entropy::TRAIN,
    &cross_entropy::EVALUATE,
    &optim::SGD,
    &optim::SGD_MOMENTUM,
    &optim::ADAM,
    &optim::SQUARES,
    &optim::CLIP,
];

/// The codelet of this name.
pub fn by_name(name: &str) -> Option<&'static Arc<Codelet>> {
    TABLE.iter().map(|c| &***c).find(|c| c.name == name)
}

/// The parameters of a window: six whole numbers, kernel, stride and shift.
pub fn window_params(win: &Window) -> [Param; 6] {
    let int = |v: usize| Param::Int(v as i64);
    let [k, s, h] = [win.kernel, win.stride, win.shift.map(|s| s as usize)];
    [
        int(k[0]),
        int(k[1]),
        int(s[0]),
        int(s[1]),
        int(h[0]),
        int(h[1]),
    ]
}

/// The window that the first six parameters describe.
pub(crate) fn window(params: &[Param]) -> Window {
    let int = |i: usize| match params[i] {
        Param::Int(v) => v,
        Param::Float(v) => v as i64,
    };
    let size = |i: usize| int(i).max(0) as usize;
    Window {
        kernel: [size(0), size(1)],
        stride: [size(2), size(3)],
        shift: [int(4) as isize, int(5) as isize],
    }
}

/// Extents of operand `i`, in four dimensions.
pub(crate) fn dims(call: &Call, i: usize) -> [usize; 4] {
    call.shape(i).dims4()
}

/// Refuses any number of operands but those given.
pub(crate) fn expect_operands(call: &Call, counts: &[usize]) -> Result<(), String> {
    let n = call.operands.len();
    if counts.contains(&n) {
        return Ok(());
    }
    Err(format!("{n} operands given, {counts:?} are possible"))
}

/// Refuses operands of different extents.
pub(crate) fn expect_same(call: &Call, places: &[usize]) -> Result<(), String> {
    let first = places[0];
    match places.iter().find(|&&i| dims(call, i) != dims(call, first)) {
        None => Ok(()),
        Some(&i) => Err(format!(
            "operand {i} has shape {}, operand {first} has {}",
            call.shape(i),
            call.shape(first)
        )),
    }
}

/// Refuses an operand whose extents are not these.
pub(crate) fn expect_dims(
    call: &Call,
    i: usize,
    name: &str,
    want: [usize; 4],
) -> Result<(), String> {
    if dims(call, i) == want {
        return Ok(());
    }
    let want: Vec<String> = want.iter().map(usize::to_string).collect();
    Err(format!(
        "{name} (operand {i}) has shape {}, expected {}",
        call.shape(i),
        want.join("×")
    ))
}

/// Refuses a window that no convolution or pooling has.
pub(crate) fn expect_window(call: &Call) -> Result<Window, String> {
    if call.params.len() < 6 {
        return Err("the window's six parameters are missing".into());
    }
    let win = window(&call.params);
    if win.kernel.contains(&0) || win.stride.contains(&0) {
        return Err(format!(
            "kernel {:?} and stride {:?} must not be zero",
            win.kernel, win.stride
        ));
    }
    Ok(win)
}

/// Scratch memory of `len` elements.
pub(crate) fn scratch<'a, T: Lane>(ops: &Operands<'a>, len: usize) -> &'a mut [T] {
    ops.scratch::<T>(len)
}
