//! Optimiser updates of parameters, and clipping of gradients by their global norm, with PyTorch's
//! formulas in PyTorch's order.
//!
//! What changes between launches (learning rate, step) is read from a small array, so that a recorded
//! graph serves every step. Parameters may be updated in tiles.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::sgd_assign;
//!
//! let arena = Arena::new();
//! let values = arena.from_slice([3], &[0.5f32, 0.0, 0.0])?; // rate, weight decay, momentum
//! let gradient = arena.full([2, 2], 1.0f32)?;
//! let mut weight = arena.full([2, 2], 3.0f32)?;
//! let recorder = Recorder::new();
//! sgd_assign(&recorder, &mut weight, &gradient, &values);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&weight)?, [2.5; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod adam;
pub mod average;
pub(crate) mod clip;
pub(crate) mod sgd;

use dahl_core::{Array, Call, Codelet, Cost, Operands, Recorder, Scalar, Vector};

use crate::declare::{OperandSet, Shaped, operands, params};
use crate::op::{Done, Op, by_type, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`SGD`].
    Sgd {
        values: one [Read] 1 "rate, weight decay and momentum, which is not used",
        gradient: one [Read] any "the gradient by the parameter",
        param: one [ReadWrite] any "the parameter, as large",
    }
}

operands! {
    /// Operands of [`SGD_MOMENTUM`].
    SgdMomentum {
        values: one [Read] 1 "rate, weight decay and momentum",
        gradient: one [Read] any "the gradient by the parameter",
        param: one [ReadWrite] any "the parameter, as large",
        buffer: one [ReadWrite] any "the momentum, zeros at first, as large",
    }
}

params! {
    /// The parameter of [`SGD_MOMENTUM`].
    Momentum {
        nesterov: bool, "whether it is Nesterov's variant";
    }
}

operands! {
    /// Operands of [`ADAM`].
    Adam {
        values: one [Read] 1 "rate, β₁, β₂, ε, weight decay and the number of the step, from 1",
        gradient: one [Read] any "the gradient by the parameter",
        param: one [ReadWrite] any "the parameter, as large",
        mean: one [ReadWrite] any "the gradient's mean, zeros at first, as large",
        square: one [ReadWrite] any "the mean of its squares, zeros at first, as large",
    }
}

params! {
    /// The parameter of [`ADAM`].
    Decay {
        decoupled: bool, "whether the parameter itself decays (AdamW) rather than by its gradient";
    }
}

operands! {
    /// Operands of [`SQUARES`].
    Squares {
        gradient: one [Read] any "a gradient",
        total: one [Reduce|ReadWrite] 0 "what the sum of its squares is added to",
    }
}

operands! {
    /// Operands of [`CLIP`].
    Clip {
        total: one [Read] 0 "the sum of the squares of all gradients",
        gradient: one [ReadWrite] any "a gradient",
    }
}

params! {
    /// The parameter of [`CLIP`].
    Norm {
        most: f64, "the largest norm of all gradients together";
    }
}

fn cost(call: &Call) -> Cost {
    Cost {
        flops: 4.0 * call.shape(1).len() as f64,
        bytes: call.bytes(),
    }
}

/// So many values, and everything behind them as large as the gradient.
fn rule<O: OperandSet, const VALUES: usize>(call: &Call) -> Result<(), String> {
    let shaped = |i| Shaped::of(O::DECLARED, call, i);
    shaped(0).expect([1, 1, 1, VALUES])?;
    let gradient = shaped(1);
    (2..call.operands.len()).try_for_each(|i| shaped(i).expect_like(&gradient))
}

/// One step without momentum.
pub static SGD: Op<Sgd> = Op::new(|| {
    Codelet::new("sgd")
        .rule(rule::<Sgd, 3>)
        .cost(cost)
        .elementwise()
        .with(only(by_type!(sgd_step)))
});

/// One step with momentum.
pub static SGD_MOMENTUM: Op<SgdMomentum, Momentum> = Op::new(|| {
    Codelet::new("sgd_momentum")
        .rule(rule::<SgdMomentum, 3>)
        .cost(cost)
        .elementwise()
        .with(only(by_type!(momentum_step)))
});

/// One step of Adam or AdamW.
pub static ADAM: Op<Adam, Decay> = Op::new(|| {
    Codelet::new("adam")
        .rule(rule::<Adam, 6>)
        .cost(cost)
        .elementwise()
        .with(only(by_type!(adam_step)))
});

/// `total +=` the sum of squares.
pub static SQUARES: Op<Squares> =
    Op::new(|| Codelet::new("clip_squares").with(only(by_type!(summed_squares))));

