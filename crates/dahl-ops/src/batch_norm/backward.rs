//! Gradients of batch normalisation.
//!
//! ```text
//!     x̂ = (x − mean) · inverse        dshift = Σ dy        dscale = Σ dy · x̂
//!     dx = scale · inverse · (dy − dshift / count − x̂ · dscale / count)
//! ```
//!
//! The sums run over all elements of a channel: each tile adds its part, then each tile computes `dx`.
//! If the forward pass took the positive part, its output says which gradients count.

use dahl_core::{View, ViewMut};

use super::{Rectified, Rectifier, check_rows};
use crate::float::Float;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};
use crate::simd::{Body, dispatch};

/// `out += ` the sums of `dy` and of `dy · x̂` of a tile (1×1×2×C). `rectified` is the forward pass's
/// output, if it took the positive part.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn sums<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    rectified: Option<Rectified<'_, T>>,
    stats: View<'_, T>,
    out: ViewMut<'_, T>,
) {
    check(x, dy, rectified, stats);
    check_rows("sums", out.dims(), 2, x.dims());
    let (x, dy, rectified) = planes_as_rows(x, dy, rectified);
    T::vectorised(TileSums {
        x,
        dy,
        rectified,
        stats,
        out,
    });
}

fn check<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    rectified: Option<Rectified<'_, T>>,
    stats: View<'_, T>,
) {
    assert_eq!(x.dims(), dy.dims(), "batch norm: gradient extents");
    assert!(
        rectified.is_none_or(|r| r.y.dims() == x.dims()),
        "batch norm: output extents"
    );
    check_rows("statistics", stats.dims(), 2, x.dims());
}

/// The same with each plane as one row, where all of them allow it.
fn planes_as_rows<'a, T>(
    x: View<'a, T>,
    dy: View<'a, T>,
    rectified: Option<Rectified<'a, T>>,
) -> (View<'a, T>, View<'a, T>, Option<Rectified<'a, T>>)
where
    T: Float,
{
    let merged = || {
        let rectified = match rectified {
            None => None,
            Some(r) => Some(Rectified {
                y: r.y.planes_as_rows()?,
                ..r
            }),
        };
        Some((x.planes_as_rows()?, dy.planes_as_rows()?, rectified))
    };
    merged().unwrap_or((x, dy, rectified))
}

/// What [`sums`] computes.
struct TileSums<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    rectified: Option<Rectified<'a, T>>,
    stats: View<'a, T>,
    out: ViewMut<'a, T>,
}

impl<T: Lane> Kernel<T> for TileSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [samples, channels, height, _] = self.x.dims();
        // Samples first: memory is then read from one end to the other.
        for n in 0..samples {
            for c in 0..channels {
                let [mean, inverse] = [0, 1].map(|r| self.stats.row([0, 0, r])[c]);
                let (mut plain, mut centred) = (T::ZERO, T::ZERO);
                for h in 0..height {
                    let at = [n, c, h];
                    let row = RowSums {
                        x: self.x.row(at),
                        dy: self.dy.row(at),
                        rectified: self.rectified.map(|r| (r.y.row(at), r.by)),
                        mean,
                    };
                    let (a, b) = row.run(s);
                    plain += a;
                    centred += b;
                }
                self.out.row([0, 0, 0])[c] += plain;
                self.out.row([0, 0, 1])[c] += centred * inverse;
            }
        }
    }
}

/// The sums of `dy` and of `dy · (x − mean)` of a row.
pub(crate) struct RowSums<'a, T> {
    pub x: &'a [T],
    pub dy: &'a [T],
    /// The forward pass's output, if it took the positive part, and how.
    pub rectified: Option<(&'a [T], Rectifier<T>)>,
    pub mean: T,
}

