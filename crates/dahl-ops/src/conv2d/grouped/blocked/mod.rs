//! Depthwise convolutions of narrow planes, and of all strides: sixteen channels at a time, one vector for each pixel.
//!
//! Rows of a few pixels leave most of a vector empty, so planes are turned: pixel by pixel, the channels of a block side by
//! side, zeros around the plane. Taps are then whole vectors wherever they lie. What is computed is turned back. The last
//! block begins where the last sixteen channels do, so it may compute some again: to the same bits.

mod filter_grad;
mod forward;

use dahl_core::View;

pub(super) use self::filter_grad::DepthwiseFilter;
pub(super) use self::forward::Depthwise;
use super::planes::Planes;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, COLUMNS, LINE, Lanes};

/// Elements of a prepared strip: it shares the first-level cache with what is computed from it.
const STRIP: usize = 12_288;

/// Whether planes are better turned: all but wide ones of stride 1, along whose rows vectors are full.
pub(super) fn suits(p: &Planes, channels: usize, outputs: usize, groups: usize) -> bool {
    let depthwise = p.channels == 1 && outputs == groups && channels == groups;
    let widest = match p.kernel {
        [3, 3] => 24,
        [5, _] => 32,
        [7, _] => 48,
        _ => usize::MAX,
    };
    let slides = p.stride == [1, 1] && p.dilation[0] == 1;
    depthwise && channels >= CHUNK && (!slides || p.output[1] < widest)
}

/// Sixteen channels from `channel` on.
#[derive(Clone, Copy)]
struct Block {
    channel: usize,
    /// How many of its first channels the block before it has had.
    again: usize,
}

/// The blocks of so many channels.
fn blocks(channels: usize) -> impl Iterator<Item = Block> {
    (0..channels).step_by(CHUNK).map(move |first| {
        let channel = first.min(channels - CHUNK);
        let again = first - channel;
        Block { channel, again }
    })
}

/// `count` output rows from `row` on, of a sample.
#[derive(Clone, Copy)]
struct Place {
    sample: usize,
    row: usize,
    count: usize,
}

/// The parts of scratch memory.
struct Parts<T> {
    strip: *mut T,
    /// What is turned before it is put into the strip.
    stage: *mut T,
    /// Output rows.
    rows: *mut T,
    /// A chunk for each weight.
    weights: *mut T,
}

/// Where things lie in scratch memory.
#[derive(Clone, Copy)]
pub(super) struct Turned {
    p: Planes,
    /// Height and width of the source.
    source: [usize; 2],
    /// Output rows of a strip.
    strip: usize,
}

impl Turned {
    pub(super) fn new(p: Planes, source: [usize; 2]) -> Self {
        let fixed = (p.kernel[0] - 1) * p.dilation[0] + 1;
        let (wide, step) = (Self::width(&p) * CHUNK, p.stride[0]);
        let rows = (STRIP / wide).saturating_sub(fixed) / step + 1;
        let strip = rows.max(4).min(p.output[0]);
        Turned { p, source, strip }
    }

