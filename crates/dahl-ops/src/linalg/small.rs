//! Small matrix products by register blocks that read their operands where they lie.
//!
//! For products with few rows or columns, where a general matrix product would spend its time
//! arranging operands. Large ones belong to [`super::matmul`].

use dahl_core::{View, ViewMut};

use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// Columns of a panel in [`product`].
const PANEL: usize = 512;

/// `y[b][o] = bias[o] + Σᵢ x[b][i] · w[o][i]`: rows by rows.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn rows_by_rows<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<&[T]>,
    y: ViewMut<'_, T>,
) {
    let ([.., xr, xc], [.., wr, wc], [a, b, yr, yc]) = (x.dims(), w.dims(), y.dims());
    assert_eq!(
        [a, b, xr, xc, wr],
        [1, 1, yr, wc, yc],
        "rows by rows: extents"
    );
    assert!(
        bias.is_none_or(|v| v.len() == yc),
        "rows by rows: bias length"
    );
    T::vectorised(Dots { x, w, bias, y });
}

/// `c = (c +) a · b`, or `aᵀ · b` if `a` is to be read `across`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn product<T: Lane>(
    a: View<'_, T>,
    across: bool,
    b: View<'_, T>,
    c: ViewMut<'_, T>,
    add: bool,
) {
    let ([.., r, k], [.., br, bc], [x, y, cr, cc]) = (a.dims(), b.dims(), c.dims());
    let (r, k) = if across { (k, r) } else { (r, k) };
    assert_eq!(
        [x, y, r, k, bc],
        [1, 1, cr, br, cc],
        "small product: extents"
    );
    T::vectorised(Sums {
        a,
        across,
        b,
        c,
        add,
    });
}

struct Dots<'a, T> {
    x: View<'a, T>,
    w: View<'a, T>,
    bias: Option<&'a [T]>,
    y: ViewMut<'a, T>,
}

impl<T: Lane> Kernel<T> for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [_, _, batch, outs] = self.y.dims();
        let mut b = 0;
        while b < batch {
            let rows = if S::ROWS > 6 && batch - b >= 4 {
                4
            } else {
                (batch - b).min(2)
            };
            let mut o = 0;
            while o < outs {
                o += match (rows, outs - o) {
                    (4, 5..) => self.block::<S, 4, 5>(s, b, o),
                    (4, 2..) => self.block::<S, 4, 2>(s, b, o),
                    (4, _) => self.block::<S, 4, 1>(s, b, o),
                    (2, 5..) => self.block::<S, 2, 5>(s, b, o),
                    (2, 2..) => self.block::<S, 2, 2>(s, b, o),
                    (2, _) => self.block::<S, 2, 1>(s, b, o),
                    (_, 5..) => self.block::<S, 1, 5>(s, b, o),
                    (_, _) => self.block::<S, 1, 1>(s, b, o),
                };
            }
            b += rows;
        }
    }
}

impl<T: Lane> Dots<'_, T> {
    #[inline(always)]
    fn block<S: Lanes<T>, const B: usize, const O: usize>(
        &mut self,
        s: S,
        b: usize,
        o: usize,
    ) -> usize {
        let (sx, sw, len) = (self.x.strides()[2], self.w.strides()[2], self.x.dims()[3]);
        let mut acc = [[s.splat(T::ZERO); O]; B];
        // SAFETY: `B` rows of `x` from `b` on and `O` rows of `w` from `o` on exist, all `len` long.
        unsafe {
            let (x, w) = (self.x.as_ptr().add(b * sx), self.w.as_ptr().add(o * sw));
            let whole = len - len % S::LANES;
            for i in (0..whole).step_by(S::LANES) {
                let wv: [S::V; O] = std::array::from_fn(|k| s.load(w.add(k * sw + i)));
                for (r, acc) in acc.iter_mut().enumerate() {
                    let xv = s.load(x.add(r * sx + i));
                    for (a, &w) in acc.iter_mut().zip(&wv) {
                        *a = s.madd(xv, w, *a);
                    }
                }
            }
            if whole < len {
                let n = len - whole;
                let wv: [S::V; O] = std::array::from_fn(|k| s.load_n(w.add(k * sw + whole), n));
                for (r, acc) in acc.iter_mut().enumerate() {
                    let xv = s.load_n(x.add(r * sx + whole), n);
                    for (a, &w) in acc.iter_mut().zip(&wv) {
                        *a = s.madd(xv, w, *a);
                    }
                }
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            let row = &mut self.y.row([0, 0, b + r])[o..o + O];
            for (k, (y, &a)) in row.iter_mut().zip(acc).enumerate() {
                *y = s.sum(a) + self.bias.map_or(T::ZERO, |v| v[o + k]);
            }
        }
        O
    }
}

