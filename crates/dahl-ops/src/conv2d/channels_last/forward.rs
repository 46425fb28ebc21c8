//! Convolution, bias, positive part and max-pooling with output channels side by side.
//!
//! The same contract as [`super::super::conv_pool::forward`], with the lanes of a register turned
//! round: a block of neighbouring pooling windows is accumulated, one register for each position under
//! them, while a vector of weights meets one input number after another. It is the better way where
//! rows of windows are shorter than a vector and there are output channels enough to fill one.

// Loops over small arrays are unrolled into registers.
#![allow(clippy::needless_range_loop)]

use dahl_core::{View, ViewMut};

use super::aligned;
use crate::conv2d::bank::Bank;
use crate::conv2d::conv_pool::check;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, LINE, Lanes};
use crate::window::Window;

/// Most windows of a block.
const MOST: usize = 6;

/// Elements of scratch memory that [`forward`] needs for a pooled output of extents `y`.
pub(crate) fn scratch_len(x: [usize; 4], y: [usize; 4], win: &Window, pool: usize) -> usize {
    bank(x[1], y, win, pool).len() + CHUNK + weights_len(x[1], y[1], win)
}

fn bank(channels: usize, y: [usize; 4], win: &Window, pool: usize) -> Bank {
    Bank::new(channels, win, [y[2] * pool, y[3] * pool], [pool, 1])
}

fn weights_len(channels: usize, outs: usize, win: &Window) -> usize {
    outs.next_multiple_of(CHUNK) * channels * win.kernel[0] * win.kernel[1]
}

/// `y = max-pool(relu(x ∗ w + bias))` and the codes.
///
/// # Panics
/// If `pool` is neither 2 nor 3, the extents do not belong together or `scratch` is shorter than
/// [`scratch_len`].
#[allow(clippy::too_many_arguments)]
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    y: ViewMut<'_, T>,
    codes: ViewMut<'_, T>,
    win: &Window,
    pool: usize,
    scratch: &mut [T],
) {
    check(&x, &w, bias.as_ref(), &y, &codes, win, pool);
    let (c, o) = (x.dims()[1], y.dims()[1]);
    let bank = bank(c, y.dims(), win, pool);
    let (held, rest) = bank.carve(scratch);
    let weights = &mut aligned(rest)[..weights_len(c, o, win)];
    let bias = bias.map(|b| b.row([0, 0, 0]));
    let kernel = Forward {
        x,
        w,
        bias,
        y,
        codes,
        bank,
        held,
        weights,
    };
    match pool {
        2 => T::vectorised(Pooled::<_, 2>(kernel)),
        _ => T::vectorised(Pooled::<_, 3>(kernel)),
    }
}

struct Forward<'a, T> {
    x: View<'a, T>,
    w: View<'a, T>,
    bias: Option<&'a [T]>,
    y: ViewMut<'a, T>,
    codes: ViewMut<'a, T>,
    bank: Bank,
    held: &'a mut [T],
    /// `[chunk of outputs][c][kh][kw][CHUNK]`, zeros behind the last output.
    weights: &'a mut [T],
}

struct Pooled<K, const P: usize>(K);

impl<T: Lane, const P: usize> Kernel<T> for Pooled<Forward<'_, T>, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let mut f = self.0;
        let [batch, _, height, width] = f.y.dims();
        if width == 0 {
            return;
        }
        let band = f.bank.out_rows / P;
        f.turn_filter(s);
        // As many windows as registers allow, in blocks of one size; the last may overlap.
        let most = match (S::ROWS > 6, P) {
            (true, 2) => MOST,
            (false, 2) => 3,
            (true, _) => 2,
            (false, _) => 1,
        };
        let block = width.div_ceil(width.div_ceil(most));
        for n in 0..batch {
            for y0 in (0..height).step_by(band) {
                f.bank.fill(s, f.held, f.x, n, y0 * P);
                let at = [n, y0, band.min(height - y0)];
                match block {
                    1 => f.rows::<S, P, 1>(s, at),
                    2 => f.rows::<S, P, 2>(s, at),
                    3 if P == 2 => f.rows::<S, P, 3>(s, at),
                    4 if P == 2 => f.rows::<S, P, 4>(s, at),
                    5 if P == 2 => f.rows::<S, P, 5>(s, at),
                    _ if P == 2 => f.rows::<S, P, MOST>(s, at),
                    _ => f.rows::<S, P, 1>(s, at),
                }
            }
        }
    }
}

