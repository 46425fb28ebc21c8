//! Layer norm over the channels of each pixel, with a scale and a shift for each channel.
//!
//! Inputs are N×C×H×W, scale and shift 1×1×1×C, statistics N×2×H×W: the mean of each pixel, and one over its
//! standard deviation. Pixels that lie next to each other are treated together, a block at a time, so that all
//! channels of a block stay in the cache.

use dahl_core::{View, ViewMut};

use crate::float::Float;
use crate::simd::lanes::CHUNK;
use crate::simd::{Body, dispatch};

/// Pixels that are treated together.
const BLOCK: usize = 64;

#[track_caller]
fn check(x: [usize; 4], stats: [usize; 4], rows: &[[usize; 4]], like: &[[usize; 4]]) {
    let [samples, channels, h, w] = x;
    assert_eq!(
        stats,
        [samples, 2, h, w],
        "channel norm: statistics extents"
    );
    for &row in rows {
        assert_eq!(
            row,
            [1, 1, 1, channels],
            "channel norm: scale or shift extents"
        );
    }
    for &other in like {
        assert_eq!(other, x, "channel norm: extents");
    }
}

/// Calls `f` with the sample, the row, and the first and the end of each block of pixels. Where planes lie in one
/// piece, as `whole` says, a plane is one row.
#[inline(always)]
fn for_blocks(
    [samples, _, h, w]: [usize; 4],
    whole: bool,
    mut f: impl FnMut(usize, usize, [usize; 2]),
) {
    let (rows, len) = if whole { (1, h * w) } else { (h, w) };
    for n in 0..samples {
        for i in 0..rows {
            let mut from = 0;
            while from < len {
                let to = len.min(from + BLOCK);
                f(n, i, [from, to]);
                from = to;
            }
        }
    }
}

/// Whether the rows of a plane follow one another.
#[inline(always)]
fn in_one_piece(dims: [usize; 4], strides: [usize; 4]) -> bool {
    dims[2] == 1 || strides[2] == dims[3]
}

/// Pixels `from..to` of row `i` of a plane.
///
/// # Safety
/// The row has so many pixels; row 0 may be a whole plane that lies in one piece.
#[inline(always)]
unsafe fn pixels<'a, T: Float>(x: View<'a, T>, at: [usize; 3], [from, to]: [usize; 2]) -> &'a [T] {
    let [sn, sc, sh, _] = x.strides();
    // SAFETY: the caller's promise.
    unsafe {
        let first = x.as_ptr().add(at[0] * sn + at[1] * sc + at[2] * sh + from);
        std::slice::from_raw_parts(first, to - from)
    }
}

/// The same, to write.
///
/// # Safety
/// As for [`pixels`].
#[inline(always)]
unsafe fn pixels_mut<'a, T: Float>(
    y: &'a mut ViewMut<'_, T>,
    at: [usize; 3],
    [from, to]: [usize; 2],
) -> &'a mut [T] {
    let [sn, sc, sh, _] = y.strides();
    // SAFETY: the caller's promise.
    unsafe {
        let first = y
            .as_mut_ptr()
            .add(at[0] * sn + at[1] * sc + at[2] * sh + from);
        std::slice::from_raw_parts_mut(first, to - from)
    }
}

/// `y = (x − mean) · inverse · scale + shift`, and the statistics.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Float>(
    x: View<'_, T>,
    scale: View<'_, T>,
    shift: View<'_, T>,
    epsilon: T,
    y: ViewMut<'_, T>,
    stats: ViewMut<'_, T>,
) {
    check(
        x.dims(),
        stats.dims(),
        &[scale.dims(), shift.dims()],
        &[y.dims()],
    );
    dispatch(Forward {
        x,
        affine: [scale, shift].map(|v| v.row([0, 0, 0])),
        epsilon,
        y,
        stats,
    });
}

struct Forward<'a, T> {
    x: View<'a, T>,
    affine: [&'a [T]; 2],
    epsilon: T,
    y: ViewMut<'a, T>,
    stats: ViewMut<'a, T>,
}

