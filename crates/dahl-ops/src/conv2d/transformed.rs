//! Winograd convolutions: 3×3 of stride 1 in a transformed domain.
//!
//! Transformed filters are vectors whose layout only these kernels know, and they must be whole. What
//! decides whether the transforms pay is not here: [`FILTER`] is a task of its own, so that a filter is
//! transformed once for many images.

use dahl_core::{
    Call, Codelet, Cost, Operands, Param, ParamKind, Recorder, TaskError, Tensor, Vector,
};
use dahl_core::{View, ViewMut};

use super::typed::{Conv2d, window_of};
use super::winograd::{self as kernel, Tile};
use crate::declare::{ParamValue, operands, params};
use crate::op::{Done, Op, by_type, cpu, elements, extents, only};
use crate::simd::Lane;
use crate::window::Window;

pub use kernel::{filter_for_input_grad_len, filter_grad_len, filter_len};

/// Outputs along one axis: 2 or 4.
impl ParamValue for Tile {
    const KIND: ParamKind = ParamKind::Int;

    fn put(self, all: &mut Vec<Param>) {
        let outputs: usize = match self {
            Tile::Two => 2,
            Tile::Four => 4,
        };
        outputs.put(all);
    }

    fn take(all: &mut &[Param]) -> Self {
        match usize::take(all) {
            2 => Tile::Two,
            _ => Tile::Four,
        }
    }
}

operands! {
    /// Operands of [`FILTER`].
    Filter {
        w: one [Read] 4 "the filters: outputs × channels × 3 × 3",
        u: one [Write] 1 "the same transformed",
    }
}

params! {
    /// Parameters of [`FILTER`].
    Purpose {
        tile: Tile, "outputs of a tile along one axis: 2 or 4";
        for_input: bool, "whether it is for the gradient by the input";
    }
}

operands! {
    /// Operands of [`FORWARD`].
    Forward {
        x: one [Read] 4 "the input: samples × channels × height × width",
        u: one [Read] 1 "the transformed filters",
        bias: maybe [Read] 1 "one number per output channel",
        y: one [Write] 4 "the output: samples × outputs × height × width",
    }
}

params! {
    /// Parameters of [`FORWARD`].
    Params {
        window: Window, "kernel, stride and shift, each along height and width";
        tile: Tile, "outputs of a tile along one axis: 2 or 4";
        relu: bool, "whether the positive part is taken";
    }
}

operands! {
    /// Operands of [`INPUT_GRAD`].
    InputGrad {
        dy: one [Read] 4 "the gradient by the output",
        u: one [Read] 1 "the filters, transformed for this",
        dx: one [Write] 4 "the gradient by the input",
    }
}

operands! {
    /// Operands of [`FILTER_GRAD`].
    FilterGrad {
        x: one [Read] 4 "the input",
        dy: one [Read] 4 "the gradient by the output",
        du: one [Reduce|ReadWrite] 1 "the gradient by the filters, transformed",
    }
}

params! {
    /// Parameters of [`INPUT_GRAD`] and [`FILTER_GRAD`].
    Tiled {
        window: Window, "kernel, stride and shift, each along height and width";
        tile: Tile, "outputs of a tile along one axis: 2 or 4";
    }
}

operands! {
    /// Operands of [`FILTER_FINISH`].
    Finish {
        du: one [Read] 1 "the gradient by the filters, transformed",
        dw: one [Reduce|ReadWrite] 4 "the gradient by the filters",
    }
}

params! {
    /// The parameter of [`FILTER_FINISH`].
    Finished {
        tile: Tile, "outputs of a tile along one axis: 2 or 4";
    }
}

/// Cost of the products: one per point, tile, input and output channel.
fn cost(image: [usize; 4], channels: usize, t: Tile, bytes: f64) -> Cost {
    let (out, points) = if t == Tile::Two { (2, 16) } else { (4, 36) };
    let tiles = image[0] * image[2].div_ceil(out) * image[3].div_ceil(out);
    Cost {
        flops: 2.0 * (tiles * points * image[1] * channels) as f64,
        bytes,
    }
}

fn rule(call: &Call) -> Result<(), String> {
    let win = Tiled::of(&call.params).window;
    win.check()?;
    if !kernel::supports(&win) {
        let (k, s) = (win.kernel, win.stride);
        return Err(format!("kernel {k:?} and stride {s:?}: only 3×3 and 1×1"));
    }
    Ok(())
}

