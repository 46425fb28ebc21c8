//! Convolution codelets: forward and the gradients of input, filter and bias.
//!
//! Parameters: the window's six, then for the forward pass 1 if the positive part is taken.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Implementation, Operands};

use super::{
    Done, Lazy, by_type, cpu, dims, elements, expect_dims, expect_operands, expect_window, only,
    scratch, window,
};
use crate::conv2d::channels_last::{self as last, Gradient};
use crate::conv2d::{bias, direct, direct_filter, gemm, packed, reference};
use crate::simd::Lane;

/// Multiplications and additions of a convolution with output `y` and filter `w`.
pub(super) fn flops(y: [usize; 4], w: [usize; 4]) -> f64 {
    2.0 * y.iter().product::<usize>() as f64 * (w[1] * w[2] * w[3]) as f64
}

/// Where the output is: behind the bias, if there is one.
fn output(call: &Call) -> usize {
    call.operands.len() - 1
}

fn forward_rule(call: &Call) -> Result<(), String> {
    expect_operands(call, &[3, 4])?;
    let win = expect_window(call)?;
    let (x, y) = (dims(call, 0), dims(call, output(call)));
    if x[0] != y[0] {
        return Err(format!("input has {} samples, output has {}", x[0], y[0]));
    }
    let w = dims(call, 1);
    if w[1] != x[1] {
        return Err(format!(
            "input has {} channels, filter expects {}",
            x[1], w[1]
        ));
    }
    expect_dims(
        call,
        1,
        "filter",
        [y[1], x[1], win.kernel[0], win.kernel[1]],
    )?;
    if call.operands.len() == 4 {
        expect_dims(call, 2, "bias", [1, 1, 1, y[1]])?;
    }
    Ok(())
}

fn grad_rule(call: &Call) -> Result<(), String> {
    expect_operands(call, &[3])?;
    expect_window(call)?;
    Ok(())
}

/// How suited the implementations are, by the number of channels that vectors could hold. Measured:
/// vectors along rows win below about 12 channels, vectors of channels from 16 on.
fn few(c: usize, o: usize) -> bool {
    c < 12 && c * o < 1024
}

fn direct_weight(c: usize, o: usize) -> f64 {
    if few(c, o) { 1.0 } else { 4.0 }
}

fn packed_weight(c: usize, o: usize) -> f64 {
    if c >= 16 && o >= 8 { 1.0 } else { 3.0 }
}

fn gemm_weight(call: &Call, c: usize, o: usize) -> f64 {
    let win = window(&call.params);
    if win.kernel == [1, 1] && win.stride == [1, 1] && c >= 8 {
        return 0.5;
    }
    if !few(c, o) && c < 16 { 1.0 } else { 2.0 }
}

type Kernel<T> = fn(
    dahl_core::View<'_, T>,
    dahl_core::View<'_, T>,
    Option<dahl_core::View<'_, T>>,
    bool,
    dahl_core::ViewMut<'_, T>,
    &crate::window::Window,
    &mut [T],
);

fn forward<T: Lane>(
    ops: &Operands<'_>,
    kernel: Kernel<T>,
    need: impl Fn([usize; 4], [usize; 4], &crate::window::Window) -> usize,
) -> Done {
    let n = ops.len();
    let win = window(ops.params());
    let (x, w) = (ops.read::<T>(0), ops.read::<T>(1));
    let b = (n == 4).then(|| ops.read::<T>(2));
    let y = ops.write::<T>(n - 1);
    let len = need(x.dims(), y.dims(), &win);
    kernel(x, w, b, ops.int(6) != 0, y, &win, scratch(ops, len));
    Ok(())
}

fn forward_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(
        ops,
        |x, w, b, relu, y, win, _| reference::forward(x, w, b, relu, y, win),
        |_, _, _| 0,
    )
}

fn forward_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, direct::forward, direct::forward_scratch)
}

fn forward_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, gemm::forward, gemm::scratch_len)
}

fn forward_packed<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, packed::forward, packed::forward_scratch_len)
}

/// y from x, w, (bias,) y.
pub static FORWARD: Lazy = Lazy::new(|| {
    fn channels(call: &Call) -> (usize, usize) {
        (dims(call, 0)[1], dims(call, output(call))[1])
    }
    let cost = |call: &Call| {
        let (y, w) = (dims(call, output(call)), dims(call, 1));
        Cost {
            flops: flops(y, w),
            bytes: call.bytes(),
        }
    };
    Arc::new(
        Codelet::new("conv2d")
            .rule(forward_rule)
            .cost(cost)
            .with(cpu(
                "reference",
                |_| 100.0,
                |_| 0,
                by_type!(forward_reference),
            ))
            .with(cpu(
                "direct",
                |c| direct_weight(channels(c).0, channels(c).1),
                |c| {
                    elements(
                        c,
                        direct::forward_scratch(dims(c, 0), dims(c, output(c)), &window(&c.params)),
                    )
                },
                by_type!(forward_direct),
            ))
            .with(cpu(
                "gemm",
                |c| gemm_weight(c, channels(c).0, channels(c).1),
                |c| {
                    elements(
                        c,
                        gemm::scratch_len(dims(c, 0), dims(c, output(c)), &window(&c.params)),
                    )
                },
                by_type!(forward_gemm),
            ))
            .with(cpu(
                "packed",
                |c| packed_weight(channels(c).0, channels(c).1),
                |c| {
                    let win = window(&c.params);
                    elements(
                        c,
                        packed::forward_scratch_len(dims(c, 0), dims(c, output(c)), &win),
                    )
                },
                by_type!(forward_packed),
            )),
    )
});

fn input_grad_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    reference::input_grad(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2), &win);
    Ok(())
}