/// Scales a gradient so that the norm of all is at most the parameter.
pub static CLIP: Op<Clip, Norm> = Op::new(|| Codelet::new("clip").with(only(by_type!(clipped))));

fn sgd_step<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = Sgd::at(ops.len());
    let values = sgd::Sgd::read(ops.read::<T>(at.values), false);
    sgd::step(
        &values,
        ops.read::<T>(at.gradient),
        ops.write::<T>(at.param),
    );
    Ok(())
}

fn momentum_step<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (SgdMomentum::at(ops.len()), Momentum::of(ops.params()));
    let values = sgd::Sgd::read(ops.read::<T>(at.values), given.nesterov);
    let (param, buffer) = (ops.write::<T>(at.param), ops.write::<T>(at.buffer));
    sgd::step_momentum(&values, ops.read::<T>(at.gradient), param, buffer);
    Ok(())
}

fn adam_step<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Adam::at(ops.len()), Decay::of(ops.params()));
    let values = adam::Adam::read(ops.read::<T>(at.values), given.decoupled);
    let [param, mean, square] = [at.param, at.mean, at.square].map(|i| ops.write::<T>(i));
    adam::step(&values, ops.read::<T>(at.gradient), param, mean, square);
    Ok(())
}

fn summed_squares<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = Squares::at(ops.len());
    let sum = clip::squares(ops.read::<T>(at.gradient));
    ops.write::<T>(at.total).row([0, 0, 0])[0] += sum;
    Ok(())
}

fn clipped<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Clip::at(ops.len()), Norm::of(ops.params()));
    let total = ops.read::<T>(at.total).at([0, 0, 0, 0]);
    let factor = clip::factor(total, T::from_f64(given.most));
    clip::apply(factor, ops.write::<T>(at.gradient));
    Ok(())
}

/// One step of stochastic gradient descent; `values` holds rate, weight decay and momentum, which is not
/// used. Form: in place.
#[track_caller]
pub fn sgd_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    param: &mut Array<'_, T, R>,
    gradient: &Array<'_, T, R>,
    values: &Vector<'_, T>,
) {
    let operands = Sgd {
        values: values.read(),
        gradient: gradient.read(),
        param: param.read_write(),
    };
    SGD.submit(recorder, operands, ());
}

/// One step of stochastic gradient descent with momentum; `values` holds rate, weight decay and
/// momentum, and `buffer` starts as zeros. Form: in place.
#[track_caller]
pub fn sgd_momentum_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    param: &mut Array<'_, T, R>,
    buffer: &mut Array<'_, T, R>,
    gradient: &Array<'_, T, R>,
    values: &Vector<'_, T>,
    options: Momentum,
) {
    let operands = SgdMomentum {
        values: values.read(),
        gradient: gradient.read(),
        param: param.read_write(),
        buffer: buffer.read_write(),
    };
    SGD_MOMENTUM.submit(recorder, operands, options);
}

/// One step of Adam, or of AdamW if the decay is decoupled; `values` holds rate, β₁, β₂, ε, weight decay
/// and the number of the step, from 1; `mean` and `square` start as zeros. Form: in place.
#[track_caller]
pub fn adam_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    param: &mut Array<'_, T, R>,
    [mean, square]: [&mut Array<'_, T, R>; 2],
    gradient: &Array<'_, T, R>,
    values: &Vector<'_, T>,
    options: Decay,
) {
    let operands = Adam {
        values: values.read(),
        gradient: gradient.read(),
        param: param.read_write(),
        mean: mean.read_write(),
        square: square.read_write(),
    };
    ADAM.submit(recorder, operands, options);
}

/// `total +=` the sum of the squares of a gradient, several tasks at the same time; the graph fixes the
/// order. What [`clip_norm_assign`] needs of all gradients together.
#[track_caller]
pub fn clip_squares_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    gradient: &Array<'_, T, R>,
    total: &mut Scalar<'_, T>,
) {
    let (gradient, total) = (gradient.read(), total.reduce());
    SQUARES.submit(recorder, Squares { gradient, total }, ());
}

/// Scales a gradient in place so that the norm of all gradients, whose squares sum to `total`, is at most
/// `most`.
#[track_caller]
pub fn clip_norm_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    gradient: &mut Array<'_, T, R>,
    total: &Scalar<'_, T>,
    most: T,
) {
    let (total, gradient) = (total.read(), gradient.read_write());
    let most = most.to_f64();
    CLIP.submit(recorder, Clip { total, gradient }, Norm { most });
}
