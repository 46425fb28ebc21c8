//! The filter's gradient of a grouped or dilated convolution: a sum over all pixels for each weight.
//!
//! Sums of a sample stay in registers as vectors, those of samples in scratch memory; lanes are added up at the end.

use dahl_core::{View, ViewMut};

use super::Grouping;
use super::blocked::{self, DepthwiseFilter, Turned};
use super::planes::Planes;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};

/// Elements of scratch memory that [`filter_grad`] needs, from the extents of `x` and `dy`.
pub(crate) fn scratch_len(x: [usize; 4], dy: [usize; 4], g: &Grouping) -> usize {
    let p = Planes::forward(x, dy, g);
    if blocked::suits(&p, x[1], dy[1], g.groups) {
        return Turned::new(p, [x[2], x[3]]).scratch_len();
    }
    let [kh, kw] = p.kernel;
    p.scratch_len() + dy[1] / g.groups * p.channels * kh * kw * CHUNK
}

/// `dw += ` the gradient of the filter, from `x` (N×C×H×W) and `dy` (N×O×OH×OW).
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`scratch_len`].
pub(crate) fn filter_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    dw: ViewMut<'_, T>,
    g: &Grouping,
    scratch: &mut [T],
) {
    g.assert(x.dims(), dy.dims(), dw.dims());
    assert!(
        scratch.len() >= scratch_len(x.dims(), dy.dims(), g),
        "grouped conv2d: scratch"
    );
    let planes = Planes::forward(x.dims(), dy.dims(), g);
    if blocked::suits(&planes, x.dims()[1], dy.dims()[1], g.groups) {
        let [.., height, width] = x.dims();
        return T::vectorised(DepthwiseFilter {
            turned: Turned::new(planes, [height, width]),
            x,
            dy,
            dw,
            scratch,
        });
    }
    let (planes_in, totals) = scratch.split_at_mut(planes.scratch_len());
    T::vectorised(FilterGrad {
        planes,
        x,
        dy,
        dw,
        groups: g.groups,
        scratch: planes_in,
        totals,
    });
}

struct FilterGrad<'a, T> {
    planes: Planes,
    x: View<'a, T>,
    dy: View<'a, T>,
    dw: ViewMut<'a, T>,
    groups: usize,
    scratch: &'a mut [T],
    /// A vector for each weight of a group.
    totals: &'a mut [T],
}

impl<T: Lane> Kernel<T> for FilterGrad<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let ([samples, outs, rows, _], p) = (self.dy.dims(), self.planes);
        let (each, [kh, kw]) = (outs / self.groups, p.kernel);
        for group in 0..self.groups {
            self.totals.fill(T::ZERO);
            for n in 0..samples {
                for i in (0..rows).step_by(p.strip) {
                    let count = p.strip.min(rows - i);
                    let from = [n, group * p.channels];
                    p.fill(s, self.x, from, [i, count], self.scratch);
                    for (o, c) in (0..each).flat_map(|o| (0..p.channels).map(move |c| (o, c))) {
                        let first = (o * p.channels + c) * kh * kw;
                        let part = Part {
                            planes: p,
                            // SAFETY: a channel's plane of the scratch memory.
                            from: unsafe { self.scratch.as_ptr().add(c * p.plane()) },
                            dy: self
                                .dy
                                .part([n, group * each + o, i, 0], [1, 1, count, p.output[1]]),
                            inside: p.inside(i, count, self.x.dims()[2]),
                        };
                        part.add(s, &mut self.totals[first * CHUNK..][..kh * kw * CHUNK]);
                    }
                }
            }
            for o in 0..each {
                for c in 0..p.channels {
                    for a in 0..kh {
                        let row = self.dw.row([group * each + o, c, a]);
                        for (b, to) in row.iter_mut().enumerate() {
                            let at = (((o * p.channels + c) * kh + a) * kw + b) * CHUNK;
                            // SAFETY: every weight has a chunk, which is at least a vector.
                            *to += s.sum(unsafe { s.load(self.totals[at..].as_ptr()) });
                        }
                    }
                }
            }
        }
    }
}

/// A strip of the output's gradient of one channel, and the plane of the input that it meets.
struct Part<'a, T> {
    planes: Planes,
    from: *const T,
    dy: View<'a, T>,
    /// The rows of the plane that are not all zeros.
    inside: (usize, usize),
}

