//! Layer norm: the last extents of a sample together, with a scale and a shift for each element.
//!
//! What is normalised has the extents of the scale: those of the input, with leading ones. So a scale of
//! 1×C×H×W normalises images, one of 1×1×1×F rows of features.

use dahl_core::{View, ViewMut};

use super::{check_statistics, statistics};
use crate::elementwise::walk::{map, update};
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// How many leading axes count samples, if `scale` has the last extents of `x` and ones before them.
pub(crate) fn leading(x: [usize; 4], scale: [usize; 4]) -> Option<usize> {
    (0..4).find(|&k| scale[..k].iter().all(|&d| d == 1) && scale[k..] == x[k..])
}

/// How many samples `x` has, that is, how often `scale` fits into it.
///
/// # Panics
/// If it does not.
fn samples(x: [usize; 4], scale: [usize; 4]) -> usize {
    let axes = leading(x, scale).unwrap_or_else(|| {
        panic!("layer norm: scale extents {scale:?} are not the last of {x:?}");
    });
    x[..axes].iter().product()
}

/// Where sample `i` begins; only leading axes count.
fn start(x: [usize; 4], scale: [usize; 4], mut i: usize) -> [usize; 4] {
    let mut at = [0; 4];
    for a in (0..leading(x, scale).unwrap_or(0)).rev() {
        at[a] = i % x[a];
        i /= x[a];
    }
    at
}

/// `y = (x − mean) · inverse · scale + shift`, and the statistics (1×1×samples×2).
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    scale: View<'_, T>,
    shift: View<'_, T>,
    epsilon: T,
    mut y: ViewMut<'_, T>,
    mut stats: ViewMut<'_, T>,
) {
    let (dims, size) = (x.dims(), scale.dims());
    let samples = samples(dims, size);
    assert_eq!(
        (y.dims(), shift.dims()),
        (dims, size),
        "layer norm: extents"
    );
    check_statistics(stats.dims(), samples, 1);
    for n in 0..samples {
        let at = start(dims, size, n);
        let x = x.part(at, size);
        let [mean, inverse] = statistics(x, epsilon);
        stats.row([0, 0, n]).copy_from_slice(&[mean, inverse]);
        map(y.part(at, size), [x, scale, shift], |[x, scale, shift]| {
            (x - mean) * inverse * scale + shift
        });
    }
}

/// `dx`, overwritten.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn input_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    stats: View<'_, T>,
    scale: View<'_, T>,
    mut dx: ViewMut<'_, T>,
) {
    let (dims, size) = (x.dims(), scale.dims());
    let samples = samples(dims, size);
    assert_eq!((dy.dims(), dx.dims()), (dims, dims), "layer norm: extents");
    check_statistics(stats.dims(), samples, 1);
    let count = T::from_f64(scale.len() as f64);
    for n in 0..samples {
        let at = start(dims, size, n);
        let (x, dy) = (x.part(at, size), dy.part(at, size));
        let [mean, inverse] = [0, 1].map(|i| stats.row([0, 0, n])[i]);
        let (mut plain, mut centred) = (T::ZERO, T::ZERO);
        dahl_core::view::for_rows(size, |at| {
            let (a, b) = T::vectorised(Sums {
                x: x.row(at),
                dy: dy.row(at),
                scale: scale.row(at),
                mean,
            });
            plain += a;
            centred += b;
        });
        let (offset, slope) = (plain / count, centred * inverse * inverse / count);
        map(dx.part(at, size), [x, dy, scale], |[x, dy, scale]| {
            inverse * (dy * scale - offset - (x - mean) * slope)
        });
    }
}

/// `dscale += Σ dy · x̂` and `dshift += Σ dy` over samples.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn affine_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    stats: View<'_, T>,
    mut dscale: ViewMut<'_, T>,
    mut dshift: ViewMut<'_, T>,
) {
    let (dims, size) = (x.dims(), dscale.dims());
    let samples = samples(dims, size);
    assert_eq!(
        (dy.dims(), dshift.dims()),
        (dims, size),
        "layer norm: extents"
    );
    check_statistics(stats.dims(), samples, 1);
    for n in 0..samples {
        let at = start(dims, size, n);
        let [mean, inverse] = [0, 1].map(|i| stats.row([0, 0, n])[i]);
        let sums = [dscale.reborrow(), dshift.reborrow()];
        let terms = [x.part(at, size), dy.part(at, size)];
        update(sums, terms, |[scale, shift], [x, dy]| {
            [scale + dy * ((x - mean) * inverse), shift + dy]
        });
    }
}

