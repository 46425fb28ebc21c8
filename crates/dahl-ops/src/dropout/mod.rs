//! Dropout, which serves both directions: applied to a gradient with the same step, seed and layer it
//! drops the same elements.
//!
//! Which elements are dropped depends on their place in the whole array, not on how it is cut.

pub(crate) mod kernel;

use dahl_core::{Array, Call, Codelet, Cost, Operands, Recorder, Scalar};

use crate::declare::{operands, params};
use crate::op::{Done, Op, by_type, like, only};
use crate::philox::Stream;
use crate::simd::Lane;
use kernel::Place;

operands! {
    /// Operands of [`DROPOUT`].
    Dropped {
        x: one [Read] any "the input, or a gradient by the output",
        step: one [Read] 0 "the number of the step, which changes from launch to launch",
        y: one [Write] any "the result, as large as x",
    }
}

params! {
    /// Parameters of [`DROPOUT`].
    Dropout {
        probability: f64, "how likely an element is dropped";
        seed: u64, "where the random numbers start";
        layer: u32, "what tells one use from another in the same step";
    }
}

/// Elements are zero with a probability, else divided by that of being kept.
pub static DROPOUT: Op<Dropped, Dropout> = Op::new(|| {
    let rule = |call: &Call| {
        let Dropped { x, y, .. } = Dropped::shapes(call);
        y.expect_like(&x)
    };
    let cost = |call: &Call| Cost {
        flops: 12.0 * Dropped::shapes(call).x.shape.len() as f64,
        bytes: call.bytes(),
    };
    Codelet::new("dropout")
        .rule(rule)
        .cost(cost)
        .gradients(&["dropout"])
        .with(only(by_type!(applied)))
});

fn applied<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Dropped::at(ops.len()), Dropout::of(ops.params()));
    let (start, whole) = ops.origin(at.x);
    let step = ops.read::<T>(at.step).at([0, 0, 0, 0]).to_f64() as u32;
    let stream = Stream {
        seed: given.seed,
        step,
        layer: given.layer,
    };
    let place = Place {
        start,
        whole: whole.dims4(),
    };
    let (x, y) = (ops.read::<T>(at.x), ops.write::<T>(at.y));
    kernel::apply(x, y, given.probability, stream, place);
    Ok(())
}

/// `x` with elements dropped at random, different in each `step`; of a gradient by the output with the
/// same options the gradient by the input. Forms: [`dropout`], [`dropout_into`].
#[track_caller]
pub fn dropout<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    step: &Scalar<'_, T>,
    options: Dropout,
) -> Array<'r, T, R> {
    let mut y = like(recorder, x);
    dropout_into(recorder, x, step, options, &mut y);
    y
}

/// `x` with elements dropped at random, written to `y`.
#[track_caller]
pub fn dropout_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    step: &Scalar<'_, T>,
    options: Dropout,
    y: &mut Array<'_, T, R>,
) {
    let (x, step, y) = (x.read(), step.read(), y.write());
    DROPOUT.submit(recorder, Dropped { x, step, y }, options);
}
