//! A bank of input rows, laid out so that a whole register of outputs reads a whole register of
//! inputs, whatever the padding, the stride and the pooling behind the convolution.
//!
//! Rows of the input are copied to scratch memory a band at a time, with zeros where the padding is,
//! and *dealt out* with a period `D`: phase `q` holds columns `q, q + D, q + 2D, …`. With `D` the
//! column stride, output `j` reads element `j + k / D` of phase `k mod D`: consecutive outputs read
//! consecutive elements. With `D` the stride times a pooling width, the same holds for the outputs
//! that share a position in their pooling windows. The bank is never the whole input unless that is
//! small: a few rows that stay in the first-level cache.

use dahl_core::View;

use crate::float::Float;
use crate::simd::lanes::{CHUNK, Lanes};
use crate::window::Window;

/// Elements a bank tries not to exceed: half of a common first-level cache in single precision.
const BUDGET: usize = 6 * 1024;
/// Length of the table of offsets; farther ones are computed.
const TABLE: usize = 32;

/// The layout of a bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    pub channels: usize,
    pub win: Window,
    /// Output rows that one filling serves.
    pub out_rows: usize,
    /// Number of phases, `D` above.
    period: usize,
    /// Elements of a phase: whole registers beyond the last column read.
    phase: usize,
    /// Input rows held.
    rows: usize,
    /// [`Bank::offset`] of the first taps.
    offsets: [usize; TABLE],
}

impl Bank {
    /// For `outs` rows and columns of output, accumulated in groups of `group` rows and columns.
    pub(super) fn new(channels: usize, win: &Window, outs: [usize; 2], group: [usize; 2]) -> Self {
        let [sh, sw] = win.stride;
        let period = sw * group[1];
        let reach = (sw * (group[1] - 1) + win.kernel[1] - 1) / period;
        let phase =
            (outs[1].div_ceil(group[1]).next_multiple_of(CHUNK) + reach).next_multiple_of(CHUNK);
        let fit = BUDGET / (channels * period * phase);
        let wanted = fit.saturating_sub(win.kernel[0]) / sh + 1;
        let out_rows = (wanted / group[0]).max(1) * group[0];
        let out_rows = out_rows.min(outs[0].next_multiple_of(group[0]));
        let rows = (out_rows - 1) * sh + win.kernel[0];
        let mut offsets = [0; TABLE];
        for (t, o) in offsets.iter_mut().enumerate() {
            *o = t % period * phase + t / period;
        }
        Bank {
            channels,
            win: *win,
            out_rows,
            period,
            phase,
            rows,
            offsets,
        }
    }

    /// Elements of scratch memory, with room to start on a cache line.
    pub(super) fn len(&self) -> usize {
        self.channels * self.channel() + CHUNK
    }

    /// Splits scratch memory in the bank, aligned, and the rest.
    pub(super) fn carve<'s, T>(&self, scratch: &'s mut [T]) -> (&'s mut [T], &'s mut [T]) {
        assert!(
            scratch.len() >= self.len(),
            "scratch holds {} elements",
            scratch.len()
        );
        let skip = scratch.as_ptr().align_offset(64).min(CHUNK);
        let (bank, rest) = scratch.split_at_mut(self.len());
        (&mut bank[skip..skip + self.channels * self.channel()], rest)
    }

    /// Elements from one row to the next.
    #[inline(always)]
    pub(super) fn row(&self) -> usize {
        self.period * self.phase
    }

    /// Elements from one channel to the next.
    #[inline(always)]
    pub(super) fn channel(&self) -> usize {
        self.rows * self.row()
    }

    /// Where column tap `t` (kernel column plus stride times the position in the group) of output 0
    /// lies inside a row.
    #[inline(always)]
    pub(super) fn offset(&self, t: usize) -> usize {
        if t < TABLE {
            self.offsets[t]
        } else {
            t % self.period * self.phase + t / self.period
        }
    }

    /// Fills the bank with what output rows `from..from + out_rows` of sample `n` read.
    #[inline(always)]
    pub(super) fn fill<T: Float, S: Lanes<T>>(
        &self,
        s: S,
        bank: &mut [T],
        x: View<'_, T>,
        n: usize,
        from: usize,
    ) {
        let [_, _, height, width] = x.dims();
        let top = (from * self.win.stride[0]) as isize - self.win.shift[0];
        let valid = |r: &usize| (0..height as isize).contains(&(top + *r as isize));
        for c in 0..self.channels {
            for r in 0..self.rows {
                let start = c * self.channel() + r * self.row();
                let to = &mut bank[start..start + self.row()];
                if valid(&r) {
                    let row = x.row([n, c, (top + r as isize) as usize]);
                    self.deal(s, &row[..width], to);
                } else {
                    to.fill(T::ZERO);
                }
            }
        }
    }

    /// Deals one row out to its phases, zeros around it.
    #[inline(always)]
    fn deal<T: Float, S: Lanes<T>>(&self, s: S, row: &[T], to: &mut [T]) {
        // Element `j` of phase `q` is column `period · j + q − shift`.
        let shift = self.win.shift[1];
        if self.period == 1 {
            deal_whole(s, row, shift, to);
        } else if self.period == 2 {
            let (even, odd) = to.split_at_mut(self.phase);
            deal_two(s, row, shift, even, odd);
        } else {
            for (q, phase) in to.chunks_exact_mut(self.phase).enumerate() {
                deal_one(row, shift - q as isize, self.period, phase);
            }
        }
    }
}

