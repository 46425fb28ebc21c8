//! Direct convolution for few channels: outputs along a row are the lanes of a register.
//!
//! A block of output channels by output rows is accumulated in registers while the taps go by; each
//! input register is used for every channel of the block, each weight for every row. It suits first
//! layers and small networks, where a matrix product would spend its time arranging the operands. It
//! never writes a padded copy of the input: `bank` holds a band of rows.

use dahl_core::{View, ViewMut};

use super::bank::Bank;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};
use crate::window::Window;

/// Output rows accumulated together.
const ROWS: usize = 4;

/// Elements of scratch memory that [`forward`] needs.
pub(crate) fn forward_scratch(x: [usize; 4], y: [usize; 4], win: &Window) -> usize {
    Bank::new(x[1], win, [y[2], y[3]], [ROWS, 1]).len()
}

/// Elements of scratch memory that [`input_grad`] needs.
pub(crate) fn input_grad_scratch(dy: [usize; 4], dx: [usize; 4], win: &Window) -> usize {
    match win.stride {
        [1, 1] => forward_scratch(dy, dx, &mirrored(win)),
        _ => 0,
    }
}

/// `y = x ∗ w (+ bias) (then the positive part)`.
///
/// `x` is N×C×H×W, `w` O×C×KH×KW, `bias` 1×1×1×O, `y` N×O×OH×OW; all may be tiles.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`forward_scratch`].
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    y: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    let ([n, c, ..], [yn, o, oh, ow]) = (x.dims(), y.dims());
    assert_eq!(
        w.dims(),
        [o, c, win.kernel[0], win.kernel[1]],
        "direct conv2d: filter extents"
    );
    assert_eq!(n, yn, "direct conv2d: batch extents");
    assert!(
        bias.is_none_or(|b| b.dims() == [1, 1, 1, o]),
        "direct conv2d: bias extents"
    );
    let bank = Bank::new(c, win, [oh, ow], [ROWS, 1]);
    let taps = Taps {
        first: w.as_ptr(),
        steps: w.strides().map(|s| s as isize),
    };
    let bias = bias.map(|b| b.row([0, 0, 0]));
    T::vectorised(Forward {
        x,
        taps,
        bias,
        relu,
        y,
        bank,
        scratch,
    });
}

/// `dx`, overwritten, from `dy` and `w`: extents as for [`forward`].
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`input_grad_scratch`].
pub(crate) fn input_grad<T: Lane>(
    dy: View<'_, T>,
    w: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    let ([n, o, ..], [xn, c, h, width]) = (dy.dims(), dx.dims());
    let [kh, kw] = win.kernel;
    assert_eq!(w.dims(), [o, c, kh, kw], "direct conv2d: filter extents");
    assert_eq!(n, xn, "direct conv2d: batch extents");
    if win.stride != [1, 1] {
        dx.fill(T::ZERO);
        return scatter(dy, w, dx, win);
    }
    // With stride 1 this is the convolution of `dy` with the filter turned round and its channel
    // axes swapped: start at the last tap and step backwards.
    let bank = Bank::new(o, &mirrored(win), [h, width], [ROWS, 1]);
    let s = w.strides().map(|s| s as isize);
    let last = (kh - 1) * w.strides()[2] + (kw - 1);
    // SAFETY: the last tap of the first filter lies in the view.
    let first = unsafe { w.as_ptr().add(last) };
    let taps = Taps {
        first,
        steps: [s[1], s[0], -s[2], -1],
    };
    T::vectorised(Forward {
        x: dy,
        taps,
        bias: None,
        relu: false,
        y: dx,
        bank,
        scratch,
    });
}

/// The window that reads `dy` to give `dx`.
fn mirrored(win: &Window) -> Window {
    let shift = [0, 1].map(|a| win.kernel[a] as isize - 1 - win.shift[a]);
    Window {
        kernel: win.kernel,
        stride: [1, 1],
        shift,
    }
}

/// `dx += dy ∗ᵀ w` for any stride, element by element.
fn scatter<T: Lane>(dy: View<'_, T>, w: View<'_, T>, mut dx: ViewMut<'_, T>, win: &Window) {
    let ([n, o, oh, ow], [_, c, h, width]) = (dy.dims(), dx.dims());
    let each = |n: usize, o: usize, y: usize, c: usize, dx: &mut ViewMut<'_, T>| {
        for k in win.taps(0, y, h) {
            let Some(row) = win.input(0, y, k, h) else {
                continue;
            };
            let (from, to) = (dy.row([n, o, y]), dx.row([n, c, row]));
            let weights = w.row([o, c, k]);
            for (j, &g) in from.iter().enumerate().take(ow) {
                for l in win.taps(1, j, width) {
                    let at = (j * win.stride[1] + l) as isize - win.shift[1];
                    to[at as usize] += weights[l] * g;
                }
            }
        }
    };
    for n in 0..n {
        for c in 0..c {
            for o in 0..o {
                (0..oh).for_each(|y| each(n, o, y, c, &mut dx));
            }
        }
    }
}

/// A filter read with any steps between output channels, input channels, rows and columns.
#[derive(Clone, Copy)]
pub(super) struct Taps<T> {
    pub first: *const T,
    pub steps: [isize; 4],
}

