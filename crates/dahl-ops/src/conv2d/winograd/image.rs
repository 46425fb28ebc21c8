//! Images: into the transformed domain tile by tile, and results back out of it.
//!
//! Vectors hold channels. A strip of tiles of one sample is first turned from rows of pixels into
//! pixels of [`CHUNK`] channels, in a buffer that stays in the first-level cache; after that both
//! one-dimensional transforms run on whole vectors, whatever the size of the image.

// Loops over small arrays are unrolled into registers; iterators in their place are not always
// inlined into code for another instruction set.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use dahl_core::view::{View, ViewMut};

use super::Tile;
use super::transform::{Algorithm, Four, MOST, TILE, Two};
use crate::conv2d::pixels::{Gather, line_out};
use crate::conv2d::product::Layout;
use crate::float::Float;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, LINE, Lanes};

/// Tiles of a strip.
const STRIP: usize = 8;
/// Pixels of a strip along its width, at most.
const WIDTH: usize = STRIP * TILE + 2;
/// Elements of the buffer for a strip.
pub(super) const BUFFER: usize = MOST * WIDTH * CHUNK;

/// How the tiles of all samples are numbered: sample by sample, row by row.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Tiles along height and width.
    pub tiles: [usize; 2],
}

impl Grid {
    /// Cuts a range of tiles into strips: `f(sample, tile row, tile columns, place in range)`.
    #[inline(always)]
    fn strips(&self, range: Range<usize>, mut f: impl FnMut(usize, usize, Range<usize>, usize)) {
        let ([height, width], mut t) = (self.tiles, range.start);
        while t < range.end {
            let (n, i, j) = (t / (height * width), t / width % height, t % width);
            let end = width.min(j + STRIP).min(j + range.end - t);
            f(n, i, j..end, t - range.start);
            t += end - j;
        }
    }
}

/// Transforms the tiles in `range` of an image.
pub(super) struct Forth<'a, T> {
    pub tile: Tile,
    pub image: View<'a, T>,
    pub grid: Grid,
    pub range: Range<usize>,
    /// The image is that of an input, and tile `i` begins `shift` before pixel `i · OUT`; otherwise it
    /// is the gradient of an output and tiles do not overlap.
    pub input_shift: Option<[isize; 2]>,
    pub to: &'a mut [T],
    pub to_at: Layout,
    /// [`BUFFER`] elements.
    pub buffer: &'a mut [T],
}

impl<T: Lane> Kernel<T> for Forth<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        match (self.tile, self.input_shift) {
            (Tile::Two, Some(shift)) => self.with::<S, Two, true>(s, shift),
            (Tile::Four, Some(shift)) => self.with::<S, Four, true>(s, shift),
            (Tile::Two, None) => self.with::<S, Two, false>(s, [0, 0]),
            (Tile::Four, None) => self.with::<S, Four, false>(s, [0, 0]),
        }
    }
}

