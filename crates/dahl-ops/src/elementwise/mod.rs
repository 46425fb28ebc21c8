//! Operations that treat every element alike, on arrays of any rank.
//!
//! Nothing is stretched to fit: operands have the same rank, which the compiler checks, and the same
//! extents, which the recorder checks. Operands are the inputs, then the result. A task without the
//! result works in place: its first operand is changed.
//!
//! Each has a `reference` that computes each element alone in `f64`, and the vector kernel. Files:
//! [`binary`], [`unary`], [`relu`] declare operations, `kernels` has their loops, `walk` the one loop
//! behind all of them.

pub mod binary;
pub(crate) mod kernels;
pub mod relu;
pub mod relu6;
pub mod unary;
pub(crate) mod walk;

use std::sync::Arc;

use dahl_core::view::for_rows;
use dahl_core::{
    Call, Codelet, Cost, DType, Implementation, Mode, Operands, UnitKind, View, ViewMut,
};

use crate::declare::{OperandSet, Shaped, operands};
use crate::op::Done;
use crate::simd::Lane;

pub use binary::{ADD, ADD_ASSIGN};
pub(crate) use binary::{DIV, MUL, SUB};
pub use relu::{RELU, RELU_GRAD};
pub use relu6::{RELU6, RELU6_GRAD};
pub(crate) use unary::{ADD_VALUE, CLIP, LOG, POWER, ROUND, SUB_VALUE};
pub use unary::{COPY, EXP, FILL, SCALE};

operands! {
    /// Operands of an operation on one array.
    Unary {
        x: one [Read|ReadWrite] any "the input; without y it is changed",
        y: maybe [Write] any "the result, as large",
    }
}

operands! {
    /// Operands of an operation on two arrays.
    Binary {
        a: one [Read|ReadWrite] any "the first input; without c it is changed",
        b: one [Read] any "the second input, as large",
        c: maybe [Write] any "the result, as large",
    }
}

/// What a result is made of: one or two operands (then `b` is `a` if there is one), and parameters.
#[derive(Clone, Copy)]
pub(crate) struct In<V, T> {
    pub a: V,
    pub b: V,
    pub p: T,
    pub q: T,
}

type Kernel<T> = fn(In<View<'_, T>, T>, ViewMut<'_, T>);

/// A kernel for both element types.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub f32: Kernel<f32>,
    pub f64: Kernel<f64>,
}

/// A closure has one type, a kernel two: writes it twice.
macro_rules! both {
    ($kernel:expr) => {
        $crate::elementwise::Kernels {
            f32: $kernel,
            f64: $kernel,
        }
    };
}
pub(crate) use both;

/// How many of the operands are inputs: all but the result.
const fn inputs<O: OperandSet>() -> usize {
    O::DECLARED.len() - 1
}

/// A codelet of one or two inputs and a result: its vector kernel, and what the reference makes of the
/// elements at one place.
pub(crate) fn codelet<O: OperandSet>(
    name: &str,
    fast: Kernels,
    plain: fn(In<f64, f64>) -> f64,
) -> Codelet {
    let reference = move |ops: &Operands<'_>| match ops.dtype(0) {
        DType::F32 => run::<f32>(ops, inputs::<O>(), |x, out| each(plain, x, out)),
        DType::F64 => run::<f64>(ops, inputs::<O>(), |x, out| each(plain, x, out)),
    };
    let vector = move |ops: &Operands<'_>| match ops.dtype(0) {
        DType::F32 => run::<f32>(ops, inputs::<O>(), fast.f32),
        DType::F64 => run::<f64>(ops, inputs::<O>(), fast.f64),
    };
    let reference = Implementation {
        name: "reference",
        kind: UnitKind::CPU,
        supports: |_| true,
        weight: |_| 100.0,
        scratch: |_| 0,
        body: Arc::new(reference),
    };
    Codelet::new(name)
        .rule(rule::<O>)
        .cost(cost)
        .with(reference)
        .implement("vector", UnitKind::CPU, vector)
}

/// The same extents, and the first operand changed exactly if there is no result.
fn rule<O: OperandSet>(call: &Call) -> Result<(), String> {
    let shaped = |i| Shaped::of(O::DECLARED, call, i);
    let (first, given) = (shaped(0), call.operands.len());
    in_place(&first, given == inputs::<O>())?;
    (1..given).try_for_each(|i| shaped(i).expect_like(&first))
}

/// Refuses an input that is changed although there is a result, or not although there is none.
fn in_place(first: &Shaped, alone: bool) -> Result<(), String> {
    let (name, want) = match alone {
        true => (first.name, Mode::ReadWrite),
        false => (first.name, Mode::Read),
    };
    if first.mode == want {
        return Ok(());
    }
    let result = if alone { "without" } else { "with" };
    Err(format!(
        "{name} is given to {}, expected to {} {result} a result",
        first.mode.name(),
        want.name()
    ))
}