impl<T: Lane> Forward<'_, T> {
    #[inline(always)]
    fn turn_filter<S: Lanes<T>>(&mut self, s: S) {
        let ([outs, channels, kh, kw], [so, sc, sy, _]) = (self.w.dims(), self.w.strides());
        let taps = channels * kh * kw;
        let contiguous = [sc, sy] == [kh * kw, kw];
        for (chunk, to) in self.weights.chunks_exact_mut(taps * CHUNK).enumerate() {
            let count = CHUNK.min(outs - chunk * CHUNK);
            let mut done = 0;
            // SAFETY: `CHUNK` filters whose taps follow one another; as many taps as are moved are
            // left in them and in the chunk.
            unsafe {
                let from = self.w.as_ptr().add(chunk * CHUNK * so);
                while contiguous && count == CHUNK && done + LINE <= taps {
                    s.lines_in(from.add(done), so, to.as_mut_ptr().add(done * CHUNK));
                    done += LINE;
                }
            }
            for (tap, to) in to.chunks_exact_mut(CHUNK).enumerate().skip(done) {
                let (c, k, l) = (tap / (kh * kw), tap / kw % kh, tap % kw);
                to.fill(T::ZERO);
                for (o, to) in to[..count].iter_mut().enumerate() {
                    *to = self.w.at([chunk * CHUNK + o, c, k, l]);
                }
            }
        }
    }

    /// A band's rows of windows, `Q` windows at a time, a vector of outputs at a time.
    #[inline(always)]
    fn rows<S: Lanes<T>, const P: usize, const Q: usize>(
        &mut self,
        s: S,
        [n, y0, rows]: [usize; 3],
    ) {
        let [_, outs, _, width] = self.y.dims();
        for o in (0..outs).step_by(S::LANES) {
            for y in 0..rows {
                for j in (0..width).step_by(Q) {
                    let j = j.min(width - Q);
                    self.block::<S, P, Q>(s, [n, o, y0 + y, j], y);
                }
            }
        }
    }

    #[inline(always)]
    fn block<S: Lanes<T>, const P: usize, const Q: usize>(
        &mut self,
        s: S,
        [n, o, i, j]: [usize; 4],
        y: usize,
    ) {
        let bank = &self.bank;
        let ([kh, kw], sh) = (bank.win.kernel, bank.win.stride[0]);
        let count = S::LANES.min(self.y.dims()[1] - o);
        let mut best = [[T::ZERO; CHUNK]; MOST];
        let mut place = [[0u8; CHUNK]; MOST];
        // SAFETY: the bank was filled for these rows, and its columns reach beyond the last window's;
        // the weights hold whole chunks of outputs, of which the bias has `count` left.
        unsafe {
            let from = self.held.as_ptr().add(y * P * sh * bank.row() + j * P);
            let init = match self.bias {
                Some(b) => s.load_n(b.as_ptr().add(o), count),
                None => s.splat(T::ZERO),
            };
            let taps = bank.channels * kh * kw;
            let w = self.weights.as_ptr();
            let mut w = w.add(o / CHUNK * taps * CHUNK + o % CHUNK);
            let mut acc = [[[init; P]; Q]; P];
            for c in 0..bank.channels {
                for k in 0..kh {
                    let x = from.add(c * bank.channel() + k * bank.row());
                    for l in 0..kw {
                        let x = x.add(bank.offset(l));
                        let weight = s.load(w);
                        w = w.wrapping_add(CHUNK);
                        for r in 0..P {
                            let x = x.add(r * sh * bank.row());
                            for q in 0..Q {
                                for p in 0..P {
                                    let x = s.splat(*x.add(q * P + p));
                                    acc[r][q][p] = s.madd(weight, x, acc[r][q][p]);
                                }
                            }
                        }
                    }
                }
            }
            let zero = s.splat(T::ZERO);
            for q in 0..Q {
                let mut high = acc[0][q][0];
                let mut code = s.splat(T::ONE);
                for at in 1..P * P {
                    let v = acc[at / P][q][at % P];
                    let higher = s.above(v, high);
                    high = s.select(higher, v, high);
                    code = s.select(higher, s.splat(T::from_f64((at + 1) as f64)), code);
                }
                code = s.select(s.above(high, zero), code, zero);
                s.store(best[q].as_mut_ptr(), s.relu(high));
                s.store_bytes(place[q].as_mut_ptr(), S::LANES, code);
            }
        }
        for l in 0..count {
            let row = &mut self.y.row([n, o + l, i])[j..j + Q];
            for q in 0..Q {
                row[q] = best[q][l];
            }
            let codes = self.codes.row([n, o + l, i]).as_mut_ptr().cast::<u8>();
            for q in 0..Q {
                // SAFETY: a row of codes holds a byte per window.
                unsafe { *codes.add(j + q) = place[q][l] };
            }
        }
    }
}
