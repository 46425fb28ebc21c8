//! Products of vectors and matrices.

use dahl_core::{Call, Codelet, Cost, Matrix, Mode, Operands, Recorder, Scalar, Vector};

use super::matmul::{Mat, MatMut, matmul as gemm};
use super::{small, vector};
use crate::declare::{Shaped, operands, params};
use crate::op::{Done, Op, by_type, cpu, extents, only};
use crate::reduce::join_sum;
use crate::simd::Lane;

operands! {
    /// Operands of `DOT`.
    Dot {
        a: one [Read] any "the first factor",
        b: one [Read] any "the second factor, as large",
        c: one [Write|ReadWrite|Reduce] 0 "the sum of products",
    }
}

operands! {
    /// Operands of `OUTER`.
    Outer {
        a: one [Read] 1 "one factor for each row",
        b: one [Read] 1 "one factor for each column",
        c: one [Write|ReadWrite|Reduce] 2 "the products",
    }
}

operands! {
    /// Operands of `MATVEC`.
    Matvec {
        m: one [Read] 2 "the matrix",
        x: one [Read] 1 "as long as its rows",
        y: one [Write] 1 "as long as its columns",
    }
}

operands! {
    /// Operands of `VECMAT`.
    Vecmat {
        x: one [Read] 1 "as long as the matrix's columns",
        m: one [Read] 2 "the matrix",
        y: one [Write] 1 "as long as its rows",
    }
}

operands! {
    /// Operands of [`MATMUL`].
    Matmul {
        a: one [Read] 2 "the first factor",
        b: one [Read] 2 "the second factor",
        c: one [Write|ReadWrite|Reduce] 2 "the product",
    }
}

params! {
    /// Which factors of a matrix product are transposed. Costs nothing: they are read the other way.
    #[derive(Copy, Default, Eq)]
    Transposed {
        a: bool, "whether the first is";
        b: bool, "whether the second is";
    }
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
}

/// Refuses inner extents that differ.
fn expect_inner(left: (&Shaped, usize, &str), right: (&Shaped, usize, &str)) -> Result<(), String> {
    if left.1 == right.1 {
        return Ok(());
    }
    let shown = |(of, n, what): (&Shaped, usize, &str)| {
        format!("{} of shape {} has {n} {what}", of.name, of.shape)
    };
    Err(format!("{}, {}", shown(left), shown(right)))
}

/// Multiplications and additions of a product with so many terms.
fn terms(call: &Call, terms: usize) -> Cost {
    Cost {
        flops: 2.0 * terms as f64,
        bytes: call.bytes(),
    }
}

/// Σ aᵢ · bᵢ
pub(crate) static DOT: Op<Dot> = Op::new(|| {
    let rule = |call: &Call| {
        let Dot { a, b, .. } = Dot::shapes(call);
        b.expect_like(&a)
    };
    Codelet::new("dot")
        .rule(rule)
        .cost(|c| terms(c, Dot::shapes(c).a.shape.len()))
        .with(only(by_type!(dotted)))
});

/// `c[i][j] = a[i] · b[j]`
pub(crate) static OUTER: Op<Outer> = Op::new(|| {
    let rule = |call: &Call| {
        let Outer { a, b, c } = Outer::shapes(call);
        c.expect([1, 1, a.dims()[3], b.dims()[3]])
    };
    Codelet::new("outer")
        .rule(rule)
        .cost(|c| terms(c, Outer::shapes(c).c.shape.len()))
        .with(only(by_type!(crossed)))
});

/// `y = m · x`
pub(crate) static MATVEC: Op<Matvec> = Op::new(|| {
    let rule = |call: &Call| {
        let Matvec { m, x, y } = Matvec::shapes(call);
        let ([_, _, rows, cols], [.., n]) = (m.dims(), x.dims());
        expect_inner((&m, cols, "columns"), (&x, n, "elements"))?;
        y.expect([1, 1, 1, rows])
    };
    Codelet::new("matvec")
        .rule(rule)
        .cost(|c| terms(c, Matvec::shapes(c).m.shape.len()))
        .with(only(by_type!(by_vector)))
});

/// `y = x · m`
pub(crate) static VECMAT: Op<Vecmat> = Op::new(|| {
    let rule = |call: &Call| {
        let Vecmat { x, m, y } = Vecmat::shapes(call);
        let ([_, _, rows, cols], [.., n]) = (m.dims(), x.dims());
        expect_inner((&x, n, "elements"), (&m, rows, "rows"))?;
        y.expect([1, 1, 1, cols])
    };
    Codelet::new("vecmat")
        .rule(rule)
        .cost(|c| terms(c, Vecmat::shapes(c).m.shape.len()))
        .with(only(by_type!(vector_by)))
});

