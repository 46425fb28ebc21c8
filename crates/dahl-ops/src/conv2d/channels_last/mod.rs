//! Convolution for images too narrow to fill vectors along a row, and too few input channels to fill
//! vectors of those: the inner layers of small networks.
//!
//! - [`forward`] has the output's channels side by side in a vector.
//! - [`filter`] and [`input`] hold the input *channels last*: pixel after pixel, all channels of each.
//!   What a row of the kernel reads, `kw · C` numbers, is then one contiguous run, for any position and
//!   without unfolding anything, and a weight's row of `[o][kh][kw · C]` meets it lane by lane.
//!
//! Images are turned round one sample at a time, in the first-level cache. All of them take the
//! gradient of the convolution's output either as it is or as a max-pooling behind it left it, see
//! [`Gradient`]. What is no use here: many input channels, where the module `packed` turns images
//! round more cheaply.

pub(crate) mod filter;
pub(crate) mod forward;
pub(crate) mod input;
#[cfg(test)]
mod tests;

use std::ops::Range;

use dahl_core::{View, ViewMut};

use super::conv_pool::code_columns;
use crate::float::Float;
use crate::simd::lanes::CHUNK;
use crate::window::Window;

/// How many times more lanes than numbers vectors have that hold `n` side by side.
pub(crate) fn waste(n: usize) -> f64 {
    n.next_multiple_of(CHUNK) as f64 / n.max(1) as f64
}

/// Elements of a kernel row's run in whole chunks.
fn run(channels: usize, win: &Window) -> usize {
    (win.kernel[1] * channels).next_multiple_of(CHUNK)
}

/// The place where aligned scratch memory begins.
fn aligned<T>(scratch: &mut [T]) -> &mut [T] {
    let skip = scratch.as_ptr().align_offset(64).min(CHUNK);
    &mut scratch[skip..]
}

/// The gradient of the convolution's output.
#[derive(Clone, Copy)]
pub(crate) enum Gradient<'a, T> {
    /// As it is, N×O×OH×OW.
    Plain(View<'a, T>),
    /// That of a max-pooling of it: one element per window, at the place its code names.
    Pooled {
        /// The pooled gradient, N×O×PH×PW.
        dy: View<'a, T>,
        /// The codes of [`super::conv_pool`].
        codes: View<'a, T>,
        /// The pooling window's side.
        side: usize,
    },
}

impl<T: Float> Gradient<'_, T> {
    /// Extents of the convolution's output, as far as the gradient reaches.
    pub(crate) fn dims(&self) -> [usize; 4] {
        match self {
            Gradient::Plain(dy) => dy.dims(),
            Gradient::Pooled { dy, side, .. } => unpooled(dy.dims(), *side),
        }
    }

    /// # Panics
    /// If gradient and codes do not belong together.
    fn check(&self) {
        if let Gradient::Pooled { dy, codes, side } = self {
            let [n, o, h, w] = dy.dims();
            assert!(matches!(side, 2 | 3), "pooling of {side}");
            let want = [n, o, h, code_columns::<T>(w)];
            assert_eq!(codes.dims(), want, "channels-last conv2d: code extents");
        }
    }

    /// Rows and columns of what is given, and how many of the convolution's outputs each stands for.
    #[inline(always)]
    fn given(&self) -> ([usize; 2], usize) {
        let (dy, side) = match self {
            Gradient::Plain(dy) => (dy, 1),
            Gradient::Pooled { dy, side, .. } => (dy, *side),
        };
        ([dy.dims()[2], dy.dims()[3]], side)
    }

    /// Where elements lie if a row and a column of output are `steps` apart.
    #[inline(always)]
    fn places(&self, steps: [usize; 2]) -> Places {
        let (_, side) = self.given();
        let mut of_code = [0; 16];
        for at in 0..side * side {
            of_code[at + 1] = at / side * steps[0] + at % side * steps[1];
        }
        Places {
            steps: steps.map(|s| s * side),
            of_code,
        }
    }

    /// Calls `f(place, value, whether it counts)` for some columns of a row of what is given.
    #[inline(always)]
    fn each(
        &self,
        [n, o, i]: [usize; 3],
        columns: Range<usize>,
        places: &Places,
        mut f: impl FnMut(usize, T, bool),
    ) {
        let (row, codes) = match *self {
            Gradient::Plain(dy) => (dy.row([n, o, i]), None),
            Gradient::Pooled { dy, codes, .. } => {
                let (row, codes) = (dy.row([n, o, i]), codes.row([n, o, i]).as_ptr());
                // SAFETY: any element is as many initialised bytes, and `check` saw that the row holds
                // one per window.
                let codes = unsafe { std::slice::from_raw_parts(codes.cast::<u8>(), row.len()) };
                (row, Some(codes))
            }
        };
        let mut corner = i * places.steps[0] + columns.start * places.steps[1];
        for j in columns {
            let code = codes.map_or(1, |codes| codes[j]);
            f(
                corner + places.of_code[usize::from(code) & 15],
                row[j],
                code != 0,
            );
            corner += places.steps[1];
        }
    }
}

