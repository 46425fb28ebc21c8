//! Elementwise codelets: one entry each.
//!
//! Operands are the inputs, then the result. A call with one operand less works in place: its first
//! operand is changed. Only [`ADD_ASSIGN`], [`COPY`] and [`FILL`] have a single form.
//!
//! The others have a `reference` that computes each element alone in `f64`, and the vector kernel.

use std::sync::Arc;

use dahl_core::view::for_rows;
use dahl_core::{Call, Codelet, Cost, DType, Implementation, Operands, UnitKind, View, ViewMut};

use super::{Done, Lazy, by_type, expect_operands, expect_same, only};
use crate::elementwise::{binary, relu, unary};
use crate::simd::Lane;

/// `c = a + b`: a, b, c.
pub static ADD: Lazy = Lazy::new(|| {
    op::<2, 0>(
        "add",
        both!(|x, c| binary::add(x.a, x.b, c)),
        |x| x.a + x.b,
        cost,
    )
});

/// `c = a − b`: a, b, c.
pub static SUB: Lazy = Lazy::new(|| {
    op::<2, 0>(
        "sub",
        both!(|x, c| binary::sub(x.a, x.b, c)),
        |x| x.a - x.b,
        cost,
    )
});

/// `c = a · b`: a, b, c.
pub static MUL: Lazy = Lazy::new(|| {
    op::<2, 0>(
        "mul",
        both!(|x, c| binary::mul(x.a, x.b, c)),
        |x| x.a * x.b,
        cost,
    )
});

/// `c = a / b`: a, b, c.
pub static DIV: Lazy = Lazy::new(|| {
    op::<2, 0>(
        "div",
        both!(|x, c| binary::div(x.a, x.b, c)),
        |x| x.a / x.b,
        cost,
    )
});

/// `y = value · x`: x, y. Parameter: the value.
pub static SCALE: Lazy = Lazy::new(|| {
    op::<1, 1>(
        "scale",
        both!(|x, y| unary::scale(x.p, x.a, y)),
        |x| x.p * x.a,
        cost,
    )
});

/// `y = x + value`: x, y. Parameter: the value.
pub static ADD_VALUE: Lazy = Lazy::new(|| {
    op::<1, 1>(
        "add_value",
        both!(|x, y| unary::add_value(x.p, x.a, y)),
        |x| x.a + x.p,
        cost,
    )
});

/// `y = x − value`: x, y. Parameter: the value.
pub static SUB_VALUE: Lazy = Lazy::new(|| {
    op::<1, 1>(
        "sub_value",
        both!(|x, y| unary::sub_value(x.p, x.a, y)),
        |x| x.a - x.p,
        cost,
    )
});

/// `y = xᵖ`: x, y. Parameter: p.
pub static POWER: Lazy = Lazy::new(|| {
    op::<1, 1>(
        "power",
        both!(|x, y| unary::power(x.p, x.a, y)),
        power_of,
        slow,
    )
});

/// `y = x` bounded to `low..=high`: x, y. Parameters: low, high.
pub static CLIP: Lazy = Lazy::new(|| {
    op::<1, 2>(
        "clip_values",
        both!(|x, y| unary::clip(x.p, x.q, x.a, y)),
        bounded,
        cost,
    )
});

/// The nearest integer, halves to the even one: x, y.
pub static ROUND: Lazy = Lazy::new(|| {
    op::<1, 0>(
        "round",
        both!(|x, y| unary::round(x.a, y)),
        |x| x.a.round_ties_even(),
        cost,
    )
});

/// `y = eˣ`: x, y.
pub static EXP: Lazy =
    Lazy::new(|| op::<1, 0>("exp", both!(|x, y| unary::exp(x.a, y)), |x| x.a.exp(), slow));

/// `y = ln x`: x, y.
pub static LOG: Lazy =
    Lazy::new(|| op::<1, 0>("log", both!(|x, y| unary::log(x.a, y)), |x| x.a.ln(), slow));