/// Rows, inner extent and columns of a product.
fn sides(call: &Call) -> [usize; 3] {
    let (Matmul { a, c, .. }, turned) = (Matmul::shapes(call), Transposed::of(&call.params));
    let [_, _, rows, cols] = c.dims();
    [rows, a.dims()[if turned.a { 2 } else { 3 }], cols]
}

/// `c = a · b`, each factor transposed if asked.
pub static MATMUL: Op<Matmul, Transposed> = Op::new(|| {
    let rule = |call: &Call| {
        let (Matmul { a, b, c }, turned) = (Matmul::shapes(call), Transposed::of(&call.params));
        let ([_, _, m, k], [_, _, l, n]) = (a.dims(), b.dims());
        let (m, k, left) = match turned.a {
            true => (k, m, "rows"),
            false => (m, k, "columns"),
        };
        let (l, n, right) = match turned.b {
            true => (n, l, "columns"),
            false => (l, n, "rows"),
        };
        expect_inner((&a, k, left), (&b, l, right))?;
        c.expect([1, 1, m, n])
    };
    // The register blocks win where arranging operands costs more than multiplying them.
    let little = |call: &Call| {
        let [m, k, n] = sides(call);
        if m.min(n) <= 16 || m * k * n <= 1 << 15 {
            0.5
        } else {
            4.0
        }
    };
    let mut blocks = cpu("small", little, |_| 0, by_type!(matmul_small));
    // Rows by rows overwrites, and knows no other first factor than rows.
    blocks.supports = |call| {
        let turned = Transposed::of(&call.params);
        !turned.b || (!turned.a && Matmul::shapes(call).c.mode == Mode::Write)
    };
    let plain = cpu("reference", |_| 100.0, |_| 0, by_type!(matmul_plain));
    Codelet::new("matmul")
        .rule(rule)
        .cost(|c| terms(c, sides(c).iter().product()))
        .with(plain)
        .with(blocks)
        .with(cpu("gemm", |_| 1.0, |_| 0, by_type!(matmul_gemm)))
});

fn dotted<T: Lane>(ops: &Operands<'_>) -> Done {
    let Dot { a, b, c } = Dot::at(ops.len());
    join_sum(ops, c, vector::dot(ops.read::<T>(a), ops.read::<T>(b)));
    Ok(())
}

fn crossed<T: Lane>(ops: &Operands<'_>) -> Done {
    let Outer { a, b, c } = Outer::at(ops.len());
    let add = ops.mode(c) != Mode::Write;
    let (a, b, c) = (ops.read::<T>(a), ops.read::<T>(b), ops.write::<T>(c));
    small::product(a, true, b, c, add);
    Ok(())
}

fn by_vector<T: Lane>(ops: &Operands<'_>) -> Done {
    let Matvec { m, x, y } = Matvec::at(ops.len());
    vector::matvec(ops.read::<T>(m), ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

fn vector_by<T: Lane>(ops: &Operands<'_>) -> Done {
    let Vecmat { x, m, y } = Vecmat::at(ops.len());
    vector::vecmat(ops.read::<T>(x), ops.read::<T>(m), ops.write::<T>(y));
    Ok(())
}

fn matmul_plain<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, turned) = (Matmul::at(ops.len()), Transposed::of(ops.params()));
    let add = ops.mode(at.c) != Mode::Write;
    let (a, b, mut c) = (
        ops.read::<T>(at.a),
        ops.read::<T>(at.b),
        ops.write::<T>(at.c),
    );
    let inner = a.dims()[if turned.a { 2 } else { 3 }];
    let [_, _, rows, cols] = c.dims();
    for i in 0..rows {
        for j in 0..cols {
            let mut sum = T::ZERO;
            for k in 0..inner {
                let left = a.at(if turned.a { [0, 0, k, i] } else { [0, 0, i, k] });
                let right = b.at(if turned.b { [0, 0, j, k] } else { [0, 0, k, j] });
                sum += left * right;
            }
            let place = &mut c.row([0, 0, i])[j];
            *place = if add { *place + sum } else { sum };
        }
    }
    Ok(())
}

fn matmul_small<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, turned) = (Matmul::at(ops.len()), Transposed::of(ops.params()));
    let add = ops.mode(at.c) != Mode::Write;
    let (a, b, c) = (
        ops.read::<T>(at.a),
        ops.read::<T>(at.b),
        ops.write::<T>(at.c),
    );
    match turned.b {
        false => small::product(a, turned.a, b, c, add),
        true => small::rows_by_rows(a, b, None, c),
    }
    Ok(())
}

