//! Softmax along rows, and its gradient.

use dahl_core::view::for_rows;
use dahl_core::{View, ViewMut};

use crate::float::Float;

/// Writes `e^(x − largest)` and returns their sum and the largest element: what every safe use of
/// softmax starts with.
#[inline(always)]
pub(crate) fn exponentials<T: Float>(x: &[T], out: &mut [T]) -> (T, T) {
    let mut most = T::NEG_INFINITY;
    for &v in x {
        most = if v > most || v.is_nan() { v } else { most };
    }
    let mut sum = T::ZERO;
    for (o, &v) in out.iter_mut().zip(x) {
        *o = (v - most).exp();
        sum += *o;
    }
    (sum, most)
}

/// `y = eˣ / Σ eˣ` along each row.
///
/// # Panics
/// If the extents differ.
pub(crate) fn forward<T: Float>(x: View<'_, T>, mut y: ViewMut<'_, T>) {
    assert_eq!(x.dims(), y.dims(), "softmax: extents");
    for_rows(x.dims(), |at| {
        let row = y.row(at);
        let (sum, _) = exponentials(x.row(at), row);
        row.iter_mut().for_each(|v| *v /= sum);
    });
}

/// `dx = y · (dy − Σ dy · y)` along each row: the Jacobian applied to `dy`, from the output `y`.
///
/// # Panics
/// If the extents differ.
pub(crate) fn backward<T: Float>(y: View<'_, T>, dy: View<'_, T>, mut dx: ViewMut<'_, T>) {
    assert_eq!(
        (y.dims(), dy.dims()),
        (dx.dims(), dx.dims()),
        "softmax: extents"
    );
    for_rows(y.dims(), |at| {
        let (y, dy, dx) = (y.row(at), dy.row(at), dx.row(at));
        let dot: T = y.iter().zip(dy).map(|(&y, &g)| y * g).sum();
        for (d, (&y, &g)) in dx.iter_mut().zip(y.iter().zip(dy)) {
            *d = y * (g - dot);
        }
    });
}

/// The whole Jacobian of one row: `j[a][b] = y[a] · ([a = b] − y[b])`, for inspection and tests.
///
/// # Panics
/// If `y` is not a row or `out` not square of its length.
pub(crate) fn jacobian<T: Float>(y: View<'_, T>, mut out: ViewMut<'_, T>) {
    let n = y.dims()[3];
    assert_eq!(
        (y.dims(), out.dims()),
        ([1, 1, 1, n], [1, 1, n, n]),
        "softmax: extents"
    );
    let y = y.row([0, 0, 0]);
    for a in 0..n {
        for (b, o) in out.row([0, 0, a]).iter_mut().enumerate() {
            *o = y[a] * (if a == b { T::ONE } else { T::ZERO } - y[b]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;

    #[test]
    fn large_inputs_do_not_overflow() {
        let x = [1000.0f32, 1000.0, -1000.0];
        let mut y = [0.0; 3];
        forward(
            View::from_slice(&x, [1, 1, 1, 3]),
            ViewMut::from_slice(&mut y, [1, 1, 1, 3]),
        );
        assert_eq!(y, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn the_gradient_is_the_jacobian_times_the_gradient() {
        let dims = [1, 1, 1, 4];
        let (x, dy) = ([0.3, -1.0, 2.0, 0.5f64], [1.0, -2.0, 0.25, 3.0]);
        let softmax = |x: &[f64; 4]| {
            let mut y = [0.0; 4];
            forward(View::from_slice(x, dims), ViewMut::from_slice(&mut y, dims));
            y
        };
        let y = softmax(&x);
        let (mut dx, mut j) = ([0.0; 4], [0.0; 16]);
        let yv = View::from_slice(&y, dims);
        backward(
            yv,
            View::from_slice(&dy, dims),
            ViewMut::from_slice(&mut dx, dims),
        );
        jacobian(yv, ViewMut::from_slice(&mut j, [1, 1, 4, 4]));
        let by_jacobian: Vec<f64> = (0..4)
            .map(|b| (0..4).map(|a| dy[a] * j[a * 4 + b]).sum())
            .collect();
        assert_close("jacobian", &dx, &by_jacobian, 1e-14, 4);
        let h = 1e-6;
        let differences: Vec<f64> = (0..4)
            .map(|k| {
                let (mut up, mut down) = (x, x);
                up[k] += h;
                down[k] -= h;
                let (up, down) = (softmax(&up), softmax(&down));
                (0..4).map(|a| dy[a] * (up[a] - down[a]) / (2.0 * h)).sum()
            })
            .collect();
        assert_close("differences", &dx, &differences, 1e-8, 0);
    }
}
