//! Convolution for any window, with channels in vectors.
//!
//! Pixels are turned into chunks of [`CHUNK`] channels and unfolded, a block of output positions at a
//! time, straight into the order in which the product's registers read them: nothing is packed a
//! second time. The input gradient of a strided window is computed one phase of the input at a time
//! (pixels that see the same kernel positions), so no product is wasted and nothing is folded back.
//!
//! Channels are padded to whole chunks: with fewer than about 16, [`super::gemm`] is better.

mod kernels;
mod pass;

use dahl_core::view::{View, ViewMut};

use super::gemm::check_extents;
use super::product::Product;
use crate::float::Float;
use crate::simd::Lane;
use crate::simd::lanes::CHUNK;
use crate::window::Window;
use kernels::{Unfold, Write};
use pass::{Pass, Taps};

/// Calls `f(place in the packed filter, place in the filter's memory)` for every element of a filter:
/// sums run over axis `sum`, lanes over the other one of the first two.
fn for_filter(
    dims: [usize; 4],
    strides: [usize; 4],
    taps: &Taps,
    sum: usize,
    mut f: impl FnMut(usize, usize),
) {
    let lane = 1 - sum;
    let (padded, depth) = (
        dims[sum].next_multiple_of(CHUNK),
        taps.len() * dims[sum].next_multiple_of(CHUNK),
    );
    for chunk in 0..dims[lane].div_ceil(CHUNK) {
        for a in 0..taps.count[0] {
            for b in 0..taps.count[1] {
                let (tap, h) = (a * taps.count[1] + b, taps.start[0] + a * taps.stride[0]);
                let from = h * strides[2] + (taps.start[1] + b * taps.stride[1]) * strides[3];
                for k in 0..dims[sum] {
                    let to = (chunk * depth + tap * padded + k) * CHUNK;
                    for l in chunk * CHUNK..dims[lane].min((chunk + 1) * CHUNK) {
                        f(to + l % CHUNK, from + k * strides[sum] + l * strides[lane]);
                    }
                }
            }
        }
    }
}

/// Packs a filter for a pass whose sums run over axis `sum`; what pads chunks is zero.
fn pack<T: Float>(w: View<'_, T>, taps: &Taps, sum: usize, to: &mut [T]) {
    to.fill(T::ZERO);
    for_filter(w.dims(), w.strides(), taps, sum, |at, from| {
        // SAFETY: `for_filter` stays inside the extents.
        to[at] = unsafe { *w.as_ptr().add(from) };
    });
}

/// Unfolds, multiplies and writes, block by block.
#[allow(clippy::too_many_arguments)]
fn run<T: Lane>(
    pass: Pass,
    image: View<'_, T>,
    [buffer, unfolded, product, filter]: [&mut [T]; 4],
    bias: Option<View<'_, T>>,
    relu: bool,
    step: [usize; 2],
    phase: [usize; 2],
    to: &mut ViewMut<'_, T>,
) {
    for range in pass.blocks() {
        let at = pass.unfolded();
        T::vectorised(Unfold {
            pass,
            image,
            range: range.clone(),
            to: unfolded,
            at,
            buffer,
        });
        T::vectorised(Product {
            points: 1,
            rows: range.len(),
            depth: pass.depth(),
            left: unfolded,
            left_at: at,
            right: filter,
            right_at: pass.filter(),
            result: product,
            result_at: pass.product(),
            over_tiles: false,
        });
        T::vectorised(Write {
            pass,
            from: product,
            range,
            bias,
            relu,
            step,
            phase,
            image: to,
        });
    }
}

/// Elements of scratch that [`forward`] needs, from the extents of input and output.
pub(crate) fn forward_scratch_len(x: [usize; 4], y: [usize; 4], win: &Window) -> usize {
    Pass::forward(x, y, win).scratch_len()
}

/// Elements of scratch that [`filter_grad`] needs, from the extents of input and output gradient.
pub(crate) fn filter_grad_scratch_len(x: [usize; 4], dy: [usize; 4], win: &Window) -> usize {
    Pass::forward(x, dy, win).scratch_len()
}

/// Elements of scratch that [`input_grad`] needs, from the extents of output and input gradients.
pub(crate) fn input_grad_scratch_len(dy: [usize; 4], dx: [usize; 4], win: &Window) -> usize {
    phases(win)
        .filter_map(|p| Pass::of_phase(dx, dy, win, p))
        .map(|p| p.scratch_len())
        .max()
        .unwrap_or(0)
}

fn phases(win: &Window) -> impl Iterator<Item = [usize; 2]> {
    let [height, width] = win.stride;
    (0..height).flat_map(move |a| (0..width).map(move |b| [a, b]))
}