impl<T: Lane> Kernel<T> for RowSums<'_, T> {
    type Output = (T, T);

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) -> (T, T) {
        let RowSums {
            x,
            dy,
            rectified,
            mean,
        } = self;
        let (zero, centre) = (s.splat(T::ZERO), s.splat(mean));
        let cap = rectified.map_or(zero, |(_, by)| s.splat(by.cap));
        let len = x.len().min(dy.len());
        assert!(
            rectified.is_none_or(|(y, _)| y.len() >= len),
            "batch norm: rows"
        );
        let one = s.splat(T::ONE);
        let add = |(plain, centred): (S::V, S::V), x: S::V, dy: S::V, y: Option<S::V>| {
            // A product: what is selected of `dy` would be loaded by a mask, which waits until `y` is there.
            let passed = y.map_or(dy, |y| {
                let share = s.select(s.above(y, zero), one, zero);
                s.mul(dy, s.select(s.above(cap, y), share, zero))
            });
            let centred = s.madd(passed, s.sub(x, centre), centred);
            (s.add(plain, passed), centred)
        };
        let at = |i: usize| {
            (
                x[i..].as_ptr(),
                dy[i..].as_ptr(),
                rectified.map(|(y, _)| y[i..].as_ptr()),
            )
        };
        // Two vectors at a time and nothing to be masked: the loop waits for memory, and the fewer instructions
        // there are to a vector the more of them wait at the same time.
        let mut sums = [(zero, zero); 2];
        let whole = len - len % (2 * S::LANES);
        for i in (0..whole).step_by(2 * S::LANES) {
            for (k, sum) in sums.iter_mut().enumerate() {
                let (x, dy, y) = at(i + k * S::LANES);
                // SAFETY: a vector from here on lies before `whole`, in all rows.
                *sum = unsafe { add(*sum, s.load(x), s.load(dy), y.map(|y| s.load(y))) };
            }
        }
        for i in (whole..len).step_by(S::LANES) {
            let n = S::LANES.min(len - i);
            let (x, dy, y) = at(i);
            // SAFETY: `n` elements from here on exist in all rows; lanes beyond hold a zero gradient.
            sums[0] = unsafe {
                add(
                    sums[0],
                    s.load_n(x, n),
                    s.load_n(dy, n),
                    y.map(|y| s.load_n(y, n)),
                )
            };
        }
        let [(a, b), (c, d)] = sums;
        let (plain, centred) = (s.add(a, c), s.add(b, d));
        (s.sum(plain), s.sum(centred))
    }
}

/// `dx`, overwritten, of a tile from the sums over all `count` elements of each channel.
///
/// # Panics
/// If the extents do not belong together.
#[allow(clippy::too_many_arguments)]
pub(crate) fn input_grad<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    rectified: Option<Rectified<'_, T>>,
    stats: View<'_, T>,
    sums: View<'_, T>,
    scale: Option<View<'_, T>>,
    count: usize,
    mut dx: ViewMut<'_, T>,
) {
    check(x, dy, rectified, stats);
    check_rows("sums", sums.dims(), 2, x.dims());
    assert_eq!(dx.dims(), x.dims(), "batch norm: input gradient extents");
    if let Some(scale) = scale {
        check_rows("scale", scale.dims(), 1, x.dims());
    }
    let (rows, whole) = (planes_as_rows(x, dy, rectified), dx.planes_as_rows());
    let ((x, dy, rectified), dx) = match whole {
        Some(whole) if rows.0.dims() == whole.dims() => (rows, whole),
        _ => ((x, dy, rectified), dx),
    };
    dispatch(TileGrad {
        x,
        dy,
        rectified,
        stats,
        sums,
        scale,
        one_of: T::ONE / T::from_f64(count as f64),
        dx,
    });
}

/// What [`input_grad`] computes.
struct TileGrad<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    rectified: Option<Rectified<'a, T>>,
    stats: View<'a, T>,
    sums: View<'a, T>,
    scale: Option<View<'a, T>>,
    one_of: T,
    dx: ViewMut<'a, T>,
}