impl<T: Float> Body for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Forward {
            x,
            affine: [scale, shift],
            epsilon,
            mut y,
            mut stats,
        } = self;
        let dims = x.dims();
        let whole = in_one_piece(dims, x.strides())
            && in_one_piece(dims, y.strides())
            && in_one_piece(dims, stats.strides());
        let count = T::from_f64(dims[1] as f64);
        for_blocks(dims, whole, |n, i, block| {
            let (mut mean, mut square) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
            // SAFETY: here and below, blocks of rows, or of planes in one piece.
            let plane = |c| unsafe { pixels(x, [n, c, i], block) };
            for c in 0..dims[1] {
                mean.iter_mut().zip(plane(c)).for_each(|(m, &v)| *m += v);
            }
            mean.iter_mut().for_each(|m| *m /= count);
            for c in 0..dims[1] {
                let all = square.iter_mut().zip(&mean).zip(plane(c));
                all.for_each(|((s, &m), &v)| *s += (v - m) * (v - m));
            }
            square
                .iter_mut()
                .for_each(|s| *s = T::ONE / (*s / count + epsilon).sqrt());
            for c in 0..dims[1] {
                // SAFETY: as above.
                let out = unsafe { pixels_mut(&mut y, [n, c, i], block) };
                let all = out.iter_mut().zip(plane(c)).zip(mean.iter().zip(&square));
                all.for_each(|((y, &v), (&m, &s))| *y = (v - m) * s * scale[c] + shift[c]);
            }
            for (r, from) in [&mean, &square].into_iter().enumerate() {
                // SAFETY: as above.
                let out = unsafe { pixels_mut(&mut stats, [n, r, i], block) };
                out.copy_from_slice(&from[..block[1] - block[0]]);
            }
        });
    }
}

/// `dx`, overwritten.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn input_grad<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    stats: View<'_, T>,
    scale: View<'_, T>,
    dx: ViewMut<'_, T>,
) {
    check(
        x.dims(),
        stats.dims(),
        &[scale.dims()],
        &[dy.dims(), dx.dims()],
    );
    dispatch(InputGrad {
        x,
        dy,
        stats,
        scale: scale.row([0, 0, 0]),
        dx,
    });
}

struct InputGrad<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    stats: View<'a, T>,
    scale: &'a [T],
    dx: ViewMut<'a, T>,
}

impl<T: Float> Body for InputGrad<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let InputGrad {
            x,
            dy,
            stats,
            scale,
            mut dx,
        } = self;
        let dims = x.dims();
        let whole = [x.strides(), dy.strides(), stats.strides(), dx.strides()]
            .into_iter()
            .all(|strides| in_one_piece(dims, strides));
        let count = T::from_f64(dims[1] as f64);
        for_blocks(dims, whole, |n, i, block| {
            // SAFETY: here and below, blocks of rows, or of planes in one piece.
            let of = |v, c| unsafe { pixels(v, [n, c, i], block) };
            let (mean, inverse) = (of(stats, 0), of(stats, 1));
            let (mut plain, mut centred) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
            for (c, &scale) in scale.iter().enumerate() {
                let sums = plain.iter_mut().zip(&mut centred).zip(mean);
                let all = sums.zip(of(x, c).iter().zip(of(dy, c)));
                all.for_each(|(((plain, centred), &m), (&x, &dy))| {
                    let g = dy * scale;
                    *plain += g;
                    *centred += g * (x - m);
                });
            }
            for ((offset, slope), &s) in plain.iter_mut().zip(&mut centred).zip(inverse) {
                *offset /= count;
                *slope *= s * s / count;
            }
            for (c, &scale) in scale.iter().enumerate() {
                // SAFETY: as above.
                let out = unsafe { pixels_mut(&mut dx, [n, c, i], block) };
                let moved = plain.iter().zip(&centred).zip(mean.iter().zip(inverse));
                let all = out
                    .iter_mut()
                    .zip(of(x, c).iter().zip(of(dy, c)))
                    .zip(moved);
                all.for_each(|((dx, (&x, &dy)), ((&offset, &slope), (&m, &s)))| {
                    *dx = s * (dy * scale - offset - (x - m) * slope);
                });
            }
        });
    }
}

/// `dscale += Σ dy · x̂` and `dshift += Σ dy` over samples and pixels.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn affine_grad<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    stats: View<'_, T>,
    mut dscale: ViewMut<'_, T>,
    mut dshift: ViewMut<'_, T>,
) {
    check(
        x.dims(),
        stats.dims(),
        &[dscale.dims(), dshift.dims()],
        &[dy.dims()],
    );
    let sums = [dscale.row([0, 0, 0]), dshift.row([0, 0, 0])];
    dispatch(AffineGrad { x, dy, stats, sums });
}

