//! Matrix products, one per point of a transformed domain, on operands that were already written in
//! the order in which registers want them.
//!
//! An image has [`CHUNK`] channels side by side, then tiles (or pixels), then chunks of channels, then
//! points; a filter has channels in place of tiles. Both products keep a block of the result in registers: rows × two vectors of columns.
//! Nothing is copied or packed here.

// Loops over small arrays are unrolled into registers; iterators in their place are not always
// inlined into code for another instruction set.
#![allow(clippy::needless_range_loop)]

use crate::float::Float;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};

/// Where a matrix per point lies: `[point][chunk][row][CHUNK]`.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Chunks of channels.
    pub chunks: usize,
    /// Rows of a chunk: tiles of an image, channels of a filter.
    pub rows: usize,
}

impl Layout {
    pub(super) fn new(channels: usize, rows: usize) -> Self {
        Layout {
            chunks: channels.div_ceil(CHUNK),
            rows,
        }
    }

    /// Elements between chunks.
    pub(super) fn chunk_stride(&self) -> usize {
        self.rows * CHUNK
    }

    /// Elements between points. One chunk of padding keeps points, which are written together, from
    /// all falling on the same lines of the cache.
    pub(super) fn point_stride(&self) -> usize {
        self.chunks * self.chunk_stride() + CHUNK
    }

    pub(super) fn len(&self, points: usize) -> usize {
        points * self.point_stride()
    }
}

/// `result[p] (+)= left[p] · right[p]` for every point.
pub(super) struct Product<'a, T> {
    pub points: usize,
    /// Rows of the result.
    pub rows: usize,
    /// Length of the sums.
    pub depth: usize,
    pub left: &'a [T],
    pub left_at: Layout,
    pub right: &'a [T],
    pub right_at: Layout,
    pub result: &'a mut [T],
    pub result_at: Layout,
    /// Sums run over the tiles of two images and are added to a filter, instead of over the channels
    /// of an image and a filter and written to an image.
    pub over_tiles: bool,
}

impl<T: Float> Kernel<T> for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        assert!(self.left.len() >= self.left_at.len(self.points));
        assert!(self.right.len() >= self.right_at.len(self.points));
        assert!(self.result.len() >= self.result_at.len(self.points));
        assert!(self.right_at.chunks == self.result_at.chunks && self.rows <= self.result_at.rows);
        if self.over_tiles {
            assert!(self.depth <= self.left_at.rows.min(self.right_at.rows));
            assert!(self.rows == self.left_at.chunks * CHUNK);
            self.all::<S, true>(s);
        } else {
            assert!(self.depth <= self.right_at.rows && self.depth <= self.left_at.chunks * CHUNK);
            assert!(self.rows <= self.left_at.rows);
            self.all::<S, false>(s);
        }
    }
}

impl<T: Float> Product<'_, T> {
    #[inline(always)]
    fn all<S: Lanes<T>, const OVER_TILES: bool>(self, s: S) {
        let vectors = self.right_at.chunks * CHUNK / S::LANES;
        for p in 0..self.points {
            let block = Block::<T, S> {
                s,
                depth: self.depth,
                left: self.left[p * self.left_at.point_stride()..].as_ptr(),
                left_chunk: self.left_at.chunk_stride(),
                right: self.right[p * self.right_at.point_stride()..].as_ptr(),
                right_chunk: self.right_at.chunk_stride(),
                result: self.result[p * self.result_at.point_stride()..].as_mut_ptr(),
                result_chunk: self.result_at.chunk_stride(),
            };
            let mut v = 0;
            while v < vectors {
                // SAFETY: `run` checked every layout against its slice, and rows, depth and vectors
                // against the layouts.
                unsafe {
                    if v + 1 < vectors {
                        block.column::<2, OVER_TILES>(self.rows, v);
                    } else {
                        block.column::<1, OVER_TILES>(self.rows, v);
                    }
                }
                v += 2;
            }
        }
    }
}

