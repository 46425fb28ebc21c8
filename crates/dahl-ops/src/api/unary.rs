//! One array, element by element: with a value, powers, bounds, rounding, exponential and logarithm.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{relu_into, scale_assign};
//!
//! let arena = Arena::new();
//! let x = arena.from_slice([2, 2], &[-1.0f64, 2.0, -3.0, 4.0])?;
//! let mut y = arena.zeros::<f64, 2>([2, 2])?;
//!
//! let recorder = Recorder::new();
//! relu_into(&recorder, &x, &mut y);
//! scale_assign(&recorder, &mut y, 10.0);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [0.0, 20.0, 0.0, 40.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use dahl_core::{Array, Recorder};

use super::{float, like, submit};
use crate::codelets::elementwise as codelets;
use crate::simd::Lane;

/// `value · x`. Forms: [`scale`], [`scale_into`], [`scale_assign`].
#[track_caller]
pub fn scale<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    value: T,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    scale_into(recorder, x, value, &mut out);
    out
}

/// `value · x`, written to `out`.
#[track_caller]
pub fn scale_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    value: T,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::SCALE,
        &[x.read(), out.write()],
        &[float(value)],
    );
}

/// `value · x`, in place.
#[track_caller]
pub fn scale_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &mut Array<'_, T, R>,
    value: T,
) {
    submit(
        recorder,
        &codelets::SCALE,
        &[x.read_write()],
        &[float(value)],
    );
}

/// `x + value`. Forms: [`add_value`], [`add_value_into`], [`add_value_assign`].
#[track_caller]
pub fn add_value<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    value: T,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    add_value_into(recorder, x, value, &mut out);
    out
}

/// `x + value`, written to `out`.
#[track_caller]
pub fn add_value_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    value: T,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::ADD_VALUE,
        &[x.read(), out.write()],
        &[float(value)],
    );
}

/// `x + value`, in place.
#[track_caller]
pub fn add_value_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &mut Array<'_, T, R>,
    value: T,
) {
    submit(
        recorder,
        &codelets::ADD_VALUE,
        &[x.read_write()],
        &[float(value)],
    );
}

/// `x − value`. Forms: [`sub_value`], [`sub_value_into`], [`sub_value_assign`].
#[track_caller]
pub fn sub_value<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    value: T,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    sub_value_into(recorder, x, value, &mut out);
    out
}

/// `x − value`, written to `out`.
#[track_caller]
pub fn sub_value_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    value: T,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::SUB_VALUE,
        &[x.read(), out.write()],
        &[float(value)],
    );
}

/// `x − value`, in place.
#[track_caller]
pub fn sub_value_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &mut Array<'_, T, R>,
    value: T,
) {
    submit(
        recorder,
        &codelets::SUB_VALUE,
        &[x.read_write()],
        &[float(value)],
    );
}

/// `x` to the power `p`. Forms: [`power`], [`power_into`], [`power_assign`].
#[track_caller]
pub fn power<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    p: T,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    power_into(recorder, x, p, &mut out);
    out
}

/// `x` to the power `p`, written to `out`.
#[track_caller]
pub fn power_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    p: T,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::POWER,
        &[x.read(), out.write()],
        &[float(p)],
    );
}

/// `x` to the power `p`, in place.
#[track_caller]
pub fn power_assign<T: Lane, const R: usize>(recorder: &Recorder, x: &mut Array<'_, T, R>, p: T) {
    submit(recorder, &codelets::POWER, &[x.read_write()], &[float(p)]);
}

/// `x` bounded to `low..=high`; not-a-number stays. Forms: [`clip`], [`clip_into`], [`clip_assign`].
#[track_caller]
pub fn clip<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    low: T,
    high: T,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    clip_into(recorder, x, low, high, &mut out);
    out
}

/// `x` bounded to `low..=high`; not-a-number stays, written to `out`.
#[track_caller]
pub fn clip_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    low: T,
    high: T,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::CLIP,
        &[x.read(), out.write()],
        &[float(low), float(high)],
    );
}

/// `x` bounded to `low..=high`; not-a-number stays, in place.
#[track_caller]
pub fn clip_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &mut Array<'_, T, R>,
    low: T,
    high: T,
) {
    submit(
        recorder,
        &codelets::CLIP,
        &[x.read_write()],
        &[float(low), float(high)],
    );
}

/// The nearest integer, halves to the even one. Forms: [`round`], [`round_into`], [`round_assign`].
#[track_caller]
pub fn round<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    round_into(recorder, x, &mut out);
    out
}

/// The nearest integer, halves to the even one, written to `out`.
#[track_caller]
pub fn round_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::ROUND, &[x.read(), out.write()], &[]);
}

/// The nearest integer, halves to the even one, in place.
#[track_caller]
pub fn round_assign<T: Lane, const R: usize>(recorder: &Recorder, x: &mut Array<'_, T, R>) {
    submit(recorder, &codelets::ROUND, &[x.read_write()], &[]);
}

/// `eˣ`. Forms: [`exp`], [`exp_into`], [`exp_assign`].
#[track_caller]
pub fn exp<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    exp_into(recorder, x, &mut out);
    out
}

/// `eˣ`, written to `out`.
#[track_caller]
pub fn exp_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::EXP, &[x.read(), out.write()], &[]);
}

/// `eˣ`, in place.
#[track_caller]
pub fn exp_assign<T: Lane, const R: usize>(recorder: &Recorder, x: &mut Array<'_, T, R>) {
    submit(recorder, &codelets::EXP, &[x.read_write()], &[]);
}

/// `ln x`. Forms: [`log`], [`log_into`], [`log_assign`].
#[track_caller]
pub fn log<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    log_into(recorder, x, &mut out);
    out
}

/// `ln x`, written to `out`.
#[track_caller]
pub fn log_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::LOG, &[x.read(), out.write()], &[]);
}

/// `ln x`, in place.
#[track_caller]
pub fn log_assign<T: Lane, const R: usize>(recorder: &Recorder, x: &mut Array<'_, T, R>) {
    submit(recorder, &codelets::LOG, &[x.read_write()], &[]);
}

/// `max(x, 0)`; the gradient is [`super::relu_grad`]. Forms: [`relu`], [`relu_into`], [`relu_assign`].
#[track_caller]
pub fn relu<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    relu_into(recorder, x, &mut out);
    out
}

/// `max(x, 0)`; the gradient is [`super::relu_grad`], written to `out`.
#[track_caller]
pub fn relu_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::RELU, &[x.read(), out.write()], &[]);
}

/// `max(x, 0)`; the gradient is [`super::relu_grad`], in place.
#[track_caller]
pub fn relu_assign<T: Lane, const R: usize>(recorder: &Recorder, x: &mut Array<'_, T, R>) {
    submit(recorder, &codelets::RELU, &[x.read_write()], &[]);
}

/// An array of one value. Forms: [`fill`], [`fill_assign`].
#[track_caller]
pub fn fill<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    extents: [usize; R],
    value: T,
) -> Array<'r, T, R> {
    let mut out = recorder.temporary(extents);
    fill_assign(recorder, &mut out, value);
    out
}

/// Sets all elements to one value.
#[track_caller]
pub fn fill_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &mut Array<'_, T, R>,
    value: T,
) {
    submit(recorder, &codelets::FILL, &[x.write()], &[float(value)]);
}

/// The same values. Forms: [`copy`], [`copy_into`].
#[track_caller]
pub fn copy<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    copy_into(recorder, x, &mut out);
    out
}

/// The same values, written to `out`.
#[track_caller]
pub fn copy_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::COPY, &[x.read(), out.write()], &[]);
}
