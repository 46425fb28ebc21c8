//! Convolution, bias, positive part and max-pooling in one pass that writes the pooled output only.
//!
//! Only for pooling windows of 2×2 or 3×3 with the same stride and no padding: each output of the
//! convolution then belongs to one window, and the register lanes can be *windows*: the outputs that
//! share a position in their windows lie in one register (see `bank`), so pooling is a
//! lane-wise maximum of registers that never went to memory.
//!
//! For the backward pass it leaves a **code** per window: 0 if nothing passed the positive part, else
//! 1 + the position of the (first) maximum. Codes are bytes, packed in elements of `T` because arrays
//! hold nothing else: a row of `w` windows has `⌈w / size_of T⌉` elements, see [`code_columns`]. That
//! is a quarter (f32) or an eighth (f64) of the pooled output, where an index per element would equal
//! it and the mask of the convolution's output exceed it. Bytes stay below ten, so an element holding
//! them is an ordinary finite number, but only its bits mean anything.

use dahl_core::{View, ViewMut};

use super::bank::Bank;
use super::direct::{Taps, block};
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};
use crate::window::Window;

/// Whether this module can pool `kernel` with `stride` and `padding`.
pub fn supports(kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> bool {
    kernel == stride && padding == [0, 0] && matches!(kernel, [2, 2] | [3, 3])
}

/// Elements of `T` that hold the codes of a row of `windows` pooling windows.
pub(crate) const fn code_columns<T>(windows: usize) -> usize {
    windows.div_ceil(size_of::<T>())
}

/// Elements of scratch memory that [`forward`] needs for a pooled output of extents `y`.
pub(crate) fn forward_scratch(x: [usize; 4], y: [usize; 4], win: &Window, pool: usize) -> usize {
    bank(x[1], y, win, pool).len()
}

pub(super) fn bank(channels: usize, y: [usize; 4], win: &Window, pool: usize) -> Bank {
    Bank::new(channels, win, [y[2] * pool, y[3] * pool], [pool, pool])
}

/// Refuses operands of a fused convolution that do not belong together.
pub(super) fn check<T: Lane>(
    x: &View<'_, T>,
    w: &View<'_, T>,
    bias: Option<&View<'_, T>>,
    y: &ViewMut<'_, T>,
    codes: &ViewMut<'_, T>,
    win: &Window,
    pool: usize,
) {
    let ([n, c, ..], [yn, o, ph, pw]) = (x.dims(), y.dims());
    assert!(matches!(pool, 2 | 3), "fused pooling of {pool}");
    let filter = [o, c, win.kernel[0], win.kernel[1]];
    assert_eq!(w.dims(), filter, "fused conv2d: filter extents");
    let columns = [n, o, ph, code_columns::<T>(pw)];
    assert_eq!(codes.dims(), columns, "fused conv2d: code extents");
    assert_eq!(n, yn, "fused conv2d: batch extents");
    let fits = bias.is_none_or(|b| b.dims() == [1, 1, 1, o]);
    assert!(fits, "fused conv2d: bias extents");
}

/// `y = max-pool(relu(x ∗ w + bias))` and the codes.
///
/// `x` is N×C×H×W, `w` O×C×KH×KW, `bias` 1×1×1×O, `y` N×O×PH×PW and `codes`
/// N×O×PH×[`code_columns`]; tiles may be cut anywhere except, for `codes`, inside a row. `win` maps
/// outputs of the *convolution*, of which the first belongs to the first pooling window.
///
/// # Panics
/// If `pool` is neither 2 nor 3, the extents do not belong together or `scratch` is shorter than
/// [`forward_scratch`].
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
    let c = x.dims()[1];
    let bank = bank(c, y.dims(), win, pool);
    let taps = Taps {
        first: w.as_ptr(),
        steps: w.strides().map(|s| s as isize),
    };
    let bias = bias.map(|b| b.row([0, 0, 0]));
    let kernel = Forward {
        x,
        taps,
        bias,
        y,
        codes,
        bank,
        scratch,
    };
    match pool {
        2 => T::vectorised(Pooled::<_, 2>(kernel)),
        _ => T::vectorised(Pooled::<_, 3>(kernel)),
    }
}

