//! Fully connected layers, `y = x · wᵀ + bias`, as PyTorch's `linear`, and their gradients.
//!
//! The weight is outputs × inputs. Gradients of weight and bias are added to what is there.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::linear_into;
//!
//! let arena = Arena::new();
//! let x = arena.from_slice([1, 2], &[1.0f32, 2.0])?;
//! let w = arena.from_slice([2, 2], &[1.0f32, 1.0, 0.0, 1.0])?;
//! let b = arena.full([2], 0.5f32)?;
//! let mut y = arena.zeros::<f32, 2>([1, 2])?;
//! let recorder = Recorder::new();
//! linear_into(&recorder, &x, &w, Some(&b), &mut y);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [3.5, 2.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod kernel;

use dahl_core::{Call, Codelet, Cost, Matrix, Operands, Recorder, Vector};

use crate::declare::operands;
use crate::op::{Done, Op, by_type, extents, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`FORWARD`].
    Forward {
        x: one [Read] 2 "samples × inputs",
        w: one [Read] 2 "the weight: outputs × inputs",
        bias: maybe [Read] 1 "one number per output",
        y: one [Write] 2 "samples × outputs",
    }
}

operands! {
    /// Operands of [`INPUT_GRAD`].
    InputGrad {
        dy: one [Read] 2 "the gradient by the output",
        w: one [Read] 2 "the weight: outputs × inputs",
        dx: one [Write] 2 "the gradient by the input",
    }
}

operands! {
    /// Operands of [`WEIGHT_GRAD`].
    WeightGrad {
        dy: one [Read] 2 "the gradient by the output",
        x: one [Read] 2 "the input",
        dw: one [Reduce|ReadWrite] 2 "the gradient by the weight",
    }
}

operands! {
    /// Operands of [`BIAS_GRAD`].
    BiasGrad {
        dy: one [Read] 2 "the gradient by the output",
        db: one [Reduce|ReadWrite] 1 "the gradient by the bias",
    }
}

/// A multiplication and an addition per sample and weight.
fn cost(call: &Call, batch: usize, weights: usize) -> Cost {
    Cost {
        flops: 2.0 * (batch * weights) as f64,
        bytes: call.bytes(),
    }
}

/// `y = x · wᵀ + bias`
pub static FORWARD: Op<Forward> = Op::new(|| {
    let rule = |call: &Call| {
        let Forward { x, w, bias, y } = Forward::shapes(call);
        let ([_, _, batch, ins], [_, _, outs, expected]) = (x.dims(), w.dims());
        if ins != expected {
            return Err(format!("x has {ins} features, w expects {expected}"));
        }
        if let Some(bias) = bias {
            bias.expect([1, 1, 1, outs])?;
        }
        y.expect([1, 1, batch, outs])
    };
    let cost = |call: &Call| {
        let Forward { x, w, .. } = Forward::shapes(call);
        cost(call, x.dims()[2], w.shape.len())
    };
    Codelet::new("linear")
        .rule(rule)
        .cost(cost)
        .gradients(&[
            "linear_input_grad",
            "linear_weight_grad",
            "linear_bias_grad",
        ])
        .with(only(by_type!(forward)))
});

/// `dx = dy · w`
pub static INPUT_GRAD: Op<InputGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let InputGrad { dy, w, dx } = InputGrad::shapes(call);
        dx.expect([1, 1, dy.dims()[2], w.dims()[3]])
    };
    let cost = |call: &Call| {
        let InputGrad { dy, w, .. } = InputGrad::shapes(call);
        cost(call, dy.dims()[2], w.shape.len())
    };
    Codelet::new("linear_input_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(input_grad)))
});

/// `dw += dyᵀ · x`
pub static WEIGHT_GRAD: Op<WeightGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let WeightGrad { dy, x, dw } = WeightGrad::shapes(call);
        dw.expect([1, 1, dy.dims()[3], x.dims()[3]])
    };
    let cost = |call: &Call| {
        let WeightGrad { dy, dw, .. } = WeightGrad::shapes(call);
        cost(call, dy.dims()[2], dw.shape.len())
    };
    Codelet::new("linear_weight_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(weight_grad)))
});

/// `db += Σ dy` over samples.
pub static BIAS_GRAD: Op<BiasGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let BiasGrad { dy, db } = BiasGrad::shapes(call);
        db.expect([1, 1, 1, dy.dims()[3]])
    };
    let cost = |call: &Call| Cost {
        flops: BiasGrad::shapes(call).dy.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("linear_bias_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(bias_grad)))
});

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let Forward { x, w, bias, y } = Forward::at(ops.len());
    let bias = bias.map(|b| ops.read::<T>(b));
    kernel::forward(ops.read::<T>(x), ops.read::<T>(w), bias, ops.write::<T>(y));
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let InputGrad { dy, w, dx } = InputGrad::at(ops.len());
    kernel::input_grad(ops.read::<T>(dy), ops.read::<T>(w), ops.write::<T>(dx));
    Ok(())
}