    /// Pixels of a padded row.
    fn width(p: &Planes) -> usize {
        (p.output[1] - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1
    }

    fn taps(&self) -> usize {
        self.p.kernel[0] * self.p.kernel[1]
    }

    /// Elements of the prepared strip, of what is turned before it is put there, of output rows, and of the filters.
    fn lens(&self) -> [usize; 4] {
        let p = &self.p;
        let stage = match self.at_once() {
            true => self.source[0] * self.source[1],
            false => self.source[1],
        };
        [
            p.rows(self.strip) * Self::width(p),
            stage,
            self.strip * p.output[1],
            self.taps(),
        ]
        .map(|pixels| pixels * CHUNK)
    }

    /// Whether narrow planes are turned in one go, where they lie in one piece.
    fn at_once(&self) -> bool {
        self.strip == self.p.output[0] && self.source[1] < LINE
    }

    /// Elements of scratch memory.
    pub(super) fn scratch_len(&self) -> usize {
        self.lens().iter().sum()
    }

    /// The parts, one behind the other.
    fn parts<T>(&self, scratch: &mut [T]) -> Parts<T> {
        assert!(
            scratch.len() >= self.scratch_len(),
            "grouped conv2d: scratch"
        );
        let ([strip, stage, rows, _], buffer) = (self.lens(), scratch.as_mut_ptr());
        // SAFETY: together they are not longer than the memory.
        unsafe {
            Parts {
                strip: buffer,
                stage: buffer.add(strip),
                rows: buffer.add(strip + stage),
                weights: buffer.add(strip + stage + rows),
            }
        }
    }

    /// The strips of a block of channels, sample by sample.
    fn places(&self, samples: usize) -> impl Iterator<Item = Place> {
        let (rows, strip) = (self.p.output[0], self.strip);
        (0..samples).flat_map(move |sample| {
            (0..rows).step_by(strip).map(move |row| {
                let count = strip.min(rows - row);
                Place { sample, row, count }
            })
        })
    }

    /// Prepares the strip of a place: zeros, and what is read of the source. Blocks and places come in their order.
    ///
    /// # Safety
    /// The parts are those of [`Turned::parts`]; the source has the block's channels and the place's sample.
    #[inline(always)]
    unsafe fn prepare<T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        x: View<'_, T>,
        block: Block,
        place: Place,
        parts: &Parts<T>,
    ) {
        let Place { sample, row, count } = place;
        let first = (block.channel + block.again, sample) == (0, 0);
        // SAFETY: the parts are as long as `lens` says.
        unsafe {
            // A strip that is the whole plane has its zeros in the same places every time.
            if self.strip < self.p.output[0] || first {
                clear(s, parts.strip, self.lens()[0]);
            }
            let from = [sample, block.channel];
            self.fill(s, x, from, [row, count], parts.strip, parts.stage);
        }
    }

    /// Prepares the rows that `count` outputs from `i` on read, of sixteen channels. `to` holds zeros wherever this writes
    /// nothing.
    ///
    /// # Safety
    /// `to` and `stage` are as long as `lens` says; the channels exist.
    #[inline(always)]
    unsafe fn fill<T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        x: View<'_, T>,
        [sample, channel]: [usize; 2],
        [i, count]: [usize; 2],
        to: *mut T,
        stage: *mut T,
    ) {
        let (p, [height, width], wide) = (&self.p, self.source, Self::width(&self.p));
        let strides = x.strides();
        let once = self.at_once() && (strides[2] == width || height == 1);
        let from = x.row([sample, channel, 0]).as_ptr();
        // Columns `lo..hi` are read by some output, the first of them at `place`.
        let lo = (p.first[1].max(0) as usize).div_ceil(p.spread[1]);
        let end = (p.first[1] + wide.cast_signed()).max(0) as usize;
        let hi = end.div_ceil(p.spread[1]).min(width);
        if lo >= hi {
            return;
        }
        let place = ((lo * p.spread[1]).cast_signed() - p.first[1]) as usize;
        // SAFETY: all of the plane's pixels, and rows and columns inside the padded strip.
        unsafe {
            if once {
                turn_in(s, from, strides[1], height * width, stage);
            }
            for h in 0..height {
                let r =
                    (h * p.spread[0]).cast_signed() - p.first[0] - (i * p.stride[0]).cast_signed();
                if r < 0 || r as usize >= p.rows(count) {
                    continue;
                }
                let row = to.add((r as usize * wide + place) * CHUNK);
                let mut held = stage.add((h * width + lo) * CHUNK);
                if !once {
                    let at = from.add(h * strides[2] + lo);
                    held = if p.spread[1] == 1 { row } else { stage };
                    turn_in(s, at, strides[1], hi - lo, held);
                }
                if held != row {
                    for k in 0..hi - lo {
                        let (from, to) = (held.add(k * CHUNK), row.add(k * p.spread[1] * CHUNK));
                        for v in (0..CHUNK).step_by(S::LANES) {
                            s.store(to.add(v), s.load(from.add(v)));
                        }
                    }
                }
            }
        }
    }

    /// Elements from the first tap of a pixel to that in row `a`, column `b` of the kernel.
    #[inline(always)]
    fn tap(&self, a: usize, b: usize) -> usize {
        let p = &self.p;
        (a * p.dilation[0] * Self::width(p) + b * p.dilation[1]) * CHUNK
    }

    /// Elements from the strip's beginning to the first tap of an output.
    #[inline(always)]
    fn first(&self, i: usize, j: usize) -> usize {
        let p = &self.p;
        (i * p.stride[0] * Self::width(p) + j * p.stride[1]) * CHUNK
    }
}

