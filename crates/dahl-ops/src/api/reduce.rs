//! Reductions: to one value, and sums over axes.
//!
//! All have a form for the parts of a split array, `_reduce`, whose tasks join one total at the same
//! time.
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

use dahl_core::{Array, Param, Recorder, Scalar};

use super::{extents, submit};
use crate::codelets::reduce as codelets;
use crate::simd::Lane;

/// The sum of all elements. Forms: [`sum`], [`sum_into`], [`sum_assign`], [`sum_reduce`].
#[track_caller]
pub fn sum<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Scalar<'r, T> {
    let mut out = recorder.temporary([]);
    sum_into(recorder, x, &mut out);
    out
}

/// The sum of all elements, written to `out`.
#[track_caller]
pub fn sum_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::SUM, &[x.read(), out.write()], &[]);
}

/// `total +=` the sum of `x`, one task after the other.
#[track_caller]
pub fn sum_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    total: &mut Scalar<'_, T>,
    x: &Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::SUM,
        &[x.read(), total.read_write()],
        &[],
    );
}

/// `total +=` the sum of `x`, several tasks at the same time; the graph fixes the order.
#[track_caller]
pub fn sum_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    total: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::SUM, &[x.read(), total.reduce()], &[]);
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
    let mut out = recorder.temporary(shape);
    let params = axes.map(|a| Param::Int(i64::try_from(a).unwrap_or(i64::MAX)));
    submit(recorder, &codelets::SUM, &[x.read(), out.write()], &params);
    out
}

/// Sums over the axes along which `out` has extent 1, written to `out`.
#[track_caller]
pub fn sum_axes_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::SUM, &[x.read(), out.write()], &[]);
}

/// Sums over the axes along which `totals` has extent 1, added to `totals` by several tasks at the
/// same time; the graph fixes the order.
#[track_caller]
pub fn sum_axes_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    totals: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::SUM, &[x.read(), totals.reduce()], &[]);
}

/// The mean of all elements. Forms: [`mean`], [`mean_into`], [`mean_reduce`].
#[track_caller]
pub fn mean<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Scalar<'r, T> {
    let mut out = recorder.temporary([]);
    mean_into(recorder, x, &mut out);
    out
}

/// The mean of all elements, written to `out`.
#[track_caller]
pub fn mean_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::MEAN, &[x.read(), out.write()], &[]);
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
    let count = Param::Float(count as f64);
    submit(
        recorder,
        &codelets::MEAN,
        &[x.read(), total.reduce()],
        &[count],
    );
}

/// The smallest element, not-a-number if there is one. Forms: [`min`], [`min_into`], [`min_assign`],
/// [`min_reduce`].
#[track_caller]
pub fn min<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Scalar<'r, T> {
    let mut out = recorder.temporary([]);
    min_into(recorder, x, &mut out);
    out
}

/// The smallest element, not-a-number if there is one, written to `out`.
#[track_caller]
pub fn min_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::MIN, &[x.read(), out.write()], &[]);
}

/// `total =` the smaller of `total` and the smallest element of `x`, one task after the other.
#[track_caller]
pub fn min_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    total: &mut Scalar<'_, T>,
    x: &Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::MIN,
        &[x.read(), total.read_write()],
        &[],
    );
}

/// `total =` the smaller of `total` and the smallest element of `x`, several tasks at the same time.
#[track_caller]
pub fn min_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    total: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::MIN, &[x.read(), total.reduce()], &[]);
}

/// The largest element, not-a-number if there is one. Forms: [`max`], [`max_into`], [`max_assign`],
/// [`max_reduce`].
#[track_caller]
pub fn max<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Scalar<'r, T> {
    let mut out = recorder.temporary([]);
    max_into(recorder, x, &mut out);
    out
}

/// The largest element, not-a-number if there is one, written to `out`.
#[track_caller]
pub fn max_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::MAX, &[x.read(), out.write()], &[]);
}

/// `total =` the larger of `total` and the largest element of `x`, one task after the other.
#[track_caller]
pub fn max_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    total: &mut Scalar<'_, T>,
    x: &Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::MAX,
        &[x.read(), total.read_write()],
        &[],
    );
}

/// `total =` the larger of `total` and the largest element of `x`, several tasks at the same time.
#[track_caller]
pub fn max_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    total: &mut Scalar<'_, T>,
) {
    submit(recorder, &codelets::MAX, &[x.read(), total.reduce()], &[]);
}
