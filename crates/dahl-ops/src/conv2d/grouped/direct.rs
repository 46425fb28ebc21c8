//! Grouped and dilated convolution directly from the input: sums of an output row stay in registers.
//!
//! Columns whose taps all lie in the input are computed by vectors, those at the edges one by one. The
//! input gradient with stride 1 is the same loop with the kernel turned round; with other strides gradients
//! are scattered, row by row.

use dahl_core::{View, ViewMut};

use super::Grouping;
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// `y = x ∗ w (+ bias) (then the positive part)`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    y: ViewMut<'_, T>,
    g: &Grouping,
) {
    g.assert(x.dims(), y.dims(), w.dims());
    let bias = bias.map(|b| {
        assert_eq!(
            b.dims(),
            [1, 1, 1, y.dims()[1]],
            "grouped conv2d: bias extents"
        );
        b.row([0, 0, 0])
    });
    let [so, sc, ..] = w.strides();
    T::vectorised(Correlate {
        x,
        w,
        between: [so, sc],
        bias,
        relu,
        y,
        stride: g.window.stride,
        step: g.dilation.map(|d| d as isize),
        first: g.window.shift.map(|s| -s),
        groups: g.groups,
    });
}

/// `dx`, overwritten, from `dy` and `w`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn input_grad<T: Lane>(
    dy: View<'_, T>,
    w: View<'_, T>,
    dx: ViewMut<'_, T>,
    g: &Grouping,
) {
    g.assert(dx.dims(), dy.dims(), w.dims());
    if g.window.stride != [1, 1] {
        return scatter(dy, w, dx, g);
    }
    let [so, sc, ..] = w.strides();
    T::vectorised(Correlate {
        x: dy,
        w,
        between: [sc, so],
        bias: None,
        relu: false,
        y: dx,
        stride: [1, 1],
        step: g.dilation.map(|d| -(d as isize)),
        first: g.window.shift,
        groups: g.groups,
    });
}

/// `dx = dy ∗ᵀ w` for any stride: each row of `dy` is added to the rows that it came from.
fn scatter<T: Lane>(dy: View<'_, T>, w: View<'_, T>, mut dx: ViewMut<'_, T>, g: &Grouping) {
    let ([samples, outs, rows, _], [_, ins, height, width]) = (dy.dims(), dx.dims());
    let (each, [kh, kw]) = (ins / g.groups, g.window.kernel);
    let (stride, dilation, shift) = (g.window.stride[1], g.dilation[1], g.window.shift[1]);
    dx.fill(T::ZERO);
    for n in 0..samples {
        for o in 0..outs {
            let first = o / (outs / g.groups) * each;
            for (c, i, a) in
                (0..each).flat_map(|c| (0..rows).flat_map(move |i| (0..kh).map(move |a| (c, i, a))))
            {
                let Some(h) = g.input(0, i, a, height) else {
                    continue;
                };
                let (from, to) = (dy.row([n, o, i]), dx.row([n, first + c, h]));
                for (b, &weight) in w.row([o, c, a]).iter().enumerate().take(kw) {
                    let offset = (b * dilation) as isize - shift;
                    let (lo, hi) = inside(offset, stride, width, from.len());
                    let to = to
                        .iter_mut()
                        .skip((lo * stride).wrapping_add_signed(offset));
                    for (to, &g) in to.step_by(stride).zip(&from[lo..hi]) {
                        *to += weight * g;
                    }
                }
            }
        }
    }
}

/// The range of outputs, of `count`, whose input `output · stride + offset` lies in `0..len`.
#[inline(always)]
pub(super) fn inside(offset: isize, stride: usize, len: usize, count: usize) -> (usize, usize) {
    let lo = (-offset).max(0) as usize;
    let lo = lo.div_ceil(stride).min(count);
    let reach = len as isize - offset;
    let hi = if reach <= 0 {
        0
    } else {
        (reach as usize).div_ceil(stride)
    };
    (lo, hi.clamp(lo, count))
}

/// `n ≤ LANES` elements from `from` on, `stride` apart.
///
/// # Safety
/// They can be read; lanes beyond are zero or further elements between them.
#[inline(always)]
pub(super) unsafe fn pick<T: Lane, S: Lanes<T>>(
    s: S,
    from: *const T,
    stride: usize,
    n: usize,
) -> S::V {
    // SAFETY: the last element read is the `n`th, at `(n − 1) · stride`.
    unsafe {
        match stride {
            1 if n == S::LANES => s.load(from),
            1 => s.load_n(from, n),
            2 => {
                let all = 2 * n - 1;
                let low = all.min(S::LANES);
                let a = s.load_n(from, low);
                let b = match all - low {
                    0 => s.splat(T::ZERO),
                    rest => s.load_n(from.add(S::LANES), rest),
                };
                s.unzip(a, b).0
            }
            _ => {
                let mut held = [T::ZERO; crate::simd::lanes::CHUNK];
                for (i, h) in held.iter_mut().enumerate().take(n) {
                    *h = *from.add(i * stride);
                }
                s.load(held.as_ptr())
            }
        }
    }
}

