//! Convolution as matrix products over blocks of output positions, for any window.
//!
//! The input that a block of positions sees is unfolded into a matrix with one row per channel and
//! kernel position and one column per output position, small enough to stay in a core's own cache;
//! a block may span several samples, so that small images still give wide matrices. A 1×1 window of
//! stride 1 needs no unfolding and multiplies the views where they lie.
//!
//! Nothing is unfolded for a whole image, and memory comes from the caller.

use std::ops::Range;

use dahl_core::view::{View, ViewMut};

use crate::elementwise::walk::update;
use crate::float::Float;
use crate::linalg::matmul::{Mat, MatMut, matmul};
use crate::window::Window;

/// Elements of an unfolded block that should stay near the core.
const BLOCK: usize = 1 << 17;

/// Extents of one convolution, and how it is cut into blocks.
#[derive(Clone, Copy)]
struct Plan {
    filters: usize,
    /// Rows of the unfolded matrix: channels × kernel positions.
    depth: usize,
    out: [usize; 2],
    /// Output positions of all samples.
    positions: usize,
    /// Positions of a block.
    block: usize,
}

impl Plan {
    /// From the extents of input and output.
    fn new(x: [usize; 4], y: [usize; 4], win: &Window) -> Self {
        let depth = x[1] * win.kernel[0] * win.kernel[1];
        let positions = y[0] * y[2] * y[3];
        let block = (BLOCK / depth)
            .clamp(48, 1024)
            .next_multiple_of(16)
            .min(positions);
        Plan {
            filters: y[1],
            depth,
            out: [y[2], y[3]],
            positions,
            block,
        }
    }

    /// The unfolded block, the outputs of the block, and a copy of a filter that is not flat.
    fn scratch_len(&self) -> usize {
        self.block * (self.depth + self.filters) + self.filters * self.depth
    }

    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.positions)
            .step_by(self.block)
            .map(move |p| p..(p + self.block).min(self.positions))
    }

    /// Cuts a range of positions into runs inside one output row: `f(n, i, j, place in range)`.
    fn runs(&self, range: Range<usize>, mut f: impl FnMut(usize, usize, Range<usize>, usize)) {
        let (mut p, [height, width]) = (range.start, self.out);
        while p < range.end {
            let (n, i, j) = (p / (height * width), p / width % height, p % width);
            let end = width.min(j + range.end - p);
            f(n, i, j..end, p - range.start);
            p += end - j;
        }
    }

    /// Splits the caller's scratch into unfolded block, outputs of the block, filter.
    fn split<'s, T>(&self, scratch: &'s mut [T]) -> [&'s mut [T]; 3] {
        let (unfolded, rest) = scratch.split_at_mut(self.block * self.depth);
        let (outputs, rest) = rest.split_at_mut(self.block * self.filters);
        [unfolded, outputs, &mut rest[..self.filters * self.depth]]
    }
}

/// Elements of scratch that [`forward`], [`input_grad`] and [`filter_grad`] need, from the extents of
/// input (or its gradient) and output (or its gradient).
pub(crate) fn scratch_len(x: [usize; 4], y: [usize; 4], win: &Window) -> usize {
    Plan::new(x, y, win).scratch_len()
}

/// Panics unless input, filter and output belong to one convolution: kernels trust these extents.
pub(super) fn check_extents(x: [usize; 4], w: [usize; 4], y: [usize; 4], win: &Window) {
    let fits = x[0] == y[0] && w == [y[1], x[1], win.kernel[0], win.kernel[1]];
    assert!(fits, "convolution of {x:?} by {w:?} ({win:?}) to {y:?}");
}

/// Planes of fewer elements are gathered from several samples: products of one sample are then too narrow for what it
/// takes to arrange the filter. Measured with planes of 16 (half as fast alone) and of 64 (faster alone).
const WIDE: usize = 48;

/// The images of a window that only mixes channels, each plane as one row; the same images if it does more.
fn planes_as_rows<'x, 'y, T: Float>(
    win: &Window,
    x: View<'x, T>,
    y: &'y mut ViewMut<'_, T>,
) -> (View<'x, T>, ViewMut<'y, T>) {
    if !is_pointwise(win, x, y.as_view()) {
        return (x, y.reborrow());
    }
    let rows = (x.planes_as_rows(), y.planes_as_rows());
    (
        rows.0.expect("both have rows"),
        rows.1.expect("both have rows"),
    )
}

/// Whether the window only mixes channels and both images can be multiplied where they lie.
fn is_pointwise<T: Float>(win: &Window, x: View<'_, T>, y: View<'_, T>) -> bool {
    win.kernel == [1, 1]
        && win.stride == [1, 1]
        && win.shift == [0, 0]
        && x.dims()[2..] == y.dims()[2..]
        && x.planes_as_rows().is_some()
        && y.planes_as_rows().is_some()
}

