//! Linear algebra: products of vectors and matrices, transposes, diagonals, cross-correlation.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{Transposed, matmul_into};
//!
//! let arena = Arena::new();
//! let a = arena.from_slice([2, 3], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let mut gram = arena.zeros::<f64, 2>([2, 2])?;
//!
//! let recorder = Recorder::new();
//! matmul_into(&recorder, &a, &a, Transposed::B, &mut gram);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&gram)?, [14.0, 32.0, 32.0, 77.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use dahl_core::{Array, Matrix, Param, Recorder, Scalar, Vector};

use super::{extents, submit};
use crate::codelets::linalg as codelets;
use crate::simd::Lane;

/// Which factors of a matrix product are transposed. Costs nothing: they are read the other way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transposed {
    /// The first.
    pub a: bool,
    /// The second.
    pub b: bool,
}

impl Transposed {
    /// `a · b`
    pub const NONE: Self = Transposed { a: false, b: false };
    /// `aᵀ · b`
    pub const A: Self = Transposed { a: true, b: false };
    /// `a · bᵀ`
    pub const B: Self = Transposed { a: false, b: true };
    /// `aᵀ · bᵀ`
    pub const BOTH: Self = Transposed { a: true, b: true };

    fn params(self) -> [Param; 2] {
        [self.a, self.b].map(|t| Param::Int(i64::from(t)))
    }
}

/// Σ aᵢ · bᵢ. Forms: [`dot`], [`dot_into`], [`dot_reduce`].
#[track_caller]
pub fn dot<'r, T: Lane>(
    recorder: &'r Recorder,
    a: &Vector<'_, T>,
    b: &Vector<'_, T>,
) -> Scalar<'r, T> {
    let mut out = recorder.temporary([]);
    dot_into(recorder, a, b, &mut out);
    out
}

/// Σ aᵢ · bᵢ, written to `out`.
#[track_caller]
pub fn dot_into<T: Lane>(
    recorder: &Recorder,
    a: &Vector<'_, T>,
    b: &Vector<'_, T>,
    out: &mut Scalar<'_, T>,
) {
    submit(
        recorder,
        &codelets::DOT,
        &[a.read(), b.read(), out.write()],
        &[],
    );
}

/// `total +=` Σ aᵢ · bᵢ, several tasks at the same time; the graph fixes the order.
#[track_caller]
pub fn dot_reduce<T: Lane>(
    recorder: &Recorder,
    a: &Vector<'_, T>,
    b: &Vector<'_, T>,
    total: &mut Scalar<'_, T>,
) {
    submit(
        recorder,
        &codelets::DOT,
        &[a.read(), b.read(), total.reduce()],
        &[],
    );
}

/// `a[i] · b[j]` at row i and column j. Forms: [`outer`], [`outer_into`], [`outer_reduce`].
#[track_caller]
pub fn outer<'r, T: Lane>(
    recorder: &'r Recorder,
    a: &Vector<'_, T>,
    b: &Vector<'_, T>,
) -> Matrix<'r, T> {
    let mut out = recorder.temporary([extents(a)[0], extents(b)[0]]);
    outer_into(recorder, a, b, &mut out);
    out
}

/// `a[i] · b[j]` at row i and column j, written to `out`.
#[track_caller]
pub fn outer_into<T: Lane>(
    recorder: &Recorder,
    a: &Vector<'_, T>,
    b: &Vector<'_, T>,
    out: &mut Matrix<'_, T>,
) {
    submit(
        recorder,
        &codelets::OUTER,
        &[a.read(), b.read(), out.write()],
        &[],
    );
}

/// `total +=` the outer product, several tasks at the same time; the graph fixes the order.
#[track_caller]
pub fn outer_reduce<T: Lane>(
    recorder: &Recorder,
    a: &Vector<'_, T>,
    b: &Vector<'_, T>,
    total: &mut Matrix<'_, T>,
) {
    submit(
        recorder,
        &codelets::OUTER,
        &[a.read(), b.read(), total.reduce()],
        &[],
    );
}

/// `m · x`. Forms: [`matvec`], [`matvec_into`].
#[track_caller]
pub fn matvec<'r, T: Lane>(
    recorder: &'r Recorder,
    m: &Matrix<'_, T>,
    x: &Vector<'_, T>,
) -> Vector<'r, T> {
    let mut out = recorder.temporary([extents(m)[0]]);
    matvec_into(recorder, m, x, &mut out);
    out
}

/// `m · x`, written to `out`.
#[track_caller]
pub fn matvec_into<T: Lane>(
    recorder: &Recorder,
    m: &Matrix<'_, T>,
    x: &Vector<'_, T>,
    out: &mut Vector<'_, T>,
) {
    submit(
        recorder,
        &codelets::MATVEC,
        &[m.read(), x.read(), out.write()],
        &[],
    );
}

/// `x · m`. Forms: [`vecmat`], [`vecmat_into`].
#[track_caller]
pub fn vecmat<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Vector<'_, T>,
    m: &Matrix<'_, T>,
) -> Vector<'r, T> {
    let mut out = recorder.temporary([extents(m)[1]]);
    vecmat_into(recorder, x, m, &mut out);
    out
}