/// The operands at one point.
struct Block<T: Float, S: Lanes<T>> {
    s: S,
    depth: usize,
    left: *const T,
    left_chunk: usize,
    right: *const T,
    right_chunk: usize,
    result: *mut T,
    result_chunk: usize,
}

impl<T: Float, S: Lanes<T>> Block<T, S> {
    /// All rows of `V` vectors of columns, from vector `v` on.
    ///
    /// # Safety
    /// The operands hold `rows`, `depth` and vectors up to `v + V`.
    #[inline(always)]
    unsafe fn column<const V: usize, const OVER_TILES: bool>(&self, rows: usize, v: usize) {
        let mut row = 0;
        while row < rows {
            // Rows of the left operand are evenly spaced only inside a chunk if they are channels.
            let left = if OVER_TILES {
                (CHUNK - row % CHUNK).min(rows - row)
            } else {
                rows - row
            };
            // SAFETY: the caller's promise; every block ends at or before `rows`.
            row += unsafe {
                if S::ROWS >= 12 && left >= 12 && !OVER_TILES {
                    self.block::<12, V, OVER_TILES>(row, v)
                } else if S::ROWS >= 8 && left >= 8 {
                    self.block::<8, V, OVER_TILES>(row, v)
                } else if S::ROWS >= 6 && left >= 6 {
                    self.block::<6, V, OVER_TILES>(row, v)
                } else if left >= 4 {
                    self.block::<4, V, OVER_TILES>(row, v)
                } else if left >= 2 {
                    self.block::<2, V, OVER_TILES>(row, v)
                } else {
                    self.block::<1, V, OVER_TILES>(row, v)
                }
            };
        }
    }

    /// `R` rows of `V` vectors, held in registers. Returns `R`.
    ///
    /// # Safety
    /// As [`Block::column`], for these rows.
    #[inline(always)]
    unsafe fn block<const R: usize, const V: usize, const OVER_TILES: bool>(
        &self,
        row: usize,
        v: usize,
    ) -> usize {
        let s = self.s;
        let place = |v: usize, stride: usize| v * S::LANES / CHUNK * stride + v * S::LANES % CHUNK;
        // SAFETY: the caller's promise, for the layout in the module's comment.
        unsafe {
            let mut sums = [[s.splat(T::ZERO); V]; R];
            let mut right = [self.right; V];
            for i in 0..V {
                right[i] = self.right.add(place(v + i, self.right_chunk));
            }
            if OVER_TILES {
                let mut left = self.left.add(row / CHUNK * self.left_chunk + row % CHUNK);
                for _ in 0..self.depth {
                    let mut b = sums[0];
                    for i in 0..V {
                        b[i] = s.load(right[i]);
                        right[i] = right[i].add(CHUNK);
                    }
                    for r in 0..R {
                        let a = s.splat(*left.add(r));
                        for i in 0..V {
                            sums[r][i] = s.madd(a, b[i], sums[r][i]);
                        }
                    }
                    left = left.add(CHUNK);
                }
            } else {
                let mut done = 0;
                let mut chunk = self.left.add(row * CHUNK);
                while done < self.depth {
                    let mut left = chunk;
                    for _ in 0..CHUNK.min(self.depth - done) {
                        let mut b = sums[0];
                        for i in 0..V {
                            b[i] = s.load(right[i]);
                            right[i] = right[i].add(CHUNK);
                        }
                        for r in 0..R {
                            let a = s.splat(*left.add(r * CHUNK));
                            for i in 0..V {
                                sums[r][i] = s.madd(a, b[i], sums[r][i]);
                            }
                        }
                        left = left.add(1);
                    }
                    chunk = chunk.wrapping_add(self.left_chunk);
                    done += CHUNK;
                }
            }
            for r in 0..R {
                for i in 0..V {
                    let to = self
                        .result
                        .add(place(v + i, self.result_chunk) + (row + r) * CHUNK);
                    let sum = if OVER_TILES {
                        s.add(s.load(to), sums[r][i])
                    } else {
                        sums[r][i]
                    };
                    s.store(to, sum);
                }
            }
        }
        R
    }
}
