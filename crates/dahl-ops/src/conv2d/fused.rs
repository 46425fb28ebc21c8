//! Convolution, bias, positive part and max-pooling in one task, and its gradients.
//!
//! What the gradients need of the forward pass is one byte per pooled output: where the maximum was, or
//! that nothing was positive. These codes are packed in elements, [`code_columns`] per row.

use dahl_core::{Call, Codelet, Cost, DType, Operands, Recorder, Tensor, Vector, View, ViewMut};

use super::channels_last::{self as last, Gradient, unpooled, waste};
use super::plain::flops;
use super::typed::{Conv2d, window_of};
use super::{conv_pool as kernel, conv_pool_grad as grad};
use crate::declare::{operands, params};
use crate::op::{Done, Op, by_type, cpu, elements, extents, only};
use crate::simd::Lane;
use crate::window::Window;

pub use super::channels_last::input::pays as input_grad_pays;
pub use kernel::supports as supports_pool;

operands! {
    /// Operands of [`FORWARD`].
    Forward {
        x: one [Read] 4 "the input: samples × channels × height × width",
        w: one [Read] 4 "the filters: outputs × channels × height × width",
        bias: maybe [Read] 1 "one number per output channel",
        y: one [Write] 4 "the pooled output",
        codes: one [Write] 4 "where the maxima were, as bytes",
    }
}

operands! {
    /// Operands of [`FILTER_GRAD`].
    FilterGrad {
        x: one [Read] 4 "the input",
        dy: one [Read] 4 "the gradient by the pooled output",
        codes: one [Read] 4 "where the maxima were",
        dw: one [Reduce|ReadWrite] 4 "the gradient by the filters",
        db: maybe [Reduce|ReadWrite] 1 "the gradient by the bias",
    }
}

operands! {
    /// Operands of [`INPUT_GRAD`].
    InputGrad {
        dy: one [Read] 4 "the gradient by the pooled output",
        codes: one [Read] 4 "where the maxima were",
        w: one [Read] 4 "the filters",
        dx: one [Write] 4 "the gradient by the input",
    }
}

params! {
    /// Parameters of the fused operation and its gradients.
    Params {
        window: Window, "the convolution's kernel, stride and shift, each along height and width";
        side: usize, "the pooling window's height and width, which is its stride";
    }
}

operands! {
    /// Operands of [`EXPAND`].
    Expand {
        dy: one [Read] 4 "the gradient by the pooled output",
        codes: one [Read] 4 "where the maxima were",
        full: one [Write] 4 "the gradient by the convolution's output",
    }
}

params! {
    /// The parameter of [`EXPAND`].
    Side {
        side: usize, "the pooling window's height and width, which is its stride";
    }
}

/// Columns of the codes for a row of `windows` pooling windows.
pub fn code_columns(dtype: DType, windows: usize) -> usize {
    windows.div_ceil(dtype.size())
}

fn cost(call: &Call, y: [usize; 4], w: [usize; 4]) -> Cost {
    let side = Params::of(&call.params).side;
    Cost {
        flops: flops(y, w) * (side * side) as f64,
        bytes: call.bytes(),
    }
}

fn rule(call: &Call) -> Result<(), String> {
    Params::of(&call.params).window.check()
}

/// `y = pool(max(x ∗ w + bias, 0))`
pub static FORWARD: Op<Forward, Params> = Op::new(|| {
    fn scratch(call: &Call, need: Need) -> usize {
        let (Forward { x, y, .. }, given) = (Forward::shapes(call), Params::of(&call.params));
        elements(call, need(x.dims(), y.dims(), &given.window, given.side))
    }
    let cost = |call: &Call| {
        let Forward { w, y, .. } = Forward::shapes(call);
        cost(call, y.dims(), w.dims())
    };
    Codelet::new("conv2d_relu_max_pool2d")
        .rule(rule)
        .cost(cost)
        .gradients(&[
            "conv2d_relu_max_pool2d_filter_grad",
            "conv2d_relu_max_pool2d_input_grad",
        ])
        .with(cpu(
            "direct",
            |c| waste(Forward::shapes(c).y.dims()[3]),
            |c| scratch(c, kernel::forward_scratch),
            by_type!(forward_direct),
        ))
        // Turning filters round costs what a few more lanes would; what is done once per position (bias,
        // positive part, maximum) costs what some twenty weights would.
        .with(cpu(
            "channels_last",
            |c| {
                let Forward { w, y, .. } = Forward::shapes(c);
                let outputs = y.dims()[1];
                let weights = w.shape.len() / outputs.max(1);
                1.2 * waste(outputs) * (1.0 + 20.0 / weights.max(1) as f64)
            },
            |c| scratch(c, last::forward::scratch_len),
            by_type!(forward_last),
        ))
});