fn input_grad_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (dy, w, dx) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = direct::input_grad_scratch(dy.dims(), dx.dims(), &win);
    direct::input_grad(dy, w, dx, &win, scratch(ops, len));
    Ok(())
}

fn input_grad_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (dy, w, dx) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = gemm::scratch_len(dx.dims(), dy.dims(), &win);
    gemm::input_grad(dy, w, dx, &win, scratch(ops, len));
    Ok(())
}

fn input_grad_packed<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (dy, w, dx) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = packed::input_grad_scratch_len(dy.dims(), dx.dims(), &win);
    packed::input_grad(dy, w, dx, &win, scratch(ops, len));
    Ok(())
}

fn input_grad_last<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (dy, w, dx) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = last::input::scratch_len(dx.dims(), dy.dims(), &win);
    last::input::input_grad(Gradient::Plain(dy), w, dx, &win, scratch(ops, len));
    Ok(())
}

/// dx from dy, w, dx.
pub static INPUT_GRAD: Lazy = Lazy::new(|| {
    fn channels(call: &Call) -> (usize, usize) {
        (dims(call, 2)[1], dims(call, 0)[1])
    }
    Arc::new(
        Codelet::new("conv2d_input_grad")
            .rule(grad_rule)
            .cost(|c| Cost {
                flops: flops(dims(c, 0), dims(c, 1)),
                bytes: c.bytes(),
            })
            .with(cpu(
                "reference",
                |_| 100.0,
                |_| 0,
                by_type!(input_grad_reference),
            ))
            .with(cpu(
                "direct",
                |c| direct_weight(channels(c).1, channels(c).0),
                |c| {
                    elements(
                        c,
                        direct::input_grad_scratch(dims(c, 0), dims(c, 2), &window(&c.params)),
                    )
                },
                by_type!(input_grad_direct),
            ))
            .with(cpu(
                "gemm",
                |c| gemm_weight(c, channels(c).1, channels(c).0),
                |c| {
                    elements(
                        c,
                        gemm::scratch_len(dims(c, 2), dims(c, 0), &window(&c.params)),
                    )
                },
                by_type!(input_grad_gemm),
            ))
            .with(cpu(
                "packed",
                |c| packed_weight(channels(c).1, channels(c).0),
                |c| {
                    elements(
                        c,
                        packed::input_grad_scratch_len(dims(c, 0), dims(c, 2), &window(&c.params)),
                    )
                },
                by_type!(input_grad_packed),
            ))
            .with(Implementation {
                supports: |c| last::input::supports(&window(&c.params)),
                ..cpu(
                    "channels_last",
                    |c| match last::input::pays(dims(c, 2)[1], &window(&c.params)) {
                        true => 1.5,
                        false => 8.0,
                    },
                    |c| {
                        let win = window(&c.params);
                        elements(c, last::input::scratch_len(dims(c, 2), dims(c, 0), &win))
                    },
                    by_type!(input_grad_last),
                )
            }),
    )
});

fn filter_grad_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    reference::filter_grad(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2), &win);
    Ok(())
}

fn filter_grad_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (x, dy, dw) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = direct_filter::filter_grad_scratch(x.dims(), dy.dims(), &win);
    direct_filter::filter_grad(x, dy, dw, &win, scratch(ops, len));
    Ok(())
}

fn filter_grad_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (x, dy, dw) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = gemm::scratch_len(x.dims(), dy.dims(), &win);
    gemm::filter_grad(x, dy, dw, &win, scratch(ops, len));
    Ok(())
}

fn filter_grad_packed<T: Lane>(ops: &Operands<'_>) -> Done {
    let win = window(ops.params());
    let (x, dy, dw) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = packed::filter_grad_scratch_len(x.dims(), dy.dims(), &win);
    packed::filter_grad(x, dy, dw, &win, scratch(ops, len));
    Ok(())
}

/// dw += from x, dy, dw.
pub static FILTER_GRAD: Lazy = Lazy::new(|| {
    fn channels(call: &Call) -> (usize, usize) {
        (dims(call, 0)[1], dims(call, 1)[1])
    }
    Arc::new(
        Codelet::new("conv2d_filter_grad")
            .rule(grad_rule)
            .cost(|c| Cost {
                flops: flops(dims(c, 1), dims(c, 2)),
                bytes: c.bytes(),
            })
            .with(cpu(
                "reference",
                |_| 100.0,
                |_| 0,
                by_type!(filter_grad_reference),
            ))
            .with(cpu(
                "direct",
                |c| direct_weight(channels(c).0, channels(c).1),
                |c| {
                    elements(
                        c,
                        direct_filter::filter_grad_scratch(
                            dims(c, 0),
                            dims(c, 1),
                            &window(&c.params),
                        ),
                    )
                },
                by_type!(filter_grad_direct),
            ))
            .with(cpu(
                "gemm",
                |c| gemm_weight(c, channels(c).0, channels(c).1),
                |c| {
                    elements(
                        c,
                        gemm::scratch_len(dims(c, 0), dims(c, 1), &window(&c.params)),
                    )
                },
                by_type!(filter_grad_gemm),
            ))
            .with(cpu(
                "packed",
                |c| packed_weight(channels(c).0, channels(c).1),
                |c| {
                    elements(
                        c,
                        packed::filter_grad_scratch_len(dims(c, 0), dims(c, 1), &window(&c.params)),
                    )
                },
                by_type!(filter_grad_packed),
            )),
    )
});

fn bias_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    bias::bias_grad(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// db += from dy, db.
pub static BIAS_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        expect_dims(call, 1, "bias gradient", [1, 1, 1, dims(call, 0)[1]])
    };
    Arc::new(
        Codelet::new("conv2d_bias_grad")
            .rule(rule)
            .cost(|c| Cost {
                flops: c.shape(0).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(bias_grad))),
    )
});