/// Filters in the transformed domain.
pub static FILTER: Op<Filter, Purpose> = Op::new(|| {
    let rule = |call: &Call| {
        let (Filter { w, u }, given) = (Filter::shapes(call), Purpose::of(&call.params));
        let want = match given.for_input {
            false => kernel::filter_len(given.tile, w.dims()),
            true => kernel::filter_for_input_grad_len(given.tile, w.dims()),
        };
        u.expect([1, 1, 1, want])
    };
    let cost = |call: &Call| Cost {
        flops: 4.0 * Filter::shapes(call).u.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("winograd_filter")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(filter)))
});

/// `y = x ∗ w + bias`
pub static FORWARD: Op<Forward, Params> = Op::new(|| {
    let cost = |call: &Call| {
        let (Forward { x, y, .. }, given) = (Forward::shapes(call), Tiled::of(&call.params));
        cost(y.dims(), x.dims()[1], given.tile, call.bytes())
    };
    let scratch = |call: &Call| {
        let (Forward { x, y, .. }, given) = (Forward::shapes(call), Tiled::of(&call.params));
        let len = kernel::forward_scratch_len(given.tile, x.dims(), y.dims());
        elements(call, len)
    };
    Codelet::new("conv2d_winograd")
        .rule(rule)
        .cost(cost)
        .gradients(&["conv2d_winograd_input_grad", "conv2d_winograd_filter_grad"])
        .with(cpu("vector", |_| 1.0, scratch, by_type!(forward)))
});

/// The gradient by the input.
pub static INPUT_GRAD: Op<InputGrad, Tiled> = Op::new(|| {
    let cost = |call: &Call| {
        let (InputGrad { dy, dx, .. }, given) = (InputGrad::shapes(call), Tiled::of(&call.params));
        cost(dx.dims(), dy.dims()[1], given.tile, call.bytes())
    };
    let scratch = |call: &Call| {
        let (InputGrad { dy, dx, .. }, given) = (InputGrad::shapes(call), Tiled::of(&call.params));
        let len = kernel::input_grad_scratch_len(given.tile, dy.dims(), dx.dims());
        elements(call, len)
    };
    Codelet::new("conv2d_winograd_input_grad")
        .rule(rule)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(input_grad)))
});

/// `du +=` the gradient by the filters, still transformed.
pub static FILTER_GRAD: Op<FilterGrad, Tiled> = Op::new(|| {
    let cost = |call: &Call| {
        let (FilterGrad { x, dy, .. }, given) = (FilterGrad::shapes(call), Tiled::of(&call.params));
        cost(dy.dims(), x.dims()[1], given.tile, call.bytes())
    };
    let scratch = |call: &Call| {
        let (FilterGrad { x, dy, .. }, given) = (FilterGrad::shapes(call), Tiled::of(&call.params));
        let len = kernel::filter_grad_scratch_len(given.tile, x.dims(), dy.dims());
        elements(call, len)
    };
    Codelet::new("conv2d_winograd_filter_grad")
        .rule(rule)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(filter_grad)))
});

/// `dw +=` what the transformed gradient is.
pub static FILTER_FINISH: Op<Finish, Finished> = Op::new(|| {
    let cost = |call: &Call| Cost {
        flops: 4.0 * Finish::shapes(call).du.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("winograd_filter_finish")
        .cost(cost)
        .with(only(by_type!(filter_finish)))
});

fn must_be_whole() -> TaskError {
    TaskError("a transformed filter must be whole".into())
}

fn flat<T>(view: View<'_, T>) -> Result<&[T], TaskError> {
    view.as_slice().ok_or_else(must_be_whole)
}

fn flat_mut<'a, T>(view: &'a mut ViewMut<'_, T>) -> Result<&'a mut [T], TaskError> {
    view.as_slice().ok_or_else(must_be_whole)
}

fn filter<T: Lane>(ops: &Operands<'_>) -> Done {
    let (Filter { w, u }, given) = (Filter::at(ops.len()), Purpose::of(ops.params()));
    let (w, mut u) = (ops.read::<T>(w), ops.write::<T>(u));
    let u = flat_mut(&mut u)?;
    match given.for_input {
        false => kernel::transform_filter(given.tile, w, u),
        true => kernel::transform_filter_for_input_grad(given.tile, w, u),
    }
    Ok(())
}

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Forward::at(ops.len()), Params::of(ops.params()));
    let (tile, win) = (given.tile, given.window);
    let (x, u) = (ops.read::<T>(at.x), flat(ops.read::<T>(at.u))?);
    let (b, y) = (at.bias.map(|b| ops.read::<T>(b)), ops.write::<T>(at.y));
    let len = kernel::forward_scratch_len(tile, x.dims(), y.dims());
    kernel::forward(tile, x, u, b, given.relu, y, &win, ops.scratch(len));
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Tiled { window, tile }) = (InputGrad::at(ops.len()), Tiled::of(ops.params()));
    let (dy, u) = (ops.read::<T>(at.dy), flat(ops.read::<T>(at.u))?);
    let dx = ops.write::<T>(at.dx);
    let len = kernel::input_grad_scratch_len(tile, dy.dims(), dx.dims());
    kernel::input_grad(tile, dy, u, dx, &window, ops.scratch(len));
    Ok(())
}

