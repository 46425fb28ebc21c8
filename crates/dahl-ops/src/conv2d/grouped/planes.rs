//! Input planes with zeros around them, in scratch memory: a correlation then has no edges.
//!
//! ```text
//!     source row    a b c d e f         stride 1:  0 a b c d e f 0        what lies to the right of a row does not matter
//!     padding 1                         stride 2:  0 b d f                one row for each phase of the columns: the taps
//!                                                  a c e 0                of outputs that follow one another do so, too
//!                                       spread 2:  0 a 0 b 0 c …          zeros between: gradients by inputs of stride 2
//! ```
//!
//! Planes are prepared in strips of output rows, so that a strip stays in the first-level cache. Nothing here
//! multiplies.

use dahl_core::View;

use super::Grouping;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Lanes};

/// Elements of a strip: a part of the smallest first-level caches.
const STRIP: usize = 4096;

/// Output rows that kernels compute together at most; strips are multiples of it.
pub(super) const TOGETHER: usize = 4;

/// The largest padded plane that is prepared, in elements: what needs more is nearly all gaps.
const LARGEST: u128 = 1 << 24;

/// Whether planes of these extents, as large as kernel and gaps make them, can be prepared.
pub(super) fn fit(x: [usize; 4], y: [usize; 4], g: &Grouping) -> bool {
    let side = |a: usize| {
        let reach = g.window.kernel[a] as u128 * g.dilation[a] as u128;
        reach + (x[2 + a].max(y[2 + a]) as u128 + 8) * g.window.stride[a] as u128
    };
    let channels = x[1].max(y[1]) as u128;
    side(0) < LARGEST && side(1) < LARGEST && side(0) * side(1) * channels < LARGEST * 64
}

/// Where the input of a correlation lies in scratch memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    /// The place in the (spread) source that the first tap of the first output reads.
    pub(super) first: [isize; 2],
    /// Distance between outputs in the source.
    pub(super) stride: [usize; 2],
    /// Distance between elements of the source, zeros in between.
    pub(super) spread: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) kernel: [usize; 2],
    /// Extents of an output plane.
    pub(super) output: [usize; 2],
    /// Input channels of a group.
    pub(super) channels: usize,
    /// Output rows of a strip.
    pub(super) strip: usize,
}

impl Planes {
    /// The input of the forward pass.
    pub(super) fn forward(x: [usize; 4], y: [usize; 4], g: &Grouping) -> Self {
        Planes {
            first: g.window.shift.map(|s| -s),
            stride: g.window.stride,
            spread: [1, 1],
            dilation: g.dilation,
            kernel: g.window.kernel,
            output: [y[2], y[3]],
            channels: x[1] / g.groups,
            strip: 0,
        }
        .cut()
    }

    /// The output's gradient, as that of the input reads it: with the kernel turned round.
    pub(super) fn backward(dx: [usize; 4], dy: [usize; 4], g: &Grouping) -> Self {
        let first =
            |a: usize| g.window.shift[a] - ((g.window.kernel[a] - 1) * g.dilation[a]).cast_signed();
        Planes {
            first: [first(0), first(1)],
            stride: [1, 1],
            spread: g.window.stride,
            dilation: g.dilation,
            kernel: g.window.kernel,
            output: [dx[2], dx[3]],
            channels: dy[1] / g.groups,
            strip: 0,
        }
        .cut()
    }

    fn cut(mut self) -> Self {
        let each = self.channels * self.stride[1] * self.pitch();
        let rows = (STRIP / each).saturating_sub(self.rows(1)) / self.stride[0];
        let whole = (rows / TOGETHER).max(2) * TOGETHER;
        self.strip = whole.min(self.output[0].next_multiple_of(TOGETHER));
        self
    }

    /// Elements from one row to the next.
    pub(super) fn pitch(&self) -> usize {
        self.output[1] + (self.kernel[1] - 1) * self.dilation[1] / self.stride[1]
    }