/// Accumulates `OB` output channels by `R` rows by `Q` columns of a group, one register each.
///
/// # Safety
/// `at` points into a filled bank, at the row and column of the block's first output; `taps.first`
/// at the block's first channel, of which `OB` exist.
#[inline(always)]
pub(super) unsafe fn block<T, S, const OB: usize, const R: usize, const Q: usize>(
    s: S,
    bank: &Bank,
    at: *const T,
    taps: Taps<T>,
    init: [T; OB],
) -> [[[S::V; Q]; R]; OB]
where
    T: Lane,
    S: Lanes<T>,
{
    let mut acc = init.map(|b| [[s.splat(b); Q]; R]);
    let ([kh, kw], [sh, sw]) = (bank.win.kernel, bank.win.stride);
    let [so, sc, sy, sx] = taps.steps;
    for c in 0..bank.channels {
        for k in 0..kh {
            for l in 0..kw {
                // SAFETY: rows and columns the bank was laid out for, and taps of the filter.
                unsafe {
                    let row = at.add(c * bank.channel() + k * bank.row());
                    let tap = taps
                        .first
                        .offset(c as isize * sc + k as isize * sy + l as isize * sx);
                    let mut x = [[s.splat(T::ZERO); Q]; R];
                    for (r, x) in x.iter_mut().enumerate() {
                        for (q, x) in x.iter_mut().enumerate() {
                            *x = s.load(row.add(r * sh * bank.row() + bank.offset(sw * q + l)));
                        }
                    }
                    for (o, acc) in acc.iter_mut().enumerate() {
                        let w = s.splat(*tap.offset(o as isize * so));
                        for r in 0..R {
                            for q in 0..Q {
                                acc[r][q] = s.madd(w, x[r][q], acc[r][q]);
                            }
                        }
                    }
                }
            }
        }
    }
    acc
}

struct Forward<'a, T> {
    x: View<'a, T>,
    taps: Taps<T>,
    bias: Option<&'a [T]>,
    relu: bool,
    y: ViewMut<'a, T>,
    bank: Bank,
    scratch: &'a mut [T],
}

impl<T: Lane> Kernel<T> for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [batch, outs, height, _] = self.y.dims();
        let (held, _) = self.bank.carve(std::mem::take(&mut self.scratch));
        for n in 0..batch {
            for y0 in (0..height).step_by(self.bank.out_rows) {
                self.bank.fill(s, held, self.x, n, y0);
                let rows = self.bank.out_rows.min(height - y0);
                let mut o = 0;
                while o < outs {
                    o += match outs - o {
                        8.. if S::ROWS > 6 => self.channels::<S, 8>(s, held, [n, o, y0], rows),
                        4.. => self.channels::<S, 4>(s, held, [n, o, y0], rows),
                        2.. => self.channels::<S, 2>(s, held, [n, o, y0], rows),
                        _ => self.channels::<S, 1>(s, held, [n, o, y0], rows),
                    };
                }
            }
        }
    }
}

impl<T: Lane> Forward<'_, T> {
    /// All rows of a band for `OB` channels from `at[1]` on; returns `OB`.
    #[inline(always)]
    fn channels<S: Lanes<T>, const OB: usize>(
        &mut self,
        s: S,
        held: &[T],
        at: [usize; 3],
        rows: usize,
    ) -> usize {
        let mut r = 0;
        while r < rows {
            // As many rows as registers allow: at least eight sums hide the latency of adding.
            r += match rows - r {
                4.. if OB < 4 || (OB == 4 && S::ROWS > 6) => self.rows::<S, OB, 4>(s, held, at, r),
                2.. => self.rows::<S, OB, 2>(s, held, at, r),
                _ => self.rows::<S, OB, 1>(s, held, at, r),
            };
        }
        OB
    }

    #[inline(always)]
    fn rows<S: Lanes<T>, const OB: usize, const R: usize>(
        &mut self,
        s: S,
        held: &[T],
        [n, o, y0]: [usize; 3],
        r: usize,
    ) -> usize {
        let [sn, so, sy, _] = self.y.strides();
        let width = self.y.dims()[3];
        let init: [T; OB] = std::array::from_fn(|i| self.bias.map_or(T::ZERO, |b| b[o + i]));
        let (relu, bank) = (self.relu, &self.bank);
        // SAFETY: the first weight of channel `o`, which exists.
        let first = unsafe { self.taps.first.offset(o as isize * self.taps.steps[0]) };
        let taps = Taps { first, ..self.taps };
        for j in (0..width).step_by(S::LANES) {
            let count = S::LANES.min(width - j);
            // SAFETY: the bank was filled for these rows and columns; the stores reach `count`
            // elements of rows of `y` that exist.
            unsafe {
                let from = held.as_ptr().add(r * bank.win.stride[0] * bank.row() + j);
                let acc = block::<T, S, OB, R, 1>(s, bank, from, taps, init);
                for (i, acc) in acc.iter().enumerate() {
                    for (k, acc) in acc.iter().enumerate() {
                        let v = if relu { s.relu(acc[0]) } else { acc[0] };
                        let to = self
                            .y
                            .as_mut_ptr()
                            .add(n * sn + (o + i) * so + (y0 + r + k) * sy + j);
                        if count == S::LANES {
                            s.store(to, v);
                        } else {
                            s.store_n(to, count, v);
                        }
                    }
                }
            }
        }
        R
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rng, cases};
    use super::*;
    use crate::simd::at_every_level;

    fn agrees_with_reference<T: Lane>() {
        for (k, case) in cases::<T>(60, 11, Rng::any).iter().enumerate() {
            let (x, w, dy, win) = (case.x.view(), case.w.view(), case.dy.view(), &case.win);
            let len = forward_scratch(x.dims(), dy.dims(), win);
            case.check_forward(k, len, |b, relu, y, s| forward(x, w, b, relu, y, win, s));
            let len = input_grad_scratch(dy.dims(), x.dims(), win);
            case.check_input_grad(len, |dx, s| input_grad(dy, w, dx, win, s));
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
