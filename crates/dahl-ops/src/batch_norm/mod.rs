//! Batch normalisation per channel, in pieces that tasks on different tiles can share.
//!
//! ```text
//!     training:  moments of each tile → merged in the graph's order → finish → normalise each tile
//!     backward:  sums of each tile    → added in the graph's order  → parameters, then each tile
//! ```
//!
//! Activations are N×C×H×W tiles; what is kept per channel is a row of C values. PyTorch's
//! conventions: biased variance to normalise with, unbiased in the running variance.

pub(crate) mod backward;
pub(crate) mod moments;
pub(crate) mod normalise;
mod typed;

use dahl_core::{Call, Codelet, Cost, Operands, View};

use crate::declare::{Shaped, operands, params};
use crate::float::Float;
use crate::op::{Done, Op, by_type, only};
use crate::simd::Lane;

pub use typed::*;

operands! {
    /// Operands of [`MOMENTS`].
    Moments {
        x: one [Read] 4 "a tile of the input",
        moments: one [Write] 3 "count, mean and sum of squares of each channel: 3 × channels",
    }
}

operands! {
    /// Operands of [`FINISH`].
    Finish {
        moments: one [Read] 3 "the moments of all tiles: tiles × 3 × channels",
        total: one [Write] 2 "the moments of the whole: 3 × channels",
        statistics: one [Write] 2 "mean, and one over the standard deviation: 2 × channels",
        running_mean: one [ReadWrite] 1 "the running mean",
        running_var: one [ReadWrite] 1 "the running variance",
    }
}

params! {
    /// Parameters of [`FINISH`].
    Kept {
        epsilon: f64, "added to the variance";
        momentum: f64, "how much of the running statistics a step replaces";
    }
}

operands! {
    /// Operands of [`RUNNING`].
    Running {
        running_mean: one [Read] 1 "the running mean",
        running_var: one [Read] 1 "the running variance",
        statistics: one [Write] 2 "mean, and one over the standard deviation: 2 × channels",
    }
}

params! {
    /// The parameter of [`RUNNING`].
    Epsilon {
        epsilon: f64, "added to the variance";
    }
}

operands! {
    /// Operands of [`NORMALISE`].
    Normalise {
        x: one [Read] 4 "a tile of the input",
        statistics: one [Read] 2 "mean, and one over the standard deviation: 2 × channels",
        scale: one [Read] 1 "what normalised values are multiplied by",
        shift: one [Read] 1 "what is added then",
        y: one [Write] 4 "the result, as large as x",
    }
}

params! {
    /// Parameters of [`NORMALISE`].
    Normalised {
        relu: bool, "whether the positive part is taken";
        cap: Option<f64>, "what the positive part is cut off at, if it is";
    }
}

operands! {
    /// Operands of [`SUMS`].
    Sums {
        x: one [Read] 4 "a tile of the input",
        dy: one [Read] 4 "the gradient by the output, as large",
        statistics: one [Read] 2 "those of the forward pass",
        sums: one [Reduce|ReadWrite] 2 "the gradients by shift and by scale: 2 × channels",
        y: maybe [Read] 4 "the output, where it took the positive part",
    }
}

params! {
    /// The parameter of [`SUMS`].
    Capped {
        cap: Option<f64>, "what the positive part was cut off at, if it was";
    }
}

operands! {
    /// Operands of [`INPUT_GRAD`].
    InputGrad {
        x: one [Read] 4 "a tile of the input",
        dy: one [Read] 4 "the gradient by the output, as large",
        statistics: one [Read] 2 "those of the forward pass",
        sums: one [Read] 2 "the gradients by shift and by scale: 2 × channels",
        scale: one [Read] 1 "what normalised values were multiplied by",
        dx: one [Write] 4 "the gradient by the input, as large",
        y: maybe [Read] 4 "the output, where it took the positive part",
    }
}

params! {
    /// Parameters of [`INPUT_GRAD`].
    PerChannel {
        count: usize, "how many elements a channel of the whole batch has";
        cap: Option<f64>, "what the positive part was cut off at, if it was";
    }
}