impl<T: Lane> Forth<'_, T> {
    #[inline(always)]
    fn with<S: Lanes<T>, A: Algorithm<T, S>, const INPUT: bool>(self, s: S, shift: [isize; 2]) {
        let (points, out) = (A::POINTS, A::OUT);
        let seen = if INPUT { points } else { out };
        let (channels, at) = (self.image.dims()[1], self.to_at);
        assert!(self.buffer.len() >= BUFFER && self.range.len() <= at.rows);
        assert!(self.to.len() >= at.len(points * points) && at.chunks * CHUNK >= channels);
        let to = self.to.as_mut_ptr();
        self.grid.strips(self.range, |n, i, j, place| {
            let width = j.len() * out + seen - out;
            let left = (j.start * out) as isize - shift[1];
            for chunk in 0..at.chunks {
                T::vectorised(Gather {
                    image: self.image,
                    sample: n,
                    channel: chunk * CHUNK,
                    rows: seen,
                    row_stride: WIDTH * CHUNK,
                    top: (i * out) as isize - shift[0],
                    left,
                    width,
                    buffer: &mut *self.buffer,
                });
                let buffer = self.buffer.as_mut_ptr();
                // SAFETY: lines `0..points` and pixels `0..width` lie in the buffer, and all points of
                // this chunk's tiles in `to`; both lengths were checked.
                unsafe {
                    for x in (0..width * CHUNK).step_by(S::LANES) {
                        let mut column = [s.splat(T::ZERO); MOST];
                        for r in 0..seen {
                            column[r] = s.load(buffer.add(r * WIDTH * CHUNK + x));
                        }
                        let column = if INPUT {
                            A::input(s, column)
                        } else {
                            A::output_adjoint(s, column)
                        };
                        for r in 0..points {
                            s.store(buffer.add(r * WIDTH * CHUNK + x), column[r]);
                        }
                    }
                    let first = to.add(chunk * at.chunk_stride() + place * CHUNK);
                    for t in 0..j.len() {
                        for v in (0..CHUNK).step_by(S::LANES) {
                            for r in 0..points {
                                let from = buffer.add((r * WIDTH + t * out) * CHUNK + v);
                                let mut row = [s.splat(T::ZERO); MOST];
                                for x in 0..seen {
                                    row[x] = s.load(from.add(x * CHUNK));
                                }
                                let row = if INPUT {
                                    A::input(s, row)
                                } else {
                                    A::output_adjoint(s, row)
                                };
                                for x in 0..points {
                                    let p = (r * points + x) * at.point_stride();
                                    s.store(first.add(p + t * CHUNK + v), row[x]);
                                }
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Transforms products back into the tiles in `range` of an image.
pub(super) struct Back<'a, 'v, T> {
    pub tile: Tile,
    pub from: &'a [T],
    pub from_at: Layout,
    pub grid: Grid,
    pub range: Range<usize>,
    pub bias: Option<View<'a, T>>,
    pub relu: bool,
    pub image: &'a mut ViewMut<'v, T>,
}

impl<T: Float> Kernel<T> for Back<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        match self.tile {
            Tile::Two => self.with::<S, Two>(s),
            Tile::Four => self.with::<S, Four>(s),
        }
    }
}

impl<T: Float> Back<'_, '_, T> {
    #[inline(always)]
    fn with<S: Lanes<T>, A: Algorithm<T, S>>(self, s: S) {
        let (points, out, at) = (A::POINTS, A::OUT, self.from_at);
        let ([_, channels, height, width], strides) = (self.image.dims(), self.image.strides());
        assert!(self.from.len() >= at.len(points * points) && self.range.len() <= at.rows);
        assert!(at.chunks == channels.div_ceil(CHUNK));
        let to = self.image.as_mut_ptr();
        let zero = s.splat(T::ZERO);
        // As many tiles as fill the columns that are turned at a time.
        let group = LINE / out;
        let mut pixels = [[[T::ZERO; CHUNK]; LINE]; TILE];
        for chunk in 0..at.chunks {
            let lanes = CHUNK.min(channels - chunk * CHUNK);
            let mut bias = [T::ZERO; CHUNK];
            if let Some(b) = self.bias {
                bias[..lanes].copy_from_slice(&b.row([0, 0, 0])[chunk * CHUNK..][..lanes]);
            }
            self.grid.strips(self.range.clone(), |n, i, j, place| {
                for t in j.clone().step_by(group) {
                    let count = group.min(j.end - t);
                    for g in 0..count {
                        for v in (0..CHUNK).step_by(S::LANES) {
                            // SAFETY: the length of `from` was checked for all points, chunks and
                            // tiles; bias and pixels are whole chunks.
                            unsafe {
                                let tile = place + t - j.start + g;
                                let from = self
                                    .from
                                    .as_ptr()
                                    .add(chunk * at.chunk_stride() + tile * CHUNK + v);
                                let bias = s.load(bias.as_ptr().add(v));
                                let mut half = [[zero; MOST]; TILE];
                                for x in 0..points {
                                    let mut column = [zero; MOST];
                                    for r in 0..points {
                                        column[r] =
                                            s.load(from.add((r * points + x) * at.point_stride()));
                                    }
                                    let column = A::output(s, column);
                                    for r in 0..out {
                                        half[r][x] = column[r];
                                    }
                                }
                                for r in 0..out {
                                    let row = A::output(s, half[r]);
                                    for x in 0..out {
                                        let value = s.add(row[x], bias);
                                        // Zero first: not-a-number stays.
                                        let value =
                                            if self.relu { s.max(zero, value) } else { value };
                                        s.store(pixels[r][g * out + x].as_mut_ptr().add(v), value);
                                    }
                                }
                            }
                        }
                    }
                    let (h, w) = (i * out, t * out);
                    let columns = (count * out).min(width - w);
                    let first = n * strides[0] + chunk * CHUNK * strides[1] + w;
                    for r in 0..out.min(height - h) {
                        // SAFETY: `lanes` channels, row `h + r` and `columns` columns from `w` on are
                        // inside the image, which is exclusively ours.
                        unsafe {
                            let to = to.add(first + (h + r) * strides[2]);
                            line_out(s, &pixels[r][..columns], to, strides[1], lanes);
                        }
                    }
                }
            });
        }
    }
}
