//! Normalising a tile: subtract the mean, scale to unit variance, then the layer's own scale and shift.

use dahl_core::{View, ViewMut};

use super::{Rectifier, check_rows};
use crate::float::Float;
use crate::simd::{Body, dispatch};

/// `y = (x − mean) · inverse · scale + shift`, then what is left of it by the rectifier.
///
/// `stats` is 1×1×2×C (mean, one over the standard deviation), `affine` 1×1×1×C each.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn normalise<T: Float>(
    x: View<'_, T>,
    stats: View<'_, T>,
    affine: Option<(View<'_, T>, View<'_, T>)>,
    rectifier: Option<Rectifier<T>>,
    mut y: ViewMut<'_, T>,
) {
    assert_eq!(x.dims(), y.dims(), "batch norm: extents");
    check_rows("statistics", stats.dims(), 2, x.dims());
    if let Some((scale, shift)) = affine {
        check_rows("scale", scale.dims(), 1, x.dims());
        check_rows("shift", shift.dims(), 1, x.dims());
    }
    let (x, y) = match (x.planes_as_rows(), y.planes_as_rows()) {
        (Some(x), Some(y)) => (x, y),
        _ => (x, y.reborrow()),
    };
    dispatch(Tile {
        x,
        stats,
        affine,
        rectifier,
        y,
    });
}

struct Tile<'a, T> {
    x: View<'a, T>,
    stats: View<'a, T>,
    affine: Option<(View<'a, T>, View<'a, T>)>,
    rectifier: Option<Rectifier<T>>,
    y: ViewMut<'a, T>,
}

impl<T: Float> Body for Tile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let [samples, channels, height, _] = self.x.dims();
        for c in 0..channels {
            let [mean, inverse] = [0, 1].map(|r| self.stats.row([0, 0, r])[c]);
            let (scale, shift) = self.affine.map_or((T::ONE, T::ZERO), |(scale, shift)| {
                (scale.row([0, 0, 0])[c], shift.row([0, 0, 0])[c])
            });
            let factor = inverse * scale;
            for n in 0..samples {
                for h in 0..height {
                    let (x, y) = (self.x.row([n, c, h]), self.y.row([n, c, h]));
                    let value = |x: T| (x - mean) * factor + shift;
                    match self.rectifier {
                        None => (y.iter_mut().zip(x)).for_each(|(y, &x)| *y = value(x)),
                        Some(r) => (y.iter_mut().zip(x)).for_each(|(y, &x)| *y = r.of(value(x))),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_normalised_like_the_whole() {
        let dims = [1, 2, 2, 3];
        let x: Vec<f64> = (0..12).map(f64::from).collect();
        let (stats, scale, shift) = ([2.0, 8.0, 0.5, 2.0], [2.0, 1.0], [1.0, -3.0]);
        let mut y = vec![9.0; 12];
        let row = |s| View::from_slice(s, [1, 1, 1, 2]);
        let affine = Some((row(&scale), row(&shift)));
        let stats = View::from_slice(&stats, [1, 1, 2, 2]);
        let xv = View::from_slice(&x, dims);
        let relu = Some(Rectifier::new(None));
        normalise(xv, stats, affine, relu, ViewMut::from_slice(&mut y, dims));
        let want: Vec<f64> = (0..12)
            .map(|i| {
                if i < 6 {
                    x[i] - 2.0 + 1.0
                } else {
                    (x[i] - 8.0) * 2.0 - 3.0
                }
                .max(0.0)
            })
            .collect();
        assert_eq!(y, want);
        let mut tiled = vec![9.0; 12];
        for from in 0..3 {
            let (start, size) = ([0, 0, 0, from], [1, 2, 2, 1]);
            let mut out = ViewMut::from_slice(&mut tiled, dims);
            normalise(
                xv.part(start, size),
                stats,
                affine,
                relu,
                out.part(start, size),
            );
        }
        assert_eq!(tiled, want);
    }
}
