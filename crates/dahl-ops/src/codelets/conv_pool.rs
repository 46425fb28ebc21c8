//! Convolution, bias, positive part and max-pooling in one task, and its gradients.
//!
//! Parameters: the convolution window's six, then the pooling window's side.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands, View, ViewMut};

use super::{
    Done, Lazy, by_type, cpu, dims, elements, expect_operands, expect_window, only, scratch, window,
};
use crate::conv2d::channels_last::{self as last, Gradient, unpooled, waste};
use crate::conv2d::{conv_pool as kernel, conv_pool_grad as grad};
use crate::simd::Lane;
use crate::window::Window;

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

type Forward<T> = fn(
    View<'_, T>,
    View<'_, T>,
    Option<View<'_, T>>,
    ViewMut<'_, T>,
    ViewMut<'_, T>,
    &Window,
    usize,
    &mut [T],
);

fn forward<T: Lane>(
    ops: &Operands<'_>,
    kernel: Forward<T>,
    need: fn([usize; 4], [usize; 4], &Window, usize) -> usize,
) -> Done {
    let (n, win, side) = (ops.len(), window(ops.params()), ops.int(6) as usize);
    let (x, w) = (ops.read::<T>(0), ops.read::<T>(1));
    let b = (n == 5).then(|| ops.read::<T>(2));
    let (y, codes) = (ops.write::<T>(n - 2), ops.write::<T>(n - 1));
    let len = need(x.dims(), y.dims(), &win, side);
    kernel(x, w, b, y, codes, &win, side, scratch(ops, len));
    Ok(())
}

fn forward_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, kernel::forward, kernel::forward_scratch)
}

fn forward_last<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, last::forward::forward, last::forward::scratch_len)
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
                |c| waste(y(c)[3]),
                |c| {
                    elements(
                        c,
                        kernel::forward_scratch(dims(c, 0), y(c), &window(&c.params), side(c)),
                    )
                },
                by_type!(forward_direct),
            ))
            // Turning filters round costs what a few more lanes would; what is done once per position (bias,
            // positive part, maximum) costs what some twenty weights would.
            .with(cpu(
                "channels_last",
                |c| {
                    let weights = c.shape(1).len() / y(c)[1].max(1);
                    1.2 * waste(y(c)[1]) * (1.0 + 20.0 / weights.max(1) as f64)
                },
                |c| {
                    let win = window(&c.params);
                    elements(
                        c,
                        last::forward::scratch_len(dims(c, 0), y(c), &win, side(c)),
                    )
                },
                by_type!(forward_last),
            )),
    )
});

fn filter_grad_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    let (n, win, side) = (ops.len(), window(ops.params()), ops.int(6) as usize);
    let (x, dy, codes) = (ops.read::<T>(0), ops.read::<T>(1), ops.read::<T>(2));
    let dw = ops.write::<T>(3);
    let db = (n == 5).then(|| ops.write::<T>(4));
    let len = grad::filter_grad_scratch(x.dims(), dy.dims(), &win, side);
    grad::filter_grad(x, dy, codes, dw, db, &win, side, scratch(ops, len));
    Ok(())
}

fn filter_grad_last<T: Lane>(ops: &Operands<'_>) -> Done {
    let (n, win) = (ops.len(), window(ops.params()));
    let (x, dw) = (ops.read::<T>(0), ops.write::<T>(3));
    let dy = pooled::<T>(ops, [1, 2], 6);
    let db = (n == 5).then(|| ops.write::<T>(4));
    let len = last::filter::scratch_len(x.dims(), dy.dims(), &win);
    last::filter::filter_grad(x, dy, dw, db, &win, scratch(ops, len));
    Ok(())
}

/// The pooled gradient and codes at these places, with the parameter that tells the window's side.
fn pooled<'a, T: Lane>(ops: &'a Operands<'_>, at: [usize; 2], side: usize) -> Gradient<'a, T> {
    Gradient::Pooled {
        dy: ops.read::<T>(at[0]),
        codes: ops.read::<T>(at[1]),
        side: ops.int(side) as usize,
    }
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
                |c| (side(c) * side(c)) as f64 * waste(dims(c, 1)[3]),
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
                by_type!(filter_grad_direct),
            ))
            // One product per window, not one per position, of numbers that are seldom aligned.
            .with(cpu(
                "channels_last",
                |c| 2.0 * waste(dims(c, 0)[1] * window(&c.params).kernel[1]),
                |c| {
                    let (win, dy) = (window(&c.params), unpooled(dims(c, 1), side(c)));
                    elements(c, last::filter::scratch_len(dims(c, 0), dy, &win))
                },
                by_type!(filter_grad_last),
            )),
    )
});

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (win, dy) = (window(ops.params()), pooled::<T>(ops, [0, 1], 6));
    let (w, dx) = (ops.read::<T>(2), ops.write::<T>(3));
    let len = last::input::scratch_len(dx.dims(), dy.dims(), &win);
    last::input::input_grad(dy, w, dx, &win, scratch(ops, len));
    Ok(())
}

/// dx from dy, codes, w, dx; for windows that [`last::input::supports`].
pub static INPUT_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[4])?;
        let win = expect_window(call)?;
        if !last::input::supports(&win) {
            return Err(format!(
                "kernel {:?} with stride {:?}: only stride 1 and kernels 3 or 5 high are fused; \
                 expand the gradient and use conv2d_input_grad",
                win.kernel, win.stride
            ));
        }
        Ok(())
    };
    Arc::new(
        Codelet::new("conv2d_relu_max_pool2d_input_grad")
            .rule(rule)
            .cost(|c| cost(dims(c, 0), dims(c, 2), side(c), c.bytes()))
            .with(cpu(
                "channels_last",
                |_| 1.0,
                |c| {
                    let (win, dy) = (window(&c.params), unpooled(dims(c, 0), side(c)));
                    elements(c, last::input::scratch_len(dims(c, 3), dy, &win))
                },
                by_type!(input_grad),
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
