//! Clipping gradients by their global norm: partial sums of squares, then one factor for all.
//!
//! Each task sums the squares of its tile; the sums are merged in the order the graph fixes, and
//! [`factor`] gives what every gradient is multiplied by.

use dahl_core::{View, ViewMut};

use crate::elementwise::kernels::unary;
use crate::float::Float;
use crate::reduce::rows;
use crate::simd::Lane;

/// The sum of squares of a tile.
pub(crate) fn squares<T: Lane>(x: View<'_, T>) -> T {
    rows::sum_products(x, x)
}

/// What to multiply gradients by so that their norm is at most `max`: PyTorch's
/// `min(1, max / (norm + 1e-6))`, given the sum of all squares.
pub(crate) fn factor<T: Float>(squares: T, max: T) -> T {
    let factor = max / (squares.sqrt() + T::from_f64(1e-6));
    if factor > T::ONE { T::ONE } else { factor }
}

/// Multiplies a tile of gradients by the factor, unless that is 1.
pub(crate) fn apply<T: Float>(factor: T, grad: ViewMut<'_, T>) {
    if factor != T::ONE {
        unary::scale_assign(factor, grad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_gradients_are_shortened_and_short_ones_kept() {
        let mut g = [3.0f64, 4.0];
        let sum = squares(View::from_slice(&g, [1, 1, 1, 2]));
        assert_eq!(sum, 25.0);
        apply(factor(sum, 10.0), ViewMut::from_slice(&mut g, [1, 1, 1, 2]));
        assert_eq!(g, [3.0, 4.0]);
        apply(factor(sum, 1.0), ViewMut::from_slice(&mut g, [1, 1, 1, 2]));
        crate::compare::assert_close("clipped", &g, &[0.6, 0.8], 1e-6, 0);
        assert!(factor(f64::NAN, 1.0).is_nan());
    }
}