struct Sums<'a, T> {
    a: View<'a, T>,
    across: bool,
    b: View<'a, T>,
    c: ViewMut<'a, T>,
    add: bool,
}

impl<T: Lane> Kernel<T> for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [_, _, rows, cols] = self.c.dims();
        // A panel of `b`'s columns stays in the cache while all rows of `c` use it.
        let mut from = 0;
        while from < cols {
            let to = cols.min(from + PANEL);
            let mut m = 0;
            while m < rows {
                m += match rows - m {
                    5.. => self.rows::<S, 5>(s, m, from, to),
                    4 => self.rows::<S, 4>(s, m, from, to),
                    2.. => self.rows::<S, 2>(s, m, from, to),
                    _ => self.rows::<S, 1>(s, m, from, to),
                };
            }
            from = to;
        }
    }
}

impl<T: Lane> Sums<'_, T> {
    #[inline(always)]
    fn rows<S: Lanes<T>, const M: usize>(
        &mut self,
        s: S,
        m: usize,
        from: usize,
        to: usize,
    ) -> usize {
        let mut n = from;
        while n + 2 * S::LANES <= to {
            self.block::<S, M, 2>(s, m, n, S::LANES);
            n += 2 * S::LANES;
        }
        while n < to {
            let count = S::LANES.min(to - n);
            self.block::<S, M, 1>(s, m, n, count);
            n += count;
        }
        M
    }

    /// `M` rows by `N` registers, of which the last (if alone) has `count` lanes in use.
    #[inline(always)]
    fn block<S: Lanes<T>, const M: usize, const N: usize>(
        &mut self,
        s: S,
        m: usize,
        n: usize,
        count: usize,
    ) {
        let terms = self.b.dims()[2];
        let stride = self.a.strides()[2];
        let (am, ak) = if self.across {
            (1, stride)
        } else {
            (stride, 1)
        };
        let (sb, sc) = (self.b.strides()[2], self.c.strides()[2]);
        let full = count == S::LANES;
        // SAFETY: rows `m..m + M` of `c` and all rows of `b` exist, with `count` (or whole
        // registers of) columns from `n` on; `a` has an element for each pair of rows.
        unsafe {
            let a = self.a.as_ptr().add(m * am);
            let b = self.b.as_ptr().add(n);
            let c = self.c.as_mut_ptr().add(m * sc + n);
            let mut acc = [[s.splat(T::ZERO); N]; M];
            for k in 0..terms {
                let row = b.add(k * sb);
                let bv: [S::V; N] = std::array::from_fn(|v| match full {
                    true => s.load(row.add(v * S::LANES)),
                    false => s.load_n(row, count),
                });
                for (r, acc) in acc.iter_mut().enumerate() {
                    let av = s.splat(*a.add(r * am + k * ak));
                    for (x, &b) in acc.iter_mut().zip(&bv) {
                        *x = s.madd(av, b, *x);
                    }
                }
            }
            for (r, acc) in acc.iter().enumerate() {
                for (v, &acc) in acc.iter().enumerate() {
                    let to = c.add(r * sc + v * S::LANES);
                    if full {
                        let sum = if self.add {
                            s.add(s.load(to), acc)
                        } else {
                            acc
                        };
                        s.store(to, sum);
                    } else {
                        let sum = if self.add {
                            s.add(s.load_n(to, count), acc)
                        } else {
                            acc
                        };
                        s.store_n(to, count, sum);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn both_forms_agree_with_the_definition() {
        at_every_level(|_| {
            for (m, k, n) in [(1, 1, 1), (3, 4, 5), (9, 17, 40), (6, 3, 1100)] {
                let a: Vec<f64> = (0..m * k).map(|i| (i % 7) as f64 - 3.0).collect();
                let b: Vec<f64> = (0..k * n).map(|i| (i % 5) as f64 - 2.0).collect();
                let want: Vec<f64> = (0..m * n)
                    .map(|i| (0..k).map(|t| a[i / n * k + t] * b[t * n + i % n]).sum())
                    .collect();
                let turned: Vec<f64> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
                let mut c = vec![0.0; m * n];
                let (av, bv) = (
                    View::from_slice(&a, [1, 1, m, k]),
                    View::from_slice(&b, [1, 1, k, n]),
                );
                product(
                    av,
                    false,
                    bv,
                    ViewMut::from_slice(&mut c, [1, 1, m, n]),
                    false,
                );
                assert_eq!(c, want);
                let tv = View::from_slice(&turned, [1, 1, n, k]);
                rows_by_rows(av, tv, None, ViewMut::from_slice(&mut c, [1, 1, m, n]));
                assert_eq!(c, want);
            }
        });
    }
}