/// The filter as a matrix with one row per filter, copied to `spare` if its rows are not flat.
fn filter_matrix<'a, T: Float>(w: View<'a, T>, spare: &'a mut [T]) -> Mat<'a, T> {
    let ([filters, channels, kh, kw], strides) = (w.dims(), w.strides());
    let depth = channels * kh * kw;
    if is_flat(w.dims(), strides) {
        // SAFETY: rows of `depth` elements at stride 1, all inside the view.
        return unsafe { Mat::from_raw(w.as_ptr(), filters, depth, strides[0]) };
    }
    ViewMut::from_slice(spare, w.dims()).copy_from(w);
    Mat::from_slice(spare, filters, depth, depth)
}

/// Whether each filter's elements lie next to each other.
fn is_flat([_, channels, kh, kw]: [usize; 4], strides: [usize; 4]) -> bool {
    (kh == 1 || strides[2] == kw) && (channels == 1 || strides[1] == kh * kw)
}

/// One channel of one sample as a row of a matrix of channels.
fn channels<T>(v: View<'_, T>, n: usize) -> Mat<'_, T> {
    let ([_, c, h, w], s) = (v.dims(), v.strides());
    // SAFETY: only called for images whose planes are rows (`is_pointwise`): their `h · w` elements are adjacent.
    unsafe { Mat::from_raw(v.as_ptr().add(n * s[0]), c, h * w, s[1]) }
}

/// As [`channels`], to write.
fn channels_mut<'a, T>(v: &'a mut ViewMut<'_, T>, n: usize) -> MatMut<'a, T> {
    let ([_, c, h, w], s) = (v.dims(), v.strides());
    // SAFETY: as `channels`; the borrow of the view is exclusive.
    unsafe { MatMut::from_raw(v.as_mut_ptr().add(n * s[0]), c, h * w, s[1]) }
}

/// Output columns `j` whose input for kernel column `b` lies inside a row of `width`.
fn inside(win: &Window, b: usize, j: &Range<usize>, width: usize) -> Range<usize> {
    let (s, first) = (win.stride[1] as isize, win.shift[1] - b as isize);
    // First column with j·s ≥ first, and first with j·s ≥ first + width.
    let ceil = |a: isize| (a + s - 1).div_euclid(s);
    let (lo, hi) = (j.start as isize, j.end as isize);
    let start = ceil(first).clamp(lo, hi);
    let end = ceil(first + width as isize).clamp(start, hi);
    start as usize..end as usize
}

/// Unfolds the input seen by the positions in `range`; rows of `range.len()` elements.
fn unfold<T: Float>(x: View<'_, T>, plan: &Plan, range: Range<usize>, win: &Window, to: &mut [T]) {
    let ([_, channels, height, width], [kh, kw]) = (x.dims(), win.kernel);
    let row_len = range.len();
    plan.runs(range, |n, i, j, at| {
        for a in 0..kh {
            let h = win.input(0, i, a, height);
            for b in 0..kw {
                let valid = inside(win, b, &j, width);
                for c in 0..channels {
                    let start = ((c * kh + a) * kw + b) * row_len + at;
                    let out = &mut to[start..start + j.len()];
                    let Some(h) = h.filter(|_| !valid.is_empty()) else {
                        out.fill(T::ZERO);
                        continue;
                    };
                    out[..valid.start - j.start].fill(T::ZERO);
                    out[valid.end - j.start..].fill(T::ZERO);
                    let out = &mut out[valid.start - j.start..valid.end - j.start];
                    let from = valid.start * win.stride[1] + b;
                    let row = &x.row([n, c, h])[(from as isize - win.shift[1]) as usize..];
                    match win.stride[1] {
                        1 => out.copy_from_slice(&row[..out.len()]),
                        2 => out
                            .iter_mut()
                            .zip(row.chunks(2))
                            .for_each(|(o, r)| *o = r[0]),
                        s => out
                            .iter_mut()
                            .zip(row.iter().step_by(s))
                            .for_each(|(o, &r)| *o = r),
                    }
                }
            }
        }
    });
}

/// Adds an unfolded block to the input positions it came from.
fn fold<T: Float>(
    from: &[T],
    plan: &Plan,
    range: Range<usize>,
    win: &Window,
    dx: &mut ViewMut<'_, T>,
) {
    let ([_, channels, height, width], [kh, kw]) = (dx.dims(), win.kernel);
    let row_len = range.len();
    plan.runs(range, |n, i, j, at| {
        for a in 0..kh {
            let Some(h) = win.input(0, i, a, height) else {
                continue;
            };
            for b in 0..kw {
                let valid = inside(win, b, &j, width);
                if valid.is_empty() {
                    continue;
                }
                let to = (valid.start * win.stride[1] + b) as isize - win.shift[1];
                for c in 0..channels {
                    let start = ((c * kh + a) * kw + b) * row_len + at + valid.start - j.start;
                    let from = &from[start..start + valid.len()];
                    let row = &mut dx.row([n, c, h])[to as usize..];
                    match win.stride[1] {
                        1 => row.iter_mut().zip(from).for_each(|(r, &f)| *r += f),
                        s => row
                            .iter_mut()
                            .step_by(s)
                            .zip(from)
                            .for_each(|(r, &f)| *r += f),
                    }
                }
            }
        }
    });
}

/// Computes `y` from input, filter and bias; negative results become zero if `relu`.
///
/// # Panics
/// If `scratch` is shorter than [`scratch_len`], or extents do not fit.
pub(crate) fn forward<T: Float>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    mut y: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    check_extents(x.dims(), w.dims(), y.dims(), win);
    let (x, mut y) = planes_as_rows(win, x, &mut y);
    let plan = Plan::new(x.dims(), y.dims(), win);
    let [unfolded, outputs, spare] = plan.split(scratch);
    let w = filter_matrix(w, spare);
    let as_it_is = bias.is_none() && !relu;
    let bias = |o: usize| bias.map_or(T::ZERO, |b| b.row([0, 0, 0])[o]);
    let finish = |v: T| if relu && v < T::ZERO { T::ZERO } else { v };
    if is_pointwise(win, x, y.as_view()) && x.dims()[3] >= WIDE {
        let [samples, filters, _, width] = y.dims();
        for n in 0..samples {
            matmul(w, channels(x, n), channels_mut(&mut y, n), false);
            for o in (0..filters).filter(|_| !as_it_is) {
                let (row, b) = (y.part([n, o, 0, 0], [1, 1, 1, width]), bias(o));
                update([row], [], |[v], []| [finish(v + b)]);
            }
        }
        return;
    }
    for range in plan.blocks() {
        let len = range.len();
        unfold(x, &plan, range.clone(), win, unfolded);
        let product = MatMut::from_slice(outputs, plan.filters, len, len);
        matmul(
            w,
            Mat::from_slice(unfolded, plan.depth, len, len),
            product,
            false,
        );
        plan.runs(range, |n, i, j, at| {
            for o in 0..plan.filters {
                let from = &outputs[o * len + at..][..j.len()];
                let (to, b) = (&mut y.row([n, o, i])[j.clone()], bias(o));
                to.iter_mut()
                    .zip(from)
                    .for_each(|(t, &f)| *t = finish(f + b));
            }
        });
    }
}

