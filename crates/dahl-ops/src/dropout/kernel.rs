//! Dropout: elements set to zero at random, the others scaled so that the expectation stays.
//!
//! Whether an element is kept depends on its position in the whole array and on the stream alone (see
//! [`crate::philox`]), so any tiling gives the same mask, and the backward pass draws it again instead
//! of reading it: [`apply`] serves both directions.

use dahl_core::view::for_rows;
use dahl_core::{View, ViewMut};

use crate::float::Float;
use crate::philox::Stream;
use crate::simd::{Body, dispatch};

/// Where a tile lies in the whole array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The tile's first element.
    pub start: [usize; 4],
    /// Extents of the whole array.
    pub whole: [usize; 4],
}

/// `y = x / (1 − p)` where the stream keeps an element, else 0. With `p` = 1 nothing is kept.
///
/// # Panics
/// If the extents differ or the tile leaves the array.
pub(crate) fn apply<T: Float>(
    x: View<'_, T>,
    mut y: ViewMut<'_, T>,
    p: f64,
    stream: Stream,
    place: Place,
) {
    let dims = x.dims();
    assert_eq!(dims, y.dims(), "dropout: extents");
    let Place { start, whole } = place;
    assert!(
        (0..4).all(|a| start[a] + dims[a] <= whole[a]),
        "dropout: {dims:?} leaves {place:?}"
    );
    let threshold = (p.clamp(0.0, 1.0) * 2f64.powi(32)).round() as u64;
    let scale = if threshold >> 32 == 1 {
        T::ZERO
    } else {
        T::from_f64(1.0 / (1.0 - p))
    };
    for_rows(dims, |at| {
        let first = (0..3).fold(0, |i, a| i * whole[a] + start[a] + at[a]) * whole[3] + start[3];
        let (x, y) = (x.row(at), y.row(at));
        dispatch(Row {
            x,
            y,
            first: first as u64,
            threshold,
            scale,
            stream,
        });
    });
}

/// Blocks of four words that are drawn together, one per lane.
const BLOCKS: usize = 16;

struct Row<'a, T> {
    x: &'a [T],
    y: &'a mut [T],
    first: u64,
    threshold: u64,
    scale: T,
    stream: Stream,
}

impl<T: Float> Body for Row<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let len = self.x.len();
        // Words start at a multiple of four elements; `skip` of them belong to what lies before.
        let mut block = self.first / 4;
        let mut skip = (self.first % 4) as usize;
        let mut done = 0;
        while done < len {
            let mut words = [[0u32; 4]; BLOCKS];
            for (k, w) in words.iter_mut().enumerate() {
                *w = self.stream.block(block + k as u64);
            }
            let words = words.as_flattened();
            let n = (words.len() - skip).min(len - done);
            let rows = self.y[done..done + n]
                .iter_mut()
                .zip(&self.x[done..done + n]);
            for ((y, &x), &w) in rows.zip(&words[skip..skip + n]) {
                *y = if u64::from(w) >= self.threshold {
                    x * self.scale
                } else {
                    T::ZERO
                };
            }
            block += BLOCKS as u64;
            done += n;
            skip = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Stream = Stream {
        seed: 7,
        step: 3,
        layer: 1,
    };

    #[test]
    fn any_tiling_gives_the_same_mask() {
        let whole = [2, 3, 5, 37];
        let x = vec![1.0f32; 2 * 3 * 5 * 37];
        let mut y = vec![9.0f32; x.len()];
        let place = Place {
            start: [0; 4],
            whole,
        };
        let v = View::from_slice(&x, whole);
        apply(v, ViewMut::from_slice(&mut y, whole), 0.3, STREAM, place);
        let mut tiled = vec![9.0f32; x.len()];
        for (start, dims) in [
            ([0, 0, 0, 0], [2, 3, 5, 10]),
            ([0, 0, 0, 10], [2, 3, 2, 27]),
            ([0, 0, 2, 10], [1, 3, 3, 27]),
            ([1, 0, 2, 10], [1, 3, 3, 27]),
        ] {
            let mut out = ViewMut::from_slice(&mut tiled, whole);
            apply(
                v.part(start, dims),
                out.part(start, dims),
                0.3,
                STREAM,
                Place { start, whole },
            );
        }
        assert_eq!(y, tiled);
    }

    #[test]
    fn the_share_and_the_scale_are_right() {
        let n = 40_000;
        let x = vec![2.0f64; n];
        let dims = [1, 1, 1, n];
        let place = Place {
            start: [0; 4],
            whole: dims,
        };
        for p in [0.0, 0.25, 0.5, 1.0] {
            let mut y = vec![9.0; n];
            apply(
                View::from_slice(&x, dims),
                ViewMut::from_slice(&mut y, dims),
                p,
                STREAM,
                place,
            );
            let zeros = y.iter().filter(|&&v| v == 0.0).count() as f64 / n as f64;
            // Four standard deviations of a binomial share.
            assert!(
                (zeros - p).abs() <= 4.0 * (p * (1.0 - p) / n as f64).sqrt(),
                "{p}: {zeros}"
            );
            assert!(y.iter().all(|&v| v == 0.0 || v == 2.0 / (1.0 - p)));
        }
    }
}