/// `even[j] = row[2j − shift]` and `odd[j] = row[2j + 1 − shift]`, zero outside the row.
#[inline(always)]
fn deal_two<T: Float, S: Lanes<T>>(s: S, row: &[T], shift: isize, even: &mut [T], odd: &mut [T]) {
    let lanes = S::LANES;
    for (at, (even, odd)) in even
        .chunks_exact_mut(lanes)
        .zip(odd.chunks_exact_mut(lanes))
        .enumerate()
    {
        let first = (2 * at * lanes) as isize - shift;
        if first < 0 {
            // Only where the padding is: once or twice a row.
            let mut both = [T::ZERO; 2 * CHUNK];
            deal_whole(s, row, -first, &mut both[..2 * lanes]);
            // SAFETY: two registers, and the chunks are as long as one.
            unsafe {
                let (e, o) = s.unzip(s.load(both.as_ptr()), s.load(both.as_ptr().add(lanes)));
                s.store(even.as_mut_ptr(), e);
                s.store(odd.as_mut_ptr(), o);
            }
            continue;
        }
        let left = &row[(first as usize).min(row.len())..];
        let n = left.len().min(2 * lanes);
        let (low, high) = (n.min(lanes), n.saturating_sub(lanes));
        // SAFETY: `low + high` elements are left, the second register's only if the first is full;
        // the chunks are as long as registers.
        unsafe {
            let a = s.load_n(left.as_ptr(), low);
            let b = s.load_n(left.as_ptr().add(low), high);
            let (e, o) = s.unzip(a, b);
            s.store(even.as_mut_ptr(), e);
            s.store(odd.as_mut_ptr(), o);
        }
    }
}

/// `to[j] = row[j − shift]`, zero outside the row. Whole registers, no calls for a few bytes.
#[inline(always)]
fn deal_whole<T: Float, S: Lanes<T>>(s: S, row: &[T], shift: isize, to: &mut [T]) {
    let lanes = S::LANES;
    let lead = (shift.max(0) as usize).min(to.len());
    let row = &row[((-shift).max(0) as usize).min(row.len())..];
    let count = row.len().min(to.len() - lead);
    for chunk in to.chunks_exact_mut(lanes) {
        // SAFETY: the chunk is as long as a register.
        unsafe { s.store(chunk.as_mut_ptr(), s.splat(T::ZERO)) };
    }
    for j in (0..count).step_by(lanes) {
        let n = lanes.min(count - j);
        // SAFETY: `n` elements are left on both sides.
        unsafe {
            let v = s.load_n(row.as_ptr().add(j), n);
            s.store_n(to.as_mut_ptr().add(lead + j), n, v);
        }
    }
}

/// `to[j] = row[period · j − shift]`, zero outside the row.
#[inline(always)]
fn deal_one<T: Float>(row: &[T], shift: isize, period: usize, to: &mut [T]) {
    let lead = shift.max(0) as usize;
    let first = lead.div_ceil(period).min(to.len());
    let begin = (first * period) as isize - shift;
    let begin = (begin.max(0) as usize).min(row.len());
    let count = (row.len() - begin).div_ceil(period).min(to.len() - first);
    to[..first].fill(T::ZERO);
    to[first + count..].fill(T::ZERO);
    let to = &mut to[first..first + count];
    for (t, x) in to.iter_mut().zip(row[begin..].iter().step_by(period)) {
        *t = *x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::lanes::Kernel;
    use crate::simd::{Lane, at_every_level};

    struct Check;

    impl<T: Float> Kernel<T> for Check {
        type Output = ();

        #[inline(always)]
        fn run<S: Lanes<T>>(self, s: S) {
            let x: Vec<T> = (1..=2 * 9 * 11)
                .map(|i| T::from_f64(f64::from(i)))
                .collect();
            let view = View::from_slice(&x, [1, 2, 9, 11]);
            for (kernel, stride, shift, group) in [
                ([3, 3], [1, 1], [0, 0], [2, 1]),
                ([3, 3], [1, 1], [1, 1], [2, 2]),
                ([5, 2], [2, 3], [-1, 2], [1, 1]),
                ([2, 4], [1, 2], [1, -2], [2, 2]),
                ([1, 1], [1, 1], [0, 0], [2, 2]),
                ([2, 40], [1, 1], [0, 20], [1, 1]),
            ] {
                let win = Window {
                    kernel,
                    stride,
                    shift,
                };
                let outs = [6, 5];
                let bank = Bank::new(2, &win, outs, group);
                let mut scratch = vec![T::from_f64(f64::NAN); bank.len()];
                let (held, _) = bank.carve(&mut scratch);
                bank.fill(s, held, view, 0, 0);
                for y in 0..bank.out_rows {
                    for col in 0..outs[1].next_multiple_of(group[1]) {
                        for (c, kh, kw) in (0..2).flat_map(|c| {
                            (0..kernel[0]).flat_map(move |a| (0..kernel[1]).map(move |b| (c, a, b)))
                        }) {
                            let (j, q) = (col / group[1], col % group[1]);
                            let at = c * bank.channel()
                                + (y * stride[0] + kh) * bank.row()
                                + bank.offset(stride[1] * q + kw)
                                + j;
                            let want = win.input(0, y, kh, 9).zip(win.input(1, col, kw, 11));
                            let want = want.map_or(T::ZERO, |(h, w)| view.at([0, c, h, w]));
                            assert_eq!(
                                held[at], want,
                                "{win:?} {group:?} y {y} col {col} tap {kh},{kw}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_bank_holds_what_each_output_reads() {
        at_every_level(|_| {
            f32::vectorised(Check);
            f64::vectorised(Check);
        });
    }
}