/// `x · m`, written to `out`.
#[track_caller]
pub fn vecmat_into<T: Lane>(
    recorder: &Recorder,
    x: &Vector<'_, T>,
    m: &Matrix<'_, T>,
    out: &mut Vector<'_, T>,
) {
    submit(
        recorder,
        &codelets::VECMAT,
        &[x.read(), m.read(), out.write()],
        &[],
    );
}

/// `a · b`, each transposed if asked. Forms: [`matmul`], [`matmul_into`], [`matmul_reduce`].
#[track_caller]
pub fn matmul<'r, T: Lane>(
    recorder: &'r Recorder,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    transposed: Transposed,
) -> Matrix<'r, T> {
    let rows = extents(a)[usize::from(transposed.a)];
    let cols = extents(b)[usize::from(!transposed.b)];
    let mut out = recorder.temporary([rows, cols]);
    matmul_into(recorder, a, b, transposed, &mut out);
    out
}

/// `a · b`, each transposed if asked, written to `out`.
#[track_caller]
pub fn matmul_into<T: Lane>(
    recorder: &Recorder,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    transposed: Transposed,
    out: &mut Matrix<'_, T>,
) {
    submit(
        recorder,
        &codelets::MATMUL,
        &[a.read(), b.read(), out.write()],
        &transposed.params(),
    );
}

/// `total +=` the product, several tasks at the same time; the graph fixes the order.
#[track_caller]
pub fn matmul_reduce<T: Lane>(
    recorder: &Recorder,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    transposed: Transposed,
    total: &mut Matrix<'_, T>,
) {
    submit(
        recorder,
        &codelets::MATMUL,
        &[a.read(), b.read(), total.reduce()],
        &transposed.params(),
    );
}

/// The last two axes exchanged, of any rank from 2 on (a vector becomes itself only if it has one
/// element, else it is a mistake). Forms: [`transpose`], [`transpose_into`].
#[track_caller]
pub fn transpose<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut shape = extents(x);
    if R >= 2 {
        shape.swap(R - 2, R - 1);
    }
    let mut out = recorder.temporary(shape);
    transpose_into(recorder, x, &mut out);
    out
}

/// The last two axes exchanged, written to `out`.
#[track_caller]
pub fn transpose_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    out: &mut Array<'_, T, R>,
) {
    submit(
        recorder,
        &codelets::TRANSPOSE,
        &[x.read(), out.write()],
        &[],
    );
}

/// The square matrix that is zero but for its diagonal `x`. Forms: [`diag`], [`diag_into`].
#[track_caller]
pub fn diag<'r, T: Lane>(recorder: &'r Recorder, x: &Vector<'_, T>) -> Matrix<'r, T> {
    let mut out = recorder.temporary([extents(x)[0]; 2]);
    diag_into(recorder, x, &mut out);
    out
}

/// The square matrix that is zero but for its diagonal `x`, written to `out`.
#[track_caller]
pub fn diag_into<T: Lane>(recorder: &Recorder, x: &Vector<'_, T>, out: &mut Matrix<'_, T>) {
    submit(recorder, &codelets::DIAG, &[x.read(), out.write()], &[]);
}

/// The diagonal of a matrix, as long as its shorter side. Forms: [`diagonal`], [`diagonal_into`].
#[track_caller]
pub fn diagonal<'r, T: Lane>(recorder: &'r Recorder, x: &Matrix<'_, T>) -> Vector<'r, T> {
    let [rows, cols] = extents(x);
    let mut out = recorder.temporary([rows.min(cols)]);
    diagonal_into(recorder, x, &mut out);
    out
}

/// The diagonal of a matrix, as long as its shorter side, written to `out`.
#[track_caller]
pub fn diagonal_into<T: Lane>(recorder: &Recorder, x: &Matrix<'_, T>, out: &mut Vector<'_, T>) {
    submit(recorder, &codelets::DIAGONAL, &[x.read(), out.write()], &[]);
}

/// Cross-correlation where both overlap fully: `out[i][j] = Σ x[i + a][j + b] · kernel[a][b]`. Forms: [`correlate`], [`correlate_into`].
#[track_caller]
pub fn correlate<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Matrix<'_, T>,
    kernel: &Matrix<'_, T>,
) -> Matrix<'r, T> {
    let ([h, w], [a, b]) = (extents(x), extents(kernel));
    let mut out = recorder.temporary([
        (h + 1).saturating_sub(a).max(1),
        (w + 1).saturating_sub(b).max(1),
    ]);
    correlate_into(recorder, x, kernel, &mut out);
    out
}

/// Cross-correlation where both overlap fully: `out[i][j] = Σ x[i + a][j + b] · kernel[a][b]`, written to `out`.
#[track_caller]
pub fn correlate_into<T: Lane>(
    recorder: &Recorder,
    x: &Matrix<'_, T>,
    kernel: &Matrix<'_, T>,
    out: &mut Matrix<'_, T>,
) {
    submit(
        recorder,
        &codelets::CORRELATE,
        &[x.read(), kernel.read(), out.write()],
        &[],
    );
}