fn filter_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, Tiled { window, tile }) = (FilterGrad::at(ops.len()), Tiled::of(ops.params()));
    let (x, dy) = (ops.read::<T>(at.x), ops.read::<T>(at.dy));
    let mut du = ops.write::<T>(at.du);
    let len = kernel::filter_grad_scratch_len(tile, x.dims(), dy.dims());
    let scratch = ops.scratch(len);
    kernel::filter_grad_accumulate(tile, x, dy, flat_mut(&mut du)?, &window, scratch);
    Ok(())
}

fn filter_finish<T: Lane>(ops: &Operands<'_>) -> Done {
    let (Finish { du, dw }, given) = (Finish::at(ops.len()), Finished::of(ops.params()));
    kernel::filter_grad_finish(given.tile, flat(ops.read::<T>(du))?, ops.write::<T>(dw));
    Ok(())
}

/// Filters as [`conv2d_winograd_into`] takes them, or `for_input` as [`conv2d_winograd_input_grad_into`]
/// does. Form: allocated.
#[track_caller]
pub fn winograd_filter<'r, T: Lane>(
    recorder: &'r Recorder,
    w: &Tensor<'_, T>,
    tile: Tile,
    for_input: bool,
) -> Vector<'r, T> {
    let len = match for_input {
        false => kernel::filter_len(tile, extents(w)),
        true => kernel::filter_for_input_grad_len(tile, extents(w)),
    };
    let mut u = recorder.temporary([len]);
    let operands = Filter {
        w: w.read(),
        u: u.write(),
    };
    FILTER.submit(recorder, operands, Purpose { tile, for_input });
    u
}

/// The convolution of `x` with filters transformed by [`winograd_filter`], written to `y`. Only 3×3 and
/// stride 1.
#[track_caller]
pub fn conv2d_winograd_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    u: &Vector<'_, T>,
    bias: Option<&Vector<'_, T>>,
    options: Conv2d,
    tile: Tile,
    y: &mut Tensor<'_, T>,
) {
    let params = Params {
        window: options.window([3, 3]),
        tile,
        relu: options.relu,
    };
    let operands = Forward {
        x: x.read(),
        u: u.read(),
        bias: bias.map(|b| b.read()),
        y: y.write(),
    };
    FORWARD.submit(recorder, operands, params);
}

/// The gradient by the input of [`conv2d_winograd_into`], written to `dx`, with filters transformed for
/// it.
#[track_caller]
pub fn conv2d_winograd_input_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    u: &Vector<'_, T>,
    options: Conv2d,
    tile: Tile,
    dx: &mut Tensor<'_, T>,
) {
    let window = options.window([3, 3]);
    let (dy, u, dx) = (dy.read(), u.read(), dx.write());
    INPUT_GRAD.submit(recorder, InputGrad { dy, u, dx }, Tiled { window, tile });
}

/// `dw +=` the gradient by the filters of [`conv2d_winograd_into`]: transformed first, then finished.
#[track_caller]
pub fn conv2d_winograd_filter_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    options: Conv2d,
    tile: Tile,
    dw: &mut Tensor<'_, T>,
) {
    let window = window_of(dw, &options);
    let mut du = recorder.temporary::<T, 1>([kernel::filter_grad_len(tile, extents(dw))]);
    let operands = FilterGrad {
        x: x.read(),
        dy: dy.read(),
        du: du.reduce(),
    };
    FILTER_GRAD.submit(recorder, operands, Tiled { window, tile });
    let (du, dw) = (du.read(), dw.reduce());
    FILTER_FINISH.submit(recorder, Finish { du, dw }, Finished { tile });
}