/// Copies the output gradients of a block into a matrix with one row per filter.
fn collect<T: Float>(dy: View<'_, T>, plan: &Plan, range: Range<usize>, to: &mut [T]) {
    let len = range.len();
    plan.runs(range, |n, i, j, at| {
        for o in 0..plan.filters {
            to[o * len + at..][..j.len()].copy_from_slice(&dy.row([n, o, i])[j.clone()]);
        }
    });
}

/// Computes the gradient `dx` of the input from that of the output.
///
/// # Panics
/// As [`forward`].
pub(crate) fn input_grad<T: Float>(
    dy: View<'_, T>,
    w: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    check_extents(dx.dims(), w.dims(), dy.dims(), win);
    let (dy, mut dx) = planes_as_rows(win, dy, &mut dx);
    let plan = Plan::new(dx.dims(), dy.dims(), win);
    let [unfolded, outputs, spare] = plan.split(scratch);
    let w = filter_matrix(w, spare).transposed();
    if is_pointwise(win, dy, dx.as_view()) && dy.dims()[3] >= WIDE {
        for n in 0..dy.dims()[0] {
            matmul(w, channels(dy, n), channels_mut(&mut dx, n), false);
        }
        return;
    }
    dx.fill(T::ZERO);
    for range in plan.blocks() {
        let len = range.len();
        collect(dy, &plan, range.clone(), outputs);
        let product = MatMut::from_slice(unfolded, plan.depth, len, len);
        matmul(
            w,
            Mat::from_slice(outputs, plan.filters, len, len),
            product,
            false,
        );
        fold(unfolded, &plan, range, win, &mut dx);
    }
}

