//! Fully connected layers: codelets of `y = x · Wᵀ + b` and its gradients.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, dims, expect_dims, expect_operands, only};
use crate::linear as kernel;
use crate::simd::Lane;

fn cost(call: &Call, batch: usize, weights: usize) -> Cost {
    Cost {
        flops: 2.0 * (batch * weights) as f64,
        bytes: call.bytes(),
    }
}

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let n = ops.len();
    let b = (n == 4).then(|| ops.read::<T>(2));
    kernel::forward(ops.read::<T>(0), ops.read::<T>(1), b, ops.write::<T>(n - 1));
    Ok(())
}

/// y from x, w, (bias,) y.
pub static FORWARD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3, 4])?;
        let (x, w, last) = (dims(call, 0), dims(call, 1), call.operands.len() - 1);
        if x[3] != w[3] {
            return Err(format!(
                "input has {} features, weight expects {}",
                x[3], w[3]
            ));
        }
        expect_dims(call, last, "output", [1, 1, x[2], w[2]])
    };
    Arc::new(
        Codelet::new("linear")
            .rule(rule)
            .cost(|c| cost(c, dims(c, 0)[2], c.shape(1).len()))
            .with(only(by_type!(forward))),
    )
});

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::input_grad(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// dx from dy, w, dx.
pub static INPUT_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_dims(
            call,
            2,
            "input gradient",
            [1, 1, dims(call, 0)[2], dims(call, 1)[3]],
        )
    };
    Arc::new(
        Codelet::new("linear_input_grad")
            .rule(rule)
            .cost(|c| cost(c, dims(c, 0)[2], c.shape(1).len()))
            .with(only(by_type!(input_grad))),
    )
});

fn weight_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::weight_grad(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// dw += from dy, x, dw.
pub static WEIGHT_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_dims(
            call,
            2,
            "weight gradient",
            [1, 1, dims(call, 0)[3], dims(call, 1)[3]],
        )
    };
    Arc::new(
        Codelet::new("linear_weight_grad")
            .rule(rule)
            .cost(|c| cost(c, dims(c, 0)[2], c.shape(2).len()))
            .with(only(by_type!(weight_grad))),
    )
});

fn bias_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::bias_grad(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// db += from dy, db.
pub static BIAS_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        expect_dims(call, 1, "bias gradient", [1, 1, 1, dims(call, 0)[3]])
    };
    Arc::new(
        Codelet::new("linear_bias_grad")
            .rule(rule)
            .cost(|c| Cost {
                flops: c.shape(0).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(bias_grad))),
    )
});
