//! Two operands of the same extents: sum, difference, product, quotient.

use dahl_core::{View, ViewMut};

use crate::elementwise::walk::{map, update};
use crate::float::Float;

/// `out = a + b`
pub(crate) fn add<T: Float>(a: View<'_, T>, b: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [a, b], |[a, b]| a + b);
}

/// `out = a − b`
pub(crate) fn sub<T: Float>(a: View<'_, T>, b: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [a, b], |[a, b]| a - b);
}

/// `out = a · b`
pub(crate) fn mul<T: Float>(a: View<'_, T>, b: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [a, b], |[a, b]| a * b);
}

/// `out = a / b`
pub(crate) fn div<T: Float>(a: View<'_, T>, b: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [a, b], |[a, b]| a / b);
}

/// `y += x`
pub(crate) fn add_assign<T: Float>(x: View<'_, T>, y: ViewMut<'_, T>) {
    update([y], [x], |[y], [x]| [y + x]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_operations() {
        let (a, b) = ([6.0, -1.0, 0.0f64], [4.0, 2.0, 0.0]);
        let view = |s| View::from_slice(s, [1, 1, 1, 3]);
        let mut out = [0.0; 3];
        let mut check = |op: fn(View<'_, f64>, View<'_, f64>, ViewMut<'_, f64>), want: [f64; 3]| {
            op(
                view(&a),
                view(&b),
                ViewMut::from_slice(&mut out, [1, 1, 1, 3]),
            );
            assert!(
                out.iter()
                    .zip(want)
                    .all(|(g, w)| *g == w || g.is_nan() && w.is_nan())
            );
        };
        check(add, [10.0, 1.0, 0.0]);
        check(sub, [2.0, -3.0, 0.0]);
        check(mul, [24.0, -2.0, 0.0]);
        check(div, [1.5, -0.5, f64::NAN]);
        let mut y = [1.0, 2.0, 3.0];
        add_assign(view(&b), ViewMut::from_slice(&mut y, [1, 1, 1, 3]));
        assert_eq!(y, [5.0, 4.0, 3.0]);
    }
}
