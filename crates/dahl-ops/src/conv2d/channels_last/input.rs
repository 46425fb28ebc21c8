//! Gradients of the input, gathered with channels last.
//!
//! An element of the output's gradient adds its product with each row of the filter to a run of the
//! input's gradient. A column of such elements is taken at once: the rows of runs they add to stay in
//! registers while filters and kernel rows go by, so that nothing is added to memory but what a
//! column leaves, and no multiplication is spent on the padding. Only for stride 1 and kernels three
//! or five high: the rows in registers must be known when this is compiled.

// Loops over small arrays are unrolled into registers.
#![allow(clippy::needless_range_loop)]

use dahl_core::{View, ViewMut};

use super::{Gradient, Image, aligned, run};
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};
use crate::window::Window;

/// Output rows taken at once.
const BLOCKS: [usize; 2] = [8, 10];

/// Whether [`input_grad`] can serve this window.
pub(crate) fn supports(win: &Window) -> bool {
    win.stride == [1, 1] && matches!(win.kernel[0], 3 | 5)
}

/// Whether it is a good way to: vectors of runs that are mostly full, of few channels.
pub fn pays(channels: usize, win: &Window) -> bool {
    supports(win) && channels < 12 && super::waste(channels * win.kernel[1]) < 1.6
}

/// Elements of scratch memory that [`input_grad`] needs for an output gradient of extents `dy`.
pub(crate) fn scratch_len(dx: [usize; 4], dy: [usize; 4], win: &Window) -> usize {
    let (image, rows, _) = layout(dx[1], [dy[2], dy[3]], win);
    let weights = dy[1] * win.kernel[0] * run(dx[1], win);
    CHUNK + image.len() + weights + dy[1] * dy[3] * rows
}

/// The image that the gradient adds to, its output rows in whole blocks, and the rows of a block.
fn layout(channels: usize, [oh, ow]: [usize; 2], win: &Window) -> (Image, usize, usize) {
    let [a, b] = BLOCKS.map(|n| oh.next_multiple_of(n));
    let (rows, block) = if b <= a {
        (b, BLOCKS[1])
    } else {
        (a, BLOCKS[0])
    };
    (Image::new(channels, win, [rows, ow]), rows, block)
}

/// `dx`, overwritten, from the gradient of the convolution's output and the filter.
///
/// # Panics
/// If the extents do not belong together, the window is not one that [`supports`] accepts or `scratch`
/// is shorter than [`scratch_len`].
pub(crate) fn input_grad<T: Lane>(
    dy: Gradient<'_, T>,
    w: View<'_, T>,
    dx: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    dy.check();
    let ([n, o, oh, ow], [xn, c, ..]) = (dy.dims(), dx.dims());
    let kernel = win.kernel;
    assert!(supports(win), "channels-last conv2d: {win:?}");
    assert_eq!(
        w.dims(),
        [o, c, kernel[0], kernel[1]],
        "channels-last conv2d: filter extents"
    );
    assert_eq!(n, xn, "channels-last conv2d: batch extents");
    let (image, rows, block) = layout(c, [oh, ow], win);
    let run = run(c, win);
    let (held, rest) = aligned(scratch).split_at_mut(image.len());
    let (weights, rest) = rest.split_at_mut(o * kernel[0] * run);
    let input = Input {
        dy,
        w,
        dx,
        image,
        run,
        rows,
        held,
        weights,
        columns: &mut rest[..o * ow * rows],
    };
    match (kernel[0], block) {
        (3, 8) => T::vectorised(Tall::<_, 3, 8>(input)),
        (3, _) => T::vectorised(Tall::<_, 3, 10>(input)),
        (_, 8) => T::vectorised(Tall::<_, 5, 8>(input)),
        (_, _) => T::vectorised(Tall::<_, 5, 10>(input)),
    }
}

