//! The positive part, and its gradient from the output.
//!
//! The output says all that the gradient needs (positive or not), so the input may be overwritten.

use dahl_core::{Array, Recorder};

use super::kernels::relu as kernel;
use super::{Unary, binary_forms, both, codelet, unary_forms};
use crate::declare::operands;
use crate::op::Op;
use crate::simd::Lane;

/// `y = max(x, 0)`; not-a-number stays.
pub static RELU: Op<Unary> = Op::new(|| {
    codelet::<Unary>("relu", both!(|x, y| kernel::relu(x.a, y)), |x| {
        masked(x.a, x.a)
    })
    .gradients(&["relu_grad"])
});

operands! {
    /// Operands of [`RELU_GRAD`].
    ReluGrad {
        dy: one [Read|ReadWrite] any "the gradient by the output; without dx it is changed",
        y: one [Read] any "the output, or any mask, as large",
        dx: maybe [Write] any "the gradient by the input, as large",
    }
}

/// `dx = dy` where `y > 0`, else 0.
pub static RELU_GRAD: Op<ReluGrad> = Op::new(|| {
    codelet::<ReluGrad>(
        "relu_grad",
        both!(|x, d| kernel::relu_grad(x.a, x.b, d)),
        |x| masked(x.a, x.b),
    )
});

fn masked(x: f64, mask: f64) -> f64 {
    if mask <= 0.0 { 0.0 } else { x }
}

unary_forms! { "`max(x, 0)`; its gradient is [`relu_grad`]", RELU: relu, relu_into, relu_assign () () }
binary_forms! {
    "The gradient of `y = relu(x)`: `dy` where `y` (or any mask) is positive, else 0",
    RELU_GRAD: relu_grad, relu_grad_into, relu_grad_assign, ReluGrad { dy, y, dx } () ()
}