/// `y = max(x, 0)`: x, y.
pub static RELU: Lazy = Lazy::new(|| {
    op::<1, 0>(
        "relu",
        both!(|x, y| relu::relu(x.a, y)),
        |x| masked(x.a, x.a),
        cost,
    )
});

/// `dx = dy` where `y > 0`, else 0: dy, y, dx.
pub static RELU_GRAD: Lazy = Lazy::new(|| {
    op::<2, 0>(
        "relu_grad",
        both!(|x, d| relu::relu_grad(x.a, x.b, d)),
        |x| masked(x.a, x.b),
        cost,
    )
});

/// `b = b + a`: a, b. Also for reduced operands.
pub static ADD_ASSIGN: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("add_assign")
            .rule(two)
            .cost(cost)
            .with(only(by_type!(add_assign))),
    )
});

/// `b = a`: a, b.
pub static COPY: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("copy")
            .rule(two)
            .cost(cost)
            .with(only(by_type!(copy))),
    )
});

/// `x = value`: x. Parameter: the value.
pub static FILL: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("fill")
            .rule(one)
            .cost(cost)
            .with(only(by_type!(fill))),
    )
});

/// Every elementwise codelet.
pub static ALL: &[&Lazy] = &[
    &ADD,
    &SUB,
    &MUL,
    &DIV,
    &SCALE,
    &ADD_VALUE,
    &SUB_VALUE,
    &POWER,
    &CLIP,
    &ROUND,
    &EXP,
    &LOG,
    &RELU,
    &RELU_GRAD,
    &ADD_ASSIGN,
    &COPY,
    &FILL,
];

/// What a result is made of: one or two operands (then `b` is `a` if there is one), and parameters.
#[derive(Clone, Copy)]
struct In<V, T> {
    a: V,
    b: V,
    p: T,
    q: T,
}

type Kernel<T> = fn(In<View<'_, T>, T>, ViewMut<'_, T>);

/// A kernel for both element types.
#[derive(Clone, Copy)]
struct Kernels {
    f32: Kernel<f32>,
    f64: Kernel<f64>,
}

/// A closure has one type, a kernel two: writes it twice.
macro_rules! both {
    ($kernel:expr) => {
        Kernels {
            f32: $kernel,
            f64: $kernel,
        }
    };
}
use both;

fn op<const INS: usize, const PARAMS: usize>(
    name: &str,
    fast: Kernels,
    plain: fn(In<f64, f64>) -> f64,
    cost: fn(&Call) -> Cost,
) -> Arc<Codelet> {
    let reference = move |ops: &Operands<'_>| match ops.dtype(0) {
        DType::F32 => run::<f32, INS>(ops, |x, out| each(plain, x, out)),
        DType::F64 => run::<f64, INS>(ops, |x, out| each(plain, x, out)),
    };
    let vector = move |ops: &Operands<'_>| match ops.dtype(0) {
        DType::F32 => run::<f32, INS>(ops, fast.f32),
        DType::F64 => run::<f64, INS>(ops, fast.f64),
    };
    let reference = Implementation {
        name: "reference",
        kind: UnitKind::CPU,
        supports: |_| true,
        weight: |_| 100.0,
        scratch: |_| 0,
        body: Arc::new(reference),
    };
    let codelet = Codelet::new(name).rule(rule::<INS, PARAMS>).cost(cost);
    Arc::new(
        codelet
            .with(reference)
            .implement("vector", UnitKind::CPU, vector),
    )
}

fn rule<const INS: usize, const PARAMS: usize>(call: &Call) -> Result<(), String> {
    expect_operands(call, &[INS, INS + 1])?;
    expect_params(call, PARAMS)?;
    expect_same(call, &[0, 1, 2][..call.operands.len()])
}

fn expect_params(call: &Call, count: usize) -> Result<(), String> {
    let n = call.params.len();
    if n == count {
        return Ok(());
    }
    Err(format!("{n} parameters given, {count} expected"))
}

