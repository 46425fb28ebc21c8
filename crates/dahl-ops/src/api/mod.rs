//! Operations on typed arrays: what users call.
//!
//! Each function records one task, or a few, with the recorder given to it first. The forms are named
//! alike everywhere, and each operation says which of them it has:
//!
//! | form | result |
//! |---|---|
//! | `op(&r, &a)` | a temporary of the recorder, returned |
//! | `op_into(&r, &a, &mut out)` | written where told |
//! | `op_assign(&r, &mut a)` | updated in place |
//! | `op_reduce(&r, &a, &mut total)` | added, by several tasks at the same time where there are several |
//!
//! Arrays may be parts of others (see [`dahl_core::Split`]). Rank and element type are checked by the
//! compiler. Other mistakes do not return a `Result` here: the recorder keeps the first, with
//! operation, operand, shapes and the line that asked, and `finish` returns it. A result that could
//! not be made has some shape, so that what follows can be recorded.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//!
//! let arena = Arena::new();
//! let a = arena.zeros::<f32, 1>([3]).unwrap();
//! let b = arena.zeros::<f32, 1>([4]).unwrap();
//! let recorder = Recorder::new();
//! dahl_ops::api::add(&recorder, &a, &b);
//! let mistake = recorder.finish().unwrap_err().to_string();
//! assert!(mistake.starts_with("add: b has shape 4, a has 3"));
//! ```

mod conv2d;

pub use crate::activation::{
    elu, elu_assign, elu_grad, elu_grad_assign, elu_grad_into, elu_into, gelu, gelu_assign,
    gelu_grad, gelu_grad_assign, gelu_grad_into, gelu_into, gelu_tanh, gelu_tanh_assign,
    gelu_tanh_grad, gelu_tanh_grad_assign, gelu_tanh_grad_into, gelu_tanh_into, leaky_relu,
    leaky_relu_assign, leaky_relu_grad, leaky_relu_grad_assign, leaky_relu_grad_into,
    leaky_relu_into, sigmoid, sigmoid_assign, sigmoid_grad, sigmoid_grad_assign, sigmoid_grad_into,
    sigmoid_into, silu, silu_assign, silu_grad, silu_grad_assign, silu_grad_into, silu_into, tanh,
    tanh_assign, tanh_grad, tanh_grad_assign, tanh_grad_into, tanh_into,
};
pub use crate::cross_entropy::{
    CrossEntropy, cross_entropy, cross_entropy_evaluate_into, cross_entropy_into,
};
pub use crate::dropout::{Dropout, dropout, dropout_into};
pub use crate::elementwise::binary::{
    add, add_assign, add_into, add_reduce, div, div_assign, div_into, mul, mul_assign, mul_into,
    sub, sub_assign, sub_into,
};
pub use crate::elementwise::relu::{
    relu, relu_assign, relu_grad, relu_grad_assign, relu_grad_into, relu_into,
};
pub use crate::elementwise::unary::{
    add_value, add_value_assign, add_value_into, clip, clip_assign, clip_into, copy, copy_into,
    exp, exp_assign, exp_into, fill, fill_assign, log, log_assign, log_into, power, power_assign,
    power_into, round, round_assign, round_into, scale, scale_assign, scale_into, sub_value,
    sub_value_assign, sub_value_into,
};
pub use crate::linalg::products::{
    Transposed, dot, dot_into, dot_reduce, matmul, matmul_into, matmul_reduce, matvec, matvec_into,
    outer, outer_into, outer_reduce, vecmat, vecmat_into,
};
pub use crate::linalg::rearranged::{
    correlate, correlate_into, diag, diag_into, diagonal, diagonal_into, transpose, transpose_into,
};
pub use crate::linear::{
    linear, linear_bias_grad, linear_bias_grad_reduce, linear_input_grad, linear_input_grad_into,
    linear_into, linear_weight_grad, linear_weight_grad_reduce,
};
pub use crate::optim::{
    Decay, Momentum, adam_assign, clip_norm_assign, clip_squares_reduce, sgd_assign,
    sgd_momentum_assign,
};
pub use crate::pool::{
    Pool2d, adaptive_avg_pool2d, adaptive_avg_pool2d_grad_into, adaptive_avg_pool2d_into,
    avg_pool2d, avg_pool2d_grad, avg_pool2d_grad_into, avg_pool2d_into, max_pool2d,
    max_pool2d_grad, max_pool2d_grad_into, max_pool2d_into, max_pool2d_places,
    max_pool2d_places_into,
};
pub use crate::reduce::{
    max, max_assign, max_into, max_reduce, mean, mean_into, mean_reduce, min, min_assign, min_into,
    min_reduce, sum, sum_assign, sum_axes, sum_axes_into, sum_axes_reduce, sum_into, sum_reduce,
};
pub use crate::softmax::{
    softmax, softmax_grad, softmax_grad_into, softmax_into, softmax_jacobian, softmax_jacobian_into,
};
pub use conv2d::*;