/// Zeros.
///
/// # Safety
/// `n` elements, a multiple of [`CHUNK`], can be written.
#[inline(always)]
unsafe fn clear<T: Lane, S: Lanes<T>>(s: S, to: *mut T, n: usize) {
    for k in (0..n).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe { s.store(to.add(k), s.splat(T::ZERO)) };
    }
}

/// Turns a run of `n` pixels: `to[k · CHUNK + r] = from[r · stride + k]`.
///
/// # Safety
/// The elements named can be read and written.
#[inline(always)]
unsafe fn turn_in<T: Lane, S: Lanes<T>>(s: S, from: *const T, stride: usize, n: usize, to: *mut T) {
    // SAFETY: the caller's promise; the last pixels are turned together with some before them, twice.
    unsafe {
        if n >= LINE {
            for k in (0..n).step_by(LINE) {
                let k = k.min(n - LINE);
                s.lines_in(from.add(k), stride, to.add(k * CHUNK));
            }
        } else if n >= COLUMNS {
            for k in (0..n).step_by(COLUMNS) {
                let k = k.min(n - COLUMNS);
                s.columns_in(from.add(k), stride, to.add(k * CHUNK));
            }
        } else {
            for (k, r) in (0..n).flat_map(|k| (0..CHUNK).map(move |r| (k, r))) {
                *to.add(k * CHUNK + r) = *from.add(r * stride + k);
            }
        }
    }
}

/// The way back: `to[r · stride + k] = from[k · CHUNK + r]`.
///
/// # Safety
/// The elements named can be read and written.
#[inline(always)]
unsafe fn turn_out<T: Lane, S: Lanes<T>>(
    s: S,
    from: *const T,
    to: *mut T,
    stride: usize,
    n: usize,
) {
    // SAFETY: as `turn_in`.
    unsafe {
        if n >= LINE {
            for k in (0..n).step_by(LINE) {
                let k = k.min(n - LINE);
                s.lines_out(from.add(k * CHUNK), to.add(k), stride);
            }
        } else if n >= COLUMNS {
            for k in (0..n).step_by(COLUMNS) {
                let k = k.min(n - COLUMNS);
                s.columns_out(from.add(k * CHUNK), to.add(k), stride);
            }
        } else {
            for (k, r) in (0..n).flat_map(|k| (0..CHUNK).map(move |r| (k, r))) {
                *to.add(r * stride + k) = *from.add(k * CHUNK + r);
            }
        }
    }
}

/// Turns rows of so many columns; those of the destination lie one behind the other.
///
/// # Safety
/// As [`turn_in`], for each row.
#[inline(always)]
unsafe fn turn_rows_in<T: Lane, S: Lanes<T>>(
    s: S,
    from: *const T,
    [_, plane, line, _]: [usize; 4],
    [count, columns]: [usize; 2],
    to: *mut T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if line == columns {
            return turn_in(s, from, plane, count * columns, to);
        }
        for r in 0..count {
            turn_in(
                s,
                from.add(r * line),
                plane,
                columns,
                to.add(r * columns * CHUNK),
            );
        }
    }
}

/// The way back; the source's rows lie one behind the other.
///
/// # Safety
/// As [`turn_out`], for each row.
#[inline(always)]
unsafe fn turn_rows_out<T: Lane, S: Lanes<T>>(
    s: S,
    from: *const T,
    to: *mut T,
    [_, plane, line, _]: [usize; 4],
    [count, columns]: [usize; 2],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if line == columns {
            return turn_out(s, from, to, plane, count * columns);
        }
        for r in 0..count {
            turn_out(
                s,
                from.add(r * columns * CHUNK),
                to.add(r * line),
                plane,
                columns,
            );
        }
    }
}