struct Input<'a, T> {
    dy: Gradient<'a, T>,
    w: View<'a, T>,
    dx: ViewMut<'a, T>,
    image: Image,
    run: usize,
    /// Output rows in whole blocks.
    rows: usize,
    held: &'a mut [T],
    /// `[o][kh][run]`, zeros behind the last column.
    weights: &'a mut [T],
    /// The output's gradient, `[column][o][row]`, zeros behind the last row.
    columns: &'a mut [T],
}

/// For kernels `K` high and blocks of `R` output rows.
struct Tall<I, const K: usize, const R: usize>(I);

/// Rows of the input that a block reaches, at most.
const REACH: usize = 14;

impl<T: Lane, const K: usize, const R: usize> Kernel<T> for Tall<Input<'_, T>, K, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        const { assert!(K + R - 1 <= REACH) };
        let mut i = self.0;
        let [batch, outs, _, ow] = i.dy.dims();
        let (given, _) = i.dy.given();
        let places = i.dy.places([1, outs * i.rows]);
        i.turn_filter();
        for n in 0..batch {
            i.columns.fill(T::ZERO);
            for o in 0..outs {
                let columns = &mut i.columns[o * i.rows..];
                for row in 0..given[0] {
                    i.dy.each([n, o, row], 0..given[1], &places, |at, g, counts| {
                        // What does not count has a place of its own: no branch on the data.
                        columns[at] = if counts { g } else { T::ZERO };
                    });
                }
            }
            i.held.fill(T::ZERO);
            for v in 0..i.run / S::LANES {
                for x in 0..ow {
                    for y in (0..i.rows).step_by(R) {
                        i.block::<S, K, R>(s, [v, x, y], outs);
                    }
                }
            }
            i.image.give(i.held, i.dx.reborrow(), n);
        }
    }
}

impl<T: Lane> Input<'_, T> {
    #[inline(always)]
    fn turn_filter(&mut self) {
        let ([outs, channels, kh, kw], [so, sc, sy, _]) = (self.w.dims(), self.w.strides());
        assert!(self.weights.len() >= outs * kh * self.run && kw * channels <= self.run);
        self.weights.fill(T::ZERO);
        for at in 0..outs * kh {
            // SAFETY: row `at % kh` of filter `at / kh`, and its run.
            unsafe {
                let row = self.w.as_ptr().add(at / kh * so + at % kh * sy);
                let to = self.weights.as_mut_ptr().add(at * self.run);
                for c in 0..channels {
                    for l in 0..kw {
                        *to.add(l * channels + c) = *row.add(c * sc + l);
                    }
                }
            }
        }
    }

    /// What rows `y..y + R` of column `x` add to vector `v` of their runs.
    #[inline(always)]
    fn block<S: Lanes<T>, const K: usize, const R: usize>(
        &mut self,
        s: S,
        [v, x, y]: [usize; 3],
        outs: usize,
    ) {
        let (line, run) = (self.image.line(), self.run);
        // SAFETY: the image was laid out for all rows of all blocks and all columns, its lines a chunk
        // longer than the last run reaches; weights and columns hold `outs` filters of `K` runs and
        // rows in whole blocks.
        unsafe {
            let to = self.held.as_mut_ptr();
            let to = to.add(y * line + x * self.image.channels + v * S::LANES);
            let mut acc = [s.splat(T::ZERO); REACH];
            for i in 0..K + R - 1 {
                acc[i] = s.load(to.add(i * line));
            }
            let mut w = self.weights.as_ptr().add(v * S::LANES);
            let mut g = self.columns.as_ptr().add(x * outs * self.rows + y);
            for _ in 0..outs {
                for k in 0..K {
                    let row = s.load(w.add(k * run));
                    for i in 0..R {
                        acc[k + i] = s.madd(row, s.splat(*g.add(i)), acc[k + i]);
                    }
                }
                w = w.wrapping_add(K * run);
                g = g.wrapping_add(self.rows);
            }
            for i in 0..K + R - 1 {
                s.store(to.add(i * line), acc[i]);
            }
        }
    }
}