use std::sync::Arc;

use dahl_core::{Call, Codelet, Operand, Param, Recorder, Task};

use crate::codelets::Lazy;
use crate::window::Window;

use crate::op::extents;

#[track_caller]
fn submit(recorder: &Recorder, codelet: &Arc<Codelet>, operands: &[Operand<'_>], params: &[Param]) {
    recorder.submit(Task::new(codelet, operands).params(params));
}

/// Submits a task if the rule of `check` holds too. Codelets of layers also serve tiles, of which they
/// cannot know how much of the input they must hold; whole arrays are held to more. What breaks the
/// rule is submitted to `check`, a codelet of the same name that does nothing but refuse.
#[track_caller]
fn submit_checked(
    recorder: &Recorder,
    codelet: &Arc<Codelet>,
    check: &Lazy,
    operands: &[Operand<'_>],
    params: &[Param],
) {
    let call = Call {
        operands: operands.iter().map(|o| (o.handle.shape, o.mode)).collect(),
        dtype: operands[0].handle.dtype(),
        params: params.to_vec(),
    };
    let holds = (check.rule)(&call).is_ok();
    submit(
        recorder,
        if holds { codelet } else { check },
        operands,
        params,
    );
}

/// How far a window reaches into the input along `axis`: the extent of its output.
fn reach(win: &Window, axis: usize, len: usize) -> Option<usize> {
    let padded = len.checked_add_signed(2 * win.shift[axis])?;
    let room = padded.checked_sub(win.kernel[axis])?;
    room.checked_div(win.stride[axis]).map(|steps| steps + 1)
}

/// The output's height and width, or what a mistake is recorded with.
fn plane(win: &Window, input: [usize; 2]) -> [usize; 2] {
    [0, 1].map(|a| reach(win, a, input[a]).unwrap_or(1))
}

/// Refuses an output plane (of operand `out`) that the window does not make of operand 0.
fn expect_plane(call: &Call, win: &Window, out: usize) -> Result<(), String> {
    let (x, y) = (call.shape(0), call.shape(out));
    let (from, to) = (x.dims4(), y.dims4());
    let [k, s, p] = [
        format!("{}×{}", win.kernel[0], win.kernel[1]),
        format!("{}×{}", win.stride[0], win.stride[1]),
        format!("{}×{}", win.shift[0], win.shift[1]),
    ];
    match [reach(win, 0, from[2]), reach(win, 1, from[3])] {
        [Some(h), Some(w)] if [h, w] == to[2..] => Ok(()),
        [Some(h), Some(w)] => Err(format!(
            "output (operand {out}) has shape {y}, expected planes of {h}×{w} for input {x}, \
             kernel {k}, stride {s} and padding {p}"
        )),
        _ => Err(format!(
            "kernel {k} with stride {s} does not fit input (operand 0) of shape {x} with padding {p}"
        )),
    }
}
