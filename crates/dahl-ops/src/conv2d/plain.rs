//! Convolution of batches of images, as PyTorch's `conv2d`, and the gradients of input, filter and bias.
//!
//! Samples and output channels of a split array can be convolved by themselves; tiles of height and
//! width say where they lie, see `Conv2d::tile`. Gradients of filter and bias are added to what is there.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{Conv2d, conv2d_into};
//!
//! let arena = Arena::new();
//! let x = arena.full([1, 1, 3, 3], 1.0f32)?;
//! let w = arena.full([1, 1, 3, 3], 1.0f32)?;
//! let mut y = arena.zeros::<f32, 4>([1, 1, 2, 2])?;
//! let recorder = Recorder::new();
//! conv2d_into(&recorder, &x, &w, None, Conv2d::new().stride([2, 2]).padding([1, 1]), &mut y);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [4.0; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use dahl_core::{Call, Codelet, Cost, Implementation, Operands, View, ViewMut};

use super::channels_last::{self as last, Gradient};
use super::{bias, direct, direct_filter, gemm, packed, reference};
use crate::declare::{operands, params};
use crate::op::{Done, Op, by_type, cpu, elements, only};
use crate::simd::Lane;
use crate::window::Window;

operands! {
    /// Operands of [`FORWARD`].
    Forward {
        x: one [Read] 4 "the input: samples × channels × height × width",
        w: one [Read] 4 "the filters: outputs × channels × height × width",
        bias: maybe [Read] 1 "one number per output channel",
        y: one [Write] 4 "the output: samples × outputs × height × width",
    }
}

params! {
    /// Parameters of [`FORWARD`].
    Params {
        window: Window, "kernel, stride and shift, each along height and width";
        relu: bool, "whether the positive part is taken";
    }
}

operands! {
    /// Operands of [`INPUT_GRAD`].
    InputGrad {
        dy: one [Read] 4 "the gradient by the output",
        w: one [Read] 4 "the filters",
        dx: one [Write] 4 "the gradient by the input",
    }
}

operands! {
    /// Operands of [`FILTER_GRAD`].
    FilterGrad {
        x: one [Read] 4 "the input",
        dy: one [Read] 4 "the gradient by the output",
        dw: one [Reduce|ReadWrite] 4 "the gradient by the filters",
    }
}

params! {
    /// The parameter of [`INPUT_GRAD`] and [`FILTER_GRAD`].
    Slide {
        window: Window, "kernel, stride and shift, each along height and width";
    }
}

operands! {
    /// Operands of [`BIAS_GRAD`].
    BiasGrad {
        dy: one [Read] 4 "the gradient by the output",
        db: one [Reduce|ReadWrite] 1 "the gradient by the bias",
    }
}

/// Multiplications and additions of a convolution with output `y` and filter `w`.
pub(super) fn flops(y: [usize; 4], w: [usize; 4]) -> f64 {
    2.0 * y.iter().product::<usize>() as f64 * (w[1] * w[2] * w[3]) as f64
}

fn cost(call: &Call, y: [usize; 4], w: [usize; 4]) -> Cost {
    Cost {
        flops: flops(y, w),
        bytes: call.bytes(),
    }
}

/// The window that all of them have first.
fn window(call: &Call) -> Window {
    Slide::of(&call.params).window
}

/// How suited the implementations are, by the number of channels that vectors could hold. Measured:
/// vectors along rows win below about 12 channels, vectors of channels from 16 on.
fn few(c: usize, o: usize) -> bool {
    c < 12 && c * o < 1024
}

fn direct_weight([c, o]: [usize; 2]) -> f64 {
    if few(c, o) { 1.0 } else { 4.0 }
}

fn packed_weight([c, o]: [usize; 2]) -> f64 {
    if c >= 16 && o >= 8 { 1.0 } else { 3.0 }
}

fn gemm_weight(call: &Call, [c, o]: [usize; 2]) -> f64 {
    let win = window(call);
    if win.kernel == [1, 1] && win.stride == [1, 1] && c >= 8 {
        return 0.5;
    }
    if !few(c, o) && c < 16 { 1.0 } else { 2.0 }
}

/// Elements of scratch memory for two of the extents.
type Need = fn([usize; 4], [usize; 4], &Window) -> usize;

