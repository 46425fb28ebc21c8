//! Reductions: to one value, and sums over axes.
//!
//! The result is overwritten where it is declared as written, else joined with what is there: sums and
//! means add, the smallest and largest compare, and accumulators that tasks reduce into are merged the
//! same way. All have a form for the parts of a split array, `_reduce`, whose tasks join one total at the
//! same time. The order of summation depends on the extents and the instruction set only.
//!
//! ```
//! use dahl_core::{Arena, By, Recorder, Split};
//! use dahl_ops::api::{sum_axes, copy_into, sum_reduce};
//!
//! let arena = Arena::new();
//! let x = arena.from_slice([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let mut total = arena.zeros::<f32, 0>([])?;
//! let mut columns = arena.zeros::<f32, 2>([1, 3])?;
//!
//! let recorder = Recorder::new();
//! for row in x.split(&Split::new().axis(0, By::Size(1)))? {
//!     sum_reduce(&recorder, &row, &mut total); // side by side
//! }
//! copy_into(&recorder, &sum_axes(&recorder, &x, [0]), &mut columns);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(2).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&total)?, [21.0]);
//! assert_eq!(*runtime.read(&columns)?, [5.0, 7.0, 9.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod axes;
pub(crate) mod rows;

use dahl_core::graph::{larger, smaller};
use dahl_core::{Array, Call, Codelet, Cost, Merge, Mode, Operands, Recorder, Scalar};

use crate::declare::{operands, params};
use crate::op::{Done, Op, by_type, cpu, extents, only};
use crate::simd::Lane;

operands! {
    /// Operands of `SUM`.
    Sums {
        x: one [Read] any "the input",
        total: one [Write|ReadWrite|Reduce] any "its sums: along each axis as long as x, or 1",
    }
}

params! {
    /// Parameters of `SUM`.
    Axes {
        axes: Vec<u64>, "axes that must be among those summed over, counted as the rank of x does";
    }
}

operands! {
    /// Operands of a reduction to one value.
    ToOne {
        x: one [Read] any "the input",
        total: one [Write|ReadWrite|Reduce] 0 "the result",
    }
}

params! {
    /// The parameter of `MEAN`.
    Count {
        count: Option<f64>, "how many elements the whole has, if x is a part";
    }
}