impl<T: Lane> Part<'_, T> {
    /// Adds the gradients of all weights to `totals`, a chunk each.
    #[inline(always)]
    fn add<S: Lanes<T>>(&self, s: S, totals: &mut [T]) {
        let p = &self.planes;
        let ([kh, kw], [down, right]) = (p.kernel, p.stride);
        let slides = down == 1 && p.dilation[0] == 1;
        let (mut phase, mut offset, mut b) = (0, 0, 0);
        while b < kw {
            let at = phase * p.phase() + offset;
            let columns = match kh {
                3 if slides && right == 1 && kw - b >= 3 => {
                    self.sliding::<3, 3, S>(s, at, b, totals)
                }
                3 if slides => self.sliding::<3, 1, S>(s, at, b, totals),
                5 if slides => self.sliding::<5, 1, S>(s, at, b, totals),
                7 if slides => self.sliding::<7, 1, S>(s, at, b, totals),
                _ => {
                    for a in (0..kh / 3 * 3).step_by(3) {
                        self.some::<3, S>(s, at, [a, b], totals);
                    }
                    for a in kh / 3 * 3..kh {
                        self.some::<1, S>(s, at, [a, b], totals);
                    }
                    1
                }
            };
            for _ in 0..columns {
                phase += p.dilation[1] % right;
                offset += p.dilation[1] / right;
                if phase >= right {
                    phase -= right;
                    offset += 1;
                }
            }
            b += columns;
        }
    }

    /// `n ≤ LANES` gradients of row `i` from column `j` on; the other lanes are zero.
    #[inline(always)]
    fn gradients<S: Lanes<T>>(&self, s: S, i: usize, j: usize) -> S::V {
        let row = &self.dy.row([0, 0, i])[j..];
        // SAFETY: as many elements as the row has.
        unsafe {
            match row.len() {
                n if n < S::LANES => s.load_n(row.as_ptr(), n),
                _ => s.load(row.as_ptr()),
            }
        }
    }

    /// Columns `b` to `b + B` of a kernel of `K` rows: each row of the input meets the last `K` rows of gradients.
    /// Returns `B`.
    #[inline(always)]
    fn sliding<const K: usize, const B: usize, S: Lanes<T>>(
        &self,
        s: S,
        at: usize,
        b: usize,
        totals: &mut [T],
    ) -> usize {
        let (p, zero) = (&self.planes, s.splat(T::ZERO));
        let ([_, kw], [_, _, count, columns]) = (p.kernel, self.dy.dims());
        let (pitch, step) = (p.pitch(), p.dilation[1]);
        let mut sums = [[zero; K]; B];
        for j in (0..columns).step_by(S::LANES) {
            let mut rows = [zero; K];
            for h in 0..self.inside.1 {
                for k in (1..K).rev() {
                    rows[k] = rows[k - 1];
                }
                rows[0] = match h < count {
                    true => self.gradients(s, h, j),
                    false => zero,
                };
                if h < self.inside.0 {
                    continue;
                }
                for (c, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: row `h` of the plane, and a vector from a tap's column on.
                    let x = unsafe { s.load(self.from.add(at + h * pitch + j + c * step)) };
                    for (sum, &g) in sums.iter_mut().zip(&rows) {
                        *sum = s.madd(g, x, *sum);
                    }
                }
            }
        }
        for (c, sums) in sums.iter().enumerate() {
            for (k, &sum) in sums.iter().enumerate() {
                keep(s, &mut totals[(k * kw + b + c) * CHUNK..], sum);
            }
        }
        B
    }

    /// `A` weights from `[a, b]` on, one below the other, whatever strides and gaps are.
    #[inline(always)]
    fn some<const A: usize, S: Lanes<T>>(
        &self,
        s: S,
        at: usize,
        [a, b]: [usize; 2],
        totals: &mut [T],
    ) {
        let (p, [_, _, count, columns]) = (&self.planes, self.dy.dims());
        let (pitch, kw) = (p.pitch(), p.kernel[1]);
        let mut sums = [s.splat(T::ZERO); A];
        for i in 0..count {
            for j in (0..columns).step_by(S::LANES) {
                let g = self.gradients(s, i, j);
                for (k, sum) in sums.iter_mut().enumerate() {
                    let h = i * p.stride[0] + (a + k) * p.dilation[0];
                    // SAFETY: row `h` of the plane, and a vector from the tap's column on.
                    let x = unsafe { s.load(self.from.add(at + h * pitch + j)) };
                    *sum = s.madd(g, x, *sum);
                }
            }
        }
        for (k, &sum) in sums.iter().enumerate() {
            keep(s, &mut totals[((a + k) * kw + b) * CHUNK..], sum);
        }
    }
}

/// Adds a vector to what is kept of a weight.
#[inline(always)]
fn keep<T: Lane, S: Lanes<T>>(s: S, total: &mut [T], sum: S::V) {
    let total = &mut total[..S::LANES];
    // SAFETY: a vector's elements.
    unsafe { s.store(total.as_mut_ptr(), s.add(s.load(total.as_ptr()), sum)) };
}
