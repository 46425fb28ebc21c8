//! A slice of a matrix product without any machine's special instructions.
//!
//! ```text
//!     s[i][j] = 0 + a[i][0]·b[0][j] + a[i][1]·b[1][j] + …        in this order, each step rounded twice
//!     c[i][j] = s[i][j], or c[i][j] + s[i][j]
//! ```
//!
//! No order depends on tiles, extents or the machine, and nothing is fused: the same bits wherever arithmetic is
//! IEEE's. A panel of `b` is arranged once and met by all rows of `a`, a tile of sums stays in registers; compilers make
//! vectors of it. It is not meant to race the `gemm` crates.

use super::matmul::SLICE;
use super::slice::Slice;
use crate::float::Float;

/// Rows of a tile: with two vectors of columns, sums take half of sixteen registers.
const ROWS: usize = 4;

/// Computes a slice of at most [`SLICE`] by tiles of `COLUMNS` columns.
///
/// # Safety
/// As for [`super::slice::product`].
pub(super) unsafe fn product<T: Float, const COLUMNS: usize>(slice: Slice<T>) {
    let narrow = slice.n < COLUMNS && slice.n < slice.m;
    let s = if narrow { slice.transposed() } else { slice };
    let mut panel = [[T::ZERO; COLUMNS]; SLICE];
    let panel = &mut panel[..s.k];
    for j in (0..s.n).step_by(COLUMNS) {
        let columns = COLUMNS.min(s.n - j);
        for (l, row) in panel.iter_mut().enumerate() {
            // Columns beyond the last hold what the panel before left there: their sums are not stored.
            for (x, to) in row.iter_mut().enumerate().take(columns) {
                // SAFETY: inside `b`, by the caller's promise.
                *to = unsafe { *s.b.add(l * s.b_strides[0] + (j + x) * s.b_strides[1]) };
            }
        }
        for i in (0..s.m).step_by(ROWS) {
            // SAFETY: `ROWS` rows, or those that are left, from row `i` on.
            unsafe {
                match s.m - i {
                    1 => tile::<T, 1, COLUMNS>(&s, panel, i, j, columns),
                    2 => tile::<T, 2, COLUMNS>(&s, panel, i, j, columns),
                    3 => tile::<T, 3, COLUMNS>(&s, panel, i, j, columns),
                    _ => tile::<T, ROWS, COLUMNS>(&s, panel, i, j, columns),
                }
            }
        }
    }
}

/// `R` rows from row `i` on, of the columns `j..j + columns`, which the panel holds.
///
/// # Safety
/// As for [`product`], and `i + R <= m`, `j + columns <= n`.
#[inline(always)]
unsafe fn tile<T: Float, const R: usize, const C: usize>(
    s: &Slice<T>,
    panel: &[[T; C]],
    i: usize,
    j: usize,
    columns: usize,
) {
    let mut sums = [[T::ZERO; C]; R];
    for (l, b) in panel.iter().enumerate() {
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: inside `a`, by the caller's promise.
            let a = unsafe { *s.a.add((i + r) * s.a_strides[0] + l * s.a_strides[1]) };
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (x, &sum) in sums.iter().enumerate().take(columns) {
            // SAFETY: inside `c`, by the caller's promise.
            unsafe {
                let to = s.c.add((i + r) * s.c_strides[0] + (j + x) * s.c_strides[1]);
                *to = if s.add { *to + sum } else { sum };
            }
        }
    }
}
