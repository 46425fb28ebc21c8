//! Convolution, bias, positive part and max-pooling in one task, and its gradients.
//!
//! Parameters: the convolution window's six, then the pooling window's side.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{
    Done, Lazy, by_type, cpu, dims, elements, expect_operands, expect_window, only, scratch, window,
};
use crate::conv2d::{conv_pool as kernel, conv_pool_grad as grad};
use crate::simd::Lane;

fn side(call: &Call) -> usize {
    call.int(6).max(0) as usize
}

/// Columns of the codes for a row of `windows` pooling windows.
pub fn code_columns(dtype: dahl_core::DType, windows: usize) -> usize {
    windows.div_ceil(dtype.size())
}

fn cost(y: [usize; 4], w: [usize; 4], side: usize, bytes: f64) -> Cost {
    let flops = super::conv2d::flops(y, w) * (side * side) as f64;
    Cost { flops, bytes }
}

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (n, win, side) = (ops.len(), window(ops.params()), ops.int(6) as usize);
    let (x, w) = (ops.read::<T>(0), ops.read::<T>(1));
    let b = (n == 5).then(|| ops.read::<T>(2));
    let (y, codes) = (ops.write::<T>(n - 2), ops.write::<T>(n - 1));
    let len = kernel::forward_scratch(x.dims(), y.dims(), &win, side);
    kernel::forward(x, w, b, y, codes, &win, side, scratch(ops, len));
    Ok(())
}

/// y and codes from x, w, (bias,) y, codes.
pub static FORWARD: Lazy = Lazy::new(|| {
    fn y(call: &Call) -> [usize; 4] {
        dims(call, call.operands.len() - 2)
    }
    let rule = |call: &Call| {
        expect_operands(call, &[4, 5])?;
        expect_window(call).map(|_| ())
    };
    Arc::new(
        Codelet::new("conv2d_relu_max_pool2d")
            .rule(rule)
            .cost(|c| cost(y(c), dims(c, 1), side(c), c.bytes()))
            .with(cpu(
                "direct",
                |_| 1.0,
                |c| {
                    elements(
                        c,
                        kernel::forward_scratch(dims(c, 0), y(c), &window(&c.params), side(c)),
                    )
                },
                by_type!(forward),
            )),
    )
});

fn filter_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (n, win, side) = (ops.len(), window(ops.params()), ops.int(6) as usize);
    let (x, dy, codes) = (ops.read::<T>(0), ops.read::<T>(1), ops.read::<T>(2));
    let dw = ops.write::<T>(3);
    let db = (n == 5).then(|| ops.write::<T>(4));
    let len = grad::filter_grad_scratch(x.dims(), dy.dims(), &win, side);
    grad::filter_grad(x, dy, codes, dw, db, &win, side, scratch(ops, len));
    Ok(())
}

/// dw += and db += from x, dy, codes, dw, (db).
pub static FILTER_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[4, 5])?;
        expect_window(call).map(|_| ())
    };
    Arc::new(
        Codelet::new("conv2d_relu_max_pool2d_filter_grad")
            .rule(rule)
            .cost(|c| cost(dims(c, 1), dims(c, 3), side(c), c.bytes()))
            .with(cpu(
                "direct",
                |_| 1.0,
                |c| {
                    elements(
                        c,
                        grad::filter_grad_scratch(
                            dims(c, 0),
                            dims(c, 1),
                            &window(&c.params),
                            side(c),
                        ),
                    )
                },
                by_type!(filter_grad),
            )),
    )
});

fn expand<T: Lane>(ops: &Operands<'_>) -> Done {
    grad::expand(
        ops.read::<T>(0),
        ops.read::<T>(1),
        ops.write::<T>(2),
        ops.int(0) as usize,
    );
    Ok(())
}

/// The convolution's output gradient from dy, codes, it. One parameter: the pooling window's side.
pub static EXPAND: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("max_pool2d_expand")
            .rule(|call| expect_operands(call, &[3]))
            .cost(|c| Cost {
                flops: c.shape(2).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(expand))),
    )
});
