//! Linear algebra codelets. Vectors and matrices may be tiles of larger ones.
//!
//! Results are overwritten where they are declared as written; dot, outer and matrix products add to
//! results that are read and written or reduced into.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Mode, Operands};

use super::{
    Done, Lazy, by_type, cpu, dims, elements, expect_dims, expect_operands, expect_same, only,
    scratch,
};
use crate::linalg::matmul::{Mat, MatMut, matmul as gemm};
use crate::linalg::{correlate as correlation, rearrange, small, vector};
use crate::simd::Lane;

fn expect_vector(call: &Call, i: usize) -> Result<usize, String> {
    match dims(call, i) {
        [1, 1, 1, n] => Ok(n),
        _ => Err(format!(
            "operand {i} has shape {}, expected a vector",
            call.shape(i)
        )),
    }
}

fn expect_matrix(call: &Call, i: usize) -> Result<[usize; 2], String> {
    match dims(call, i) {
        [1, 1, rows, cols] => Ok([rows, cols]),
        _ => Err(format!(
            "operand {i} has shape {}, expected a matrix",
            call.shape(i)
        )),
    }
}

/// Refuses inner extents that differ.
fn expect_inner(call: &Call, what: [&str; 2], inner: [usize; 2]) -> Result<(), String> {
    if inner[0] == inner[1] {
        return Ok(());
    }
    Err(format!(
        "operand 0 of shape {} has {} {}, operand 1 of shape {} has {} {}",
        call.shape(0),
        inner[0],
        what[0],
        call.shape(1),
        inner[1],
        what[1]
    ))
}

/// Multiplications and additions of a product with so many terms.
fn products(call: &Call, terms: usize) -> Cost {
    Cost {
        flops: 2.0 * terms as f64,
        bytes: call.bytes(),
    }
}

fn dot<T: Lane>(ops: &Operands<'_>) -> Done {
    let value = vector::dot(ops.read::<T>(0), ops.read::<T>(1));
    super::reduce::join_sum(ops, 2, value);
    Ok(())
}

/// Σ aᵢ · bᵢ: a, b, result.
pub static DOT: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_same(call, &[0, 1])?;
        expect_dims(call, 2, "result", [1; 4])
    };
    Arc::new(
        Codelet::new("dot")
            .rule(rule)
            .cost(|c| products(c, c.shape(0).len()))
            .with(only(by_type!(dot))),
    )
});

fn outer<T: Lane>(ops: &Operands<'_>) -> Done {
    let add = ops.mode(2) != Mode::Write;
    small::product(
        ops.read::<T>(0),
        true,
        ops.read::<T>(1),
        ops.write::<T>(2),
        add,
    );
    Ok(())
}

/// `out[i][j] = a[i] · b[j]`: a, b, out.
pub static OUTER: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        let (rows, cols) = (expect_vector(call, 0)?, expect_vector(call, 1)?);
        expect_dims(call, 2, "result", [1, 1, rows, cols])
    };
    Arc::new(
        Codelet::new("outer")
            .rule(rule)
            .cost(|c| products(c, c.shape(2).len()))
            .with(only(by_type!(outer))),
    )
});

fn matvec<T: Lane>(ops: &Operands<'_>) -> Done {
    vector::matvec(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// `y = m · x`: m, x, y.
pub static MATVEC: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        let ([rows, cols], n) = (expect_matrix(call, 0)?, expect_vector(call, 1)?);
        expect_inner(call, ["columns", "elements"], [cols, n])?;
        expect_dims(call, 2, "result", [1, 1, 1, rows])
    };
    Arc::new(
        Codelet::new("matvec")
            .rule(rule)
            .cost(|c| products(c, c.shape(0).len()))
            .with(only(by_type!(matvec))),
    )
});

fn vecmat<T: Lane>(ops: &Operands<'_>) -> Done {
    vector::vecmat(ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// `y = x · m`: x, m, y.
pub static VECMAT: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        let (n, [rows, cols]) = (expect_vector(call, 0)?, expect_matrix(call, 1)?);
        expect_inner(call, ["elements", "rows"], [n, rows])?;
        expect_dims(call, 2, "result", [1, 1, 1, cols])
    };
    Arc::new(
        Codelet::new("vecmat")
            .rule(rule)
            .cost(|c| products(c, c.shape(1).len()))
            .with(only(by_type!(vecmat))),
    )
});

fn matmul_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    let (ta, tb, add) = (ops.int(0) != 0, ops.int(1) != 0, ops.mode(2) != Mode::Write);
    let (a, b, mut c) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let inner = a.dims()[if ta { 2 } else { 3 }];
    let [_, _, rows, cols] = c.dims();
    for i in 0..rows {
        for j in 0..cols {
            let mut sum = T::ZERO;
            for k in 0..inner {
                let left = if ta {
                    a.at([0, 0, k, i])
                } else {
                    a.at([0, 0, i, k])
                };
                let right = if tb {
                    b.at([0, 0, j, k])
                } else {
                    b.at([0, 0, k, j])
                };
                sum += left * right;
            }
            let place = &mut c.row([0, 0, i])[j];
            *place = if add { *place + sum } else { sum };
        }
    }
    Ok(())
}