    /// Rows that this many output rows read.
    pub(super) fn rows(&self, outputs: usize) -> usize {
        (outputs - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
    }

    /// Elements from one phase of the columns to the next.
    pub(super) fn phase(&self) -> usize {
        self.rows(self.strip) * self.pitch()
    }

    /// Elements from one channel to the next.
    pub(super) fn plane(&self) -> usize {
        self.stride[1] * self.phase()
    }

    /// Elements of scratch memory.
    pub(super) fn scratch_len(&self) -> usize {
        self.channels * self.plane() + 2 * CHUNK
    }

    /// The rows, of those that `count` outputs from row `i` on read, that are not all padding.
    #[inline(always)]
    pub(super) fn inside(&self, i: usize, count: usize, height: usize) -> (usize, usize) {
        let first = (i * self.stride[0]).cast_signed() + self.first[0];
        let last = ((height - 1) * self.spread[0]).cast_signed();
        let rows = self.rows(count).cast_signed();
        let lo = (-first).clamp(0, rows);
        (lo as usize, (last + 1 - first).clamp(lo, rows) as usize)
    }

    /// Prepares what `count` output rows from `i` on read of the channels from `channel` on. A vector that begins
    /// in a row and ends behind the last one finds zeros there.
    ///
    /// # Panics
    /// If `to` is shorter than [`Planes::scratch_len`].
    #[inline(always)]
    pub(super) fn fill<T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        x: View<'_, T>,
        [sample, channel]: [usize; 2],
        [i, count]: [usize; 2],
        to: &mut [T],
    ) {
        assert!(to.len() >= self.scratch_len(), "grouped conv2d: scratch");
        let ([_, _, height, width], pitch) = (x.dims(), self.pitch());
        let rows = self.rows(count);
        for c in 0..self.channels {
            for phase in 0..self.stride[1] {
                let column = phase.cast_signed() + self.first[1];
                let lead = (-column).max(0) as usize;
                let lead = lead.div_ceil(self.stride[1]).min(pitch);
                let begin = (lead * self.stride[1]).cast_signed() + column;
                let left = (width.cast_signed() - begin).max(0) as usize;
                let values = left.div_ceil(self.stride[1]).min(pitch - lead);
                let start = c * self.plane() + phase * self.phase();
                for r in 0..rows {
                    // SAFETY: rows lie in the scratch memory, which has two chunks more: every write ends less than
                    // a vector behind its row.
                    let to = unsafe { to.as_mut_ptr().add(start + r * pitch) };
                    let h = (i * self.stride[0] + r).cast_signed() + self.first[0];
                    let spread = self.spread[0].cast_signed();
                    if h < 0 || h % spread != 0 || h / spread >= height.cast_signed() {
                        // SAFETY: as above.
                        unsafe { zeros(s, to, pitch) };
                        continue;
                    }
                    let row = x.row([sample, channel + c, (h / spread) as usize]);
                    if self.spread[1] > 1 {
                        // SAFETY: as above.
                        unsafe { self.spread_row(s, row, to) };
                        continue;
                    }
                    // SAFETY: `values` elements from `begin` on, `stride` apart, lie in the row; as above.
                    unsafe {
                        zeros(s, to, lead);
                        let mut q = 0;
                        while q < values {
                            let n = S::LANES.min(values - q);
                            let from = row.as_ptr().offset(begin).add(q * self.stride[1]);
                            s.store(to.add(lead + q), pick(s, from, self.stride[1], n));
                            q += S::LANES;
                        }
                        if lead + q < pitch {
                            zeros(s, to.add(lead + q), pitch - lead - q);
                        }
                    }
                }
                // SAFETY: as above.
                unsafe { zeros(s, to.as_mut_ptr().add(start + rows * pitch), S::LANES) };
            }
        }
    }

    /// A row with zeros between its elements.
    ///
    /// # Safety
    /// A row and a vector can be written.
    #[inline(always)]
    unsafe fn spread_row<T: Lane, S: Lanes<T>>(&self, s: S, row: &[T], to: *mut T) {
        let (pitch, spread) = (self.pitch(), self.spread[1]);
        let lo = (self.first[1].max(0) as usize).div_ceil(spread);
        let end = (self.first[1] + pitch.cast_signed()).max(0) as usize;
        let hi = end.div_ceil(spread).min(row.len());
        // SAFETY: `column · spread − first` lies in `0..pitch` for the columns from `lo` to `hi`.
        unsafe {
            zeros(s, to, pitch);
            for (column, &v) in row.iter().enumerate().take(hi).skip(lo) {
                *to.offset((column * spread).cast_signed() - self.first[1]) = v;
            }
        }
    }
}

/// Zeros, `count` or more of them: whole vectors.
///
/// # Safety
/// `count` elements, rounded up to vectors, can be written.
#[inline(always)]
unsafe fn zeros<T: Lane, S: Lanes<T>>(s: S, to: *mut T, count: usize) {
    for q in (0..count).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe { s.store(to.add(q), s.splat(T::ZERO)) };
    }
}

/// `n ≤ LANES` elements from `from` on, `stride` apart; the other lanes are zero.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn pick<T: Lane, S: Lanes<T>>(s: S, from: *const T, stride: usize, n: usize) -> S::V {
    // SAFETY: the last element read is the `n`th, at `(n − 1) · stride`.
    unsafe {
        match stride {
            1 if n == S::LANES => s.load(from),
            1 => s.load_n(from, n),
            2 => {
                let all = 2 * n - 1;
                let low = all.min(S::LANES);
                let a = s.load_n(from, low);
                let b = match all - low {
                    0 => s.splat(T::ZERO),
                    rest => s.load_n(from.add(S::LANES), rest),
                };
                s.unzip(a, b).0
            }
            _ => {
                let mut held = [T::ZERO; CHUNK];
                for (i, h) in held.iter_mut().enumerate().take(n) {
                    *h = *from.add(i * stride);
                }
                s.load(held.as_ptr())
            }
        }
    }
}
