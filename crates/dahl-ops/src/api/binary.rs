//! Two arrays, element by element: sum, difference, product, quotient.
//!
//! Nothing is stretched to fit: operands have the same rank, which the compiler checks, and the same
//! extents, which the recorder checks.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{add, mul_into};
//!
//! let arena = Arena::new();
//! let a = arena.from_slice([3], &[1.0f32, 2.0, 3.0])?;
//! let b = arena.full([3], 10.0f32)?;
//! let mut out = arena.zeros::<f32, 1>([3])?;
//!
//! let recorder = Recorder::new();
//! let sum = add(&recorder, &a, &b);
//! mul_into(&recorder, &sum, &a, &mut out);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&out)?, [11.0, 24.0, 39.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```compile_fail,E0308
//! # use dahl_core::{Arena, Recorder};
//! let arena = Arena::new();
//! let matrix = arena.zeros::<f32, 2>([3, 3]).unwrap();
//! let vector = arena.zeros::<f32, 1>([3]).unwrap();
//! dahl_ops::api::add(&Recorder::new(), &matrix, &vector); // error: the ranks differ
//! ```

use dahl_core::{Array, Recorder};

use super::{like, submit};
use crate::codelets::elementwise as codelets;
use crate::simd::Lane;

/// `a + b`. Forms: [`add`], [`add_into`], [`add_assign`].
#[track_caller]
pub fn add<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, a);
    add_into(recorder, a, b, &mut out);
    out
}

/// `a + b`, written to `out`.
#[track_caller]
pub fn add_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::ADD,
        &[a.read(), b.read(), out.write()],
        &[],
    );
}

/// `a += b`, in place.
#[track_caller]
pub fn add_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &mut Array<'_, T, R>,
    b: &Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::ADD_ASSIGN,
        &[b.read(), a.read_write()],
        &[],
    );
}

/// `a += b`, where several tasks may add to `a` at the same time; the graph fixes the order.
#[track_caller]
pub fn add_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &mut Array<'_, T, R>,
    b: &Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::ADD_ASSIGN,
        &[b.read(), a.reduce()],
        &[],
    );
}

/// `a − b`. Forms: [`sub`], [`sub_into`], [`sub_assign`].
#[track_caller]
pub fn sub<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, a);
    sub_into(recorder, a, b, &mut out);
    out
}

/// `a − b`, written to `out`.
#[track_caller]
pub fn sub_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::SUB,
        &[a.read(), b.read(), out.write()],
        &[],
    );
}

/// `a −= b`, in place.
#[track_caller]
pub fn sub_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &mut Array<'_, T, R>,
    b: &Array<'_, T, R>,
) {
    submit(recorder, &codelets::SUB, &[a.read_write(), b.read()], &[]);
}

/// `a · b`. Forms: [`mul`], [`mul_into`], [`mul_assign`].
#[track_caller]
pub fn mul<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, a);
    mul_into(recorder, a, b, &mut out);
    out
}

/// `a · b`, written to `out`.
#[track_caller]
pub fn mul_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::MUL,
        &[a.read(), b.read(), out.write()],
        &[],
    );
}

/// `a = a · b`, in place.
#[track_caller]
pub fn mul_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &mut Array<'_, T, R>,
    b: &Array<'_, T, R>,
) {
    submit(recorder, &codelets::MUL, &[a.read_write(), b.read()], &[]);
}

/// `a / b`. Forms: [`div`], [`div_into`], [`div_assign`].
#[track_caller]
pub fn div<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, a);
    div_into(recorder, a, b, &mut out);
    out
}

/// `a / b`, written to `out`.
#[track_caller]
pub fn div_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::DIV,
        &[a.read(), b.read(), out.write()],
        &[],
    );
}

/// `a = a / b`, in place.
#[track_caller]
pub fn div_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &mut Array<'_, T, R>,
    b: &Array<'_, T, R>,
) {
    submit(recorder, &codelets::DIV, &[a.read_write(), b.read()], &[]);
}

/// The gradient of `y = relu(x)`: `dy` where `y` (or any mask) is positive, else 0. Forms: [`relu_grad`], [`relu_grad_into`], [`relu_grad_assign`].
#[track_caller]
pub fn relu_grad<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    dy: &Array<'_, T, R>,
    y: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, dy);
    relu_grad_into(recorder, dy, y, &mut out);
    out
}

/// The gradient of `y = relu(x)`: `dy` where `y` (or any mask) is positive, else 0, written to `out`.
#[track_caller]
pub fn relu_grad_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    dy: &Array<'_, T, R>,
    y: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::RELU_GRAD,
        &[dy.read(), y.read(), out.write()],
        &[],
    );
}

/// The gradient of `relu`, in place.
#[track_caller]
pub fn relu_grad_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    dy: &mut Array<'_, T, R>,
    y: &Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::RELU_GRAD,
        &[dy.read_write(), y.read()],
        &[],
    );
}