/// `y = x ∗ w + bias`
pub static FORWARD: Op<Forward, Params> = Op::new(|| {
    fn channels(call: &Call) -> [usize; 2] {
        let Forward { x, y, .. } = Forward::shapes(call);
        [x.dims()[1], y.dims()[1]]
    }
    fn scratch(call: &Call, need: Need) -> usize {
        let Forward { x, y, .. } = Forward::shapes(call);
        elements(call, need(x.dims(), y.dims(), &window(call)))
    }
    let rule = |call: &Call| {
        let Forward { x, w, bias, y } = Forward::shapes(call);
        let win = window(call);
        win.check()?;
        let ([n, c, ..], [samples, o, ..]) = (x.dims(), y.dims());
        if n != samples {
            return Err(format!("x has {n} samples, y has {samples}"));
        }
        let expected = w.dims()[1];
        if c != expected {
            return Err(format!("x has {c} channels, w expects {expected}"));
        }
        w.expect([o, c, win.kernel[0], win.kernel[1]])?;
        bias.map_or(Ok(()), |b| b.expect([1, 1, 1, o]))
    };
    let whole = |call: &Call| {
        let Forward { x, y, .. } = Forward::shapes(call);
        window(call).expect_plane(&x, &y)
    };
    let cost = |call: &Call| {
        let Forward { w, y, .. } = Forward::shapes(call);
        cost(call, y.dims(), w.dims())
    };
    Codelet::new("conv2d")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .gradients(&[
            "conv2d_input_grad",
            "conv2d_filter_grad",
            "conv2d_bias_grad",
        ])
        .with(cpu(
            "reference",
            |_| 100.0,
            |_| 0,
            by_type!(forward_reference),
        ))
        .with(cpu(
            "direct",
            |c| direct_weight(channels(c)),
            |c| scratch(c, direct::forward_scratch),
            by_type!(forward_direct),
        ))
        .with(cpu(
            "gemm",
            |c| gemm_weight(c, channels(c)),
            |c| scratch(c, gemm::scratch_len),
            by_type!(forward_gemm),
        ))
        .with(cpu(
            "packed",
            |c| packed_weight(channels(c)),
            |c| scratch(c, packed::forward_scratch_len),
            by_type!(forward_packed),
        ))
});

type Kernel<T> =
    fn(View<'_, T>, View<'_, T>, Option<View<'_, T>>, bool, ViewMut<'_, T>, &Window, &mut [T]);

fn forward<T: Lane>(ops: &Operands<'_>, kernel: Kernel<T>, need: Need) -> Done {
    let (at, given) = (Forward::at(ops.len()), Params::of(ops.params()));
    let (x, w) = (ops.read::<T>(at.x), ops.read::<T>(at.w));
    let (b, y) = (at.bias.map(|b| ops.read::<T>(b)), ops.write::<T>(at.y));
    let len = need(x.dims(), y.dims(), &given.window);
    kernel(x, w, b, given.relu, y, &given.window, ops.scratch(len));
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

/// The gradient by the input.
pub static INPUT_GRAD: Op<InputGrad, Slide> = Op::new(|| {
    // Outputs take the place of channels: it is a convolution of the gradient.
    fn channels(call: &Call) -> [usize; 2] {
        let InputGrad { dy, dx, .. } = InputGrad::shapes(call);
        [dy.dims()[1], dx.dims()[1]]
    }
    fn scratch(call: &Call, need: Need) -> usize {
        let InputGrad { dy, dx, .. } = InputGrad::shapes(call);
        elements(call, need(dy.dims(), dx.dims(), &window(call)))
    }
    let rule = |call: &Call| window(call).check();
    let whole = |call: &Call| {
        let InputGrad { dy, w, dx } = InputGrad::shapes(call);
        let (win, [n, o, ..], [.., h, v]) = (window(call), dy.dims(), dx.dims());
        let [outputs, c, ..] = w.dims();
        if o != outputs {
            return Err(format!("dy has {o} channels, w has {outputs} outputs"));
        }
        w.expect([o, c, win.kernel[0], win.kernel[1]])?;
        dx.expect([n, c, h, v])?;
        win.expect_plane(&dx, &dy)
    };
    let cost = |call: &Call| {
        let InputGrad { dy, w, .. } = InputGrad::shapes(call);
        cost(call, dy.dims(), w.dims())
    };
    Codelet::new("conv2d_input_grad")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .with(cpu(
            "reference",
            |_| 100.0,
            |_| 0,
            by_type!(input_grad_reference),
        ))
        .with(cpu(
            "direct",
            |c| direct_weight(channels(c)),
            |c| scratch(c, direct::input_grad_scratch),
            by_type!(input_grad_direct),
        ))
        .with(cpu(
            "gemm",
            |c| gemm_weight(c, channels(c)),
            |c| scratch(c, |dy, dx, win| gemm::scratch_len(dx, dy, win)),
            by_type!(input_grad_gemm),
        ))
        .with(cpu(
            "packed",
            |c| packed_weight(channels(c)),
            |c| scratch(c, packed::input_grad_scratch_len),
            by_type!(input_grad_packed),
        ))
        .with(Implementation {
            supports: |c| last::input::supports(&window(c)),
            ..cpu(
                "channels_last",
                |c| match last::input::pays(channels(c)[1], &window(c)) {
                    true => 1.5,
                    false => 8.0,
                },
                |c| scratch(c, |dy, dx, win| last::input::scratch_len(dx, dy, win)),
                by_type!(input_grad_last),
            )
        })
});

type GradKernel<T> = fn(View<'_, T>, View<'_, T>, ViewMut<'_, T>, &Window, &mut [T]);

fn input_grad<T: Lane>(ops: &Operands<'_>, kernel: GradKernel<T>, need: Need) -> Done {
    let (InputGrad { dy, w, dx }, win) = (InputGrad::at(ops.len()), Slide::of(ops.params()).window);
    let (dy, w, dx) = (ops.read::<T>(dy), ops.read::<T>(w), ops.write::<T>(dx));
    let len = need(dy.dims(), dx.dims(), &win);
    kernel(dy, w, dx, &win, ops.scratch(len));
    Ok(())
}

fn input_grad_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    input_grad::<T>(
        ops,
        |dy, w, dx, win, _| reference::input_grad(dy, w, dx, win),
        |_, _, _| 0,
    )
}

fn input_grad_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    input_grad::<T>(ops, direct::input_grad, direct::input_grad_scratch)
}

