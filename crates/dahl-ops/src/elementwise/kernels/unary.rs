//! One operand: constants, powers, bounds, rounding, exponential and logarithm.

use dahl_core::{View, ViewMut};

use crate::elementwise::walk::map;
use crate::float::Float;

/// `out = value`
pub(crate) fn fill<T: Float>(value: T, mut out: ViewMut<'_, T>) {
    match out.as_slice() {
        Some(all) => all.fill(value),
        None => out.fill(value),
    }
}

/// `out = x`
pub(crate) fn copy<T: Float>(x: View<'_, T>, mut out: ViewMut<'_, T>) {
    out.copy_from(x);
}

/// `out = value · x`
pub(crate) fn scale<T: Float>(value: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| value * x);
}

/// `x *= value`
pub(crate) fn scale_assign<T: Float>(value: T, x: ViewMut<'_, T>) {
    crate::elementwise::walk::update([x], [], |[x], []| [value * x]);
}

/// `out = x + value`
pub(crate) fn add_value<T: Float>(value: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| x + value);
}

/// `out = x − value`
pub(crate) fn sub_value<T: Float>(value: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| x - value);
}

/// `out = x` to the power `p`. Powers 0.5, 1, 2, 3 and −1 avoid the general function.
pub(crate) fn power<T: Float>(p: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    match p.to_f64() {
        0.5 => map(out, [x], |[x]| x.sqrt()),
        1.0 => copy(x, out),
        2.0 => map(out, [x], |[x]| x * x),
        3.0 => map(out, [x], |[x]| x * x * x),
        -1.0 => map(out, [x], |[x]| T::ONE / x),
        _ => map(out, [x], |[x]| x.powf(p)),
    }
}

/// `out = x` bounded to `low..=high`; not-a-number stays. If `low > high` all become `high`.
pub(crate) fn clip<T: Float>(low: T, high: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| {
        let x = if x < low { low } else { x };
        if x > high { high } else { x }
    });
}

/// `out =` the nearest integer, halves to the even one.
pub(crate) fn round<T: Float>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| x.round_even());
}

/// `out = eˣ`
pub(crate) fn exp<T: Float>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| x.exp());
}

/// `out = ln x`
pub(crate) fn log<T: Float>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| x.ln());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(op: impl Fn(View<'_, f64>, ViewMut<'_, f64>), x: [f64; 4]) -> [f64; 4] {
        let mut out = [9.0; 4];
        op(
            View::from_slice(&x, [1, 1, 2, 2]),
            ViewMut::from_slice(&mut out, [1, 1, 2, 2]),
        );
        out
    }

    #[test]
    fn constants() {
        assert_eq!(run(|_, o| fill(3.0, o), [0.0; 4]), [3.0; 4]);
        assert_eq!(run(copy, [1.0, 2.0, 3.0, 4.0]), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            run(|x, o| scale(2.0, x, o), [1.0, 2.0, 3.0, 4.0]),
            [2.0, 4.0, 6.0, 8.0]
        );
        assert_eq!(
            run(|x, o| add_value(2.0, x, o), [1.0, 2.0, 3.0, 4.0]),
            [3.0, 4.0, 5.0, 6.0]
        );
        assert_eq!(
            run(|x, o| sub_value(2.0, x, o), [1.0, 2.0, 3.0, 4.0]),
            [-1.0, 0.0, 1.0, 2.0]
        );
        let mut x = [1.0, 2.0];
        scale_assign(3.0, ViewMut::from_slice(&mut x, [1, 1, 1, 2]));
        assert_eq!(x, [3.0, 6.0]);
    }

    #[test]
    fn rounding_goes_to_the_even_neighbour() {
        assert_eq!(run(round, [0.5, 1.5, 2.5, -3.5]), [0.0, 2.0, 2.0, -4.0]);
    }

    #[test]
    fn bounds_keep_what_is_not_a_number() {
        let out = run(|x, o| clip(-1.0, 1.0, x, o), [-2.0, 0.5, 7.0, f64::NAN]);
        assert_eq!(out[..3], [-1.0, 0.5, 1.0]);
        assert!(out[3].is_nan());
    }

    #[test]
    fn powers_agree_with_the_general_function() {
        for p in [0.5, 1.0, 2.0, 3.0, -1.0, 2.5, 0.0] {
            let x = [0.3, 1.0, 2.0, 5.5];
            let want = x.map(|x: f64| x.powf(p));
            crate::compare::assert_close("power", &run(|x, o| power(p, x, o), x), &want, 0.0, 2);
        }
        let close = |what, have: [f64; 4], want: [f64; 4]| {
            crate::compare::assert_close(what, &have, &want, 0.0, 1);
        };
        let x = [0.0, 1.0, -1.0, 2.0];
        close("exp", run(exp, x), x.map(f64::exp));
        let x = [1.0, 2.0, 0.0, 3.0];
        close("log", run(log, x), x.map(f64::ln));
    }
}