fn weight_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let WeightGrad { dy, x, dw } = WeightGrad::at(ops.len());
    kernel::weight_grad(ops.read::<T>(dy), ops.read::<T>(x), ops.write::<T>(dw));
    Ok(())
}

fn bias_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let BiasGrad { dy, db } = BiasGrad::at(ops.len());
    kernel::bias_grad(ops.read::<T>(dy), ops.write::<T>(db));
    Ok(())
}

/// `x · wᵀ + bias`, for `x` of samples × inputs and `w` of outputs × inputs. Forms: [`linear`],
/// [`linear_into`].
#[track_caller]
pub fn linear<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Matrix<'_, T>,
    w: &Matrix<'_, T>,
    bias: Option<&Vector<'_, T>>,
) -> Matrix<'r, T> {
    let mut y = recorder.temporary([extents(x)[0], extents(w)[0]]);
    linear_into(recorder, x, w, bias, &mut y);
    y
}

/// `x · wᵀ + bias`, written to `y`.
#[track_caller]
pub fn linear_into<T: Lane>(
    recorder: &Recorder,
    x: &Matrix<'_, T>,
    w: &Matrix<'_, T>,
    bias: Option<&Vector<'_, T>>,
    y: &mut Matrix<'_, T>,
) {
    let (bias, y) = (bias.map(|b| b.read()), y.write());
    let (x, w) = (x.read(), w.read());
    FORWARD.submit(recorder, Forward { x, w, bias, y }, ());
}

/// The gradient by the input of [`linear`]. Forms: [`linear_input_grad`], [`linear_input_grad_into`].
#[track_caller]
pub fn linear_input_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    dy: &Matrix<'_, T>,
    w: &Matrix<'_, T>,
) -> Matrix<'r, T> {
    let mut dx = recorder.temporary([extents(dy)[0], extents(w)[1]]);
    linear_input_grad_into(recorder, dy, w, &mut dx);
    dx
}

/// The gradient by the input of [`linear`], written to `dx`.
#[track_caller]
pub fn linear_input_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Matrix<'_, T>,
    w: &Matrix<'_, T>,
    dx: &mut Matrix<'_, T>,
) {
    let (dy, w, dx) = (dy.read(), w.read(), dx.write());
    INPUT_GRAD.submit(recorder, InputGrad { dy, w, dx }, ());
}

/// The gradient by the weight of [`linear`]. Forms: [`linear_weight_grad`],
/// [`linear_weight_grad_reduce`].
#[track_caller]
pub fn linear_weight_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    dy: &Matrix<'_, T>,
    x: &Matrix<'_, T>,
) -> Matrix<'r, T> {
    let mut dw = recorder.temporary([extents(dy)[1], extents(x)[1]]);
    linear_weight_grad_reduce(recorder, dy, x, &mut dw);
    dw
}

/// `dw +=` the gradient by the weight of [`linear`], several tasks at the same time; the graph fixes the
/// order.
#[track_caller]
pub fn linear_weight_grad_reduce<T: Lane>(
    recorder: &Recorder,
    dy: &Matrix<'_, T>,
    x: &Matrix<'_, T>,
    dw: &mut Matrix<'_, T>,
) {
    let (dy, x, dw) = (dy.read(), x.read(), dw.reduce());
    WEIGHT_GRAD.submit(recorder, WeightGrad { dy, x, dw }, ());
}

/// The gradient by the bias of [`linear`]. Forms: [`linear_bias_grad`], [`linear_bias_grad_reduce`].
#[track_caller]
pub fn linear_bias_grad<'r, T: Lane>(recorder: &'r Recorder, dy: &Matrix<'_, T>) -> Vector<'r, T> {
    let mut db = recorder.temporary([extents(dy)[1]]);
    linear_bias_grad_reduce(recorder, dy, &mut db);
    db
}

/// `db +=` the gradient by the bias of [`linear`], several tasks at the same time; the graph fixes the
/// order.
#[track_caller]
pub fn linear_bias_grad_reduce<T: Lane>(
    recorder: &Recorder,
    dy: &Matrix<'_, T>,
    db: &mut Vector<'_, T>,
) {
    let (dy, db) = (dy.read(), db.reduce());
    BIAS_GRAD.submit(recorder, BiasGrad { dy, db }, ());
}