struct Forward<'a, T> {
    x: View<'a, T>,
    taps: Taps<T>,
    bias: Option<&'a [T]>,
    y: ViewMut<'a, T>,
    codes: ViewMut<'a, T>,
    bank: Bank,
    scratch: &'a mut [T],
}

struct Pooled<K, const P: usize>(K);

impl<T: Lane, const P: usize> Kernel<T> for Pooled<Forward<'_, T>, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let mut f = self.0;
        let [batch, outs, height, _] = f.y.dims();
        let band = f.bank.out_rows / P;
        let (held, _) = f.bank.carve(std::mem::take(&mut f.scratch));
        for n in 0..batch {
            for y0 in (0..height).step_by(band) {
                f.bank.fill(s, held, f.x, n, y0 * P);
                for y in 0..band.min(height - y0) {
                    let mut o = 0;
                    while o < outs {
                        o += match outs - o {
                            4.. if S::ROWS > 6 && P == 2 => {
                                f.row::<S, 4, P>(s, held, [n, o, y0], y)
                            }
                            2.. if S::ROWS > 6 || P == 2 => {
                                f.row::<S, 2, P>(s, held, [n, o, y0], y)
                            }
                            _ => f.row::<S, 1, P>(s, held, [n, o, y0], y),
                        };
                    }
                }
            }
        }
    }
}

impl<T: Lane> Forward<'_, T> {
    /// One row of windows for `OB` channels; returns `OB`.
    #[inline(always)]
    fn row<S: Lanes<T>, const OB: usize, const P: usize>(
        &mut self,
        s: S,
        held: &[T],
        [n, o, y0]: [usize; 3],
        y: usize,
    ) -> usize {
        let ([sn, so, sy, _], [cn, co, cy, _]) = (self.y.strides(), self.codes.strides());
        let width = self.y.dims()[3];
        let init: [T; OB] = std::array::from_fn(|i| self.bias.map_or(T::ZERO, |b| b[o + i]));
        // SAFETY: the first weight of channel `o`, which exists.
        let first = unsafe { self.taps.first.offset(o as isize * self.taps.steps[0]) };
        let taps = Taps { first, ..self.taps };
        let zero = s.splat(T::ZERO);
        for j in (0..width).step_by(S::LANES) {
            let count = S::LANES.min(width - j);
            // SAFETY: the bank was filled for these rows and columns; the stores reach `count`
            // elements and bytes of rows that exist.
            unsafe {
                let from = held
                    .as_ptr()
                    .add(y * P * self.bank.win.stride[0] * self.bank.row() + j);
                let acc = block::<T, S, OB, P, P>(s, &self.bank, from, taps, init);
                for (i, acc) in acc.iter().enumerate() {
                    let mut best = acc[0][0];
                    let mut code = s.splat(T::ONE);
                    for at in 1..P * P {
                        let v = acc[at / P][at % P];
                        let higher = s.above(v, best);
                        best = s.select(higher, v, best);
                        code = s.select(higher, s.splat(T::from_f64((at + 1) as f64)), code);
                    }
                    code = s.select(s.above(best, zero), code, zero);
                    best = s.relu(best);
                    let to = self
                        .y
                        .as_mut_ptr()
                        .add(n * sn + (o + i) * so + (y0 + y) * sy + j);
                    let row = self
                        .codes
                        .as_mut_ptr()
                        .add(n * cn + (o + i) * co + (y0 + y) * cy);
                    s.store_n(to, count, best);
                    s.store_bytes(row.cast::<u8>().add(j), count, code);
                }
            }
        }
        OB
    }
}