struct AffineGrad<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    stats: View<'a, T>,
    sums: [&'a mut [T]; 2],
}

impl<T: Float> Body for AffineGrad<'_, T> {
    type Output = ();

    /// Sums run in [`CHUNK`] lanes whatever the machine, so the result is the same on all of them.
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AffineGrad {
            x,
            dy,
            stats,
            sums: [dscale, dshift],
        } = self;
        let [samples, channels, h, _] = x.dims();
        for c in 0..channels {
            let (mut scale, mut shift) = ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
            for n in 0..samples {
                for i in 0..h {
                    let (x, dy) = (x.row([n, c, i]), dy.row([n, c, i]));
                    let (mean, inverse) = (stats.row([n, 0, i]), stats.row([n, 1, i]));
                    let parts = x.chunks(CHUNK).zip(dy.chunks(CHUNK));
                    let parts = parts.zip(mean.chunks(CHUNK).zip(inverse.chunks(CHUNK)));
                    for ((x, dy), (mean, inverse)) in parts {
                        let lanes = scale.iter_mut().zip(&mut shift);
                        let of = x.iter().zip(dy).zip(mean.iter().zip(inverse));
                        lanes
                            .zip(of)
                            .for_each(|((scale, shift), ((&x, &g), (&m, &s)))| {
                                *scale += g * ((x - m) * s);
                                *shift += g;
                            });
                    }
                }
            }
            dscale[c] += scale.into_iter().sum();
            dshift[c] += shift.into_iter().sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::testing::{Boxed, Rng};
    use crate::norm::kernels::testing::{check_gradients, differences};
    use crate::simd::at_every_level;

    /// Also that nothing between the rows of tiles is read or written; planes in one piece are those of height 1.
    #[test]
    fn values_and_gradients_follow_the_definition() {
        for dims in [[2, 5, 3, 7], [1, 3, 1, 70], [2, 1, 2, 3]] {
            at_every_level(|_| {
                let r = &mut Rng::new(5);
                let (x, dy) = (Boxed::<f64>::random(dims, r), Boxed::random(dims, r));
                let row = [1, 1, 1, dims[1]];
                let (scale, shift) = (Boxed::<f64>::random(row, r), Boxed::random(row, r));
                let held = Boxed::<f64>::random([dims[0], 2, dims[2], dims[3]], r);
                let run = |x: &Boxed<f64>, scale: &Boxed<f64>, shift: &Boxed<f64>| {
                    let (mut y, mut stats) = (x.like(), held.like());
                    let (yv, sv) = (y.view_mut(), stats.view_mut());
                    forward(x.view(), scale.view(), shift.view(), 1e-2, yv, sv);
                    (y, stats)
                };
                let (y, stats) = run(&x, &scale, &shift);
                assert!(y.margin_untouched() && stats.margin_untouched());
                let (n, i, j) = (dims[0] - 1, dims[2] - 1, dims[3] - 1);
                let pixel: Vec<f64> = (0..dims[1]).map(|c| x.view().at([n, c, i, j])).collect();
                let mean = pixel.iter().sum::<f64>() / pixel.len() as f64;
                let var = pixel.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
                let var = var / pixel.len() as f64;
                for (c, v) in pixel.iter().enumerate() {
                    let want = (v - mean) / (var + 1e-2).sqrt() * scale.get(c) + shift.get(c);
                    assert!((y.view().at([n, c, i, j]) - want).abs() < 1e-12);
                }
                let (mut dx, mut dscale, mut dshift) = (x.like(), scale.like(), shift.like());
                let (xv, gv, sv) = (x.view(), dy.view(), stats.view());
                input_grad(xv, gv, sv, scale.view(), dx.view_mut());
                affine_grad(xv, gv, sv, dscale.view_mut(), dshift.view_mut());
                check_gradients(
                    "dx",
                    &dx,
                    &differences(&x, |x| run(x, &scale, &shift).0, &dy),
                );
                let by = differences(&scale, |s| run(&x, s, &shift).0, &dy);
                check_gradients("dscale", &dscale, &by);
                let by = differences(&shift, |s| run(&x, &scale, s).0, &dy);
                check_gradients("dshift", &dshift, &by);
            });
        }
    }
}
