//! Group norm: groups of neighbouring channels together, with a scale and a shift for each channel.
//!
//! Inputs are N×C×H×W, scale and shift 1×1×1×C. One group is all of a sample; as many groups as channels
//! is what others call instance norm.

use dahl_core::{View, ViewMut};

use super::{check_statistics, statistics};
use crate::batch_norm::backward::RowSums;
use crate::elementwise::walk::map;
use crate::simd::Lane;

#[track_caller]
fn check(x: [usize; 4], groups: usize, row: [usize; 4]) {
    assert!(
        groups > 0 && x[1].is_multiple_of(groups),
        "group norm: {} channels in {groups} groups",
        x[1]
    );
    assert_eq!(row, [1, 1, 1, x[1]], "group norm: scale or shift extents");
}

/// `y = (x − mean) · inverse · scale + shift`, and the statistics (1×1×samples×2·groups).
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    scale: View<'_, T>,
    shift: View<'_, T>,
    groups: usize,
    epsilon: T,
    mut y: ViewMut<'_, T>,
    mut stats: ViewMut<'_, T>,
) {
    let [samples, channels, h, w] = x.dims();
    check(x.dims(), groups, scale.dims());
    check(x.dims(), groups, shift.dims());
    assert_eq!(y.dims(), x.dims(), "group norm: output extents");
    check_statistics(stats.dims(), samples, groups);
    let each = channels / groups;
    for n in 0..samples {
        for g in 0..groups {
            let group = x.part([n, g * each, 0, 0], [1, each, h, w]);
            let [mean, inverse] = statistics(group, epsilon);
            let row = stats.row([0, 0, n]);
            (row[g], row[groups + g]) = (mean, inverse);
            for c in g * each..(g + 1) * each {
                let slope = inverse * scale.row([0, 0, 0])[c];
                let shift = shift.row([0, 0, 0])[c];
                let (from, size) = ([n, c, 0, 0], [1, 1, h, w]);
                let (x, y) = (x.part(from, size), y.part(from, size));
                map(y, [x], |[x]| (x - mean) * slope + shift);
            }
        }
    }
}

/// The sums of `dy` and of `dy · (x − mean)` of a channel of a sample.
pub(crate) fn plane_sums<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    at: [usize; 2],
    mean: T,
) -> [T; 2] {
    let (mut plain, mut centred) = (T::ZERO, T::ZERO);
    let mut add = |x: &[T], dy: &[T]| {
        let (a, b) = T::vectorised(RowSums {
            x,
            dy,
            rectified: None,
            mean,
        });
        plain += a;
        centred += b;
    };
    let (from, size) = ([at[0], at[1], 0, 0], [1, 1, x.dims()[2], x.dims()[3]]);
    let (x, dy) = (x.part(from, size), dy.part(from, size));
    match (x.as_slice(), dy.as_slice()) {
        (Some(x), Some(dy)) => add(x, dy),
        _ => (0..size[2]).for_each(|h| add(x.row([0, 0, h]), dy.row([0, 0, h]))),
    }
    [plain, centred]
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
    groups: usize,
    mut dx: ViewMut<'_, T>,
) {
    let [samples, channels, h, w] = x.dims();
    check(x.dims(), groups, scale.dims());
    assert_eq!(
        (dy.dims(), dx.dims()),
        (x.dims(), x.dims()),
        "group norm: extents"
    );
    check_statistics(stats.dims(), samples, groups);
    let (each, scale) = (channels / groups, scale.row([0, 0, 0]));
    let count = T::from_f64((each * h * w) as f64);
    for n in 0..samples {
        for g in 0..groups {
            let [mean, inverse] = [g, groups + g].map(|i| stats.row([0, 0, n])[i]);
            let (mut plain, mut centred) = (T::ZERO, T::ZERO);
            for (c, &scale) in scale.iter().enumerate().skip(g * each).take(each) {
                let [a, b] = plane_sums(x, dy, [n, c], mean);
                plain += scale * a;
                centred += scale * b;
            }
            let (offset, slope) = (plain / count, centred * inverse * inverse / count);
            for (c, &scale) in scale.iter().enumerate().skip(g * each).take(each) {
                let (from, size) = ([n, c, 0, 0], [1, 1, h, w]);
                let (x, dy) = (x.part(from, size), dy.part(from, size));
                map(dx.part(from, size), [x, dy], |[x, dy]| {
                    inverse * (dy * scale - offset - (x - mean) * slope)
                });
            }
        }
    }
}

