//! Filters: into the transformed domain once per step, and gradients back out of it.

// Loops over small arrays are unrolled into registers; iterators in their place are not always
// inlined into code for another instruction set.
#![allow(clippy::needless_range_loop)]

use dahl_core::view::{View, ViewMut};

use super::Tile;
use super::transform::{Algorithm, Four, MOST, Two};
use crate::conv2d::product::Layout;
use crate::float::Float;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};

/// Transforms a filter `[O, C, 3, 3]`. The channels that sums run over become rows, the others lanes.
pub(super) struct Forth<'a, T> {
    pub tile: Tile,
    pub w: View<'a, T>,
    /// Sums run over filters instead of channels and kernels are turned by half a turn: what the
    /// input gradient needs.
    pub turned: bool,
    pub to: &'a mut [T],
}

impl<T: Float> Kernel<T> for Forth<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        match self.tile {
            Tile::Two => self.with::<S, Two>(s),
            Tile::Four => self.with::<S, Four>(s),
        }
    }
}

impl<T: Float> Forth<'_, T> {
    #[inline(always)]
    fn with<S: Lanes<T>, A: Algorithm<T, S>>(self, s: S) {
        let (dims, strides) = (self.w.dims(), self.w.strides());
        let (lane, sum) = if self.turned { (1, 0) } else { (0, 1) };
        let layout = Layout::new(dims[lane], dims[sum]);
        let points = A::POINTS;
        assert!(self.to.len() >= layout.len(points * points) && dims[2..] == [3, 3]);
        let mut raw = [[[T::ZERO; CHUNK]; 3]; 3];
        for chunk in 0..layout.chunks {
            let lanes = CHUNK.min(dims[lane] - chunk * CHUNK);
            for row in raw.as_flattened_mut() {
                row[lanes..].fill(T::ZERO);
            }
            for k in 0..dims[sum] {
                let first = chunk * CHUNK * strides[lane] + k * strides[sum];
                for l in 0..lanes {
                    for (a, row) in raw.iter_mut().enumerate() {
                        for (b, out) in row.iter_mut().enumerate() {
                            let (a, b) = if self.turned { (2 - a, 2 - b) } else { (a, b) };
                            let at = first + l * strides[lane] + a * strides[2] + b;
                            // SAFETY: `chunk · CHUNK + l` and `k` are inside their axes.
                            out[l] = unsafe { *self.w.as_ptr().add(at) };
                        }
                    }
                }
                let to = &mut self.to[chunk * layout.chunk_stride() + k * CHUNK..];
                for v in (0..CHUNK).step_by(S::LANES) {
                    // SAFETY: the length of `to` was checked; a chunk holds whole vectors.
                    unsafe {
                        let mut half = [[s.splat(T::ZERO); 3]; MOST];
                        for b in 0..3 {
                            let column = A::filter(
                                s,
                                std::array::from_fn(|a| s.load(raw[a][b].as_ptr().add(v))),
                            );
                            for i in 0..points {
                                half[i][b] = column[i];
                            }
                        }
                        for i in 0..points {
                            let row = A::filter(s, half[i]);
                            for j in 0..points {
                                let at = (i * points + j) * layout.point_stride() + v;
                                s.store(to.as_mut_ptr().add(at), row[j]);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Adds a transformed gradient to `dw`.
pub(super) struct Back<'a, T> {
    pub tile: Tile,
    pub from: &'a [T],
    pub dw: ViewMut<'a, T>,
}

impl<T: Float> Kernel<T> for Back<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        match self.tile {
            Tile::Two => self.with::<S, Two>(s),
            Tile::Four => self.with::<S, Four>(s),
        }
    }
}

impl<T: Float> Back<'_, T> {
    #[inline(always)]
    fn with<S: Lanes<T>, A: Algorithm<T, S>>(mut self, s: S) {
        let (dims, strides) = (self.dw.dims(), self.dw.strides());
        let layout = Layout::new(dims[0], dims[1].next_multiple_of(CHUNK));
        let points = A::POINTS;
        assert!(self.from.len() >= layout.len(points * points) && dims[2..] == [3, 3]);
        let mut raw = [[[T::ZERO; CHUNK]; 3]; 3];
        for chunk in 0..layout.chunks {
            let lanes = CHUNK.min(dims[0] - chunk * CHUNK);
            for c in 0..dims[1] {
                let from = &self.from[chunk * layout.chunk_stride() + c * CHUNK..];
                for v in (0..CHUNK).step_by(S::LANES) {
                    // SAFETY: the length of `from` was checked; a chunk holds whole vectors.
                    unsafe {
                        let mut half = [[s.splat(T::ZERO); MOST]; 3];
                        for j in 0..points {
                            let mut column = [s.splat(T::ZERO); MOST];
                            for i in 0..points {
                                let at = (i * points + j) * layout.point_stride() + v;
                                column[i] = s.load(from.as_ptr().add(at));
                            }
                            let column = A::filter_adjoint(s, column);
                            for a in 0..3 {
                                half[a][j] = column[a];
                            }
                        }
                        for a in 0..3 {
                            let row = A::filter_adjoint(s, half[a]);
                            for b in 0..3 {
                                s.store(raw[a][b].as_mut_ptr().add(v), row[b]);
                            }
                        }
                    }
                }
                let first = chunk * CHUNK * strides[0] + c * strides[1];
                for l in 0..lanes {
                    for (a, row) in raw.iter().enumerate() {
                        for (b, value) in row.iter().enumerate() {
                            let at = first + l * strides[0] + a * strides[2] + b;
                            // SAFETY: `chunk · CHUNK + l` and `c` are inside their axes, and the view is
                            // exclusively ours.
                            unsafe { *self.dw.as_mut_ptr().add(at) += value[l] };
                        }
                    }
                }
            }
        }
    }
}
