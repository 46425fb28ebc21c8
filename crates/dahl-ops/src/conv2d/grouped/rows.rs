//! Sums of output rows in registers: what `direct` computes a strip of columns with.
//!
//! Pointers lead into planes that `Planes::fill` has prepared: a tap that lies in the padding finds a zero there, and
//! lanes beyond the last column find anything, which nobody writes anywhere.

use dahl_core::ViewMut;

use super::planes::{Planes, TOGETHER};
use crate::simd::Lane;
use crate::simd::lanes::Lanes;

/// Where sums go: the rows of a strip.
pub(super) struct Outputs<'a, T> {
    pub(super) y: ViewMut<'a, T>,
    pub(super) relu: bool,
}

impl<T: Lane> Outputs<'_, T> {
    /// Writes the columns from `j` on, as many as there are, of row `r`.
    #[inline(always)]
    fn put<S: Lanes<T>>(&mut self, s: S, r: usize, j: usize, sum: S::V) {
        let sum = if self.relu { s.relu(sum) } else { sum };
        let row = &mut self.y.row([0, 0, r])[j..];
        // SAFETY: as many elements as the row has.
        unsafe {
            match row.len() {
                n if n < S::LANES => s.store_n(row.as_mut_ptr(), n, sum),
                _ => s.store(row.as_mut_ptr(), sum),
            }
        }
    }
}

/// One input channel, stride 1, no gaps between the kernel's rows: input row `h` belongs to the output rows `h − k`
/// with the weights of kernel row `k`.
pub(super) struct Sliding<T, V> {
    /// The first row of the plane, and elements from one to the next.
    pub(super) from: *const T,
    pub(super) pitch: usize,
    /// Elements between neighbouring columns of the kernel, and how many columns it has.
    pub(super) step: usize,
    pub(super) columns: usize,
    /// The rows that are not all zeros.
    pub(super) inside: (usize, usize),
    /// Output rows.
    pub(super) count: usize,
    /// The first weight, and the distances to those below and to the right.
    pub(super) w: *const T,
    pub(super) down: isize,
    pub(super) right: isize,
    /// What sums begin with.
    pub(super) start: V,
}

impl<T: Lane, V: Copy> Sliding<T, V> {
    #[inline(always)]
    unsafe fn weight<S: Lanes<T, V = V>>(&self, s: S, k: usize, b: usize) -> V {
        // SAFETY: the caller's promise that the filter has row `k` and column `b`.
        s.splat(unsafe {
            *self
                .w
                .offset(k.cast_signed() * self.down + b.cast_signed() * self.right)
        })
    }

    /// A 3×3 kernel: all weights in registers, a sum of its own for each column of the kernel, so that no sum waits
    /// for another. Returns the vectors that it did.
    ///
    /// # Safety
    /// The plane has the rows of `count` outputs and a vector from column `j` on and for every tap in each; the filter is 3×3.
    #[inline(always)]
    pub(super) unsafe fn three<S: Lanes<T, V = V>>(
        &self,
        s: S,
        j: usize,
        out: &mut Outputs<'_, T>,
    ) -> usize {
        let zero = s.splat(T::ZERO);
        // SAFETY: the filter is 3×3.
        let w: [[V; 3]; 3] =
            std::array::from_fn(|b| std::array::from_fn(|k| unsafe { self.weight(s, k, b) }));
        let mut sums = [[self.start; 3], [zero; 3], [zero; 3]];
        for h in 0..self.count + 2 {
            if h >= self.inside.0 && h < self.inside.1 {
                for b in 0..3 {
                    // SAFETY: the caller's promise.
                    let x = unsafe { s.load(self.from.add(h * self.pitch + j + b * self.step)) };
                    for k in 0..3 {
                        sums[b][k] = s.madd(w[b][k], x, sums[b][k]);
                    }
                }
            }
            if h >= 2 {
                let [a, b, c] = [sums[0][2], sums[1][2], sums[2][2]];
                out.put(s, h - 2, j, s.add(s.add(a, b), c));
            }
            for (b, sums) in sums.iter_mut().enumerate() {
                *sums = [if b == 0 { self.start } else { zero }, sums[0], sums[1]];
            }
        }
        1
    }

