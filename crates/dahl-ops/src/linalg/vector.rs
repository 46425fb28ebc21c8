//! Products with vectors: dot, matrix by vector, vector by matrix.
//!
//! Vectors are 1×1×1×N, matrices 1×1×M×N; all may be tiles.

use dahl_core::{View, ViewMut};

use super::small;
use crate::reduce::rows;
use crate::simd::Lane;

/// The dot product of two vectors.
///
/// # Panics
/// If the extents differ.
pub(crate) fn dot<T: Lane>(a: View<'_, T>, b: View<'_, T>) -> T {
    rows::sum_products(a, b)
}

/// `y = m · x`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn matvec<T: Lane>(m: View<'_, T>, x: View<'_, T>, y: ViewMut<'_, T>) {
    small::rows_by_rows(x, m, None, y);
}

/// `y = x · m`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn vecmat<T: Lane>(x: View<'_, T>, m: View<'_, T>, y: ViewMut<'_, T>) {
    small::product(x, false, m, y, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_worked_by_hand() {
        let (a, b) = ([1.0, 2.0f64], [3.0, 4.0, 5.0]);
        let (av, bv) = (
            View::from_slice(&a, [1, 1, 1, 2]),
            View::from_slice(&b, [1, 1, 1, 3]),
        );
        assert_eq!(dot(bv, bv), 50.0);
        let m = [3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
        let mv = View::from_slice(&m, [1, 1, 2, 3]);
        let (mut y, mut z) = ([0.0; 2], [0.0; 3]);
        matvec(mv, bv, ViewMut::from_slice(&mut y, [1, 1, 1, 2]));
        assert_eq!(y, [50.0, 100.0]);
        vecmat(av, mv, ViewMut::from_slice(&mut z, [1, 1, 1, 3]));
        assert_eq!(z, [15.0, 20.0, 25.0]);
    }
}
