//! Max-pooling: the largest element of each window, and which one it was.
//!
//! The place is kept as its number in the window, row by row from 0, stored as an element: the
//! backward pass needs nothing else. The first of equals wins; not-a-number beats all, the
//! last of them.

use dahl_core::view::for_rows;
use dahl_core::{View, ViewMut};

use crate::simd::lanes::{Kernel, Lanes};
use crate::simd::{Body, Lane, dispatch};
use crate::window::Window;

const TWO_BY_TWO: ([usize; 2], [usize; 2], [isize; 2]) = ([2, 2], [2, 2], [0, 0]);

/// Whether the two-by-two version serves: windows side by side, none of them in the padding.
fn is_two_by_two(win: &Window, x: [usize; 4], y: [usize; 4]) -> bool {
    (win.kernel, win.stride, win.shift) == TWO_BY_TWO && 2 * y[2] <= x[2] && 2 * y[3] <= x[3]
}

/// Writes the largest of each window of `x` to `y`, and its place to `places`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    mut y: ViewMut<'_, T>,
    mut places: Option<ViewMut<'_, T>>,
    win: &Window,
) {
    let ([n, c, height, width], dims) = (x.dims(), y.dims());
    assert_eq!([n, c], dims[..2], "max-pool: samples and channels");
    assert!(
        places.as_ref().is_none_or(|p| p.dims() == dims),
        "max-pool: extents of places"
    );
    let fast = is_two_by_two(win, x.dims(), dims);
    for_rows(dims, |[n, c, i]| {
        let row = y.row([n, c, i]);
        let place = places.as_mut().map(|p| p.row([n, c, i]));
        if fast {
            let rows = [x.row([n, c, 2 * i]), x.row([n, c, 2 * i + 1])];
            return T::vectorised(Two {
                rows,
                out: row,
                place,
            });
        }
        let mut place = place;
        for (j, out) in row.iter_mut().enumerate() {
            let (mut best, mut at) = (T::NEG_INFINITY, None);
            for a in win.taps(0, i, height) {
                let Some(h) = win.input(0, i, a, height) else {
                    continue;
                };
                for b in win.taps(1, j, width) {
                    let Some(w) = win.input(1, j, b, width) else {
                        continue;
                    };
                    let v = x.row([n, c, h])[w];
                    if v > best || v.is_nan() || at.is_none() {
                        (best, at) = (v, Some(a * win.kernel[1] + b));
                    }
                }
            }
            *out = best;
            if let Some(p) = &mut place {
                p[j] = T::from_f64(at.unwrap_or(0) as f64);
            }
        }
    });
}

struct Two<'a, T> {
    rows: [&'a [T]; 2],
    out: &'a mut [T],
    place: Option<&'a mut [T]>,
}

impl<T: Lane> Kernel<T> for Two<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let Two {
            rows,
            out,
            mut place,
        } = self;
        let marks: [S::V; 4] = std::array::from_fn(|i| s.splat(T::from_f64(i as f64)));
        let width = out.len();
        for j in (0..width).step_by(S::LANES) {
            let n = S::LANES.min(width - j);
            let (low, high) = ((2 * n).min(S::LANES), (2 * n).saturating_sub(S::LANES));
            // SAFETY: `2 n` elements from `2 j` on exist in both rows, the second register's only
            // if the first is full; `n` elements from `j` on exist in the outputs.
            unsafe {
                let pair = |row: &[T]| {
                    let from = row.as_ptr().add(2 * j);
                    s.unzip(s.load_n(from, low), s.load_n(from.add(low), high))
                };
                let ((a, b), (c, d)) = (pair(rows[0]), pair(rows[1]));
                let (mut best, mut at) = (a, marks[0]);
                for (v, mark) in [(b, marks[1]), (c, marks[2]), (d, marks[3])] {
                    // Once it is not a number it stays: then nothing compares as larger, and only
                    // another such value replaces it.
                    let higher = s.above(v, best);
                    best = s.select(higher, v, best);
                    at = s.select(higher, mark, at);
                }
                s.store_n(out.as_mut_ptr().add(j), n, best);
                if let Some(place) = &mut place {
                    s.store_n(place.as_mut_ptr().add(j), n, at);
                }
            }
        }
    }
}