fn cost(call: &Call) -> Cost {
    Cost {
        flops: call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Sums over the axes along which the result has extent 1.
pub(crate) static SUM: Op<Sums, Axes> = Op::new(|| {
    let rule = |call: &Call| {
        let Sums { x, total } = Sums::shapes(call);
        let (from, to, rank) = (x.dims(), total.dims(), x.shape.rank());
        let (x, y) = (x.shape, total.shape);
        if !(0..4).all(|a| to[a] == 1 || to[a] == from[a]) {
            return Err(format!(
                "total has shape {y}: along each axis 1 or as in x, {x}"
            ));
        }
        for axis in Axes::of(&call.params).axes {
            match usize::try_from(axis).ok().filter(|a| *a < rank) {
                None => return Err(format!("x of shape {x} has no axis {axis}")),
                Some(a) if to[4 - rank + a] != 1 => {
                    return Err(format!(
                        "total has shape {y}, expected extent 1 along axis {axis}"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    };
    Codelet::new("sum")
        .rule(rule)
        .cost(cost)
        .with(cpu("reference", |_| 100.0, |_| 0, by_type!(summed_plainly)))
        .with(only(by_type!(summed)))
});

pub(crate) static MEAN: Op<ToOne, Count> = Op::new(|| {
    Codelet::new("mean")
        .cost(cost)
        .with(only(by_type!(averaged)))
});

/// The smallest element, not-a-number if there is one.
pub(crate) static MIN: Op<ToOne> = Op::new(|| {
    Codelet::new("min")
        .cost(cost)
        .merge(Merge::Min)
        .with(only(by_type!(smallest)))
});

/// The largest element, not-a-number if there is one.
pub(crate) static MAX: Op<ToOne> = Op::new(|| {
    Codelet::new("max")
        .cost(cost)
        .merge(Merge::Max)
        .with(only(by_type!(largest)))
});

/// Writes a value to an operand of one element, or joins it with the one there.
fn join<T: Lane>(ops: &Operands<'_>, i: usize, value: T, with: fn(T, T) -> T) {
    let fresh = ops.mode(i) == Mode::Write;
    let mut out = ops.write::<T>(i);
    let place = &mut out.row([0, 0, 0])[0];
    *place = if fresh { value } else { with(*place, value) };
}

/// Writes a sum to an operand of one element, or adds it.
pub(crate) fn join_sum<T: Lane>(ops: &Operands<'_>, i: usize, value: T) {
    join(ops, i, value, |a, b| a + b);
}

fn summed_plainly<T: Lane>(ops: &Operands<'_>) -> Done {
    let Sums { x, total } = Sums::at(ops.len());
    let fresh = ops.mode(total) == Mode::Write;
    let (x, mut out) = (ops.read::<T>(x), ops.write::<T>(total));
    if fresh {
        out.fill(T::ZERO);
    }
    let (from, to) = (x.dims(), out.dims());
    dahl_core::view::for_rows(from, |at| {
        let place = std::array::from_fn(|a| if to[a] == 1 { 0 } else { at[a] });
        for (i, &v) in x.row(at).iter().enumerate() {
            out.row(place)[if to[3] == 1 { 0 } else { i }] += v;
        }
    });
    Ok(())
}

fn summed<T: Lane>(ops: &Operands<'_>) -> Done {
    let Sums { x, total } = Sums::at(ops.len());
    let fresh = ops.mode(total) == Mode::Write;
    let x = ops.read::<T>(x);
    let mut out = ops.write::<T>(total);
    if out.len() == 1 {
        let place = &mut out.row([0, 0, 0])[0];
        let before = if fresh { T::ZERO } else { *place };
        *place = before + rows::sum(x);
        return Ok(());
    }
    if fresh {
        out.fill(T::ZERO);
    }
    axes::sum(x, out);
    Ok(())
}

fn averaged<T: Lane>(ops: &Operands<'_>) -> Done {
    let ToOne { x, total } = ToOne::at(ops.len());
    let x = ops.read::<T>(x);
    let count = Count::of(ops.params()).count.unwrap_or(x.len() as f64);
    join_sum(ops, total, rows::sum(x) / T::from_f64(count));
    Ok(())
}

fn smallest<T: Lane>(ops: &Operands<'_>) -> Done {
    let ToOne { x, total } = ToOne::at(ops.len());
    join(ops, total, rows::min(ops.read::<T>(x)), smaller);
    Ok(())
}

fn largest<T: Lane>(ops: &Operands<'_>) -> Done {
    let ToOne { x, total } = ToOne::at(ops.len());
    join(ops, total, rows::max(ops.read::<T>(x)), larger);
    Ok(())
}

/// The four forms of a reduction to one value; what happens to the total in the latter two.
macro_rules! reduced_forms {
    (
        $about:literal, $joined:literal, $op:ident:
        $new:ident, $into:ident, $assign:ident, $reduce:ident, $set:ident, $params:expr
    ) => {
        #[doc = concat!(
                    $about, ". Forms: [`", stringify!($new), "`], [`", stringify!($into), "`], [`",
                    stringify!($assign), "`], [`", stringify!($reduce), "`]."
                )]
        #[track_caller]
        pub fn $new<'r, T: Lane, const R: usize>(
            recorder: &'r Recorder,
            x: &Array<'_, T, R>,
        ) -> Scalar<'r, T> {
            let mut out = recorder.temporary([]);
            $into(recorder, x, &mut out);
            out
        }

        #[doc = concat!($about, ", written to `total`.")]
        #[track_caller]
        pub fn $into<T: Lane, const R: usize>(
            recorder: &Recorder,
            x: &Array<'_, T, R>,
            total: &mut Scalar<'_, T>,
        ) {
            $op.submit(
                recorder,
                $set {
                    x: x.read(),
                    total: total.write(),
                },
                $params,
            );
        }

        #[doc = concat!($joined, ", one task after the other.")]
        #[track_caller]
        pub fn $assign<T: Lane, const R: usize>(
            recorder: &Recorder,
            total: &mut Scalar<'_, T>,
            x: &Array<'_, T, R>,
        ) {
            $op.submit(
                recorder,
                $set {
                    x: x.read(),
                    total: total.read_write(),
                },
                $params,
            );
        }

        #[doc = concat!($joined, ", several tasks at the same time; the graph fixes the order.")]
        #[track_caller]
        pub fn $reduce<T: Lane, const R: usize>(
            recorder: &Recorder,
            x: &Array<'_, T, R>,
            total: &mut Scalar<'_, T>,
        ) {
            $op.submit(
                recorder,
                $set {
                    x: x.read(),
                    total: total.reduce(),
                },
                $params,
            );
        }
    };
}

fn all_axes() -> Axes {
    Axes { axes: Vec::new() }
}

reduced_forms! {
    "The sum of all elements", "`total +=` the sum of `x`", SUM:
    sum, sum_into, sum_assign, sum_reduce, Sums, all_axes()
}
reduced_forms! {
    "The smallest element, not-a-number if there is one",
    "`total =` the smaller of `total` and the smallest element of `x`", MIN:
    min, min_into, min_assign, min_reduce, ToOne, ()
}
reduced_forms! {
    "The largest element, not-a-number if there is one",
    "`total =` the larger of `total` and the largest element of `x`", MAX:
    max, max_into, max_assign, max_reduce, ToOne, ()
}

/// Sums over some axes, which have extent 1 in the result; none of them: a copy. Forms: [`sum_axes`],
/// [`sum_axes_into`], [`sum_axes_reduce`].
#[track_caller]
pub fn sum_axes<'r, T: Lane, const R: usize, const A: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    axes: [usize; A],
) -> Array<'r, T, R> {
    let mut shape = extents(x);
    for axis in axes {
        if let Some(extent) = shape.get_mut(axis) {
            *extent = 1;
        }
    }
    let mut total = recorder.temporary(shape);
    let axes = axes.iter().map(|&a| a as u64).collect();
    let operands = Sums {
        x: x.read(),
        total: total.write(),
    };
    SUM.submit(recorder, operands, Axes { axes });
    total
}

/// Sums over the axes along which `total` has extent 1, written to `total`.
#[track_caller]
pub fn sum_axes_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    total: &mut Array<'_, T, R>,
) {
    let (x, total) = (x.read(), total.write());
    SUM.submit(recorder, Sums { x, total }, all_axes());
}