fn cost(call: &Call) -> Cost {
    Cost {
        flops: 4.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Refuses what is not `rows` rows of one value per channel of `x`.
fn expect_rows<const N: usize>(x: &Shaped, rows: usize, of: [&Shaped; N]) -> Result<(), String> {
    let [_, channels, ..] = x.dims();
    of.iter().try_for_each(|o| o.expect([1, 1, rows, channels]))
}

/// The moments of a tile.
pub static MOMENTS: Op<Moments> = Op::new(|| {
    let rule = |call: &Call| {
        let Moments { x, moments } = Moments::shapes(call);
        expect_rows(&x, 3, [&moments])
    };
    Codelet::new("batch_norm_moments")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(tile_moments)))
});

/// Statistics, and running mean and variance, from the moments of all tiles.
pub static FINISH: Op<Finish, Kept> = Op::new(|| {
    let rule = |call: &Call| {
        let at = Finish::shapes(call);
        let [_, tiles, _, c] = at.moments.dims();
        at.moments.expect([1, tiles, 3, c])?;
        at.total.expect([1, 1, 3, c])?;
        at.statistics.expect([1, 1, 2, c])?;
        at.running_mean.expect([1, 1, 1, c])?;
        at.running_var.expect([1, 1, 1, c])
    };
    Codelet::new("batch_norm_finish")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(finish)))
});

/// Statistics from running mean and variance, for evaluation.
pub static RUNNING: Op<Running, Epsilon> = Op::new(|| {
    let rule = |call: &Call| {
        let at = Running::shapes(call);
        let [.., c] = at.running_mean.dims();
        at.running_var.expect([1, 1, 1, c])?;
        at.statistics.expect([1, 1, 2, c])
    };
    Codelet::new("batch_norm_running")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(from_running)))
});

/// `y = (x − mean) / deviation · scale + shift`
pub static NORMALISE: Op<Normalise, Normalised> = Op::new(|| {
    let rule = |call: &Call| {
        let at = Normalise::shapes(call);
        expect_rows(&at.x, 2, [&at.statistics])?;
        expect_rows(&at.x, 1, [&at.scale, &at.shift])?;
        at.y.expect_like(&at.x)
    };
    Codelet::new("batch_norm")
        .rule(rule)
        .cost(cost)
        .gradients(&["batch_norm_sums", "batch_norm_input_grad"])
        .with(only(by_type!(normalised)))
});

/// `sums +=` those of a tile.
pub static SUMS: Op<Sums, Capped> = Op::new(|| {
    let rule = |call: &Call| {
        let at = Sums::shapes(call);
        at.dy.expect_like(&at.x)?;
        expect_rows(&at.x, 2, [&at.statistics, &at.sums])?;
        at.y.map_or(Ok(()), |y| y.expect_like(&at.x))
    };
    Codelet::new("batch_norm_sums")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(tile_sums)))
});

/// The gradient by the input.
pub static INPUT_GRAD: Op<InputGrad, PerChannel> = Op::new(|| {
    let rule = |call: &Call| {
        let at = InputGrad::shapes(call);
        at.dy.expect_like(&at.x)?;
        at.dx.expect_like(&at.x)?;
        expect_rows(&at.x, 2, [&at.statistics, &at.sums])?;
        expect_rows(&at.x, 1, [&at.scale])?;
        at.y.map_or(Ok(()), |y| y.expect_like(&at.x))
    };
    Codelet::new("batch_norm_input_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(input_grad)))
});

fn tile_moments<T: Lane>(ops: &Operands<'_>) -> Done {
    let Moments { x, moments } = Moments::at(ops.len());
    moments::moments(ops.read::<T>(x), ops.write::<T>(moments));
    Ok(())
}

fn finish<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Finish::at(ops.len()), Kept::of(ops.params()));
    let all = ops.read::<T>(at.moments);
    let mut total = ops.write::<T>(at.total);
    let [_, tiles, rows, channels] = all.dims();
    let part = |i: usize| all.part([0, i, 0, 0], [1, 1, rows, channels]);
    total.copy_from(part(0));
    (1..tiles).for_each(|i| moments::merge(part(i), total.reborrow()));
    let [mean, var] = [at.running_mean, at.running_var].map(|i| ops.write::<T>(i));
    let running = Some((mean, var, T::from_f64(given.momentum)));
    let (epsilon, out) = (T::from_f64(given.epsilon), ops.write::<T>(at.statistics));
    moments::finish(total.as_view(), epsilon, out, running);
    Ok(())
}

