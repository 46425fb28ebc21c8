//! Gradients of filter and bias, from inputs with channels last.
//!
//! For each element of the output's gradient that is not zero, its product with the runs under it is
//! added to the sums of one filter, which stay in registers. Behind a max-pooling that is a quarter
//! or a ninth of the work of an ordinary convolution. Elements come from a short list, so that no
//! branch depends on the data.

// Loops over small arrays are unrolled into registers.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use dahl_core::{View, ViewMut};

use super::{Gradient, Image, Places, aligned, run};
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};
use crate::window::Window;

/// Elements listed at a time.
const LIST: usize = 64;

/// Elements of scratch memory that [`filter_grad`] needs for an output gradient of extents `dy`.
pub(crate) fn scratch_len(x: [usize; 4], dy: [usize; 4], win: &Window) -> usize {
    let sums = dy[1] * (win.kernel[0] * run(x[1], win) + CHUNK);
    CHUNK + Image::new(x[1], win, [dy[2], dy[3]]).len() + sums
}

/// `dw +=`, `db +=` from the input and the gradient of the convolution's output.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`scratch_len`].
pub(crate) fn filter_grad<T: Lane>(
    x: View<'_, T>,
    dy: Gradient<'_, T>,
    dw: ViewMut<'_, T>,
    db: Option<ViewMut<'_, T>>,
    win: &Window,
    scratch: &mut [T],
) {
    dy.check();
    let ([n, c, ..], [yn, o, oh, ow]) = (x.dims(), dy.dims());
    assert_eq!(
        dw.dims(),
        [o, c, win.kernel[0], win.kernel[1]],
        "channels-last conv2d: filter extents"
    );
    assert_eq!(n, yn, "channels-last conv2d: batch extents");
    assert!(
        db.as_ref().is_none_or(|b| b.dims() == [1, 1, 1, o]),
        "channels-last conv2d: bias extents"
    );
    let image = Image::new(c, win, [oh, ow]);
    let run = run(c, win);
    let (held, rest) = aligned(scratch).split_at_mut(image.len());
    let (sums, rest) = rest.split_at_mut(o * win.kernel[0] * run);
    T::vectorised(Filter {
        x,
        dy,
        dw,
        db,
        win: *win,
        image,
        run,
        held,
        sums,
        totals: &mut rest[..o * CHUNK],
    });
}

struct Filter<'a, T> {
    x: View<'a, T>,
    dy: Gradient<'a, T>,
    dw: ViewMut<'a, T>,
    db: Option<ViewMut<'a, T>>,
    win: Window,
    image: Image,
    run: usize,
    held: &'a mut [T],
    /// `[o][kh][run]`
    sums: &'a mut [T],
    /// A chunk per bias.
    totals: &'a mut [T],
}

/// Elements that are not zero, and where what they multiply begins.
struct List<T> {
    len: usize,
    places: [usize; LIST],
    values: [T; LIST],
}

impl<T: Lane> List<T> {
    /// Lists some columns of a row. There must be room for all of them.
    #[inline(always)]
    fn extend(
        &mut self,
        dy: &Gradient<'_, T>,
        row: [usize; 3],
        columns: Range<usize>,
        places: &Places,
    ) {
        let mut len = self.len;
        dy.each(row, columns, places, |at, g, counts| {
            self.places[len] = at;
            self.values[len] = g;
            len += usize::from(counts);
        });
        self.len = len;
    }
}

impl<T: Lane> Kernel<T> for Filter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [batch, outs, ..] = self.dy.dims();
        let ([rows, columns], _) = self.dy.given();
        let [sh, sw] = self.win.stride;
        let steps = [sh * self.image.line(), sw * self.image.channels];
        let places = self.dy.places(steps);
        self.held.fill(T::ZERO);
        self.sums.fill(T::ZERO);
        self.totals.fill(T::ZERO);
        let mut list = List {
            len: 0,
            places: [0; LIST],
            values: [T::ZERO; LIST],
        };
        for n in 0..batch {
            self.image.take(self.x, n, self.held);
            for o in 0..outs {
                for i in 0..rows {
                    for j in (0..columns).step_by(LIST) {
                        let segment = j..columns.min(j + LIST);
                        if list.len + segment.len() > LIST {
                            self.add(s, o, &mut list);
                        }
                        list.extend(&self.dy, [n, o, i], segment, &places);
                    }
                }
                self.add(s, o, &mut list);
            }
        }
        self.finish(s);
    }
}