/// Computes `y` from input, filter and bias; negative results become zero if `relu`.
///
/// # Panics
/// If `scratch` is shorter than [`forward_scratch_len`], or extents do not fit.
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    mut y: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    check_extents(x.dims(), w.dims(), y.dims(), win);
    let pass = Pass::forward(x.dims(), y.dims(), win);
    let parts = pass.split(scratch);
    pack(w, &pass.taps, 1, parts[3]);
    run(pass, x, parts, bias, relu, [1, 1], [0, 0], &mut y);
}

/// Computes the gradient `dx` of the input from that of the output.
///
/// # Panics
/// If `scratch` is shorter than [`input_grad_scratch_len`], or extents do not fit.
pub(crate) fn input_grad<T: Lane>(
    dy: View<'_, T>,
    w: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    check_extents(dx.dims(), w.dims(), dy.dims(), win);
    if phases(win).any(|p| Taps::of_phase(win, p).len() == 0) {
        dx.fill(T::ZERO);
    }
    for phase in phases(win) {
        let Some(pass) = Pass::of_phase(dx.dims(), dy.dims(), win, phase) else {
            continue;
        };
        if pass.taps.len() > 0 {
            let parts = pass.split(scratch);
            pack(w, &pass.taps, 0, parts[3]);
            run(pass, dy, parts, None, false, win.stride, phase, &mut dx);
        }
    }
}

/// Adds the gradient of the filter to `dw`.
///
/// # Panics
/// If `scratch` is shorter than [`filter_grad_scratch_len`], or extents do not fit.
pub(crate) fn filter_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    mut dw: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    check_extents(x.dims(), dw.dims(), dy.dims(), win);
    let pass = Pass::forward(x.dims(), dy.dims(), win);
    // The gradient's own pixels, unfolded with a single tap.
    let itself = Pass {
        taps: Taps::forward(&Window {
            kernel: [1, 1],
            stride: [1, 1],
            shift: [0, 0],
        }),
        sources: pass.results,
        ..pass
    };
    let [buffer, unfolded, gradients, sum] = pass.split(scratch);
    sum.fill(T::ZERO);
    for range in pass.blocks() {
        let (at, dy_at) = (pass.unfolded(), pass.product());
        T::vectorised(Unfold {
            pass,
            image: x,
            range: range.clone(),
            to: unfolded,
            at,
            buffer,
        });
        T::vectorised(Unfold {
            pass: itself,
            image: dy,
            range: range.clone(),
            to: gradients,
            at: dy_at,
            buffer,
        });
        T::vectorised(Product {
            points: 1,
            rows: pass.depth(),
            depth: range.len(),
            left: unfolded,
            left_at: at,
            right: gradients,
            right_at: dy_at,
            result: sum,
            result_at: pass.filter(),
            over_tiles: true,
        });
    }
    let (dims, strides) = (dw.dims(), dw.strides());
    // SAFETY: `for_filter` stays inside the extents, and the view is exclusively ours.
    for_filter(dims, strides, &pass.taps, 1, |at, to| unsafe {
        *dw.as_mut_ptr().add(to) += sum[at]
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::testing::{Dims, Rng, cases};
    use crate::simd::at_every_level;

    fn check<T: Lane>(count: usize, seed: u64, draw: impl FnMut(&mut Rng) -> Dims) {
        let cases = cases::<T>(count, seed, draw);
        at_every_level(|_| {
            for (k, case) in cases.iter().enumerate() {
                let (x, w, dy, win) = (case.x.view(), case.w.view(), case.dy.view(), &case.win);
                let len = forward_scratch_len(x.dims(), dy.dims(), win);
                case.check_forward(k, len, |b, relu, y, s| forward(x, w, b, relu, y, win, s));
                let len = input_grad_scratch_len(dy.dims(), x.dims(), win);
                case.check_input_grad(len, |dx, s| input_grad(dy, w, dx, win, s));
                let len = filter_grad_scratch_len(x.dims(), dy.dims(), win);
                case.check_filter_grad(len, |dw, s| filter_grad(x, dy, dw, win, s));
            }
        });
    }

    #[test]
    fn agrees_with_the_reference() {
        check::<f32>(50, 31, Rng::any);
        check::<f64>(50, 32, Rng::any);
    }

    #[test]
    fn whole_vectors_agree_with_the_reference() {
        check::<f32>(12, 33, Rng::three);
        let strided = |r: &mut Rng| {
            let mut d = r.three();
            d.win.stride = [2, 2];
            d
        };
        check::<f32>(12, 34, strided);
        check::<f64>(12, 35, strided);
    }
}
