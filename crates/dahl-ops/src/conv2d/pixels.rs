//! Between rows of pixels, one channel after the other, and pixels of [`CHUNK`] channels, which is what
//! vectors hold. Transposition, and nothing else.

use dahl_core::view::View;

use crate::float::Float;
use crate::simd::lanes::{CHUNK, COLUMNS, Kernel, LINE, Lanes};

/// Turns the rows of a strip of up to [`CHUNK`] channels into pixels of channels; pixels and channels
/// that the image has not are zero.
///
/// A kernel of its own, rather than a part of its callers, so that its code exists once: repeated for
/// every row of every algorithm it overflows the instruction cache.
pub(super) struct Gather<'a, T> {
    pub image: View<'a, T>,
    pub sample: usize,
    pub channel: usize,
    pub rows: usize,
    /// Elements between rows of the buffer.
    pub row_stride: usize,
    /// First row and column in the image; may lie outside.
    pub top: isize,
    pub left: isize,
    pub width: usize,
    pub buffer: &'a mut [T],
}

impl<T: Float> Kernel<T> for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let ([_, channels, height, width], strides) = (self.image.dims(), self.image.strides());
        assert!(self.sample < self.image.dims()[0] && self.channel < channels);
        let lanes = CHUNK.min(channels - self.channel);
        // The pixels of the strip that the image has.
        let start = (-self.left).clamp(0, self.width as isize) as usize;
        let end = (width as isize - self.left).clamp(start as isize, self.width as isize) as usize;
        for r in 0..self.rows {
            let h = self.top + r as isize;
            let line = &mut self.buffer[r * self.row_stride..][..self.width * CHUNK];
            if h < 0 || h as usize >= height || start == end {
                clear(s, line);
                continue;
            }
            clear(s, &mut line[..start * CHUNK]);
            clear(s, &mut line[end * CHUNK..]);
            let first =
                self.sample * strides[0] + self.channel * strides[1] + h as usize * strides[2];
            // SAFETY: the row has pixels `start..end`, counted from `left`, in each of `lanes` channels.
            unsafe {
                let from = self
                    .image
                    .as_ptr()
                    .add(first + (start as isize + self.left) as usize);
                line_in(
                    s,
                    from,
                    strides[1],
                    lanes,
                    &mut line[start * CHUNK..end * CHUNK],
                );
            }
        }
    }
}

/// Zeros whole pixels. These are few: a call to `memset` would cost more.
#[inline(always)]
fn clear<T: Float, S: Lanes<T>>(s: S, pixels: &mut [T]) {
    for x in (0..pixels.len()).step_by(S::LANES) {
        // SAFETY: pixels are whole vectors.
        unsafe { s.store(pixels.as_mut_ptr().add(x), s.splat(T::ZERO)) };
    }
}

/// Turns one row of `lanes` channels, which lie `stride` apart, into the pixels of `line`.
///
/// # Safety
/// As many elements as `line` has pixels can be read in every channel.
#[inline(always)]
unsafe fn line_in<T: Float, S: Lanes<T>>(
    s: S,
    from: *const T,
    stride: usize,
    lanes: usize,
    line: &mut [T],
) {
    let (to, len) = (line.as_mut_ptr(), line.len() / CHUNK);
    // SAFETY: the caller's promise; groups of columns end at `len`, the last overlapping the one
    // before it if need be.
    unsafe {
        if lanes == CHUNK && len >= COLUMNS {
            let mut x = 0;
            while x + LINE <= len {
                s.lines_in(from.add(x), stride, to.add(x * CHUNK));
                x += LINE;
            }
            while x < len {
                let at = x.min(len - COLUMNS);
                s.columns_in(from.add(at), stride, to.add(at * CHUNK));
                x += COLUMNS;
            }
            return;
        }
        for (x, pixel) in line.chunks_exact_mut(CHUNK).enumerate() {
            for (l, value) in pixel[..lanes].iter_mut().enumerate() {
                *value = *from.add(l * stride + x);
            }
            pixel[lanes..].fill(T::ZERO);
        }
    }
}

/// The way back: `lanes` channels of some pixels, at most [`LINE`], to rows that lie `stride` apart.
///
/// # Safety
/// These rows can be written.
#[inline(always)]
pub(super) unsafe fn line_out<T: Float, S: Lanes<T>>(
    s: S,
    pixels: &[[T; CHUNK]],
    to: *mut T,
    stride: usize,
    lanes: usize,
) {
    let (from, len) = (pixels.as_flattened().as_ptr(), pixels.len());
    // SAFETY: the caller's promise; groups of columns end at `len`, as in `line_in`.
    unsafe {
        if lanes == CHUNK && len == LINE {
            s.lines_out(from, to, stride);
        } else if lanes == CHUNK && len >= COLUMNS {
            for x in (0..len).step_by(COLUMNS) {
                let at = x.min(len - COLUMNS);
                s.columns_out(from.add(at * CHUNK), to.add(at), stride);
            }
        } else {
            for l in 0..lanes {
                for (x, pixel) in pixels.iter().enumerate() {
                    *to.add(l * stride + x) = pixel[l];
                }
            }
        }
    }
}