/// `y[o, i, j] = Σ w[o, c, a, b] · x[c, i·stride + a·step + first, …]` within each group.
struct Correlate<'a, T> {
    x: View<'a, T>,
    w: View<'a, T>,
    /// Elements of the filter between output channels, and between input channels, of a group.
    between: [usize; 2],
    bias: Option<&'a [T]>,
    relu: bool,
    y: ViewMut<'a, T>,
    stride: [usize; 2],
    step: [isize; 2],
    first: [isize; 2],
    groups: usize,
}

impl<T: Lane> Kernel<T> for Correlate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [samples, outs, rows, columns] = self.y.dims();
        let [_, ins, ..] = self.x.dims();
        let (out_each, in_each) = (outs / self.groups, ins / self.groups);
        let [filters, _, kh, kw] = self.w.dims();
        let per_group = filters / self.groups * self.w.strides()[0];
        // Columns for which every tap lies in the input.
        let width = self.x.dims()[3];
        let ends = [0, kw - 1].map(|b| self.first[1] + b as isize * self.step[1]);
        let ranges = ends.map(|offset| inside(offset, self.stride[1], width, columns));
        let lo = ranges[0].0.max(ranges[1].0);
        let hi = ranges[0].1.min(ranges[1].1).max(lo);
        for n in 0..samples {
            for o in 0..outs {
                let g = o / out_each;
                let weights = g * per_group + o % out_each * self.between[0];
                let start = self.bias.map_or(T::ZERO, |b| b[o]);
                for i in 0..rows {
                    let at = Row {
                        sample: n,
                        channel: g * in_each,
                        count: in_each,
                        i,
                        weights,
                    };
                    let out = self.y.row([n, o, i]).as_mut_ptr();
                    for j in (0..lo).chain(hi..columns) {
                        let v = self.edge(at, j, start, [kh, kw]);
                        // SAFETY: a column of the row.
                        unsafe {
                            *out.add(j) = if self.relu && v <= T::ZERO {
                                T::ZERO
                            } else {
                                v
                            }
                        };
                    }
                    let mut j = lo;
                    while j < hi {
                        let count = S::LANES.min(hi - j);
                        let mut v = self.columns(s, at, [j, count], start, [kh, kw]);
                        if self.relu {
                            v = s.relu(v);
                        }
                        // SAFETY: `count` columns from `j` on belong to the row.
                        unsafe {
                            match count == S::LANES {
                                true => s.store(out.add(j), v),
                                false => s.store_n(out.add(j), count, v),
                            }
                        }
                        j += count;
                    }
                }
            }
        }
    }
}

/// What makes an output row: the sample, its group's first input channel and how many, the row, and where
/// the weights begin.
#[derive(Clone, Copy)]
struct Row {
    sample: usize,
    channel: usize,
    count: usize,
    i: usize,
    weights: usize,
}

impl<T: Lane> Correlate<'_, T> {
    /// The input row that kernel row `a` connects with output row `i`.
    #[inline(always)]
    fn input_row(&self, i: usize, a: usize) -> Option<usize> {
        let h = (i * self.stride[0]) as isize + a as isize * self.step[0] + self.first[0];
        (h >= 0 && (h as usize) < self.x.dims()[2]).then_some(h as usize)
    }

    /// `count` outputs from column `j` on, all of whose taps lie in the input.
    #[inline(always)]
    fn columns<S: Lanes<T>>(
        &self,
        s: S,
        at: Row,
        [j, count]: [usize; 2],
        start: T,
        [kh, kw]: [usize; 2],
    ) -> S::V {
        let mut sum = s.splat(start);
        let [_, _, sy, sx] = self.w.strides();
        for c in 0..at.count {
            for a in 0..kh {
                let Some(h) = self.input_row(at.i, a) else {
                    continue;
                };
                let row = self.x.row([at.sample, at.channel + c, h]).as_ptr();
                for b in 0..kw {
                    let column =
                        (j * self.stride[1]) as isize + b as isize * self.step[1] + self.first[1];
                    let weight = at.weights + c * self.between[1] + a * sy + b * sx;
                    // SAFETY: the tap's columns lie in the row, and the weight in the filter.
                    unsafe {
                        let x = pick(s, row.offset(column), self.stride[1], count);
                        sum = s.madd(s.splat(*self.w.as_ptr().add(weight)), x, sum);
                    }
                }
            }
        }
        sum
    }

    /// One output, some of whose taps may lie outside.
    #[inline(always)]
    fn edge(&self, at: Row, j: usize, start: T, [kh, kw]: [usize; 2]) -> T {
        let (mut sum, [_, _, sy, sx]) = (start, self.w.strides());
        for c in 0..at.count {
            for a in 0..kh {
                let Some(h) = self.input_row(at.i, a) else {
                    continue;
                };
                let row = self.x.row([at.sample, at.channel + c, h]);
                for b in 0..kw {
                    let column =
                        (j * self.stride[1]) as isize + b as isize * self.step[1] + self.first[1];
                    if column >= 0 && (column as usize) < row.len() {
                        let weight = at.weights + c * self.between[1] + a * sy + b * sx;
                        // SAFETY: a weight of the filter.
                        sum += unsafe { *self.w.as_ptr().add(weight) } * row[column as usize];
                    }
                }
            }
        }
        sum
    }
}