fn matmul_gemm<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, turned) = (Matmul::at(ops.len()), Transposed::of(ops.params()));
    let factor = |i: usize, turned: bool| {
        let m = Mat::from_view(ops.read::<T>(i));
        if turned { m.transposed() } else { m }
    };
    let add = ops.mode(at.c) != Mode::Write;
    let (a, b) = (factor(at.a, turned.a), factor(at.b, turned.b));
    gemm(a, b, MatMut::from_view(ops.write::<T>(at.c)), add);
    Ok(())
}

/// Three forms of a product: allocated, written where told, added at the same time as others. The types
/// of factors and result, what else it takes, and the result's extents.
macro_rules! product_forms {
    (
        $about:literal, $op:ident: $new:ident, $into:ident, $reduce:ident,
        $set:ident($a:ident, $b:ident: $factor:ident, $c:ident) $($turned:ident: $type:ty)?, $extents:expr
    ) => {
        #[doc = concat!(
            $about, ". Forms: [`", stringify!($new), "`], [`", stringify!($into), "`], [`",
            stringify!($reduce), "`]."
        )]
        #[track_caller]
        pub fn $new<'r, T: Lane>(
            recorder: &'r Recorder,
            $a: &$factor<'_, T>,
            $b: &$factor<'_, T>,
            $($turned: $type,)?
        ) -> $c<'r, T> {
            let mut c = recorder.temporary($extents);
            $into(recorder, $a, $b, $($turned,)? &mut c);
            c
        }

        #[doc = concat!($about, ", written to `c`.")]
        #[track_caller]
        pub fn $into<T: Lane>(
            recorder: &Recorder,
            a: &$factor<'_, T>,
            b: &$factor<'_, T>,
            $($turned: $type,)?
            c: &mut $c<'_, T>,
        ) {
            let operands = $set { a: a.read(), b: b.read(), c: c.write() };
            #[allow(unused_parens)]
            $op.submit(recorder, operands, ($($turned)?));
        }

        #[doc = concat!("`c +=` ", $about, ", several tasks at the same time; the graph fixes the order.")]
        #[track_caller]
        pub fn $reduce<T: Lane>(
            recorder: &Recorder,
            a: &$factor<'_, T>,
            b: &$factor<'_, T>,
            $($turned: $type,)?
            c: &mut $c<'_, T>,
        ) {
            let operands = $set { a: a.read(), b: b.read(), c: c.reduce() };
            #[allow(unused_parens)]
            $op.submit(recorder, operands, ($($turned)?));
        }
    };
}

product_forms! {
    "Σ aᵢ · bᵢ", DOT: dot, dot_into, dot_reduce, Dot(a, b: Vector, Scalar), []
}
product_forms! {
    "`a[i] · b[j]` at row i and column j", OUTER: outer, outer_into, outer_reduce,
    Outer(a, b: Vector, Matrix), [extents(a)[0], extents(b)[0]]
}
product_forms! {
    "`a · b`, each transposed if asked", MATMUL: matmul, matmul_into, matmul_reduce,
    Matmul(a, b: Matrix, Matrix) turned: Transposed,
    [extents(a)[usize::from(turned.a)], extents(b)[usize::from(!turned.b)]]
}

/// `m · x`. Forms: [`matvec`], [`matvec_into`].
#[track_caller]
pub fn matvec<'r, T: Lane>(
    recorder: &'r Recorder,
    m: &Matrix<'_, T>,
    x: &Vector<'_, T>,
) -> Vector<'r, T> {
    let mut y = recorder.temporary([extents(m)[0]]);
    matvec_into(recorder, m, x, &mut y);
    y
}

/// `m · x`, written to `y`.
#[track_caller]
pub fn matvec_into<T: Lane>(
    recorder: &Recorder,
    m: &Matrix<'_, T>,
    x: &Vector<'_, T>,
    y: &mut Vector<'_, T>,
) {
    let (m, x, y) = (m.read(), x.read(), y.write());
    MATVEC.submit(recorder, Matvec { m, x, y }, ());
}

/// `x · m`. Forms: [`vecmat`], [`vecmat_into`].
#[track_caller]
pub fn vecmat<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Vector<'_, T>,
    m: &Matrix<'_, T>,
) -> Vector<'r, T> {
    let mut y = recorder.temporary([extents(m)[1]]);
    vecmat_into(recorder, x, m, &mut y);
    y
}

/// `x · m`, written to `y`.
#[track_caller]
pub fn vecmat_into<T: Lane>(
    recorder: &Recorder,
    x: &Vector<'_, T>,
    m: &Matrix<'_, T>,
    y: &mut Vector<'_, T>,
) {
    let (x, m, y) = (x.read(), m.read(), y.write());
    VECMAT.submit(recorder, Vecmat { x, m, y }, ());
}