/// Sums over the axes along which `total` has extent 1, added to `total` by several tasks at the
/// same time; the graph fixes the order.
#[track_caller]
pub fn sum_axes_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    total: &mut Array<'_, T, R>,
) {
    let (x, total) = (x.read(), total.reduce());
    SUM.submit(recorder, Sums { x, total }, all_axes());
}

/// The mean of all elements. Forms: [`mean`], [`mean_into`], [`mean_reduce`].
#[track_caller]
pub fn mean<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Scalar<'r, T> {
    let mut total = recorder.temporary([]);
    mean_into(recorder, x, &mut total);
    total
}

/// The mean of all elements, written to `total`.
#[track_caller]
pub fn mean_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    total: &mut Scalar<'_, T>,
) {
    let (x, total) = (x.read(), total.write());
    MEAN.submit(recorder, ToOne { x, total }, Count { count: None });
}

/// `total +=` the sum of `x`, a part of an array of `count` elements, divided by `count`: all parts
/// together give the mean. Several tasks at the same time; the graph fixes the order.
#[track_caller]
pub fn mean_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    count: usize,
    total: &mut Scalar<'_, T>,
) {
    let count = Some(count as f64);
    let (x, total) = (x.read(), total.reduce());
    MEAN.submit(recorder, ToOne { x, total }, Count { count });
}
