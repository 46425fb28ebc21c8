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

use super::check_rows;
use crate::float::Float;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};
use crate::simd::{Body, dispatch};

/// `out += ` the sums of `dy` and of `dy · x̂` of a tile (1×1×2×C). `relu` is the forward pass's
/// output, if it took the positive part.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn sums<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    relu: Option<View<'_, T>>,
    stats: View<'_, T>,
    mut out: ViewMut<'_, T>,
) {
    let [samples, channels, height, _] = x.dims();
    check(x, dy, relu, stats);
    check_rows("sums", out.dims(), 2, x.dims());
    for c in 0..channels {
        let [mean, inverse] = [0, 1].map(|r| stats.row([0, 0, r])[c]);
        let (mut plain, mut centred) = (T::ZERO, T::ZERO);
        for n in 0..samples {
            for h in 0..height {
                let at = [n, c, h];
                let relu = relu.map(|y| y.row(at));
                let (a, b) = T::vectorised(RowSums {
                    x: x.row(at),
                    dy: dy.row(at),
                    relu,
                    mean,
                });
                plain += a;
                centred += b;
            }
        }
        out.row([0, 0, 0])[c] += plain;
        out.row([0, 0, 1])[c] += centred * inverse;
    }
}

fn check<T: Float>(x: View<'_, T>, dy: View<'_, T>, relu: Option<View<'_, T>>, stats: View<'_, T>) {
    assert_eq!(x.dims(), dy.dims(), "batch norm: gradient extents");
    assert!(
        relu.is_none_or(|y| y.dims() == x.dims()),
        "batch norm: output extents"
    );
    check_rows("statistics", stats.dims(), 2, x.dims());
}

/// The sums of `dy` and of `dy · (x − mean)` of a row.
pub(crate) struct RowSums<'a, T> {
    pub x: &'a [T],
    pub dy: &'a [T],
    pub relu: Option<&'a [T]>,
    pub mean: T,
}

impl<T: Lane> Kernel<T> for RowSums<'_, T> {
    type Output = (T, T);

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) -> (T, T) {
        let RowSums { x, dy, relu, mean } = self;
        let (zero, centre) = (s.splat(T::ZERO), s.splat(mean));
        let (mut plain, mut centred) = (zero, zero);
        let len = x.len().min(dy.len());
        for i in (0..len).step_by(S::LANES) {
            let n = S::LANES.min(len - i);
            // SAFETY: `n` elements from `i` on exist in all rows; lanes beyond hold a zero gradient.
            unsafe {
                let mut g = s.load_n(dy.as_ptr().add(i), n);
                if let Some(y) = relu {
                    let y = s.load_n(y.as_ptr().add(i), n);
                    g = s.select(s.above(y, zero), g, zero);
                }
                let d = s.sub(s.load_n(x.as_ptr().add(i), n), centre);
                plain = s.add(plain, g);
                centred = s.madd(g, d, centred);
            }
        }
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
    relu: Option<View<'_, T>>,
    stats: View<'_, T>,
    sums: View<'_, T>,
    scale: Option<View<'_, T>>,
    count: usize,
    mut dx: ViewMut<'_, T>,
) {
    let [samples, channels, height, _] = x.dims();
    check(x, dy, relu, stats);
    check_rows("sums", sums.dims(), 2, x.dims());
    assert_eq!(dx.dims(), x.dims(), "batch norm: input gradient extents");
    if let Some(scale) = scale {
        check_rows("scale", scale.dims(), 1, x.dims());
    }
    let one_of = T::ONE / T::from_f64(count as f64);
    for c in 0..channels {
        let [mean, inverse] = [0, 1].map(|r| stats.row([0, 0, r])[c]);
        let [plain, centred] = [0, 1].map(|r| sums.row([0, 0, r])[c]);
        let factor = inverse * scale.map_or(T::ONE, |s| s.row([0, 0, 0])[c]);
        let (offset, slope) = (plain * one_of, centred * one_of * inverse);
        for n in 0..samples {
            for h in 0..height {
                let at = [n, c, h];
                let (x, dy, relu) = (x.row(at), dy.row(at), relu.map(|y| y.row(at)));
                dispatch(RowGrad {
                    x,
                    dy,
                    relu,
                    dx: dx.row(at),
                    mean,
                    factor,
                    offset,
                    slope,
                });
            }
        }
    }
}

struct RowGrad<'a, T> {
    x: &'a [T],
    dy: &'a [T],
    relu: Option<&'a [T]>,
    dx: &'a mut [T],
    mean: T,
    factor: T,
    offset: T,
    slope: T,
}

impl<T: Float> Body for RowGrad<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let RowGrad {
            x,
            dy,
            relu,
            dx,
            mean,
            factor,
            offset,
            slope,
        } = self;
        let grad = |x: T, g: T| factor * (g - offset - (x - mean) * slope);
        let pairs = dx.iter_mut().zip(x).zip(dy);
        match relu {
            Some(y) => {
                for (((d, &x), &g), &y) in pairs.zip(y) {
                    *d = grad(x, if y <= T::ZERO { T::ZERO } else { g });
                }
            }
            None => {
                for ((d, &x), &g) in pairs {
                    *d = grad(x, g);
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

    fn run(x: &[f64], relu: bool) -> (Vec<f64>, [f64; 4]) {
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
        normalise(xv, sv, affine, relu, ViewMut::from_slice(&mut y, DIMS));
        (y, stats)
    }

    #[test]
    fn gradients_match_finite_differences() {
        let x: Vec<f64> = (0..36).map(|i| f64::from(i * i % 23) / 7.0).collect();
        let dy: Vec<f64> = (0..36).map(|i| f64::from(i * 5 % 11) / 5.0 - 1.0).collect();
        for relu in [false, true] {
            let (y, stats) = run(&x, relu);
            let mask = relu.then_some(View::from_slice(&y, DIMS));
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
                    let (up, down) = (run(&up, relu).0, run(&down, relu).0);
                    (0..36).map(|i| dy[i] * (up[i] - down[i]) / (2.0 * h)).sum()
                })
                .collect();
            assert_close("dx", &dx, &differences, 1e-7, 0);
        }
    }
}
