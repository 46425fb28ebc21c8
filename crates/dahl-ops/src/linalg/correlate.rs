//! Cross-correlation of matrices where they overlap fully.

use dahl_core::{View, ViewMut};

use crate::conv2d::direct;
use crate::simd::Lane;
use crate::window::Window;

fn window(k: [usize; 4]) -> Window {
    Window {
        kernel: [k[2], k[3]],
        stride: [1, 1],
        shift: [0, 0],
    }
}

/// Elements of scratch memory that [`correlate`] needs.
pub(crate) fn scratch_len(x: [usize; 4], k: [usize; 4], out: [usize; 4]) -> usize {
    direct::forward_scratch(x, out, &window(k))
}

/// `out[i][j] = Σ x[i + a][j + b] · k[a][b]`, for `x` of H×W, `k` of A×B and `out` of
/// (H − A + 1)×(W − B + 1), or any tile of it with what it reads.
///
/// # Panics
/// If an operand is not a matrix, `out` reaches beyond `x`, or `scratch` is too short.
pub(crate) fn correlate<T: Lane>(
    x: View<'_, T>,
    k: View<'_, T>,
    out: ViewMut<'_, T>,
    scratch: &mut [T],
) {
    let (xd, kd, od) = (x.dims(), k.dims(), out.dims());
    let fits = (2..4).all(|a| od[a] + kd[a] <= xd[a] + 1);
    assert!(
        fits && [xd, kd, od].iter().all(|d| d[..2] == [1, 1]),
        "correlate {xd:?} with {kd:?}"
    );
    direct::forward(x, k, None, false, out, &window(kd), scratch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_where_they_overlap() {
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let k = [1.0, 2.0, -1.0, 0.5];
        let mut out = vec![0.0; 12];
        let (xd, kd, od) = ([1, 1, 4, 5], [1, 1, 2, 2], [1, 1, 3, 4]);
        let mut scratch = vec![0.0; scratch_len(xd, kd, od)];
        let outv = ViewMut::from_slice(&mut out, od);
        correlate(
            View::from_slice(&x, xd),
            View::from_slice(&k, kd),
            outv,
            &mut scratch,
        );
        for (i, &o) in out.iter().enumerate() {
            let at = i / 4 * 5 + i % 4;
            assert_eq!(o, x[at] + 2.0 * x[at + 1] - x[at + 5] + 0.5 * x[at + 6]);
        }
    }
}