/// The sums of `dy · scale` and of `dy · scale · (x − mean)` of a row.
struct Sums<'a, T> {
    x: &'a [T],
    dy: &'a [T],
    scale: &'a [T],
    mean: T,
}

impl<T: Lane> Kernel<T> for Sums<'_, T> {
    type Output = (T, T);

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) -> (T, T) {
        let Sums { x, dy, scale, mean } = self;
        let centre = s.splat(mean);
        let (mut plain, mut centred) = (s.splat(T::ZERO), s.splat(T::ZERO));
        let len = x.len().min(dy.len()).min(scale.len());
        for i in (0..len).step_by(S::LANES) {
            let n = S::LANES.min(len - i);
            // SAFETY: `n` elements from `i` on exist in all rows; lanes beyond hold a zero gradient.
            unsafe {
                let g = s.mul(
                    s.load_n(dy.as_ptr().add(i), n),
                    s.load_n(scale.as_ptr().add(i), n),
                );
                let d = s.sub(s.load_n(x.as_ptr().add(i), n), centre);
                plain = s.add(plain, g);
                centred = s.madd(g, d, centred);
            }
        }
        (s.sum(plain), s.sum(centred))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;
    use crate::conv2d::testing::{Boxed, Rng};
    use crate::norm::kernels::testing::{check_gradients, differences};
    use crate::simd::at_every_level;

    #[test]
    fn the_scale_says_what_is_normalised() {
        assert_eq!(leading([5, 3, 4, 6], [1, 3, 4, 6]), Some(1));
        assert_eq!(leading([1, 1, 5, 6], [1, 1, 1, 6]), Some(3));
        assert_eq!(leading([5, 3, 4, 6], [1, 1, 4, 6]), Some(2));
        assert_eq!(leading([5, 3, 4, 6], [1, 3, 1, 6]), None);
        assert_eq!(start([5, 3, 4, 6], [1, 1, 4, 6], 7), [2, 1, 0, 0]);
    }

    /// Also that nothing between the rows of tiles is read or written.
    #[test]
    fn values_and_gradients_follow_the_definition() {
        for (dims, size) in [
            ([3, 2, 4, 5], [1, 2, 4, 5]),
            ([1, 1, 4, 19], [1, 1, 1, 19]),
            ([2, 3, 2, 7], [1, 1, 2, 7]),
        ] {
            at_every_level(|_| {
                let r = &mut Rng::new(5);
                let x = Boxed::<f64>::random(dims, r);
                let (scale, shift) = (Boxed::random(size, r), Boxed::random(size, r));
                let dy = Boxed::random(dims, r);
                let rows = samples(dims, size);
                let run = |x: &Boxed<f64>, scale: &Boxed<f64>, shift: &Boxed<f64>| {
                    let (mut y, mut stats) =
                        (x.like(), Boxed::random([1, 1, rows, 2], &mut Rng::new(1)));
                    let (yv, sv) = (y.view_mut(), stats.view_mut());
                    forward(x.view(), scale.view(), shift.view(), 1e-5, yv, sv);
                    (y, stats)
                };
                let (y, stats) = run(&x, &scale, &shift);
                assert!(y.margin_untouched() && stats.margin_untouched());
                // One sample by hand.
                let at = start(dims, size, rows - 1);
                let one = x.view().part(at, size);
                let mut all = Vec::new();
                dahl_core::view::for_rows(size, |at| all.extend_from_slice(one.row(at)));
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                let var = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / all.len() as f64;
                let want: Vec<f64> = (0..all.len())
                    .map(|k| (all[k] - mean) / (var + 1e-5).sqrt() * scale.get(k) + shift.get(k))
                    .collect();
                let mut got = Vec::new();
                let one = y.view().part(at, size);
                dahl_core::view::for_rows(size, |at| got.extend_from_slice(one.row(at)));
                assert_close("y", &got, &want, 1e-14, 0);
                let (mut dx, mut dscale, mut dshift) = (x.like(), scale.like(), shift.like());
                input_grad(
                    x.view(),
                    dy.view(),
                    stats.view(),
                    scale.view(),
                    dx.view_mut(),
                );
                let (a, b) = (dscale.view_mut(), dshift.view_mut());
                affine_grad(x.view(), dy.view(), stats.view(), a, b);
                check_gradients(
                    "dx",
                    &dx,
                    &differences(&x, |x| run(x, &scale, &shift).0, &dy),
                );
                check_gradients(
                    "dscale",
                    &dscale,
                    &differences(&scale, |s| run(&x, s, &shift).0, &dy),
                );
                check_gradients(
                    "dshift",
                    &dshift,
                    &differences(&shift, |s| run(&x, &scale, s).0, &dy),
                );
            });
        }
    }
}