fn input_grad_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    input_grad::<T>(ops, gemm::input_grad, |dy, dx, win| {
        gemm::scratch_len(dx, dy, win)
    })
}

fn input_grad_packed<T: Lane>(ops: &Operands<'_>) -> Done {
    input_grad::<T>(ops, packed::input_grad, packed::input_grad_scratch_len)
}

fn input_grad_last<T: Lane>(ops: &Operands<'_>) -> Done {
    input_grad::<T>(
        ops,
        |dy, w, dx, win, scratch| last::input::input_grad(Gradient::Plain(dy), w, dx, win, scratch),
        |dy, dx, win| last::input::scratch_len(dx, dy, win),
    )
}

/// `dw +=` the gradient by the filters.
pub static FILTER_GRAD: Op<FilterGrad, Slide> = Op::new(|| {
    fn channels(call: &Call) -> [usize; 2] {
        let FilterGrad { x, dy, .. } = FilterGrad::shapes(call);
        [x.dims()[1], dy.dims()[1]]
    }
    fn scratch(call: &Call, need: Need) -> usize {
        let FilterGrad { x, dy, .. } = FilterGrad::shapes(call);
        elements(call, need(x.dims(), dy.dims(), &window(call)))
    }
    let rule = |call: &Call| window(call).check();
    let whole = |call: &Call| {
        let FilterGrad { x, dy, dw } = FilterGrad::shapes(call);
        let (win, [n, c, ..], [_, o, h, v]) = (window(call), x.dims(), dy.dims());
        dy.expect([n, o, h, v])?;
        dw.expect([o, c, win.kernel[0], win.kernel[1]])?;
        win.expect_plane(&x, &dy)
    };
    let cost = |call: &Call| {
        let FilterGrad { dy, dw, .. } = FilterGrad::shapes(call);
        cost(call, dy.dims(), dw.dims())
    };
    Codelet::new("conv2d_filter_grad")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .with(cpu(
            "reference",
            |_| 100.0,
            |_| 0,
            by_type!(filter_grad_reference),
        ))
        .with(cpu(
            "direct",
            |c| direct_weight(channels(c)),
            |c| scratch(c, direct_filter::filter_grad_scratch),
            by_type!(filter_grad_direct),
        ))
        .with(cpu(
            "gemm",
            |c| gemm_weight(c, channels(c)),
            |c| scratch(c, gemm::scratch_len),
            by_type!(filter_grad_gemm),
        ))
        .with(cpu(
            "packed",
            |c| packed_weight(channels(c)),
            |c| scratch(c, packed::filter_grad_scratch_len),
            by_type!(filter_grad_packed),
        ))
});

fn filter_grad<T: Lane>(ops: &Operands<'_>, kernel: GradKernel<T>, need: Need) -> Done {
    let (at, win) = (FilterGrad::at(ops.len()), Slide::of(ops.params()).window);
    let (x, dy, dw) = (
        ops.read::<T>(at.x),
        ops.read::<T>(at.dy),
        ops.write::<T>(at.dw),
    );
    let len = need(x.dims(), dy.dims(), &win);
    kernel(x, dy, dw, &win, ops.scratch(len));
    Ok(())
}

fn filter_grad_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    filter_grad::<T>(
        ops,
        |x, dy, dw, win, _| reference::filter_grad(x, dy, dw, win),
        |_, _, _| 0,
    )
}

fn filter_grad_direct<T: Lane>(ops: &Operands<'_>) -> Done {
    filter_grad::<T>(
        ops,
        direct_filter::filter_grad,
        direct_filter::filter_grad_scratch,
    )
}

fn filter_grad_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    filter_grad::<T>(ops, gemm::filter_grad, gemm::scratch_len)
}

fn filter_grad_packed<T: Lane>(ops: &Operands<'_>) -> Done {
    filter_grad::<T>(ops, packed::filter_grad, packed::filter_grad_scratch_len)
}

/// `db +=` the sum of each channel.
pub static BIAS_GRAD: Op<BiasGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let BiasGrad { dy, db } = BiasGrad::shapes(call);
        db.expect([1, 1, 1, dy.dims()[1]])
    };
    let cost = |call: &Call| Cost {
        flops: BiasGrad::shapes(call).dy.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("conv2d_bias_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(bias_grad)))
});

fn bias_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let BiasGrad { dy, db } = BiasGrad::at(ops.len());
    bias::bias_grad(ops.read::<T>(dy), ops.write::<T>(db));
    Ok(())
}