    /// A kernel of `K` rows, on `N` vectors at a time. Returns the vectors that it did.
    ///
    /// # Safety
    /// As [`Sliding::three`], for `K` rows and `N` vectors.
    #[inline(always)]
    pub(super) unsafe fn rows<const K: usize, const N: usize, S: Lanes<T, V = V>>(
        &self,
        s: S,
        j: usize,
        out: &mut Outputs<'_, T>,
    ) -> usize {
        let mut sums = [[self.start; N]; K];
        for h in 0..self.count + K - 1 {
            if h >= self.inside.0 && h < self.inside.1 {
                for b in 0..self.columns {
                    let at = h * self.pitch + j + b * self.step;
                    // SAFETY: the caller's promise.
                    let x: [V; N] = std::array::from_fn(|v| unsafe {
                        s.load(self.from.add(at + v * S::LANES))
                    });
                    for (k, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: the caller's promise.
                        let w = unsafe { self.weight(s, k, b) };
                        for (sum, &x) in sums.iter_mut().zip(&x) {
                            *sum = s.madd(w, x, *sum);
                        }
                    }
                }
            }
            if h + 1 >= K {
                for (v, &sum) in sums[K - 1].iter().enumerate() {
                    out.put(s, h + 1 - K, j + v * S::LANES, sum);
                }
            }
            for k in (1..K).rev() {
                sums[k] = sums[k - 1];
            }
            sums[0] = [self.start; N];
        }
        N
    }
}

/// Any kernel, strides, gaps and channels: some output rows at a time.
pub(super) struct Block<T, V> {
    pub(super) planes: Planes,
    pub(super) from: *const T,
    /// Output rows.
    pub(super) count: usize,
    /// The first weight, and the distances to those of the next input channel, row and column.
    pub(super) w: *const T,
    pub(super) steps: [isize; 3],
    /// What sums begin with.
    pub(super) start: V,
}

impl<T: Lane, V: Copy> Block<T, V> {
    /// All rows of a vector from column `j` on. Returns the vectors that it did: one.
    ///
    /// # Safety
    /// The planes have the rows of `count` outputs, rounded up to [`TOGETHER`], and a vector from column `j` on and for
    /// every tap in each; the filter has the kernel's extents.
    #[inline(always)]
    pub(super) unsafe fn rows<S: Lanes<T, V = V>>(
        &self,
        s: S,
        j: usize,
        out: &mut Outputs<'_, T>,
    ) -> usize {
        let (p, [channel, down, right]) = (&self.planes, self.steps);
        let ([kh, kw], [_, stride], pitch) = (p.kernel, p.stride, p.pitch());
        let (apart, gap) = (p.stride[0] * pitch, p.dilation[0] * pitch);
        for i in (0..self.count).step_by(TOGETHER) {
            let mut sums = [self.start; TOGETHER];
            for c in 0..p.channels {
                // Where the taps of column `b` lie: in this phase of the columns, so far from the first.
                let (mut phase, mut offset) = (0, 0);
                for b in 0..kw {
                    let at = c * p.plane() + phase * p.phase() + i * apart + offset + j;
                    let tap = c.cast_signed() * channel + b.cast_signed() * right;
                    for a in 0..kh {
                        // SAFETY: the caller's promise.
                        unsafe {
                            let w = s.splat(*self.w.offset(tap + a.cast_signed() * down));
                            let from = self.from.add(at + a * gap);
                            for (r, sum) in sums.iter_mut().enumerate() {
                                *sum = s.madd(w, s.load(from.add(r * apart)), *sum);
                            }
                        }
                    }
                    phase += p.dilation[1] % stride;
                    offset += p.dilation[1] / stride;
                    if phase >= stride {
                        phase -= stride;
                        offset += 1;
                    }
                }
            }
            for (r, &sum) in sums.iter().enumerate().take(self.count - i) {
                out.put(s, i + r, j, sum);
            }
        }
        1
    }
}
