//! The filter's gradient of depthwise convolutions, from turned planes.

use dahl_core::{View, ViewMut};

use super::{Parts, Place, Turned, blocks, clear, turn_rows_in};
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};

/// `dw[c, a, b] += Σ dy[c, i, j] · x[c, i·stride + a·dilation, …]`.
pub(in super::super) struct DepthwiseFilter<'a, T> {
    pub(in super::super) turned: Turned,
    pub(in super::super) x: View<'a, T>,
    pub(in super::super) dy: View<'a, T>,
    pub(in super::super) dw: ViewMut<'a, T>,
    pub(in super::super) scratch: &'a mut [T],
}

impl<T: Lane> Kernel<T> for DepthwiseFilter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let (t, [samples, channels, _, columns]) = (self.turned, self.dy.dims());
        let (parts, [kh, kw]) = (t.parts(self.scratch), t.p.kernel);
        let Parts {
            strip,
            rows,
            weights,
            ..
        } = parts;
        for block in blocks(channels) {
            let c = block.channel;
            // SAFETY: the parts are as long as `lens` says.
            unsafe { clear(s, weights, kh * kw * CHUNK) };
            for place in t.places(samples) {
                let Place { sample, row, count } = place;
                // SAFETY: sixteen channels from `c` on exist; the parts are as long as `lens` says.
                unsafe {
                    t.prepare(s, self.x, block, place, &parts);
                    let from = self.dy.row([sample, c, row]).as_ptr();
                    turn_rows_in(s, from, self.dy.strides(), [count, columns], rows);
                    for v in (0..CHUNK).step_by(S::LANES) {
                        let from = [strip.add(v), rows.add(v)];
                        t.add_gradients(s, count, from, weights.add(v));
                    }
                }
            }
            for (a, b) in (0..kh).flat_map(|a| (0..kw).map(move |b| (a, b))) {
                // Channels of the block before this one have had theirs.
                for r in block.again..CHUNK {
                    // SAFETY: a chunk for each weight.
                    let sum = unsafe { *weights.add((a * kw + b) * CHUNK + r) };
                    self.dw.row([c + r, 0, a])[b] += sum;
                }
            }
        }
    }
}

impl Turned {
    /// Adds the gradients of all weights from a strip, for as many channels as a vector has.
    ///
    /// # Safety
    /// The strip and the gradients are prepared; `to` holds a chunk for each weight.
    #[inline(always)]
    unsafe fn add_gradients<T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        count: usize,
        parts: [*mut T; 2],
        to: *mut T,
    ) {
        let [kh, kw] = self.p.kernel;
        // SAFETY: the caller's promise.
        unsafe {
            if self.p.kernel == [3, 3] {
                return self.weights::<3, 3, T, S>(s, count, parts, [0, 0], to);
            }
            for a in 0..kh {
                let mut b = 0;
                while b < kw {
                    match kw - b {
                        4.. => self.weights::<1, 4, T, S>(s, count, parts, [a, b], to),
                        2.. => self.weights::<1, 2, T, S>(s, count, parts, [a, b], to),
                        _ => self.weights::<1, 1, T, S>(s, count, parts, [a, b], to),
                    }
                    b += match kw - b {
                        4.. => 4,
                        2.. => 2,
                        _ => 1,
                    };
                }
            }
        }
    }

    /// `A` by `B` weights from `[a, b]` on.
    ///
    /// # Safety
    /// As `add_gradients`.
    #[inline(always)]
    unsafe fn weights<const A: usize, const B: usize, T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        count: usize,
        [from, gradients]: [*mut T; 2],
        [a, b]: [usize; 2],
        to: *mut T,
    ) {
        let (columns, kw) = (self.p.output[1], self.p.kernel[1]);
        let (down, right, step) = (self.tap(1, 0), self.tap(0, 1), self.p.stride[1] * CHUNK);
        let mut sums = [[s.splat(T::ZERO); B]; A];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..count {
                let mut at = from.add(self.first(i, 0) + self.tap(a, b));
                for j in 0..columns {
                    let g = s.load(gradients.add((i * columns + j) * CHUNK));
                    for (k, sums) in sums.iter_mut().enumerate() {
                        for (l, sum) in sums.iter_mut().enumerate() {
                            *sum = s.madd(g, s.load(at.add(k * down + l * right)), *sum);
                        }
                    }
                    at = at.add(step);
                }
            }
            for (k, sums) in sums.iter().enumerate() {
                for (l, &sum) in sums.iter().enumerate() {
                    let to = to.add(((a + k) * kw + b + l) * CHUNK);
                    s.store(to, s.add(s.load(to), sum));
                }
            }
        }
    }
}
