//! Transposes, diagonals and cross-correlation.

use dahl_core::{Array, Call, Codelet, Cost, Matrix, Operands, Recorder, Vector};

use super::{correlate as correlation, rearrange};
use crate::declare::operands;
use crate::op::{Done, Op, by_type, cpu, elements, extents, only};
use crate::simd::Lane;

operands! {
    /// Operands of `TRANSPOSE`.
    Transpose {
        x: one [Read] any "the input",
        y: one [Write] any "the same with its last two axes exchanged",
    }
}

operands! {
    /// Operands of `DIAG`.
    Diag {
        x: one [Read] 1 "the diagonal",
        y: one [Write] 2 "the square matrix that is zero elsewhere",
    }
}

operands! {
    /// Operands of `DIAGONAL`.
    Diagonal {
        x: one [Read] 2 "a matrix",
        y: one [Write] 1 "its diagonal, as long as its shorter side",
    }
}

operands! {
    /// Operands of `CORRELATE`.
    Correlate {
        x: one [Read] 2 "a matrix",
        kernel: one [Read] 2 "a matrix that is no larger",
        y: one [Write] 2 "one sum of products for each place where the kernel fits",
    }
}

/// The last two axes exchanged.
pub(crate) static TRANSPOSE: Op<Transpose> = Op::new(|| {
    let rule = |call: &Call| {
        let Transpose { x, y } = Transpose::shapes(call);
        let [a, b, rows, cols] = x.dims();
        y.expect([a, b, cols, rows])
    };
    Codelet::new("transpose")
        .rule(rule)
        .with(only(by_type!(transposed)))
});

/// A square matrix of zeros but for its diagonal.
pub(crate) static DIAG: Op<Diag> = Op::new(|| {
    let rule = |call: &Call| {
        let Diag { x, y } = Diag::shapes(call);
        let [.., n] = x.dims();
        y.expect([1, 1, n, n])
    };
    Codelet::new("diag").rule(rule).with(only(by_type!(spread)))
});

/// The diagonal of a matrix.
pub(crate) static DIAGONAL: Op<Diagonal> = Op::new(|| {
    let rule = |call: &Call| {
        let Diagonal { x, y } = Diagonal::shapes(call);
        let [_, _, rows, cols] = x.dims();
        y.expect([1, 1, 1, rows.min(cols)])
    };
    Codelet::new("diagonal")
        .rule(rule)
        .with(only(by_type!(gathered)))
});

/// Cross-correlation where the matrices overlap fully.
pub(crate) static CORRELATE: Op<Correlate> = Op::new(|| {
    let rule = |call: &Call| {
        let Correlate { x, kernel, y } = Correlate::shapes(call);
        let ([_, _, h, w], [_, _, a, b]) = (x.dims(), kernel.dims());
        if a > h || b > w {
            let (x, k) = (x.shape, kernel.shape);
            return Err(format!("kernel of shape {k} is larger than x, {x}"));
        }
        y.expect([1, 1, h - a + 1, w - b + 1])
    };
    let cost = |call: &Call| {
        let Correlate { kernel, y, .. } = Correlate::shapes(call);
        Cost {
            flops: 2.0 * (kernel.shape.len() * y.shape.len()) as f64,
            bytes: call.bytes(),
        }
    };
    let scratch = |call: &Call| {
        let Correlate { x, kernel, y } = Correlate::shapes(call);
        let len = correlation::scratch_len(x.dims(), kernel.dims(), y.dims());
        elements(call, len)
    };
    Codelet::new("correlate").rule(rule).cost(cost).with(cpu(
        "vector",
        |_| 1.0,
        scratch,
        by_type!(correlated),
    ))
});

fn transposed<T: Lane>(ops: &Operands<'_>) -> Done {
    let Transpose { x, y } = Transpose::at(ops.len());
    rearrange::transpose(ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

fn spread<T: Lane>(ops: &Operands<'_>) -> Done {
    let Diag { x, y } = Diag::at(ops.len());
    rearrange::diag(ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

fn gathered<T: Lane>(ops: &Operands<'_>) -> Done {
    let Diagonal { x, y } = Diagonal::at(ops.len());
    rearrange::diagonal(ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

fn correlated<T: Lane>(ops: &Operands<'_>) -> Done {
    let Correlate { x, kernel, y } = Correlate::at(ops.len());
    let (x, k, y) = (ops.read::<T>(x), ops.read::<T>(kernel), ops.write::<T>(y));
    let len = correlation::scratch_len(x.dims(), k.dims(), y.dims());
    correlation::correlate(x, k, y, ops.scratch(len));
    Ok(())
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
    let mut y = recorder.temporary(shape);
    transpose_into(recorder, x, &mut y);
    y
}

/// The last two axes exchanged, written to `y`.
#[track_caller]
pub fn transpose_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    y: &mut Array<'_, T, R>,
) {
    let (x, y) = (x.read(), y.write());
    TRANSPOSE.submit(recorder, Transpose { x, y }, ());
}

/// The square matrix that is zero but for its diagonal `x`. Forms: [`diag`], [`diag_into`].
#[track_caller]
pub fn diag<'r, T: Lane>(recorder: &'r Recorder, x: &Vector<'_, T>) -> Matrix<'r, T> {
    let mut y = recorder.temporary([extents(x)[0]; 2]);
    diag_into(recorder, x, &mut y);
    y
}

/// The square matrix that is zero but for its diagonal `x`, written to `y`.
#[track_caller]
pub fn diag_into<T: Lane>(recorder: &Recorder, x: &Vector<'_, T>, y: &mut Matrix<'_, T>) {
    let (x, y) = (x.read(), y.write());
    DIAG.submit(recorder, Diag { x, y }, ());
}

/// The diagonal of a matrix, as long as its shorter side. Forms: [`diagonal`], [`diagonal_into`].
#[track_caller]
pub fn diagonal<'r, T: Lane>(recorder: &'r Recorder, x: &Matrix<'_, T>) -> Vector<'r, T> {
    let [rows, cols] = extents(x);
    let mut y = recorder.temporary([rows.min(cols)]);
    diagonal_into(recorder, x, &mut y);
    y
}

/// The diagonal of a matrix, written to `y`.
#[track_caller]
pub fn diagonal_into<T: Lane>(recorder: &Recorder, x: &Matrix<'_, T>, y: &mut Vector<'_, T>) {
    let (x, y) = (x.read(), y.write());
    DIAGONAL.submit(recorder, Diagonal { x, y }, ());
}

/// Cross-correlation where both overlap fully: `y[i][j] = Σ x[i + a][j + b] · kernel[a][b]`. Forms:
/// [`correlate`], [`correlate_into`].
#[track_caller]
pub fn correlate<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Matrix<'_, T>,
    kernel: &Matrix<'_, T>,
) -> Matrix<'r, T> {
    let ([h, w], [a, b]) = (extents(x), extents(kernel));
    let fits = |n: usize, k: usize| (n + 1).saturating_sub(k).max(1);
    let mut y = recorder.temporary([fits(h, a), fits(w, b)]);
    correlate_into(recorder, x, kernel, &mut y);
    y
}

/// Cross-correlation where both overlap fully, written to `y`.
#[track_caller]
pub fn correlate_into<T: Lane>(
    recorder: &Recorder,
    x: &Matrix<'_, T>,
    kernel: &Matrix<'_, T>,
    y: &mut Matrix<'_, T>,
) {
    let (x, kernel, y) = (x.read(), kernel.read(), y.write());
    CORRELATE.submit(recorder, Correlate { x, kernel, y }, ());
}