impl<T: Lane> Filter<'_, T> {
    /// Adds what is listed to the sums of filter `o`.
    #[inline(always)]
    fn add<S: Lanes<T>>(&mut self, s: S, o: usize, list: &mut List<T>) {
        let (kh, vectors) = (self.win.kernel[0], self.run / S::LANES);
        let mut k = 0;
        while k < kh {
            let mut v = 0;
            while v < vectors {
                let wide = v + 1 < vectors;
                match (kh - k, wide) {
                    (5.., true) => self.block::<S, 5, 2>(s, [o, k, v], list),
                    (3.., true) => self.block::<S, 3, 2>(s, [o, k, v], list),
                    (_, true) => self.block::<S, 1, 2>(s, [o, k, v], list),
                    (5.., false) => self.block::<S, 5, 1>(s, [o, k, v], list),
                    (3.., false) => self.block::<S, 3, 1>(s, [o, k, v], list),
                    (_, false) => self.block::<S, 1, 1>(s, [o, k, v], list),
                }
                v += 1 + usize::from(wide);
            }
            k += match kh - k {
                5.. => 5,
                3.. => 3,
                _ => 1,
            };
        }
        // SAFETY: a chunk per filter, which is at least a vector; `n` elements are left in the list.
        unsafe {
            let total = self.totals.as_mut_ptr().add(o * CHUNK);
            let mut sum = s.load(total);
            for i in (0..list.len).step_by(S::LANES) {
                let n = S::LANES.min(list.len - i);
                sum = s.add(sum, s.load_n(list.values.as_ptr().add(i), n));
            }
            s.store(total, sum);
        }
        list.len = 0;
    }

    /// `A` kernel rows by `V` vectors of their runs.
    #[inline(always)]
    fn block<S: Lanes<T>, const A: usize, const V: usize>(
        &mut self,
        s: S,
        [o, k, v]: [usize; 3],
        list: &List<T>,
    ) {
        let (kh, line) = (self.win.kernel[0], self.image.line());
        // SAFETY: the sums hold `kh` runs per filter, in which the vectors lie. Places are those of
        // outputs, so all rows under them lie in the image, whose lines are a chunk longer than the
        // last run reaches.
        unsafe {
            let sums = self.sums.as_mut_ptr();
            let sums = sums.add((o * kh + k) * self.run + v * S::LANES);
            let from = self.held.as_ptr().add(k * line + v * S::LANES);
            let mut acc = [[s.splat(T::ZERO); V]; A];
            for a in 0..A {
                for i in 0..V {
                    acc[a][i] = s.load(sums.add(a * self.run + i * S::LANES));
                }
            }
            for at in 0..list.len {
                let x = from.add(*list.places.get_unchecked(at));
                let g = s.splat(*list.values.get_unchecked(at));
                for a in 0..A {
                    for i in 0..V {
                        let x = s.load(x.add(a * line + i * S::LANES));
                        acc[a][i] = s.madd(g, x, acc[a][i]);
                    }
                }
            }
            for a in 0..A {
                for i in 0..V {
                    s.store(sums.add(a * self.run + i * S::LANES), acc[a][i]);
                }
            }
        }
    }

    #[inline(always)]
    fn finish<S: Lanes<T>>(&mut self, s: S) {
        let ([outs, channels, kh, kw], [so, sc, sy, _]) = (self.dw.dims(), self.dw.strides());
        assert!(self.sums.len() >= outs * kh * self.run && kw * channels <= self.run);
        for at in 0..outs * kh {
            // SAFETY: row `at % kh` of filter `at / kh`, and the run with its sums.
            unsafe {
                let row = self.dw.as_mut_ptr().add(at / kh * so + at % kh * sy);
                let sums = self.sums.as_ptr().add(at * self.run);
                for c in 0..channels {
                    for l in 0..kw {
                        *row.add(c * sc + l) += *sums.add(l * channels + c);
                    }
                }
            }
        }
        if let Some(db) = &mut self.db {
            let totals = self.totals.chunks_exact(CHUNK);
            for (b, total) in db.row([0, 0, 0]).iter_mut().zip(totals) {
                // SAFETY: a chunk is at least a vector.
                *b += unsafe { s.sum(s.load(total.as_ptr())) };
            }
        }
    }
}