fn two(call: &Call) -> Result<(), String> {
    expect_operands(call, &[2])?;
    expect_same(call, &[0, 1])
}

fn one(call: &Call) -> Result<(), String> {
    expect_operands(call, &[1])?;
    expect_params(call, 1)
}

fn cost(call: &Call) -> Cost {
    Cost {
        flops: call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Transcendental functions take about twenty operations.
fn slow(call: &Call) -> Cost {
    Cost {
        flops: 20.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Elements that an operation in place sets aside at a time: few enough for the first cache.
const BLOCK: usize = 512;

/// Applies a kernel to a task's operands. In place, a kernel still gets operands that do not overlap:
/// the old values are set aside, block by block.
fn run<T: Lane, const INS: usize>(
    ops: &Operands<'_>,
    kernel: impl Fn(In<View<'_, T>, T>, ViewMut<'_, T>),
) -> Done {
    let param = |i: usize| {
        T::from_f64(if i < ops.params().len() {
            ops.float(i)
        } else {
            0.0
        })
    };
    let (p, q) = (param(0), param(1));
    if ops.len() > INS {
        let (a, b) = (ops.read::<T>(0), ops.read::<T>(INS - 1));
        kernel(In { a, b, p, q }, ops.write::<T>(INS));
        return Ok(());
    }
    let mut x = ops.write::<T>(0);
    let other = (INS == 2).then(|| ops.read::<T>(1));
    let mut buffer = [T::ZERO; BLOCK];
    let mut change = |row: &mut [T], other: Option<&[T]>| {
        for (i, part) in row.chunks_mut(BLOCK).enumerate() {
            let n = part.len();
            buffer[..n].copy_from_slice(part);
            let a = View::from_slice(&buffer[..n], [1, 1, 1, n]);
            let b = other.map_or(a, |o| View::from_slice(&o[i * BLOCK..][..n], [1, 1, 1, n]));
            kernel(In { a, b, p, q }, ViewMut::from_slice(part, [1, 1, 1, n]));
        }
    };
    if other.is_none_or(|o| o.is_contiguous())
        && let Some(all) = x.as_slice()
    {
        change(all, other.and_then(|o| o.as_slice()));
        return Ok(());
    }
    for_rows(x.dims(), |at| change(x.row(at), other.map(|o| o.row(at))));
    Ok(())
}

/// The plain version: one element after the other, each rounded once from `f64`.
fn each<T: Lane>(f: fn(In<f64, f64>) -> f64, x: In<View<'_, T>, T>, mut out: ViewMut<'_, T>) {
    let (p, q) = (x.p.to_f64(), x.q.to_f64());
    for_rows(out.dims(), |at| {
        let (a, b) = (x.a.row(at), x.b.row(at));
        for (o, (a, b)) in out.row(at).iter_mut().zip(a.iter().zip(b)) {
            *o = T::from_f64(f(In {
                a: a.to_f64(),
                b: b.to_f64(),
                p,
                q,
            }));
        }
    });
}

/// Square roots are a power of their own: that of −0 is −0.
fn power_of(x: In<f64, f64>) -> f64 {
    if x.p == 0.5 {
        x.a.sqrt()
    } else {
        x.a.powf(x.p)
    }
}

fn bounded(x: In<f64, f64>) -> f64 {
    let a = if x.a < x.p { x.p } else { x.a };
    if a > x.q { x.q } else { a }
}

fn masked(x: f64, mask: f64) -> f64 {
    if mask <= 0.0 { 0.0 } else { x }
}

fn add_assign<T: Lane>(ops: &Operands<'_>) -> Done {
    binary::add_assign(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

fn copy<T: Lane>(ops: &Operands<'_>) -> Done {
    unary::copy(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

fn fill<T: Lane>(ops: &Operands<'_>) -> Done {
    unary::fill(T::from_f64(ops.float(0)), ops.write::<T>(0));
    Ok(())
}
