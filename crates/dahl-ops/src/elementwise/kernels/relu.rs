//! The positive part, and its gradient from the output.
//!
//! The output says all that the gradient needs (positive or not), so the input may be overwritten.

use dahl_core::{View, ViewMut};

use crate::elementwise::walk::map;
use crate::float::Float;

/// `out = max(x, 0)`; not-a-number stays.
pub(crate) fn relu<T: Float>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| if x <= T::ZERO { T::ZERO } else { x });
}

/// `dx = dy` where the output `y` (or any mask) is positive, else 0.
///
/// A product with 0 or 1: where `dy` is selected, compilers load it by a mask, which waits until `y` is there.
pub(crate) fn relu_grad<T: Float>(dy: View<'_, T>, y: View<'_, T>, dx: ViewMut<'_, T>) {
    let share = |y: T| if y <= T::ZERO { T::ZERO } else { T::ONE };
    map(dx, [dy, y], |[dy, y]| dy * share(y));
}

/// `out = min(max(x, 0), 6)`; not-a-number stays.
pub(crate) fn relu6<T: Float>(x: View<'_, T>, out: ViewMut<'_, T>) {
    let six = T::from_f64(6.0);
    map(out, [x], |[x]| {
        let low = if x <= T::ZERO { T::ZERO } else { x };
        if low >= six { six } else { low }
    });
}

/// `dx = dy` where the output `y` lies between 0 and 6, else 0.
pub(crate) fn relu6_grad<T: Float>(dy: View<'_, T>, y: View<'_, T>, dx: ViewMut<'_, T>) {
    let six = T::from_f64(6.0);
    let share = |y: T| match y <= T::ZERO || y >= six {
        true => T::ZERO,
        false => T::ONE,
    };
    map(dx, [dy, y], |[dy, y]| dy * share(y));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_positive_passes() {
        let dims = [1, 1, 1, 4];
        let (x, dy) = ([-1.0, 0.0, 2.0, f32::NAN], [5.0, 6.0, 7.0, 8.0f32]);
        let (mut y, mut dx) = ([9.0f32; 4], [9.0f32; 4]);
        relu(
            View::from_slice(&x, dims),
            ViewMut::from_slice(&mut y, dims),
        );
        assert_eq!(y[..3], [0.0, 0.0, 2.0]);
        assert!(y[3].is_nan());
        let (dy, y) = (View::from_slice(&dy, dims), View::from_slice(&y, dims));
        relu_grad(dy, y, ViewMut::from_slice(&mut dx, dims));
        assert_eq!(dx, [0.0, 0.0, 7.0, 8.0]);
    }
}
