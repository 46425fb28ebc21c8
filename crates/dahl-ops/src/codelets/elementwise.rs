//! Elementwise codelets: add, copy, positive part.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, expect_operands, expect_same, only};
use crate::elementwise::{binary, relu as kernel, unary};
use crate::simd::Lane;

fn cost(call: &Call) -> Cost {
    Cost { flops: call.shape(0).len() as f64, bytes: call.bytes() }
}

fn three(call: &Call) -> Result<(), String> {
    expect_operands(call, &[3])?;
    expect_same(call, &[0, 1, 2])
}

fn two(call: &Call) -> Result<(), String> {
    expect_operands(call, &[2])?;
    expect_same(call, &[0, 1])
}

fn add<T: Lane>(ops: &Operands<'_>) -> Done {
    binary::add(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

fn add_assign<T: Lane>(ops: &Operands<'_>) -> Done {
    binary::add_assign(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

fn copy<T: Lane>(ops: &Operands<'_>) -> Done {
    unary::copy(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

fn relu<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::relu(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

fn relu_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::relu_grad(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// `c = a + b`: a, b, c.
pub static ADD: Lazy =
    Lazy::new(|| Arc::new(Codelet::new("add").rule(three).cost(cost).with(only(by_type!(add)))));

/// `b = b + a`: a, b.
pub static ADD_ASSIGN: Lazy = Lazy::new(|| {
    Arc::new(Codelet::new("add_assign").rule(two).cost(cost).with(only(by_type!(add_assign))))
});

/// `b = a`: a, b.
pub static COPY: Lazy =
    Lazy::new(|| Arc::new(Codelet::new("copy").rule(two).cost(cost).with(only(by_type!(copy)))));

/// `y = max(x, 0)`: x, y.
pub static RELU: Lazy =
    Lazy::new(|| Arc::new(Codelet::new("relu").rule(two).cost(cost).with(only(by_type!(relu)))));

/// `dx = dy` where `y > 0`, else 0: dy, y, dx.
pub static RELU_GRAD: Lazy = Lazy::new(|| {
    Arc::new(Codelet::new("relu_grad").rule(three).cost(cost).with(only(by_type!(relu_grad))))
});