impl<T: Float> Body for TileGrad<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let [samples, channels, height, _] = self.x.dims();
        for n in 0..samples {
            for c in 0..channels {
                let [mean, inverse] = [0, 1].map(|r| self.stats.row([0, 0, r])[c]);
                let [plain, centred] = [0, 1].map(|r| self.sums.row([0, 0, r])[c]);
                let factor = inverse * self.scale.map_or(T::ONE, |s| s.row([0, 0, 0])[c]);
                let (offset, slope) = (plain * self.one_of, centred * self.one_of * inverse);
                let grad = |x: T, g: T| factor * (g - offset - (x - mean) * slope);
                for h in 0..height {
                    let at = [n, c, h];
                    let pairs = self.x.row(at).iter().zip(self.dy.row(at));
                    let dx = self.dx.row(at).iter_mut();
                    match self.rectified {
                        Some(Rectified { y, by }) => {
                            for ((d, (&x, &g)), &y) in dx.zip(pairs).zip(y.row(at)) {
                                *d = grad(x, g * by.share(y));
                            }
                        }
                        None => dx.zip(pairs).for_each(|(d, (&x, &g))| *d = grad(x, g)),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::moments::{finish, moments};
    use super::super::normalise::normalise;
    use super::*;
    use crate::compare::assert_close;

    const DIMS: [usize; 4] = [2, 2, 3, 3];
    const SCALE: [f64; 2] = [1.5, -0.5];
    const SHIFT: [f64; 2] = [0.1, 0.4];

    fn run(x: &[f64], by: Option<Rectifier<f64>>) -> (Vec<f64>, [f64; 4]) {
        let (mut m, mut stats, mut y) = ([0.0; 6], [0.0; 4], vec![0.0; x.len()]);
        let xv = View::from_slice(x, DIMS);
        moments(xv, ViewMut::from_slice(&mut m, [1, 1, 3, 2]));
        let mv = View::from_slice(&m, [1, 1, 3, 2]);
        finish(
            mv,
            1e-5,
            ViewMut::from_slice(&mut stats, [1, 1, 2, 2]),
            None,
        );
        let row = |s| View::from_slice(s, [1, 1, 1, 2]);
        let sv = View::from_slice(&stats, [1, 1, 2, 2]);
        let affine = Some((row(&SCALE), row(&SHIFT)));
        normalise(xv, sv, affine, by, ViewMut::from_slice(&mut y, DIMS));
        (y, stats)
    }

    #[test]
    fn gradients_match_finite_differences() {
        let x: Vec<f64> = (0..36).map(|i| f64::from(i * i % 23) / 7.0).collect();
        let dy: Vec<f64> = (0..36).map(|i| f64::from(i * 5 % 11) / 5.0 - 1.0).collect();
        for by in [
            None,
            Some(Rectifier::new(None)),
            Some(Rectifier::new(Some(0.5))),
        ] {
            let (y, stats) = run(&x, by);
            let mask = by.map(|by| Rectified {
                y: View::from_slice(&y, DIMS),
                by,
            });
            let (xv, gv) = (View::from_slice(&x, DIMS), View::from_slice(&dy, DIMS));
            let sv = View::from_slice(&stats, [1, 1, 2, 2]);
            let (mut total, mut dx) = ([0.0; 4], vec![0.0; 36]);
            sums(
                xv,
                gv,
                mask,
                sv,
                ViewMut::from_slice(&mut total, [1, 1, 2, 2]),
            );
            let (tv, scale) = (
                View::from_slice(&total, [1, 1, 2, 2]),
                View::from_slice(&SCALE, [1, 1, 1, 2]),
            );
            input_grad(
                xv,
                gv,
                mask,
                sv,
                tv,
                Some(scale),
                18,
                ViewMut::from_slice(&mut dx, DIMS),
            );
            let h = 1e-6;
            let differences: Vec<f64> = (0..36)
                .map(|k| {
                    let (mut up, mut down) = (x.clone(), x.clone());
                    up[k] += h;
                    down[k] -= h;
                    let (up, down) = (run(&up, by).0, run(&down, by).0);
                    (0..36).map(|i| dy[i] * (up[i] - down[i]) / (2.0 * h)).sum()
                })
                .collect();
            assert_close("dx", &dx, &differences, 1e-7, 0);
        }
    }
}
