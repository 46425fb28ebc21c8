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

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::kernels::unary;
use super::{In, Unary, both, codelet, cost, slow, unary_forms};
use crate::declare::{operands, params};
use crate::op::{Done, Op, by_type, like, only};
use crate::simd::Lane;

params! {
    /// The parameter of an operation with a value.
    Value {
        value: f64, "the value";
    }
}

params! {
    /// The parameter of `POWER`.
    Exponent {
        p: f64, "the exponent";
    }
}

params! {
    /// Parameters of `CLIP`.
    Bounds {
        low: f64, "the smallest result";
        high: f64, "the largest result";
    }
}

/// `y = value · x`
pub static SCALE: Op<Unary, Value> = Op::new(|| {
    codelet::<Unary>("scale", both!(|x, y| unary::scale(x.p, x.a, y)), |x| {
        x.p * x.a
    })
});

/// `y = x + value`
pub(crate) static ADD_VALUE: Op<Unary, Value> = Op::new(|| {
    let fast = both!(|x, y| unary::add_value(x.p, x.a, y));
    codelet::<Unary>("add_value", fast, |x| x.a + x.p)
});

/// `y = x − value`
pub(crate) static SUB_VALUE: Op<Unary, Value> = Op::new(|| {
    let fast = both!(|x, y| unary::sub_value(x.p, x.a, y));
    codelet::<Unary>("sub_value", fast, |x| x.a - x.p)
});

/// `y = xᵖ`
pub(crate) static POWER: Op<Unary, Exponent> = Op::new(|| {
    // Square roots are a power of their own: that of −0 is −0.
    let plain = |x: In<f64, f64>| match x.p {
        0.5 => x.a.sqrt(),
        p => x.a.powf(p),
    };
    codelet::<Unary>("power", both!(|x, y| unary::power(x.p, x.a, y)), plain).cost(slow)
});

/// `y = x` bounded to `low..=high`; not-a-number stays.
pub(crate) static CLIP: Op<Unary, Bounds> = Op::new(|| {
    let plain = |x: In<f64, f64>| {
        let a = if x.a < x.p { x.p } else { x.a };
        if a > x.q { x.q } else { a }
    };
    codelet::<Unary>(
        "clip_values",
        both!(|x, y| unary::clip(x.p, x.q, x.a, y)),
        plain,
    )
});

/// The nearest integer, halves to the even one.
pub(crate) static ROUND: Op<Unary> = Op::new(|| {
    let fast = both!(|x, y| unary::round(x.a, y));
    codelet::<Unary>("round", fast, |x| x.a.round_ties_even())
});

/// `y = eˣ`
pub static EXP: Op<Unary> =
    Op::new(|| codelet::<Unary>("exp", both!(|x, y| unary::exp(x.a, y)), |x| x.a.exp()).cost(slow));

/// `y = ln x`
pub(crate) static LOG: Op<Unary> =
    Op::new(|| codelet::<Unary>("log", both!(|x, y| unary::log(x.a, y)), |x| x.a.ln()).cost(slow));

operands! {
    /// Operands of [`COPY`].
    Copied {
        x: one [Read] any "the input",
        y: one [Write] any "the result, as large",
    }
}

/// `y = x`
pub static COPY: Op<Copied> = Op::new(|| {
    let rule = |call: &Call| {
        let Copied { x, y } = Copied::shapes(call);
        y.expect_like(&x)
    };
    Codelet::new("copy")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(copied)))
});

fn copied<T: Lane>(ops: &Operands<'_>) -> Done {
    let Copied { x, y } = Copied::at(ops.len());
    unary::copy(ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

operands! {
    /// Operands of [`FILL`].
    Filled {
        x: one [Write] any "what is filled",
    }
}

/// `x = value`
pub static FILL: Op<Filled, Value> =
    Op::new(|| Codelet::new("fill").cost(cost).with(only(by_type!(filled))));

fn filled<T: Lane>(ops: &Operands<'_>) -> Done {
    let Value { value } = Value::of(ops.params());
    unary::fill(T::from_f64(value), ops.write::<T>(Filled::at(ops.len()).x));
    Ok(())
}

fn value<T: Lane>(value: T) -> Value {
    Value {
        value: value.to_f64(),
    }
}

unary_forms! { "`by · x`", SCALE: scale, scale_into, scale_assign (by) value(by) }
unary_forms! {
    "`x + other`", ADD_VALUE: add_value, add_value_into, add_value_assign (other) value(other)
}
unary_forms! {
    "`x − other`", SUB_VALUE: sub_value, sub_value_into, sub_value_assign (other) value(other)
}
unary_forms! {
    "`x` to the power `p`", POWER: power, power_into, power_assign (p) Exponent { p: p.to_f64() }
}
unary_forms! {
    "`x` bounded to `low..=high`; not-a-number stays", CLIP: clip, clip_into, clip_assign
    (low, high) Bounds { low: low.to_f64(), high: high.to_f64() }
}
unary_forms! {
    "The nearest integer, halves to the even one", ROUND: round, round_into, round_assign () ()
}
unary_forms! { "`eˣ`", EXP: exp, exp_into, exp_assign () () }
unary_forms! { "`ln x`", LOG: log, log_into, log_assign () () }

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
pub fn fill_assign<T: Lane, const R: usize>(recorder: &Recorder, x: &mut Array<'_, T, R>, to: T) {
    FILL.submit(recorder, Filled { x: x.write() }, value(to));
}

/// The same values. Forms: [`copy`], [`copy_into`].
#[track_caller]
pub fn copy<'r, T: Lane, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    let mut y = like(recorder, x);
    copy_into(recorder, x, &mut y);
    y
}

/// The same values, written to `y`.
#[track_caller]
pub fn copy_into<T: Lane, const R: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    y: &mut Array<'_, T, R>,
) {
    let (x, y) = (x.read(), y.write());
    COPY.submit(recorder, Copied { x, y }, ());
}