/// Where elements of a gradient lie in some other memory.
struct Places {
    /// From one given row, and column, to the next.
    steps: [usize; 2],
    /// What to add for each code.
    of_code: [usize; 16],
}

/// Extents of a convolution's output of which pooled ones are given.
pub(crate) fn unpooled([n, o, h, w]: [usize; 4], side: usize) -> [usize; 4] {
    [n, o, h * side, w * side]
}

/// The layout of a channels-last image, the padding included.
#[derive(Clone, Copy)]
struct Image {
    channels: usize,
    rows: usize,
    columns: usize,
    /// Where the view's first row and column lie in it.
    shift: [isize; 2],
}

impl Image {
    /// What `outs` rows and columns of output read.
    fn new(channels: usize, win: &Window, outs: [usize; 2]) -> Self {
        let reach = |a: usize| match outs[a] {
            0 => 0,
            n => (n - 1) * win.stride[a] + win.kernel[a],
        };
        let (rows, columns) = (reach(0), reach(1));
        Image {
            channels,
            rows,
            columns,
            shift: win.shift,
        }
    }

    /// Elements from one row to the next: vectors may reach beyond the last pixel.
    #[inline(always)]
    fn line(&self) -> usize {
        self.columns * self.channels + CHUNK
    }

    fn len(&self) -> usize {
        self.rows * self.line()
    }

    /// The rows (or columns) of a view `len` long that lie in the image.
    #[inline(always)]
    fn inside(&self, axis: usize, len: usize) -> Range<usize> {
        let (shift, most) = (self.shift[axis], [self.rows, self.columns][axis]);
        let first = (-shift).clamp(0, len as isize) as usize;
        let end = (most as isize - shift).clamp(first as isize, len as isize) as usize;
        first..end
    }

    /// Where row `h` and column `w` of a view lie, which are inside.
    #[inline(always)]
    fn place(&self, h: usize, w: usize) -> usize {
        let at = |i: usize, a: usize| (i as isize + self.shift[a]) as usize;
        at(h, 0) * self.line() + at(w, 1) * self.channels
    }

    /// Takes a sample in. The padding is the caller's business: it stays the same for all samples.
    #[inline(always)]
    fn take<T: Float>(&self, x: View<'_, T>, n: usize, to: &mut [T]) {
        let [_, _, height, width] = x.dims();
        let columns = self.inside(1, width);
        if columns.is_empty() {
            return;
        }
        let ([sn, sc, sh, _], count) = (x.strides(), columns.len());
        assert_eq!(x.dims()[1], self.channels, "channels of an image");
        for h in self.inside(0, height) {
            let line = &mut to[self.place(h, columns.start)..][..count * self.channels];
            // SAFETY: row `h` and these columns lie in the view and in the line, for every channel.
            unsafe {
                let row = x.as_ptr().add(n * sn + h * sh + columns.start);
                for c in 0..self.channels {
                    let (from, to) = (row.add(c * sc), line.as_mut_ptr().add(c));
                    for j in 0..count {
                        *to.add(j * self.channels) = *from.add(j);
                    }
                }
            }
        }
    }

    /// Gives a sample back; what lies outside the image is zero.
    #[inline(always)]
    fn give<T: Float>(&self, from: &[T], mut x: ViewMut<'_, T>, n: usize) {
        let [_, _, height, width] = x.dims();
        let (rows, columns) = (self.inside(0, height), self.inside(1, width));
        for h in 0..height {
            if !rows.contains(&h) || columns.is_empty() {
                (0..self.channels).for_each(|c| x.row([n, c, h]).fill(T::ZERO));
                continue;
            }
            let line = &from[self.place(h, columns.start)..][..columns.len() * self.channels];
            for c in 0..self.channels {
                let row = x.row([n, c, h]);
                if columns.len() < width {
                    row.fill(T::ZERO);
                }
                for (j, v) in row[columns.clone()].iter_mut().enumerate() {
                    // SAFETY: the line holds as many pixels as there are columns.
                    *v = unsafe { *line.get_unchecked(j * self.channels + c) };
                }
            }
        }
    }
}