/// Adds the gradient of the filter to `dw`.
///
/// # Panics
/// As [`forward`].
pub(crate) fn filter_grad<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    mut dw: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    check_extents(x.dims(), dw.dims(), dy.dims(), win);
    let plan = Plan::new(x.dims(), dy.dims(), win);
    let [unfolded, outputs, spare] = plan.split(scratch);
    if is_pointwise(win, x, dy) && prefers_transposed(&plan) {
        return filter_grad_transposed(x, dy, dw, spare);
    }
    if !is_flat(dw.dims(), dw.strides()) {
        // Rare (a filter cut inside its kernel): accumulate in a flat copy.
        let dims = dw.dims();
        let mut flat = ViewMut::from_slice(spare, dims);
        flat.copy_from(dw.as_view());
        filter_grad_flat(x, dy, &mut flat, &plan, win, unfolded, outputs);
        dw.copy_from(View::from_slice(spare, dims));
        return;
    }
    filter_grad_flat(x, dy, &mut dw, &plan, win, unfolded, outputs);
}

/// Whether a filter's gradient is computed with channels as rows: the product packs its columns, here channels of
/// images, and wants few of them where sums are long. Measured: with 1024 positions 4 times as fast for 24 filters of
/// 96 channels, and no faster with 64.
fn prefers_transposed(plan: &Plan) -> bool {
    plan.filters < plan.depth && plan.out[0] * plan.out[1] >= 256
}

/// As [`filter_grad`] of a window that only mixes channels; `sum` holds the gradient with channels as rows.
fn filter_grad_transposed<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    mut dw: ViewMut<'_, T>,
    sum: &mut [T],
) {
    let [filters, depth, ..] = dw.dims();
    sum.fill(T::ZERO);
    for n in 0..x.dims()[0] {
        let to = MatMut::from_slice(sum, depth, filters, filters);
        matmul(channels(x, n), channels(dy, n).transposed(), to, true);
    }
    for o in 0..filters {
        for (c, of_channel) in sum.chunks_exact(filters).enumerate() {
            dw.row([o, c, 0])[0] += of_channel[o];
        }
    }
}

fn filter_grad_flat<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    dw: &mut ViewMut<'_, T>,
    plan: &Plan,
    win: &Window,
    unfolded: &mut [T],
    outputs: &mut [T],
) {
    let row_stride = dw.strides()[0];
    let mut add = |dy: Mat<'_, T>, x: Mat<'_, T>| {
        // SAFETY: the filter is flat, so each row has `depth` adjacent elements, and the view is
        // exclusively borrowed.
        let dw = unsafe { MatMut::from_raw(dw.as_mut_ptr(), plan.filters, plan.depth, row_stride) };
        matmul(dy, x.transposed(), dw, true);
    };
    if is_pointwise(win, x, dy) {
        for n in 0..x.dims()[0] {
            add(channels(dy, n), channels(x, n));
        }
        return;
    }
    for range in plan.blocks() {
        let len = range.len();
        unfold(x, plan, range.clone(), win, unfolded);
        collect(dy, plan, range, outputs);
        add(
            Mat::from_slice(outputs, plan.filters, len, len),
            Mat::from_slice(unfolded, plan.depth, len, len),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::testing::{Dims, Rng, cases};

    fn check<T: Float>(count: usize, seed: u64, draw: impl FnMut(&mut Rng) -> Dims) {
        for (k, case) in cases::<T>(count, seed, draw).iter().enumerate() {
            let (x, w, dy, win) = (case.x.view(), case.w.view(), case.dy.view(), &case.win);
            let len = scratch_len(x.dims(), dy.dims(), win);
            case.check_forward(k, len, |b, relu, y, s| forward(x, w, b, relu, y, win, s));
            case.check_input_grad(len, |dx, s| input_grad(dy, w, dx, win, s));
            case.check_filter_grad(len, |dw, s| filter_grad(x, dy, dw, win, s));
        }
    }

    #[test]
    fn agrees_with_the_reference() {
        check::<f32>(150, 11, Rng::any);
        check::<f64>(150, 12, Rng::any);
    }

    #[test]
    fn pointwise_windows_agree_with_the_reference() {
        let draw = |r: &mut Rng| {
            let mut d = r.any();
            d.win = Window {
                kernel: [1, 1],
                stride: [1, 1],
                shift: [0, 0],
            };
            d.output = d.input;
            d
        };
        check::<f32>(30, 13, draw);
        check::<f64>(30, 14, draw);
    }

    #[test]
    fn several_blocks_agree_with_the_reference() {
        let draw = |_: &mut Rng| Dims {
            samples: 2,
            channels: 40,
            filters: 5,
            input: [27, 31],
            output: [14, 15],
            win: Window {
                kernel: [3, 5],
                stride: [2, 2],
                shift: [1, 2],
            },
        };
        check::<f32>(1, 15, draw);
    }
}
