//! Gradients of the filter by direct convolution, for few channels; see [`super::direct`].
//!
//! Positions along an output row are the lanes of a register: a block of output channels by kernel
//! columns is accumulated over all rows of a band, then each register is summed into one weight.

use dahl_core::{View, ViewMut};

use super::bank::Bank;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};
use crate::window::Window;

/// Elements of scratch memory that [`filter_grad`] needs.
pub(crate) fn filter_grad_scratch(x: [usize; 4], dy: [usize; 4], win: &Window) -> usize {
    Bank::new(x[1], win, [dy[2], dy[3]], [1, 1]).len()
}

/// `dw += ` the gradient of the filter, from `x` (N×C×H×W) and `dy` (N×O×OH×OW).
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`filter_grad_scratch`].
pub(crate) fn filter_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    dw: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    let ([n, c, ..], [yn, o, oh, ow]) = (x.dims(), dy.dims());
    assert_eq!(
        dw.dims(),
        [o, c, win.kernel[0], win.kernel[1]],
        "direct conv2d: filter extents"
    );
    assert_eq!(n, yn, "direct conv2d: batch extents");
    let bank = Bank::new(c, win, [oh, ow], [1, 1]);
    T::vectorised(FilterGrad {
        x,
        dy,
        dw,
        bank,
        scratch,
    });
}

struct FilterGrad<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    dw: ViewMut<'a, T>,
    bank: Bank,
    scratch: &'a mut [T],
}

/// Where a block of sums starts: sample, channels, kernel position, and the band's rows.
#[derive(Clone, Copy)]
struct At {
    n: usize,
    o: usize,
    c: usize,
    k: [usize; 2],
    y0: usize,
    rows: usize,
}

impl<T: Lane> Kernel<T> for FilterGrad<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [batch, outs, height, _] = self.dy.dims();
        let [kh, kw] = self.bank.win.kernel;
        let (held, _) = self.bank.carve(std::mem::take(&mut self.scratch));
        for n in 0..batch {
            for y0 in (0..height).step_by(self.bank.out_rows) {
                self.bank.fill(s, held, self.x, n, y0);
                let rows = self.bank.out_rows.min(height - y0);
                for c in 0..self.bank.channels {
                    for k in 0..kh {
                        let mut l = 0;
                        while l < kw {
                            let at = At {
                                n,
                                o: 0,
                                c,
                                k: [k, l],
                                y0,
                                rows,
                            };
                            l += match kw - l {
                                3.. => self.columns::<S, 3>(s, held, at, outs),
                                2 => self.columns::<S, 2>(s, held, at, outs),
                                _ => self.columns::<S, 1>(s, held, at, outs),
                            };
                        }
                    }
                }
            }
        }
    }
}

impl<T: Lane> FilterGrad<'_, T> {
    /// `KB` kernel columns for every output channel; returns `KB`.
    #[inline(always)]
    fn columns<S: Lanes<T>, const KB: usize>(
        &mut self,
        s: S,
        held: &[T],
        mut at: At,
        outs: usize,
    ) -> usize {
        while at.o < outs {
            at.o += match outs - at.o {
                4.. => self.block::<S, KB, 4>(s, held, at),
                2.. => self.block::<S, KB, 2>(s, held, at),
                _ => self.block::<S, KB, 1>(s, held, at),
            };
        }
        KB
    }

    #[inline(always)]
    fn block<S: Lanes<T>, const KB: usize, const OB: usize>(
        &mut self,
        s: S,
        held: &[T],
        at: At,
    ) -> usize {
        let At {
            n,
            o,
            c,
            k: [k, l],
            y0,
            rows,
        } = at;
        let bank = &self.bank;
        let [sn, so, sy, _] = self.dy.strides();
        let width = self.dy.dims()[3];
        let mut acc = [[s.splat(T::ZERO); KB]; OB];
        let offsets: [usize; KB] = std::array::from_fn(|i| bank.offset(l + i));
        for y in 0..rows {
            // SAFETY: the bank was filled for these rows and columns; `dy` has the row, of which
            // `count` elements are read.
            unsafe {
                let row = c * bank.channel() + (y * bank.win.stride[0] + k) * bank.row();
                let x = held.as_ptr().add(row);
                let dy = self.dy.as_ptr().add(n * sn + o * so + (y0 + y) * sy);
                for j in (0..width).step_by(S::LANES) {
                    let count = S::LANES.min(width - j);
                    let taps: [S::V; KB] = std::array::from_fn(|i| s.load(x.add(offsets[i] + j)));
                    for (i, acc) in acc.iter_mut().enumerate() {
                        let from = dy.add(i * so + j);
                        let g = match count == S::LANES {
                            true => s.load(from),
                            false => s.load_n(from, count),
                        };
                        for (a, &x) in acc.iter_mut().zip(&taps) {
                            *a = s.madd(g, x, *a);
                        }
                    }
                }
            }
        }
        for (i, acc) in acc.iter().enumerate() {
            let weights = &mut self.dw.row([o + i, c, k])[l..l + KB];
            for (w, &a) in weights.iter_mut().zip(acc) {
                *w += s.sum(a);
            }
        }
        OB
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rng, cases};
    use super::*;
    use crate::simd::at_every_level;

    fn agrees_with_reference<T: Lane>() {
        for case in cases::<T>(60, 12, Rng::any) {
            let (x, dy, win) = (case.x.view(), case.dy.view(), &case.win);
            let len = filter_grad_scratch(x.dims(), dy.dims(), win);
            case.check_filter_grad(len, |dw, s| filter_grad(x, dy, dw, win, s));
        }
    }

    #[test]
    fn random_tiles_agree_with_reference() {
        at_every_level(|_| {
            agrees_with_reference::<f32>();
            agrees_with_reference::<f64>();
        });
    }
}