/// One operation per element.
pub(crate) fn cost(call: &Call) -> Cost {
    Cost {
        flops: call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Transcendental functions take about twenty operations.
pub(crate) fn slow(call: &Call) -> Cost {
    Cost {
        flops: 20.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Elements that an operation in place sets aside at a time: few enough for the first cache.
const BLOCK: usize = 512;

/// Applies a kernel to a task's operands. In place, a kernel still gets operands that do not overlap:
/// the old values are set aside, block by block.
fn run<T: Lane>(
    ops: &Operands<'_>,
    inputs: usize,
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
    if ops.len() > inputs {
        let (a, b) = (ops.read::<T>(0), ops.read::<T>(inputs - 1));
        kernel(In { a, b, p, q }, ops.write::<T>(inputs));
        return Ok(());
    }
    let mut x = ops.write::<T>(0);
    let other = (inputs == 2).then(|| ops.read::<T>(1));
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

/// The three forms of an operation on one array, from its static: allocated, written where told, in
/// place. Then the names of values it takes, and the parameters that are made of them.
macro_rules! unary_forms {
    (
        $about:literal, $op:ident: $new:ident, $into:ident, $assign:ident
        ($($value:ident),*) $params:expr
    ) => {
        #[doc = concat!(
            $about, ". Forms: [`", stringify!($new), "`], [`", stringify!($into), "`], [`",
            stringify!($assign), "`]."
        )]
        #[track_caller]
        pub fn $new<'r, T: Lane, const R: usize>(
            recorder: &'r Recorder,
            x: &Array<'_, T, R>,
            $($value: T,)*
        ) -> Array<'r, T, R> {
            let mut y = $crate::op::like(recorder, x);
            $into(recorder, x, $($value,)* &mut y);
            y
        }

        #[doc = concat!($about, ", written to `y`.")]
        #[track_caller]
        pub fn $into<T: Lane, const R: usize>(
            recorder: &Recorder,
            x: &Array<'_, T, R>,
            $($value: T,)*
            y: &mut Array<'_, T, R>,
        ) {
            let operands = $crate::elementwise::Unary { x: x.read(), y: Some(y.write()) };
            $op.submit(recorder, operands, $params);
        }

        #[doc = concat!($about, ", in place.")]
        #[track_caller]
        pub fn $assign<T: Lane, const R: usize>(
            recorder: &Recorder,
            x: &mut Array<'_, T, R>,
            $($value: T,)*
        ) {
            let operands = $crate::elementwise::Unary { x: x.read_write(), y: None };
            $op.submit(recorder, operands, $params);
        }
    };
}
pub(crate) use unary_forms;

/// The same of an operation on two arrays, whose operands' struct and fields are named too.
macro_rules! binary_forms {
    (
        $about:literal, $op:ident: $new:ident, $into:ident, $assign:ident,
        $set:ident { $a:ident, $b:ident, $c:ident } ($($value:ident),*) $params:expr
    ) => {
        #[doc = concat!(
                    $about, ". Forms: [`", stringify!($new), "`], [`", stringify!($into), "`], [`",
                    stringify!($assign), "`]."
                )]
        #[track_caller]
        pub fn $new<'r, T: Lane, const R: usize>(
            recorder: &'r Recorder,
            $a: &Array<'_, T, R>,
            $b: &Array<'_, T, R>,
            $($value: T,)*
        ) -> Array<'r, T, R> {
            let mut $c = $crate::op::like(recorder, $a);
            $into(recorder, $a, $b, $($value,)* &mut $c);
            $c
        }

        #[doc = concat!($about, ", written to `", stringify!($c), "`.")]
        #[track_caller]
        pub fn $into<T: Lane, const R: usize>(
            recorder: &Recorder,
            $a: &Array<'_, T, R>,
            $b: &Array<'_, T, R>,
            $($value: T,)*
            $c: &mut Array<'_, T, R>,
        ) {
            let operands = $set {
                $a: $a.read(),
                $b: $b.read(),
                $c: Some($c.write()),
            };
            $op.submit(recorder, operands, $params);
        }

        #[doc = concat!($about, ", in place of `", stringify!($a), "`.")]
        #[track_caller]
        pub fn $assign<T: Lane, const R: usize>(
            recorder: &Recorder,
            $a: &mut Array<'_, T, R>,
            $b: &Array<'_, T, R>,
            $($value: T,)*
        ) {
            let operands = $set {
                $a: $a.read_write(),
                $b: $b.read(),
                $c: None,
            };
            $op.submit(recorder, operands, $params);
        }
    };
}
pub(crate) use binary_forms;
