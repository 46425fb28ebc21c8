//! Softmax along the last axis, its gradient, and its whole Jacobian.
//!
//! Rows must be whole: a part that is cut along the last axis is normalised by itself.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, dims, expect_dims, expect_operands, expect_same, only};
use crate::simd::Lane;
use crate::softmax as kernel;

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::forward(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// y from x, y.
pub static FORWARD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        expect_same(call, &[0, 1])
    };
    Arc::new(
        Codelet::new("softmax")
            .rule(rule)
            .cost(|c| Cost {
                flops: 20.0 * c.shape(0).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(forward))),
    )
});

fn grad<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::backward(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// dx, the Jacobian applied to dy: y, dy, dx.
pub static GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_same(call, &[0, 1, 2])
    };
    Arc::new(
        Codelet::new("softmax_grad")
            .rule(rule)
            .cost(|c| Cost {
                flops: 4.0 * c.shape(0).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(grad))),
    )
});

fn jacobian<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::jacobian(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// The Jacobian of one row: y, Jacobian.
pub static JACOBIAN: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        let n = dims(call, 0)[3];
        expect_dims(call, 0, "y", [1, 1, 1, n])?;
        expect_dims(call, 1, "Jacobian", [1, 1, n, n])
    };
    Arc::new(
        Codelet::new("softmax_jacobian")
            .rule(rule)
            .cost(|c| Cost {
                flops: 2.0 * c.shape(1).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(jacobian))),
    )
});
