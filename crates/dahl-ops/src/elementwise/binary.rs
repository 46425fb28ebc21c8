//! Two arrays, element by element: sum, difference, product, quotient.
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

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::kernels::binary;
use super::{Binary, binary_forms, both, codelet, cost};
use crate::declare::operands;
use crate::op::{Done, Op, by_type, only};
use crate::simd::Lane;

/// `c = a + b`
pub static ADD: Op<Binary> =
    Op::new(|| codelet::<Binary>("add", both!(|x, c| binary::add(x.a, x.b, c)), |x| x.a + x.b));

/// `c = a − b`
pub(crate) static SUB: Op<Binary> =
    Op::new(|| codelet::<Binary>("sub", both!(|x, c| binary::sub(x.a, x.b, c)), |x| x.a - x.b));

/// `c = a · b`
pub(crate) static MUL: Op<Binary> =
    Op::new(|| codelet::<Binary>("mul", both!(|x, c| binary::mul(x.a, x.b, c)), |x| x.a * x.b));

/// `c = a / b`
pub(crate) static DIV: Op<Binary> =
    Op::new(|| codelet::<Binary>("div", both!(|x, c| binary::div(x.a, x.b, c)), |x| x.a / x.b));

operands! {
    /// Operands of [`ADD_ASSIGN`].
    Added {
        x: one [Read] any "what is added",
        total: one [ReadWrite|Reduce] any "what it is added to, as large",
    }
}

/// `total = total + x`, also by several tasks at the same time.
pub static ADD_ASSIGN: Op<Added> = Op::new(|| {
    let rule = |call: &Call| {
        let Added { x, total } = Added::shapes(call);
        total.expect_like(&x)
    };
    Codelet::new("add_assign")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(added)))
});

fn added<T: Lane>(ops: &Operands<'_>) -> Done {
    let Added { x, total } = Added::at(ops.len());
    binary::add_assign(ops.read::<T>(x), ops.write::<T>(total));
    Ok(())
}

binary_forms! { "`a − b`", SUB: sub, sub_into, sub_assign, Binary { a, b, c } () () }
binary_forms! { "`a · b`", MUL: mul, mul_into, mul_assign, Binary { a, b, c } () () }
binary_forms! { "`a / b`", DIV: div, div_into, div_assign, Binary { a, b, c } () () }

/// `a + b`. Forms: [`add`], [`add_into`], [`add_assign`], [`add_reduce`].
#[track_caller]
pub fn add<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut c = crate::op::like(recorder, a);
    add_into(recorder, a, b, &mut c);
    c
}

/// `a + b`, written to `c`.
#[track_caller]
pub fn add_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    a: &Array<'_, T, R>,
    b: &Array<'_, T, R>,
    c: &mut Array<'_, T, R>,
) {
    let operands = Binary {
        a: a.read(),
        b: b.read(),
        c: Some(c.write()),
    };
    ADD.submit(recorder, operands, ());
}

/// `total += x`, in place.
#[track_caller]
pub fn add_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    total: &mut Array<'_, T, R>,
    x: &Array<'_, T, R>,
) {
    let (x, total) = (x.read(), total.read_write());
    ADD_ASSIGN.submit(recorder, Added { x, total }, ());
}

/// `total += x`, where several tasks may add at the same time; the graph fixes the order.
#[track_caller]
pub fn add_reduce<T: Lane, const R: usize>(
    recorder: &Recorder,
    total: &mut Array<'_, T, R>,
    x: &Array<'_, T, R>,
) {
    let (x, total) = (x.read(), total.reduce());
    ADD_ASSIGN.submit(recorder, Added { x, total }, ());
}