fn from_running<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Running::at(ops.len()), Epsilon::of(ops.params()));
    let [mean, var] = [at.running_mean, at.running_var].map(|i| ops.read::<T>(i));
    let (epsilon, out) = (T::from_f64(given.epsilon), ops.write::<T>(at.statistics));
    moments::from_running(mean, var, epsilon, out);
    Ok(())
}

fn normalised<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Normalise::at(ops.len()), Normalised::of(ops.params()));
    let affine = Some((ops.read::<T>(at.scale), ops.read::<T>(at.shift)));
    let (x, stats) = (ops.read::<T>(at.x), ops.read::<T>(at.statistics));
    let by = given.relu.then(|| Rectifier::new(given.cap));
    normalise::normalise(x, stats, affine, by, ops.write::<T>(at.y));
    Ok(())
}

fn tile_sums<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (Sums::at(ops.len()), Capped::of(ops.params()));
    let rectified = at.y.map(|y| Rectified::new(ops.read::<T>(y), given.cap));
    let [x, dy, stats] = [at.x, at.dy, at.statistics].map(|i| ops.read::<T>(i));
    backward::sums(x, dy, rectified, stats, ops.write::<T>(at.sums));
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, given) = (InputGrad::at(ops.len()), PerChannel::of(ops.params()));
    let rectified = at.y.map(|y| Rectified::new(ops.read::<T>(y), given.cap));
    let [x, dy, stats, sums] = [at.x, at.dy, at.statistics, at.sums].map(|i| ops.read::<T>(i));
    let (scale, dx) = (Some(ops.read::<T>(at.scale)), ops.write::<T>(at.dx));
    backward::input_grad(x, dy, rectified, stats, sums, scale, given.count, dx);
    Ok(())
}

/// Which values pass: those above 0 and below the cap.
#[derive(Clone, Copy)]
pub(crate) struct Rectifier<T> {
    cap: T,
}

impl<T: Float> Rectifier<T> {
    pub(crate) fn new(cap: Option<f64>) -> Self {
        let cap = cap.map_or(T::INFINITY, T::from_f64);
        Rectifier { cap }
    }

    /// What becomes of a value; not-a-number stays.
    #[inline(always)]
    fn of(self, v: T) -> T {
        let low = if v <= T::ZERO { T::ZERO } else { v };
        if low >= self.cap { self.cap } else { low }
    }

    /// How much of a gradient passes, all or nothing, by what became of the value.
    #[inline(always)]
    fn share(self, y: T) -> T {
        match y > T::ZERO && y < self.cap {
            true => T::ONE,
            false => T::ZERO,
        }
    }
}

/// The output of a forward pass that took the positive part, and how.
#[derive(Clone, Copy)]
pub(crate) struct Rectified<'a, T> {
    y: View<'a, T>,
    by: Rectifier<T>,
}

impl<'a, T: Float> Rectified<'a, T> {
    pub(crate) fn new(y: View<'a, T>, cap: Option<f64>) -> Self {
        let by = Rectifier::new(cap);
        Rectified { y, by }
    }
}

/// Checks that a view is `rows` rows of one value per channel of `x`.
#[track_caller]
pub(crate) fn check_rows(what: &str, dims: [usize; 4], rows: usize, x: [usize; 4]) {
    assert_eq!(dims, [1, 1, rows, x[1]], "batch norm: {what} extents");
}
