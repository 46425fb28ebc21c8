//! Fully connected layers: `y = x · Wᵀ + b` and its gradients, on tiles.
//!
//! `x` is 1×1×B×I, `w` 1×1×O×I, `b` 1×1×1×O and `y` 1×1×B×O. Large products go to the matrix product;
//! small ones, where arranging operands would cost more than multiplying them, to the register blocks
//! of [`crate::linalg::small`].

use dahl_core::{View, ViewMut};

use crate::linalg::matmul::{Mat, MatMut, matmul};
use crate::linalg::small;
use crate::reduce::axes;
use crate::simd::Lane;

/// Up to this many multiplications, or with so few outputs, the direct blocks win.
const SMALL: usize = 1 << 15;
const FEW: usize = 16;

fn direct(batch: usize, outs: usize, ins: usize) -> bool {
    outs.min(batch) <= FEW || batch * outs * ins <= SMALL
}

fn matrix(dims: [usize; 4], what: &str) -> [usize; 2] {
    assert_eq!(dims[..2], [1, 1], "linear: {what} is not a matrix");
    [dims[2], dims[3]]
}

/// `y = x · wᵀ (+ bias)`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    mut y: ViewMut<'_, T>,
) {
    let ([b, i], [o, wi]) = (matrix(x.dims(), "input"), matrix(w.dims(), "weight"));
    assert_eq!(
        (wi, matrix(y.dims(), "output")),
        (i, [b, o]),
        "linear: extents"
    );
    assert!(
        bias.is_none_or(|v| v.dims() == [1, 1, 1, o]),
        "linear: bias extents"
    );
    if direct(b, o, i) {
        small::rows_by_rows(x, w, bias.map(|v| v.row([0, 0, 0])), y);
    } else {
        if let Some(bias) = bias {
            (0..b).for_each(|r| y.row([0, 0, r]).copy_from_slice(bias.row([0, 0, 0])));
        }
        let weights = Mat::from_view(w).transposed();
        matmul(
            Mat::from_view(x),
            weights,
            MatMut::from_view(y),
            bias.is_some(),
        );
    }
}

/// `dx = dy · w`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn input_grad<T: Lane>(dy: View<'_, T>, w: View<'_, T>, dx: ViewMut<'_, T>) {
    let ([b, o], [wo, i]) = (matrix(dy.dims(), "gradient"), matrix(w.dims(), "weight"));
    assert_eq!(
        (wo, matrix(dx.dims(), "input gradient")),
        (o, [b, i]),
        "linear: extents"
    );
    if direct(b, o, i) {
        small::product(dy, false, w, dx, false);
    } else {
        matmul(
            Mat::from_view(dy),
            Mat::from_view(w),
            MatMut::from_view(dx),
            false,
        );
    }
}

/// `dw += dyᵀ · x`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn weight_grad<T: Lane>(dy: View<'_, T>, x: View<'_, T>, dw: ViewMut<'_, T>) {
    let ([b, o], [xb, i]) = (matrix(dy.dims(), "gradient"), matrix(x.dims(), "input"));
    assert_eq!(
        (xb, matrix(dw.dims(), "weight gradient")),
        (b, [o, i]),
        "linear: extents"
    );
    if direct(b, o, i) {
        small::product(dy, true, x, dw, true);
    } else {
        matmul(
            Mat::from_view(dy).transposed(),
            Mat::from_view(x),
            MatMut::from_view(dw),
            true,
        );
    }
}

/// `db += ` the sum of `dy` over the batch.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn bias_grad<T: Lane>(dy: View<'_, T>, db: ViewMut<'_, T>) {
    axes::sum(dy, db);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;
    use crate::simd::at_every_level;

    fn numbers<T: Lane>(n: usize, seed: usize) -> Vec<T> {
        (0..n)
            .map(|i| T::from_f64(((i * 7 + seed) % 23) as f64 / 8.0 - 1.3))
            .collect()
    }

    fn check<T: Lane>(b: usize, i: usize, o: usize) {
        let rel = if size_of::<T>() == 4 { 1e-5 } else { 1e-12 };
        let (x, w, bias) = (
            numbers::<T>(b * i, 1),
            numbers::<T>(o * i, 2),
            numbers::<T>(o, 3),
        );
        let dy = numbers::<T>(b * o, 4);
        let mut y = vec![T::ZERO; b * o];
        let xv = View::from_slice(&x, [1, 1, b, i]);
        let wv = View::from_slice(&w, [1, 1, o, i]);
        let dyv = View::from_slice(&dy, [1, 1, b, o]);
        let biasv = View::from_slice(&bias, [1, 1, 1, o]);
        forward(
            xv,
            wv,
            Some(biasv),
            ViewMut::from_slice(&mut y, [1, 1, b, o]),
        );
        let sum = |n: usize, f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>();
        let table = |r: usize, c: usize, f: &dyn Fn(usize, usize) -> f64| -> Vec<T> {
            (0..r * c).map(|k| T::from_f64(f(k / c, k % c))).collect()
        };
        let name = format!("{b}×{i}×{o}");
        let want = table(b, o, &|r, c| {
            bias[c].to_f64() + sum(i, &|k| x[r * i + k].to_f64() * w[c * i + k].to_f64())
        });
        assert_close(&format!("forward {name}"), &y, &want, rel, 4);
        let mut dx = vec![T::ONE; b * i];
        input_grad(dyv, wv, ViewMut::from_slice(&mut dx, [1, 1, b, i]));
        let want = table(b, i, &|r, c| {
            sum(o, &|k| dy[r * o + k].to_f64() * w[k * i + c].to_f64())
        });
        assert_close(&format!("input {name}"), &dx, &want, rel, 4);
        let mut dw = vec![T::ONE; o * i];
        weight_grad(dyv, xv, ViewMut::from_slice(&mut dw, [1, 1, o, i]));
        let want = table(o, i, &|r, c| {
            1.0 + sum(b, &|k| dy[k * o + r].to_f64() * x[k * i + c].to_f64())
        });
        assert_close(&format!("weight {name}"), &dw, &want, rel, 4);
        let mut db = vec![T::ONE; o];
        bias_grad(dyv, ViewMut::from_slice(&mut db, [1, 1, 1, o]));
        let want = table(1, o, &|_, c| 1.0 + sum(b, &|k| dy[k * o + c].to_f64()));
        assert_close(&format!("bias {name}"), &db, &want, rel, 4);
    }

    #[test]
    fn small_and_large_agree_with_the_definition() {
        at_every_level(|_| {
            for (b, i, o) in [
                (1, 1, 1),
                (3, 5, 2),
                (7, 37, 10),
                (2, 100, 3),
                (40, 61, 33),
                (6, 33, 8),
            ] {
                check::<f32>(b, i, o);
                check::<f64>(b, i, o);
            }
        });
    }
}
