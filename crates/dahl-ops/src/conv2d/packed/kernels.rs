//! The two ends of a pass: unfolding an image, and writing products to one.

// Loops over small arrays are unrolled into registers; iterators in their place are not always
// inlined into code for another instruction set.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use dahl_core::view::{View, ViewMut};

use super::pass::{Pass, RUN};
use crate::conv2d::pixels::{Gather, line_out};
use crate::conv2d::product::Layout;
use crate::float::Float;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, LINE, Lanes};

/// Unfolds what the positions in `range` see of an image: chunks of channels, for every tap.
pub(super) struct Unfold<'a, T> {
    pub pass: Pass,
    pub image: View<'a, T>,
    pub range: Range<usize>,
    pub to: &'a mut [T],
    pub at: Layout,
    pub buffer: &'a mut [T],
}

impl<T: Lane> Kernel<T> for Unfold<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let (taps, chunks) = (self.pass.taps, self.image.dims()[1].div_ceil(CHUNK));
        assert!(self.to.len() >= self.at.len(1) && self.range.len() <= self.at.rows);
        assert!(
            self.at.chunks == taps.len() * chunks && self.buffer.len() >= taps.width(RUN) * CHUNK
        );
        let to = self.to.as_mut_ptr();
        self.pass.runs(self.range, |n, i, j, place| {
            let last = if taps.backwards { taps.count[1] - 1 } else { 0 };
            let left = taps.at(1, j.start, last);
            for a in 0..taps.count[0] {
                for chunk in 0..chunks {
                    T::vectorised(Gather {
                        image: self.image,
                        sample: n,
                        channel: chunk * CHUNK,
                        rows: 1,
                        row_stride: 0,
                        top: taps.at(0, i, a),
                        left,
                        width: taps.width(j.len()),
                        buffer: &mut *self.buffer,
                    });
                    for b in 0..taps.count[1] {
                        let seen = (taps.at(1, j.start, b) - left) as usize;
                        let tap = (a * taps.count[1] + b) * chunks + chunk;
                        // SAFETY: a run's pixels lie in the buffer and its positions in `to`, whose
                        // lengths were checked.
                        unsafe {
                            let from = self.buffer.as_ptr().add(seen * CHUNK);
                            let to = to.add(tap * self.at.chunk_stride() + place * CHUNK);
                            for p in 0..j.len() {
                                for v in (0..CHUNK).step_by(S::LANES) {
                                    let pixel = s.load(from.add(p * taps.step[1] * CHUNK + v));
                                    s.store(to.add(p * CHUNK + v), pixel);
                                }
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Writes products to the pixels `position · step + phase` of an image.
pub(super) struct Write<'a, 'v, T> {
    pub pass: Pass,
    pub from: &'a mut [T],
    pub range: Range<usize>,
    pub bias: Option<View<'a, T>>,
    pub relu: bool,
    pub step: [usize; 2],
    pub phase: [usize; 2],
    pub image: &'a mut ViewMut<'v, T>,
}

impl<T: Float> Kernel<T> for Write<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let ([_, channels, height, width], strides) = (self.image.dims(), self.image.strides());
        let (at, [rows, columns]) = (self.pass.product(), self.pass.grid);
        assert!(self.from.len() >= at.len(1) && at.chunks == channels.div_ceil(CHUNK));
        assert!((rows - 1) * self.step[0] + self.phase[0] < height);
        assert!((columns - 1) * self.step[1] + self.phase[1] < width);
        let (image, zero) = (self.image.as_mut_ptr(), s.splat(T::ZERO));
        for chunk in 0..at.chunks {
            let lanes = CHUNK.min(channels - chunk * CHUNK);
            let mut bias = [T::ZERO; CHUNK];
            if let Some(b) = self.bias {
                bias[..lanes].copy_from_slice(&b.row([0, 0, 0])[chunk * CHUNK..][..lanes]);
            }
            self.pass.runs(self.range.clone(), |n, i, j, place| {
                let pixels =
                    &mut self.from[chunk * at.chunk_stride() + place * CHUNK..][..j.len() * CHUNK];
                if self.bias.is_some() || self.relu {
                    for pixel in pixels.chunks_exact_mut(CHUNK) {
                        for v in (0..CHUNK).step_by(S::LANES) {
                            // SAFETY: pixel and bias are whole chunks.
                            unsafe {
                                let value = s.add(
                                    s.load(pixel.as_ptr().add(v)),
                                    s.load(bias.as_ptr().add(v)),
                                );
                                // Zero first: not-a-number stays.
                                let value = if self.relu { s.max(zero, value) } else { value };
                                s.store(pixel.as_mut_ptr().add(v), value);
                            }
                        }
                    }
                }
                let row = n * strides[0]
                    + chunk * CHUNK * strides[1]
                    + (i * self.step[0] + self.phase[0]) * strides[2];
                let first = row + j.start * self.step[1] + self.phase[1];
                let (pixels, _) = pixels.as_chunks::<CHUNK>();
                // SAFETY: rows, columns and channels were checked to lie in the image, which is
                // exclusively ours.
                unsafe {
                    if self.step[1] == 1 {
                        for (x, part) in pixels.chunks(LINE).enumerate() {
                            line_out(s, part, image.add(first + x * LINE), strides[1], lanes);
                        }
                    } else {
                        for l in 0..lanes {
                            for (x, pixel) in pixels.iter().enumerate() {
                                *image.add(first + l * strides[1] + x * self.step[1]) = pixel[l];
                            }
                        }
                    }
                }
            });
        }
    }
}