/// `dw +=` and `db +=` the gradients by filters and bias.
pub static FILTER_GRAD: Op<FilterGrad, Params> = Op::new(|| {
    let cost = |call: &Call| {
        let FilterGrad { dy, dw, .. } = FilterGrad::shapes(call);
        cost(call, dy.dims(), dw.dims())
    };
    Codelet::new("conv2d_relu_max_pool2d_filter_grad")
        .rule(rule)
        .cost(cost)
        .with(cpu(
            "direct",
            |c| {
                let side = Params::of(&c.params).side;
                (side * side) as f64 * waste(FilterGrad::shapes(c).dy.dims()[3])
            },
            |c| {
                let (at, given) = (FilterGrad::shapes(c), Params::of(&c.params));
                let (x, dy) = (at.x.dims(), at.dy.dims());
                elements(
                    c,
                    grad::filter_grad_scratch(x, dy, &given.window, given.side),
                )
            },
            by_type!(filter_grad_direct),
        ))
        // One product per window, not one per position, of numbers that are seldom aligned.
        .with(cpu(
            "channels_last",
            |c| {
                let kernel = Params::of(&c.params).window.kernel;
                2.0 * waste(FilterGrad::shapes(c).x.dims()[1] * kernel[1])
            },
            |c| {
                let (at, given) = (FilterGrad::shapes(c), Params::of(&c.params));
                let dy = unpooled(at.dy.dims(), given.side);
                elements(c, last::filter::scratch_len(at.x.dims(), dy, &given.window))
            },
            by_type!(filter_grad_last),
        ))
});

/// The gradient by the input, for windows that `last::input::supports`.
pub static INPUT_GRAD: Op<InputGrad, Params> = Op::new(|| {
    let rule = |call: &Call| {
        rule(call)?;
        let win = Params::of(&call.params).window;
        if !last::input::supports(&win) {
            return Err(format!(
                "kernel {:?} with stride {:?}: only stride 1 and kernels 3 or 5 high are fused; \
                 expand the gradient and use conv2d_input_grad",
                win.kernel, win.stride
            ));
        }
        Ok(())
    };
    let cost = |call: &Call| {
        let InputGrad { dy, w, .. } = InputGrad::shapes(call);
        cost(call, dy.dims(), w.dims())
    };
    let scratch = |call: &Call| {
        let (at, given) = (InputGrad::shapes(call), Params::of(&call.params));
        let dy = unpooled(at.dy.dims(), given.side);
        elements(
            call,
            last::input::scratch_len(at.dx.dims(), dy, &given.window),
        )
    };
    Codelet::new("conv2d_relu_max_pool2d_input_grad")
        .rule(rule)
        .cost(cost)
        .with(cpu("channels_last", |_| 1.0, scratch, by_type!(input_grad)))
});

/// The gradient by the convolution's output, written out.
pub static EXPAND: Op<Expand, Side> = Op::new(|| {
    let cost = |call: &Call| Cost {
        flops: Expand::shapes(call).full.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("max_pool2d_expand")
        .cost(cost)
        .with(only(by_type!(expand)))
});

type Need = fn([usize; 4], [usize; 4], &Window, usize) -> usize;

type Kernel<T> = fn(
    View<'_, T>,
    View<'_, T>,
    Option<View<'_, T>>,
    ViewMut<'_, T>,
    ViewMut<'_, T>,
    &Window,
    usize,
    &mut [T],
);

fn forward<T: Lane>(ops: &Operands<'_>, kernel: Kernel<T>, need: Need) -> Done {
    let (at, Params { window, side }) = (Forward::at(ops.len()), Params::of(ops.params()));
    let (x, w) = (ops.read::<T>(at.x), ops.read::<T>(at.w));
    let b = at.bias.map(|b| ops.read::<T>(b));
    let (y, codes) = (ops.write::<T>(at.y), ops.write::<T>(at.codes));
    let len = need(x.dims(), y.dims(), &window, side);
    kernel(x, w, b, y, codes, &window, side, ops.scratch(len));
    Ok(())
}

fn forward_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, kernel::forward, kernel::forward_scratch)
}

fn forward_last<T: Lane>(ops: &Operands<'_>) -> Done {
    forward::<T>(ops, last::forward::forward, last::forward::scratch_len)
}

fn filter_grad_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Params { window, side }) = (FilterGrad::at(ops.len()), Params::of(ops.params()));
    let (x, dy, codes) = (
        ops.read::<T>(at.x),
        ops.read::<T>(at.dy),
        ops.read::<T>(at.codes),
    );
    let (dw, db) = (ops.write::<T>(at.dw), at.db.map(|b| ops.write::<T>(b)));
    let len = grad::filter_grad_scratch(x.dims(), dy.dims(), &window, side);
    grad::filter_grad(x, dy, codes, dw, db, &window, side, ops.scratch(len));
    Ok(())
}

