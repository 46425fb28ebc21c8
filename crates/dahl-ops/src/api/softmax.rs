//! Softmax along the last axis, and its derivative.
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

use dahl_core::{Array, Matrix, Recorder, Vector};

use super::{extents, like, submit};
use crate::codelets::softmax as codelets;
use crate::simd::Lane;

/// `eˣ / Σ eˣ` along the last axis. Forms: [`softmax`], [`softmax_into`].
#[track_caller]
pub fn softmax<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, x);
    softmax_into(recorder, x, &mut out);
    out
}

/// `eˣ / Σ eˣ` along the last axis, written to `out`.
#[track_caller]
pub fn softmax_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(recorder, &codelets::FORWARD, &[x.read(), out.write()], &[]);
}

/// The gradient by softmax's input, from its output `y` and the gradient `dy` by that: the Jacobian
/// applied to `dy`. Forms: [`softmax_grad`], [`softmax_grad_into`].
#[track_caller]
pub fn softmax_grad<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    y: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut out = like(recorder, y);
    softmax_grad_into(recorder, y, dy, &mut out);
    out
}

/// The gradient by softmax's input, written to `dx`.
#[track_caller]
pub fn softmax_grad_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    y: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
    dx: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::GRAD,
        &[y.read(), dy.read(), dx.write()],
        &[],
    );
}

/// The whole Jacobian of softmax of a vector, from its output `y`: `y[a] · ([a = b] − y[b])` at row a
/// and column b. Forms: [`softmax_jacobian`], [`softmax_jacobian_into`].
#[track_caller]
pub fn softmax_jacobian<'r, T: Lane>(recorder: &'r Recorder, y: &Vector<'_, T>) -> Matrix<'r, T> {
    let mut out = recorder.temporary([extents(y)[0]; 2]);
    softmax_jacobian_into(recorder, y, &mut out);
    out
}

/// The whole Jacobian of softmax of a vector, written to `out`.
#[track_caller]
pub fn softmax_jacobian_into<T: Lane>(
    recorder: &Recorder,
    y: &Vector<'_, T>,
    out: &mut Matrix<'_, T>,
) {
    submit(recorder, &codelets::JACOBIAN, &[y.read(), out.write()], &[]);
}
