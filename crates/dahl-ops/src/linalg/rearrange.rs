//! Transposing matrices, and diagonals.

use dahl_core::{View, ViewMut};

use crate::float::Float;

/// Side of the squares that are transposed together: few enough lines to stay in the cache.
const SQUARE: usize = 16;

/// `out[…][j][i] = x[…][i][j]`: the last two axes exchanged.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn transpose<T: Float>(x: View<'_, T>, mut out: ViewMut<'_, T>) {
    let [a, b, rows, cols] = x.dims();
    assert_eq!(out.dims(), [a, b, cols, rows], "transpose: extents");
    for (a, b) in (0..a).flat_map(|i| (0..b).map(move |j| (i, j))) {
        for r0 in (0..rows).step_by(SQUARE) {
            for c0 in (0..cols).step_by(SQUARE) {
                let (r1, c1) = (rows.min(r0 + SQUARE), cols.min(c0 + SQUARE));
                for r in r0..r1 {
                    for (c, &v) in (c0..c1).zip(&x.row([a, b, r])[c0..c1]) {
                        out.row([a, b, c])[r] = v;
                    }
                }
            }
        }
    }
}

/// `out` is zero but for its diagonal, which is the vector `x`.
///
/// # Panics
/// If `out` is not square of the vector's length.
pub(crate) fn diag<T: Float>(x: View<'_, T>, mut out: ViewMut<'_, T>) {
    let n = x.dims()[3];
    assert_eq!(
        (x.dims(), out.dims()),
        ([1, 1, 1, n], [1, 1, n, n]),
        "diag: extents"
    );
    for (i, &v) in x.row([0, 0, 0]).iter().enumerate() {
        let row = out.row([0, 0, i]);
        row.fill(T::ZERO);
        row[i] = v;
    }
}

/// `out[i] = x[i][i]`, as long as the shorter side.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn diagonal<T: Float>(x: View<'_, T>, mut out: ViewMut<'_, T>) {
    let [a, b, rows, cols] = x.dims();
    assert_eq!(
        ([a, b], out.dims()),
        ([1, 1], [1, 1, 1, rows.min(cols)]),
        "diagonal: extents"
    );
    for (i, o) in out.row([0, 0, 0]).iter_mut().enumerate() {
        *o = x.row([0, 0, i])[i];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_tiles_of_any_size() {
        for (rows, cols) in [(1, 1), (3, 5), (16, 17), (40, 33)] {
            let x: Vec<f32> = (0..2 * rows * cols).map(|i| i as f32).collect();
            let mut out = vec![0.0; 2 * rows * cols];
            let v = View::from_slice(&x, [1, 2, rows, cols]);
            transpose(v, ViewMut::from_slice(&mut out, [1, 2, cols, rows]));
            for (i, &o) in out.iter().enumerate() {
                let (b, k) = (i / (rows * cols), i % (rows * cols));
                assert_eq!(o, v.at([0, b, k % rows, k / rows]));
            }
        }
    }

    #[test]
    fn diagonals_there_and_back() {
        let x = [1.0f64, 2.0, 3.0];
        let (mut m, mut back) = ([9.0; 9], [0.0; 3]);
        diag(
            View::from_slice(&x, [1, 1, 1, 3]),
            ViewMut::from_slice(&mut m, [1, 1, 3, 3]),
        );
        assert_eq!(m, [1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0]);
        diagonal(
            View::from_slice(&m, [1, 1, 3, 3]),
            ViewMut::from_slice(&mut back, [1, 1, 1, 3]),
        );
        assert_eq!(back, x);
    }
}