fn filter_grad_last<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Params { window, side }) = (FilterGrad::at(ops.len()), Params::of(ops.params()));
    let (dy, codes) = (ops.read::<T>(at.dy), ops.read::<T>(at.codes));
    let (x, dy) = (ops.read::<T>(at.x), Gradient::Pooled { dy, codes, side });
    let (dw, db) = (ops.write::<T>(at.dw), at.db.map(|b| ops.write::<T>(b)));
    let len = last::filter::scratch_len(x.dims(), dy.dims(), &window);
    last::filter::filter_grad(x, dy, dw, db, &window, ops.scratch(len));
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Params { window, side }) = (InputGrad::at(ops.len()), Params::of(ops.params()));
    let (dy, codes) = (ops.read::<T>(at.dy), ops.read::<T>(at.codes));
    let dy = Gradient::Pooled { dy, codes, side };
    let (w, dx) = (ops.read::<T>(at.w), ops.write::<T>(at.dx));
    let len = last::input::scratch_len(dx.dims(), dy.dims(), &window);
    last::input::input_grad(dy, w, dx, &window, ops.scratch(len));
    Ok(())
}

fn expand<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Side { side }) = (Expand::at(ops.len()), Side::of(ops.params()));
    let (dy, codes) = (ops.read::<T>(at.dy), ops.read::<T>(at.codes));
    grad::expand(dy, codes, ops.write::<T>(at.full), side);
    Ok(())
}

/// Convolution, bias, positive part and pooling with windows of `side`, side by side; also the codes that
/// the gradients need. Form: allocated.
#[track_caller]
pub fn conv2d_relu_max_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    w: &Tensor<'_, T>,
    bias: Option<&Vector<'_, T>>,
    options: Conv2d,
    side: usize,
) -> (Tensor<'r, T>, Tensor<'r, T>) {
    let ([n, _, height, width], window) = (extents(x), window_of(w, &options));
    let pooled = window.plane([height, width]);
    let [h, v] = pooled.map(|e| (e / side.max(1)).max(1));
    let o = extents(w)[0];
    let mut y = recorder.temporary([n, o, h, v]);
    let mut codes = recorder.temporary([n, o, h, code_columns(T::DTYPE, v)]);
    let operands = Forward {
        x: x.read(),
        w: w.read(),
        bias: bias.map(|b| b.read()),
        y: y.write(),
        codes: codes.write(),
    };
    FORWARD.submit(recorder, operands, Params { window, side });
    (y, codes)
}

/// `dw +=` and `db +=` the gradients by filters and bias of [`conv2d_relu_max_pool2d`].
#[track_caller]
pub fn conv2d_relu_max_pool2d_filter_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    [dy, codes]: [&Tensor<'_, T>; 2],
    options: Conv2d,
    side: usize,
    dw: &mut Tensor<'_, T>,
    db: Option<&mut Vector<'_, T>>,
) {
    let window = window_of(dw, &options);
    let operands = FilterGrad {
        x: x.read(),
        dy: dy.read(),
        codes: codes.read(),
        dw: dw.reduce(),
        db: db.map(|b| b.reduce()),
    };
    FILTER_GRAD.submit(recorder, operands, Params { window, side });
}

/// The gradient by the input of [`conv2d_relu_max_pool2d`], written to `dx`. Only stride 1 and kernels 3
/// or 5 high; else [`max_pool2d_expand_into`] and `conv2d_input_grad` do.
#[track_caller]
pub fn conv2d_relu_max_pool2d_input_grad_into<T: Lane>(
    recorder: &Recorder,
    [dy, codes]: [&Tensor<'_, T>; 2],
    w: &Tensor<'_, T>,
    options: Conv2d,
    side: usize,
    dx: &mut Tensor<'_, T>,
) {
    let window = window_of(w, &options);
    let operands = InputGrad {
        dy: dy.read(),
        codes: codes.read(),
        w: w.read(),
        dx: dx.write(),
    };
    INPUT_GRAD.submit(recorder, operands, Params { window, side });
}

/// The gradient by the output of the convolution inside [`conv2d_relu_max_pool2d`], written to `full`.
#[track_caller]
pub fn max_pool2d_expand_into<T: Lane>(
    recorder: &Recorder,
    [dy, codes]: [&Tensor<'_, T>; 2],
    side: usize,
    full: &mut Tensor<'_, T>,
) {
    let (dy, codes, full) = (dy.read(), codes.read(), full.write());
    EXPAND.submit(recorder, Expand { dy, codes, full }, Side { side });
}
