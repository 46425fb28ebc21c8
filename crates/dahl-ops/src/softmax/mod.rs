//! Softmax along the last axis, its gradient, and its whole Jacobian.
//!
//! Parts of an array must have whole rows: each row is normalised by itself.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::softmax_into;
//!
//! let arena = Arena::new();
//! let x = arena.full([2, 4], 3.0f64)?;
//! let mut y = arena.zeros::<f64, 2>([2, 4])?;
//! let recorder = Recorder::new();
//! softmax_into(&recorder, &x, &mut y);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [0.25; 8]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod kernel;

use dahl_core::{Array, Call, Codelet, Cost, Matrix, Operands, Recorder, Vector};

use crate::declare::operands;
use crate::op::{Done, Op, by_type, extents, like, only};
use crate::simd::Lane;

operands! {
    /// Operands of `FORWARD`.
    Softmax {
        x: one [Read] any "rows of numbers",
        y: one [Write] any "each row normalised, as large",
    }
}

operands! {
    /// Operands of `GRAD`.
    SoftmaxGrad {
        y: one [Read] any "the output",
        dy: one [Read] any "the gradient by it, as large",
        dx: one [Write] any "the gradient by the input, as large",
    }
}

operands! {
    /// Operands of `JACOBIAN`.
    Jacobian {
        y: one [Read] 1 "one row of the output",
        j: one [Write] 2 "the derivative of each of its elements by each input",
    }
}

/// `y = eˣ / Σ eˣ`
pub(crate) static FORWARD: Op<Softmax> = Op::new(|| {
    let rule = |call: &Call| {
        let Softmax { x, y } = Softmax::shapes(call);
        y.expect_like(&x)
    };
    Codelet::new("softmax")
        .rule(rule)
        .cost(|c| flops(c, 20.0))
        .gradients(&["softmax_grad"])
        .with(only(by_type!(forward)))
});

/// The Jacobian applied to dy.
pub(crate) static GRAD: Op<SoftmaxGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let SoftmaxGrad { y, dy, dx } = SoftmaxGrad::shapes(call);
        dy.expect_like(&y)?;
        dx.expect_like(&y)
    };
    Codelet::new("softmax_grad")
        .rule(rule)
        .cost(|c| flops(c, 4.0))
        .with(only(by_type!(grad)))
});

/// The Jacobian of one row.
pub(crate) static JACOBIAN: Op<Jacobian> = Op::new(|| {
    let rule = |call: &Call| {
        let Jacobian { y, j } = Jacobian::shapes(call);
        let [.., n] = y.dims();
        j.expect([1, 1, n, n])
    };
    let cost = |call: &Call| Cost {
        flops: 2.0 * Jacobian::shapes(call).j.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("softmax_jacobian")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(jacobian)))
});

/// So many operations per element.
fn flops(call: &Call, each: f64) -> Cost {
    Cost {
        flops: each * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let Softmax { x, y } = Softmax::at(ops.len());
    kernel::forward(ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

fn grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let SoftmaxGrad { y, dy, dx } = SoftmaxGrad::at(ops.len());
    kernel::backward(ops.read::<T>(y), ops.read::<T>(dy), ops.write::<T>(dx));
    Ok(())
}

fn jacobian<T: Lane>(ops: &Operands<'_>) -> Done {
    let Jacobian { y, j } = Jacobian::at(ops.len());
    kernel::jacobian(ops.read::<T>(y), ops.write::<T>(j));
    Ok(())
}

/// `eˣ / Σ eˣ` along the last axis. Forms: [`softmax`], [`softmax_into`].
#[track_caller]
pub fn softmax<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut y = like(recorder, x);
    softmax_into(recorder, x, &mut y);
    y
}

/// `eˣ / Σ eˣ` along the last axis, written to `y`.
#[track_caller]
pub fn softmax_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    y: &mut Array<'_, T, R>,
) {
    let (x, y) = (x.read(), y.write());
    FORWARD.submit(recorder, Softmax { x, y }, ());
}

/// The gradient by softmax's input, from its output `y` and the gradient `dy` by that: the Jacobian
/// applied to `dy`. Forms: [`softmax_grad`], [`softmax_grad_into`].
#[track_caller]
pub fn softmax_grad<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    y: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut dx = like(recorder, y);
    softmax_grad_into(recorder, y, dy, &mut dx);
    dx
}

/// The gradient by softmax's input, written to `dx`.
#[track_caller]
pub fn softmax_grad_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    y: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
    dx: &mut Array<'_, T, R>,
) {
    let (y, dy, dx) = (y.read(), dy.read(), dx.write());
    GRAD.submit(recorder, SoftmaxGrad { y, dy, dx }, ());
}

/// The whole Jacobian of softmax of a vector, from its output `y`: `y[a] · ([a = b] − y[b])` at row a
/// and column b. Forms: [`softmax_jacobian`], [`softmax_jacobian_into`].
#[track_caller]
pub fn softmax_jacobian<'r, T: Lane>(recorder: &'r Recorder, y: &Vector<'_, T>) -> Matrix<'r, T> {
    let mut j = recorder.temporary([extents(y)[0]; 2]);
    softmax_jacobian_into(recorder, y, &mut j);
    j
}

/// The whole Jacobian of softmax of a vector, written to `j`.
#[track_caller]
pub fn softmax_jacobian_into<T: Lane>(
    recorder: &Recorder,
    y: &Vector<'_, T>,
    j: &mut Matrix<'_, T>,
) {
    let (y, j) = (y.read(), j.write());
    JACOBIAN.submit(recorder, Jacobian { y, j }, ());
}