/// `dx`, overwritten: each gradient goes to the place its window's maximum came from.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn backward<T: Lane>(
    dy: View<'_, T>,
    places: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    win: &Window,
) {
    let (dims, [n, c, height, width]) = (dy.dims(), dx.dims());
    assert_eq!([n, c], dims[..2], "max-pool: samples and channels");
    assert_eq!(places.dims(), dims, "max-pool: extents of places");
    let fast = is_two_by_two(win, dx.dims(), dims);
    if !fast || 2 * dims[2] < height || 2 * dims[3] < width {
        dx.fill(T::ZERO);
    }
    for_rows(dims, |[n, c, i]| {
        let (g, p) = (dy.row([n, c, i]), places.row([n, c, i]));
        if fast {
            for r in 0..2 {
                dispatch(Spread {
                    g,
                    p,
                    first: 2 * r,
                    to: dx.row([n, c, 2 * i + r]),
                });
            }
            return;
        }
        for (j, (&g, &p)) in g.iter().zip(p).enumerate() {
            let p = p.to_f64() as usize;
            let (a, b) = (p / win.kernel[1], p % win.kernel[1]);
            if let (Some(h), Some(w)) = (win.input(0, i, a, height), win.input(1, j, b, width)) {
                dx.row([n, c, h])[w] += g;
            }
        }
    });
}

/// One row of the input's gradient for two-by-two windows.
struct Spread<'a, T> {
    g: &'a [T],
    p: &'a [T],
    first: usize,
    to: &'a mut [T],
}

impl<T: Lane> Body for Spread<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let [left, right] = [0, 1].map(|i| T::from_f64((self.first + i) as f64));
        for ((pair, &g), &p) in self.to.chunks_exact_mut(2).zip(self.g).zip(self.p) {
            pair[0] = if p == left { g } else { T::ZERO };
            pair[1] = if p == right { g } else { T::ZERO };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cases, numbers};
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn windows_agree_with_the_definition() {
        at_every_level(|_| {
            for (xd, yd, win) in cases() {
                let x = numbers(xd.iter().product());
                let len = yd.iter().product();
                let dy = numbers(len + 5)[5..].to_vec();
                let (mut y, mut p, mut dx) = (vec![0.0; len], vec![0.0; len], vec![9.0; x.len()]);
                let xv = View::from_slice(&x, xd);
                let pv = ViewMut::from_slice(&mut p, yd);
                forward(xv, ViewMut::from_slice(&mut y, yd), Some(pv), &win);
                let (gv, pv) = (View::from_slice(&dy, yd), View::from_slice(&p, yd));
                backward(gv, pv, ViewMut::from_slice(&mut dx, xd), &win);
                let mut want = vec![0.0; x.len()];
                let mut wantv = ViewMut::from_slice(&mut want, xd);
                for k in 0..len {
                    let at = [k / (yd[1] * yd[2] * yd[3]), k / (yd[2] * yd[3]) % yd[1]];
                    let (i, j) = (k / yd[3] % yd[2], k % yd[3]);
                    let taps = (0..win.kernel[0] * win.kernel[1]).filter_map(|t| {
                        let h = win.input(0, i, t / win.kernel[1], xd[2])?;
                        let w = win.input(1, j, t % win.kernel[1], xd[3])?;
                        Some((xv.at([at[0], at[1], h, w]), t, h, w))
                    });
                    let (v, t, h, w) = taps.fold((f64::NEG_INFINITY, 0, 0, 0), |best, tap| {
                        if tap.0 > best.0 { tap } else { best }
                    });
                    assert_eq!((y[k], p[k]), (v, t as f64), "{win:?} at {k}");
                    wantv.row([at[0], at[1], h])[w] += dy[k];
                }
                assert_eq!(dx, want, "{win:?}");
            }
        });
    }

    #[test]
    fn the_first_of_equals_wins_and_not_a_number_beats_all() {
        let win = Window {
            kernel: [2, 2],
            stride: [2, 2],
            shift: [0, 0],
        };
        let odd = Window {
            kernel: [1, 4],
            stride: [1, 4],
            shift: [0, 0],
        };
        let x = [3.0, 3.0, f32::NAN, 1.0, 3.0, 1.0, 2.0, f32::INFINITY];
        let (mut y, mut p) = ([0.0; 2], [9.0; 2]);
        let (xv, yd) = (View::from_slice(&x, [1, 1, 2, 4]), [1, 1, 1, 2]);
        let pv = ViewMut::from_slice(&mut p, yd);
        forward(xv, ViewMut::from_slice(&mut y, yd), Some(pv), &win);
        assert!(y[0] == 3.0 && y[1].is_nan() && p == [0.0, 0.0]);
        let (xv, yd) = (View::from_slice(&x, [1, 1, 2, 4]), [1, 1, 2, 1]);
        let pv = ViewMut::from_slice(&mut p, yd);
        forward(xv, ViewMut::from_slice(&mut y, yd), Some(pv), &odd);
        assert!(y[0].is_nan() && y[1] == f32::INFINITY && p == [2.0, 3.0]);
    }
}
