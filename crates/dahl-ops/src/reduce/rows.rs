//! Reducing a whole tile to one value: sum, smallest, largest, sum of products.
//!
//! Sums run in blocks: several registers of partial sums over at most `BLOCK` elements, then the
//! blocks' sums one after the other, so that rounding errors grow with the number of blocks, not of
//! elements.

use dahl_core::View;
use dahl_core::view::for_rows;

use crate::float::Float;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// Elements summed in registers before their sum joins the total.
const BLOCK: usize = 2048;

/// The sum of all elements.
pub(crate) fn sum<T: Lane>(x: View<'_, T>) -> T {
    let mut total = T::ZERO;
    each_row(x, |row| total += row_sum(row));
    total
}

/// The smallest element; not-a-number if there is one.
pub(crate) fn min<T: Lane>(x: View<'_, T>) -> T {
    let mut least = T::INFINITY;
    each_row(x, |row| {
        for &v in row {
            least = if v < least || v.is_nan() { v } else { least };
        }
    });
    least
}

/// The largest element; not-a-number if there is one.
pub(crate) fn max<T: Lane>(x: View<'_, T>) -> T {
    let mut most = T::NEG_INFINITY;
    each_row(x, |row| {
        for &v in row {
            most = if v > most || v.is_nan() { v } else { most };
        }
    });
    most
}

/// The sum of products of corresponding elements.
///
/// # Panics
/// If the extents differ.
pub(crate) fn sum_products<T: Lane>(a: View<'_, T>, b: View<'_, T>) -> T {
    assert_eq!(a.dims(), b.dims(), "sum of products: extents");
    let mut total = T::ZERO;
    if let (Some(a), Some(b)) = (a.as_slice(), b.as_slice()) {
        return row_dot(a, b);
    }
    for_rows(a.dims(), |at| total += row_dot(a.row(at), b.row(at)));
    total
}

fn each_row<T: Float>(x: View<'_, T>, mut f: impl FnMut(&[T])) {
    match x.as_slice() {
        Some(all) => f(all),
        None => for_rows(x.dims(), |at| f(x.row(at))),
    }
}

/// The sum of a slice.
pub(crate) fn row_sum<T: Lane>(x: &[T]) -> T {
    x.chunks(BLOCK).map(|x| T::vectorised(Sum(x))).sum()
}

/// The dot product of two slices of the same length.
pub(crate) fn row_dot<T: Lane>(a: &[T], b: &[T]) -> T {
    a.chunks(BLOCK)
        .zip(b.chunks(BLOCK))
        .map(|(a, b)| T::vectorised(Dot(a, b)))
        .sum()
}

struct Sum<'a, T>(&'a [T]);

impl<T: Lane> Kernel<T> for Sum<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) -> T {
        let mut acc = [s.splat(T::ZERO); 4];
        let whole = self.0.chunks_exact(4 * S::LANES);
        let rest = whole.remainder();
        for chunk in whole {
            for (i, acc) in acc.iter_mut().enumerate() {
                // SAFETY: the chunk holds four registers.
                *acc = s.add(*acc, unsafe { s.load(chunk.as_ptr().add(i * S::LANES)) });
            }
        }
        for chunk in rest.chunks(S::LANES) {
            // SAFETY: as many elements as the chunk has.
            acc[0] = s.add(acc[0], unsafe { s.load_n(chunk.as_ptr(), chunk.len()) });
        }
        s.sum(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
    }
}

struct Dot<'a, T>(&'a [T], &'a [T]);

impl<T: Lane> Kernel<T> for Dot<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) -> T {
        let mut acc = [s.splat(T::ZERO); 4];
        let len = self.0.len().min(self.1.len());
        let (a, b) = (self.0.as_ptr(), self.1.as_ptr());
        let mut i = 0;
        // SAFETY: all indices stay below `len`.
        unsafe {
            while i + 4 * S::LANES <= len {
                for (k, acc) in acc.iter_mut().enumerate() {
                    let at = i + k * S::LANES;
                    *acc = s.madd(s.load(a.add(at)), s.load(b.add(at)), *acc);
                }
                i += 4 * S::LANES;
            }
            while i < len {
                let n = S::LANES.min(len - i);
                acc[0] = s.madd(s.load_n(a.add(i), n), s.load_n(b.add(i), n), acc[0]);
                i += n;
            }
        }
        s.sum(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn whole_arrays_and_tiles() {
        at_every_level(|_| {
            for n in [1usize, 5, 63, 64, 65, 5000] {
                let x: Vec<f64> = (0..2 * n).map(|i| (i % 17) as f64 - 5.0).collect();
                let view = View::from_slice(&x, [1, 1, 2, n]);
                let want: f64 = x.iter().sum();
                assert_eq!(sum(view), want);
                assert_eq!(
                    sum_products(view, view),
                    x.iter().map(|x| x * x).sum::<f64>()
                );
                let tile = view.part([0, 0, 0, n / 2], [1, 1, 2, n - n / 2]);
                let want: f64 = x[n / 2..n].iter().chain(&x[n + n / 2..]).sum();
                assert_eq!(sum(tile), want);
            }
        });
    }

    #[test]
    fn extremes_and_what_is_not_a_number() {
        let x = [3.0f32, -1.0, 7.0, 2.0];
        let view = View::from_slice(&x, [1, 1, 2, 2]);
        assert_eq!((min(view), max(view)), (-1.0, 7.0));
        let x = [3.0f32, f32::NAN, 7.0];
        let view = View::from_slice(&x, [1, 1, 1, 3]);
        assert!(min(view).is_nan() && max(view).is_nan());
    }
}