fn matmul_small<T: Lane>(ops: &Operands<'_>) -> Done {
    let (across, add) = (ops.int(0) != 0, ops.mode(2) != Mode::Write);
    let (a, b, c) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    match ops.int(1) {
        0 => small::product(a, across, b, c, add),
        _ => small::rows_by_rows(a, b, None, c),
    }
    Ok(())
}

fn matmul_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    let factor = |i: usize| {
        let m = Mat::from_view(ops.read::<T>(i));
        if ops.int(i) != 0 { m.transposed() } else { m }
    };
    let accumulate = ops.mode(2) != Mode::Write;
    gemm(
        factor(0),
        factor(1),
        MatMut::from_view(ops.write::<T>(2)),
        accumulate,
    );
    Ok(())
}

/// Rows, inner extent and columns of a product.
fn extents(call: &Call) -> [usize; 3] {
    let [_, _, rows, cols] = dims(call, 2);
    [
        rows,
        dims(call, 0)[if call.int(0) != 0 { 2 } else { 3 }],
        cols,
    ]
}

/// `c = a · b`, each factor transposed where its parameter is 1: a, b, c. Two parameters.
pub static MATMUL: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        if call.params.len() != 2 {
            return Err("two parameters say which factors are transposed".into());
        }
        let ([m, k], [l, n]) = (expect_matrix(call, 0)?, expect_matrix(call, 1)?);
        let (m, k, left) = if call.int(0) != 0 {
            (k, m, "rows")
        } else {
            (m, k, "columns")
        };
        let (l, n, right) = if call.int(1) != 0 {
            (n, l, "columns")
        } else {
            (l, n, "rows")
        };
        expect_inner(call, [left, right], [k, l])?;
        expect_dims(call, 2, "result", [1, 1, m, n])
    };
    // The register blocks win where arranging operands costs more than multiplying them.
    let little = |call: &Call| {
        let [m, k, n] = extents(call);
        if m.min(n) <= 16 || m * k * n <= 1 << 15 {
            0.5
        } else {
            4.0
        }
    };
    let mut blocks = cpu("small", little, |_| 0, by_type!(matmul_small));
    // Rows by rows overwrites, and knows no other first factor than rows.
    blocks.supports = |c| c.int(1) == 0 || (c.int(0) == 0 && c.operands[2].1 == Mode::Write);
    Arc::new(
        Codelet::new("matmul")
            .rule(rule)
            .cost(|c| products(c, extents(c).iter().product()))
            .with(cpu(
                "reference",
                |_| 100.0,
                |_| 0,
                by_type!(matmul_reference),
            ))
            .with(blocks)
            .with(cpu("gemm", |_| 1.0, |_| 0, by_type!(matmul_gemm))),
    )
});

fn transpose<T: Lane>(ops: &Operands<'_>) -> Done {
    rearrange::transpose(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// The last two axes exchanged: x, out.
pub static TRANSPOSE: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        let [a, b, rows, cols] = dims(call, 0);
        expect_dims(call, 1, "result", [a, b, cols, rows])
    };
    Arc::new(
        Codelet::new("transpose")
            .rule(rule)
            .with(only(by_type!(transpose))),
    )
});

fn diag<T: Lane>(ops: &Operands<'_>) -> Done {
    rearrange::diag(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// A square matrix of zeros but for its diagonal: diagonal, matrix.
pub static DIAG: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        let n = expect_vector(call, 0)?;
        expect_dims(call, 1, "result", [1, 1, n, n])
    };
    Arc::new(Codelet::new("diag").rule(rule).with(only(by_type!(diag))))
});

fn diagonal<T: Lane>(ops: &Operands<'_>) -> Done {
    rearrange::diagonal(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// The diagonal of a matrix: matrix, diagonal.
pub static DIAGONAL: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        let [rows, cols] = expect_matrix(call, 0)?;
        expect_dims(call, 1, "result", [1, 1, 1, rows.min(cols)])
    };
    Arc::new(
        Codelet::new("diagonal")
            .rule(rule)
            .with(only(by_type!(diagonal))),
    )
});

fn correlate<T: Lane>(ops: &Operands<'_>) -> Done {
    let (x, k, out) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let len = correlation::scratch_len(x.dims(), k.dims(), out.dims());
    correlation::correlate(x, k, out, scratch(ops, len));
    Ok(())
}

/// Cross-correlation where the matrices overlap fully: x, kernel, out.
pub static CORRELATE: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        let ([h, w], [a, b]) = (expect_matrix(call, 0)?, expect_matrix(call, 1)?);
        if a > h || b > w {
            let (x, k) = (call.shape(0), call.shape(1));
            return Err(format!(
                "kernel (operand 1) of shape {k} is larger than operand 0, {x}"
            ));
        }
        expect_dims(call, 2, "result", [1, 1, h - a + 1, w - b + 1])
    };
    Arc::new(
        Codelet::new("correlate")
            .rule(rule)
            .cost(|c| products(c, c.shape(1).len() * c.shape(2).len()))
            .with(cpu(
                "vector",
                |_| 1.0,
                |c| {
                    elements(
                        c,
                        correlation::scratch_len(dims(c, 0), dims(c, 1), dims(c, 2)),
                    )
                },
                by_type!(correlate),
            )),
    )
});