/// `dscale += Σ dy · x̂` and `dshift += Σ dy` over samples and pixels.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn affine_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    stats: View<'_, T>,
    groups: usize,
    mut dscale: ViewMut<'_, T>,
    mut dshift: ViewMut<'_, T>,
) {
    let [samples, channels, ..] = x.dims();
    check(x.dims(), groups, dscale.dims());
    check(x.dims(), groups, dshift.dims());
    assert_eq!(dy.dims(), x.dims(), "group norm: gradient extents");
    check_statistics(stats.dims(), samples, groups);
    for c in 0..channels {
        let g = c * groups / channels;
        let (mut scale, mut shift) = (T::ZERO, T::ZERO);
        for n in 0..samples {
            let [mean, inverse] = [g, groups + g].map(|i| stats.row([0, 0, n])[i]);
            let [plain, centred] = plane_sums(x, dy, [n, c], mean);
            scale += centred * inverse;
            shift += plain;
        }
        dscale.row([0, 0, 0])[c] += scale;
        dshift.row([0, 0, 0])[c] += shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::testing::{Boxed, Rng};
    use crate::norm::kernels::layer;
    use crate::norm::kernels::testing::{check_gradients, differences};
    use crate::simd::at_every_level;

    const DIMS: [usize; 4] = [3, 6, 3, 5];

    fn run(
        x: &Boxed<f64>,
        scale: &Boxed<f64>,
        shift: &Boxed<f64>,
        groups: usize,
    ) -> [Boxed<f64>; 2] {
        let mut y = x.like();
        let mut stats = Boxed::random([1, 1, DIMS[0], 2 * groups], &mut Rng::new(1));
        let (scale, shift) = (scale.view(), shift.view());
        forward(
            x.view(),
            scale,
            shift,
            groups,
            1e-5,
            y.view_mut(),
            stats.view_mut(),
        );
        [y, stats]
    }

    #[test]
    fn gradients_match_finite_differences() {
        for groups in [1, 2, 3, 6] {
            at_every_level(|_| {
                let r = &mut Rng::new(3);
                let (x, dy) = (Boxed::random(DIMS, r), Boxed::random(DIMS, r));
                let (scale, shift) = (
                    Boxed::random([1, 1, 1, 6], r),
                    Boxed::random([1, 1, 1, 6], r),
                );
                let [y, stats] = run(&x, &scale, &shift, groups);
                let (mut dx, mut dscale, mut dshift) = (x.like(), scale.like(), shift.like());
                let (xv, gv, sv) = (x.view(), dy.view(), stats.view());
                input_grad(xv, gv, sv, scale.view(), groups, dx.view_mut());
                affine_grad(xv, gv, sv, groups, dscale.view_mut(), dshift.view_mut());
                assert!(
                    [&y, &stats, &dx, &dscale, &dshift]
                        .iter()
                        .all(|b| b.margin_untouched())
                );
                type Array = Boxed<f64>;
                let forward = |x: &Array, a: &Array, b: &Array| run(x, a, b, groups)[0].clone();
                check_gradients(
                    "dx",
                    &dx,
                    &differences(&x, |x| forward(x, &scale, &shift), &dy),
                );
                check_gradients(
                    "dscale",
                    &dscale,
                    &differences(&scale, |s| forward(&x, s, &shift), &dy),
                );
                check_gradients(
                    "dshift",
                    &dshift,
                    &differences(&shift, |s| forward(&x, &scale, s), &dy),
                );
            });
        }
    }

    #[test]
    fn one_group_without_scale_is_layer_norm() {
        let r = &mut Rng::new(8);
        let x = Boxed::<f64>::random(DIMS, r);
        let (mut ones, zeros) = (
            Boxed::random([1, 1, 1, 6], r).like(),
            Boxed::random([1, 1, 1, 6], r).like(),
        );
        ones.view_mut().fill(1.0);
        let [y, _] = run(&x, &ones, &zeros, 1);
        let size = [1, DIMS[1], DIMS[2], DIMS[3]];
        let (mut scale, shift) = (Boxed::random(size, r), Boxed::random(size, r).like());
        scale.view_mut().fill(1.0);
        let (mut same, mut stats) = (x.like(), Boxed::random([1, 1, DIMS[0], 2], r));
        let (scale, shift) = (scale.view(), shift.view());
        layer::forward(
            x.view(),
            scale,
            shift,
            1e-5,
            same.view_mut(),
            stats.view_mut(),
        );
        (0..x.len()).for_each(|k| assert!((y.get(k) - same.get(k)).abs() < 1e-14));
    }
}
