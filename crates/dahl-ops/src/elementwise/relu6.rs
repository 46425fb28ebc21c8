//! The positive part up to six, as MobileNets have it, and its gradient from the output.
//!
//! As with `relu`, the output says all that the gradient needs: whether it lies between the bounds.

use dahl_core::{Array, Recorder};

use super::kernels::relu as kernel;
use super::relu::ReluGrad;
use super::{Unary, binary_forms, both, codelet, unary_forms};
use crate::op::Op;
use crate::simd::Lane;

/// `y = min(max(x, 0), 6)`; not-a-number stays.
pub static RELU6: Op<Unary> = Op::new(|| {
    codelet::<Unary>("relu6", both!(|x, y| kernel::relu6(x.a, y)), |x| {
        let low = if x.a <= 0.0 { 0.0 } else { x.a };
        if low >= 6.0 { 6.0 } else { low }
    })
    .gradients(&["relu6_grad"])
});

/// `dx = dy` where `0 < y < 6`, else 0.
pub static RELU6_GRAD: Op<ReluGrad> = Op::new(|| {
    codelet::<ReluGrad>(
        "relu6_grad",
        both!(|x, d| kernel::relu6_grad(x.a, x.b, d)),
        |x| match x.b <= 0.0 || x.b >= 6.0 {
            true => 0.0,
            false => x.a,
        },
    )
});

unary_forms! {
    "`min(max(x, 0), 6)`; its gradient is [`relu6_grad`]",
    RELU6: relu6, relu6_into, relu6_assign () ()
}
binary_forms! {
    "The gradient of `y = relu6(x)`: `dy` where `y` lies between 0 and 6, else 0",
    RELU6_GRAD: relu6_grad, relu6_grad_into, relu6_grad_assign, ReluGrad { dy, y, dx } () ()
}
