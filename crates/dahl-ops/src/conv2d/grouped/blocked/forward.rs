//! Depthwise convolutions of turned planes, and their gradients by the input.

use dahl_core::{View, ViewMut};

use super::{Parts, Place, Turned, blocks, turn_in, turn_rows_out};
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};

/// `y[c, i, j] = Σ w[c, a, b] · x[c, i·stride + a·dilation, …]`.
pub(in super::super) struct Depthwise<'a, T> {
    pub(in super::super) turned: Turned,
    pub(in super::super) x: View<'a, T>,
    pub(in super::super) w: View<'a, T>,
    /// Whether the kernel is turned round.
    pub(in super::super) flipped: bool,
    pub(in super::super) bias: Option<&'a [T]>,
    pub(in super::super) relu: bool,
    pub(in super::super) y: ViewMut<'a, T>,
    pub(in super::super) scratch: &'a mut [T],
}

impl<T: Lane> Kernel<T> for Depthwise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let (t, [samples, channels, _, columns]) = (self.turned, self.y.dims());
        let parts = t.parts(self.scratch);
        let Parts {
            strip,
            rows,
            weights,
            ..
        } = parts;
        for block in blocks(channels) {
            let c = block.channel;
            for a in 0..t.p.kernel[0] {
                let row = self.w.row([c, 0, a]).as_ptr();
                // SAFETY: a row of the kernel of sixteen channels.
                unsafe {
                    let to = weights.add(a * t.p.kernel[1] * CHUNK);
                    turn_in(s, row, self.w.strides()[0], t.p.kernel[1], to);
                }
            }
            for place in t.places(samples) {
                let Place { sample, row, count } = place;
                // SAFETY: sixteen channels from `c` on exist; the parts are as long as `lens` says.
                unsafe {
                    t.prepare(s, self.x, block, place, &parts);
                    for v in (0..CHUNK).step_by(S::LANES) {
                        let start = match self.bias {
                            Some(bias) => s.load(bias[c + v..].as_ptr()),
                            None => s.splat(T::ZERO),
                        };
                        let from = [strip.add(v), weights.add(v)];
                        self.outputs(s, [row, count], start, from, rows.add(v));
                    }
                    let to = self.y.row([sample, c, row]).as_mut_ptr();
                    turn_rows_out(s, rows, to, self.y.strides(), [count, columns]);
                }
            }
        }
    }
}

impl<T: Lane> Depthwise<'_, T> {
    /// `count` rows of outputs from `first` on, for as many channels as a vector has.
    ///
    /// # Safety
    /// The strip is prepared; filters are turned; `out` holds the strip's outputs.
    #[inline(always)]
    unsafe fn outputs<S: Lanes<T>>(
        &self,
        s: S,
        [first, count]: [usize; 2],
        start: S::V,
        [from, w]: [*mut T; 2],
        out: *mut T,
    ) {
        let (t, columns) = (&self.turned, self.turned.p.output[1]);
        // SAFETY: the caller's promise.
        unsafe {
            if t.p.kernel == [3, 3] {
                return self.three(s, count, start, [from, w], out);
            }
            for i in 0..count {
                // Kernel rows that meet nothing but padding are left out: a good part of a large kernel on a small plane.
                let (lo, hi) = t.p.inside(first + i, 1, t.source[0]);
                let rows = [lo, hi].map(|r| r.div_ceil(t.p.dilation[0]));
                let mut j = 0;
                while j < columns {
                    let (at, to) = (from.add(t.first(i, j)), out.add((i * columns + j) * CHUNK));
                    // Enough sums at a time that none waits for another.
                    j += match columns - j {
                        7.. if columns % 7 == 0 => self.some::<7, S>(s, start, rows, [at, w], to),
                        8.. => self.some::<8, S>(s, start, rows, [at, w], to),
                        4.. => self.some::<4, S>(s, start, rows, [at, w], to),
                        2.. => self.some::<2, S>(s, start, rows, [at, w], to),
                        _ => self.some::<1, S>(s, start, rows, [at, w], to),
                    };
                }
            }
        }
    }

    /// The place of a tap's weights.
    #[inline(always)]
    fn weight(&self, a: usize, b: usize) -> usize {
        let [kh, kw] = self.turned.p.kernel;
        let [a, b] = match self.flipped {
            true => [kh - 1 - a, kw - 1 - b],
            false => [a, b],
        };
        (a * kw + b) * CHUNK
    }

    /// A 3×3 kernel: all weights in registers, a sum for each of its columns.
    ///
    /// # Safety
    /// As `outputs`.
    #[inline(always)]
    unsafe fn three<S: Lanes<T>>(
        &self,
        s: S,
        count: usize,
        start: S::V,
        [from, w]: [*mut T; 2],
        out: *mut T,
    ) {
        let (t, columns, zero) = (&self.turned, self.turned.p.output[1], s.splat(T::ZERO));
        // SAFETY: the caller's promise.
        unsafe {
            let mut weights = [[zero; 3]; 3];
            for (a, row) in weights.iter_mut().enumerate() {
                for (b, weight) in row.iter_mut().enumerate() {
                    *weight = s.load(w.add(self.weight(a, b)));
                }
            }
            let (down, right, step) = (t.tap(1, 0), t.tap(0, 1), t.p.stride[1] * CHUNK);
            for i in 0..count {
                let mut at = from.add(t.first(i, 0));
                for j in 0..columns {
                    let mut sums = [start, zero, zero];
                    for (a, row) in weights.iter().enumerate() {
                        for (b, &weight) in row.iter().enumerate() {
                            let x = s.load(at.add(a * down + b * right));
                            sums[b] = s.madd(weight, x, sums[b]);
                        }
                    }
                    let sum = s.add(s.add(sums[0], sums[1]), sums[2]);
                    let sum = if self.relu { s.relu(sum) } else { sum };
                    s.store(out.add((i * columns + j) * CHUNK), sum);
                    at = at.add(step);
                }
            }
        }
    }

    /// `N` outputs of a row with the kernel's rows `lo..hi`. Returns `N`.
    ///
    /// # Safety
    /// As `outputs`, from the first tap of the first output on.
    #[inline(always)]
    unsafe fn some<const N: usize, S: Lanes<T>>(
        &self,
        s: S,
        start: S::V,
        [lo, hi]: [usize; 2],
        [from, w]: [*mut T; 2],
        out: *mut T,
    ) -> usize {
        let (t, [_, kw]) = (&self.turned, self.turned.p.kernel);
        let step = t.p.stride[1] * CHUNK;
        let mut sums = [start; N];
        // SAFETY: the caller's promise.
        unsafe {
            for a in lo..hi {
                for b in 0..kw {
                    let weight = s.load(w.add(self.weight(a, b)));
                    let at = from.add(t.tap(a, b));
                    for (k, sum) in sums.iter_mut().enumerate() {
                        *sum = s.madd(weight, s.load(at.add(k * step)), *sum);
                    }
                }
            }
            for (k, &sum) in sums.iter().enumerate() {
                let sum = if self.relu { s.relu(sum) } else { sum };
                s.store(out.add(k * CHUNK), sum);
            }
        }
        N
    }
}
