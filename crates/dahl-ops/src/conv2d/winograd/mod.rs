//! Winograd's minimal filtering: 3×3 convolutions of stride 1 with 2¼ or 4 times fewer
//! multiplications.
//!
//! An output is cut into tiles of 2×2 or 4×4. Filter and input tiles are transformed so that
//! convolution becomes, at each of 16 or 36 points, a product over channels; one transform of the
//! result gives the tile. All the tiles of a block share one matrix product per point.
//!
//! The filter is transformed once per step, not once per task: [`transform_filter`] serves every
//! [`forward`] and [`transform_filter_for_input_grad`] every [`input_grad`]. Likewise filter gradients
//! are summed in the transformed domain by [`filter_grad_accumulate`], whatever the number of tasks,
//! and [`filter_grad_finish`] adds the transformed sum to the gradient once.
//!
//! Transformed arrays are flat and opaque; their layout is the same on every machine. This module
//! refuses other kernels and strides, and is a poor choice for fewer than about 16 channels: vectors
//! hold channels.

mod filter;
mod image;
mod transform;

use std::ops::Range;

use dahl_core::view::{View, ViewMut};

use crate::conv2d::product::{Layout, Product};
use crate::simd::Lane;
use crate::simd::lanes::CHUNK;
use crate::window::Window;
use image::{BUFFER, Grid};

/// Output tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 2×2 outputs from 4×4 inputs, 16 points: 2¼ times fewer multiplications.
    Two,
    /// 4×4 outputs from 6×6 inputs, 36 points: 4 times fewer multiplications, but larger transformed
    /// filters and a few more bits lost to rounding.
    Four,
}

/// Elements of the two transformed images of a block that should stay near the core.
const BLOCK: usize = 1 << 16;

impl Tile {
    /// The tile that costs fewer multiplications for an output of this height and width.
    pub fn for_output(height: usize, width: usize) -> Tile {
        let cost = |t: Tile| t.points() * height.div_ceil(t.out()) * width.div_ceil(t.out());
        if cost(Tile::Four) <= cost(Tile::Two) {
            Tile::Four
        } else {
            Tile::Two
        }
    }

    /// Outputs along one axis.
    fn out(self) -> usize {
        match self {
            Tile::Two => 2,
            Tile::Four => 4,
        }
    }

    /// Points along both axes.
    fn points(self) -> usize {
        (self.out() + 2).pow(2)
    }
}

/// Whether this module can compute a window.
pub(crate) fn supports(win: &Window) -> bool {
    win.kernel == [3, 3] && win.stride == [1, 1]
}

/// How an image of tiles is cut into blocks.
struct Plan {
    grid: Grid,
    total: usize,
    block: usize,
}

impl Plan {
    /// For the extents of the array that is cut into tiles and the channels of the other one.
    fn new(tile: Tile, [samples, channels, height, width]: [usize; 4], others: usize) -> Self {
        let tiles = [height.div_ceil(tile.out()), width.div_ceil(tile.out())];
        let total = samples * tiles[0] * tiles[1];
        let per_tile = tile.points() * CHUNK * (channels.div_ceil(CHUNK) + others.div_ceil(CHUNK));
        // The more channels, the larger the filter that every block reads anew: enough tiles to make
        // that small beside reading the tiles themselves. Whole register blocks of 12 rows.
        let enough = channels * others / (channels + others) * 3 / 8;
        let block = (BLOCK / per_tile)
            .min(240)
            .max(enough)
            .next_multiple_of(24)
            .min(total);
        Plan {
            grid: Grid { tiles },
            total,
            block,
        }
    }

    fn scratch_len(&self, tile: Tile, a: usize, b: usize) -> usize {
        let [a, b] = [a, b].map(|c| Layout::new(c, self.block).len(tile.points()));
        CHUNK + BUFFER + a + b
    }

    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (total, block) = (self.total, self.block);
        (0..total)
            .step_by(block)
            .map(move |t| t..(t + block).min(total))
    }
}

/// The caller's scratch from the next cache line on, cut into strip buffer and two transformed images.
/// A vector that straddles two lines costs twice; an allocation need not begin on a line.
fn split<T>(scratch: &mut [T], first: usize) -> [&mut [T]; 3] {
    let skip = scratch.as_ptr().align_offset(64).min(CHUNK);
    let (buffer, rest) = scratch[skip..].split_at_mut(BUFFER);
    let (a, b) = rest.split_at_mut(first);
    [buffer, a, b]
}

/// Elements that `transform_filter` writes.
pub fn filter_len(tile: Tile, [filters, channels, ..]: [usize; 4]) -> usize {
    Layout::new(filters, channels).len(tile.points())
}

/// Elements that `transform_filter_for_input_grad` writes.
pub fn filter_for_input_grad_len(tile: Tile, [filters, channels, ..]: [usize; 4]) -> usize {
    Layout::new(channels, filters).len(tile.points())
}

/// Elements of the transformed gradient that `filter_grad_accumulate` adds to. Zero them first.
pub fn filter_grad_len(tile: Tile, [filters, channels, ..]: [usize; 4]) -> usize {
    Layout::new(filters, channels.next_multiple_of(CHUNK)).len(tile.points())
}

/// Elements of scratch that [`forward`] needs, from the extents of input and output.
pub(crate) fn forward_scratch_len(tile: Tile, x: [usize; 4], y: [usize; 4]) -> usize {
    Plan::new(tile, y, x[1]).scratch_len(tile, x[1], y[1])
}

/// Elements of scratch that [`input_grad`] needs, from the extents of output and input gradients.
pub(crate) fn input_grad_scratch_len(tile: Tile, dy: [usize; 4], dx: [usize; 4]) -> usize {
    forward_scratch_len(tile, dy, dx)
}

/// Elements of scratch that [`filter_grad_accumulate`] needs, from the extents of input and output
/// gradient.
pub(crate) fn filter_grad_scratch_len(tile: Tile, x: [usize; 4], dy: [usize; 4]) -> usize {
    forward_scratch_len(tile, x, dy)
}

/// Transforms a filter `[O, C, 3, 3]` for [`forward`].
///
/// # Panics
/// If `u` is shorter than [`filter_len`].
pub(crate) fn transform_filter<T: Lane>(tile: Tile, w: View<'_, T>, u: &mut [T]) {
    T::vectorised(filter::Forth {
        tile,
        w,
        turned: false,
        to: u,
    });
}

/// Transforms a filter `[O, C, 3, 3]` for [`input_grad`].
///
/// # Panics
/// If `u` is shorter than [`filter_for_input_grad_len`].
pub(crate) fn transform_filter_for_input_grad<T: Lane>(tile: Tile, w: View<'_, T>, u: &mut [T]) {
    T::vectorised(filter::Forth {
        tile,
        w,
        turned: true,
        to: u,
    });
}

/// Computes `y` from input, transformed filter and bias; negative results become zero if `relu`.
///
/// # Panics
/// If the window is not [supported](supports), or a slice is shorter than its length function says.
#[allow(clippy::too_many_arguments)]
pub(crate) fn forward<T: Lane>(
    tile: Tile,
    x: View<'_, T>,
    u: &[T],
    bias: Option<View<'_, T>>,
    relu: bool,
    y: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    assert!(supports(win), "Winograd cannot compute {win:?}");
    correlate(tile, x, u, bias, relu, y, win.shift, scratch);
}

/// Computes the gradient `dx` of the input from that of the output and the filter transformed for it.
///
/// # Panics
/// As [`forward`].
pub(crate) fn input_grad<T: Lane>(
    tile: Tile,
    dy: View<'_, T>,
    u: &[T],
    dx: ViewMut<'_, T>,
    win: &Window,
    scratch: &mut [T],
) {
    assert!(supports(win), "Winograd cannot compute {win:?}");
    // dx[h] = Σ_k w[k] · dy[h + shift − k]: with k' = 2 − k, a convolution of shift 2 − shift.
    correlate(
        tile,
        dy,
        u,
        None,
        false,
        dx,
        win.shift.map(|s| 2 - s),
        scratch,
    );
}

#[allow(clippy::too_many_arguments)]
fn correlate<T: Lane>(
    tile: Tile,
    x: View<'_, T>,
    u: &[T],
    bias: Option<View<'_, T>>,
    relu: bool,
    mut y: ViewMut<'_, T>,
    shift: [isize; 2],
    scratch: &mut [T],
) {
    let (channels, filters) = (x.dims()[1], y.dims()[1]);
    let plan = Plan::new(tile, y.dims(), channels);
    let [from, to] = [channels, filters].map(|c| Layout::new(c, plan.block));
    let [buffer, v, m] = split(scratch, from.len(tile.points()));
    for range in plan.blocks() {
        T::vectorised(image::Forth {
            tile,
            image: x,
            grid: plan.grid,
            range: range.clone(),
            input_shift: Some(shift),
            to: v,
            to_at: from,
            buffer,
        });
        T::vectorised(Product {
            points: tile.points(),
            rows: range.len(),
            depth: channels,
            left: v,
            left_at: from,
            right: u,
            right_at: Layout::new(filters, channels),
            result: m,
            result_at: to,
            over_tiles: false,
        });
        T::vectorised(image::Back {
            tile,
            from: m,
            from_at: to,
            grid: plan.grid,
            range,
            bias,
            relu,
            image: &mut y,
        });
    }
}

/// Adds the gradient of the filter, in the transformed domain, to `du`.
///
/// # Panics
/// As [`forward`].
pub(crate) fn filter_grad_accumulate<T: Lane>(
    tile: Tile,
    x: View<'_, T>,
    dy: View<'_, T>,
    du: &mut [T],
    win: &Window,
    scratch: &mut [T],
) {
    assert!(supports(win), "Winograd cannot compute {win:?}");
    let (channels, filters) = (x.dims()[1], dy.dims()[1]);
    let plan = Plan::new(tile, dy.dims(), channels);
    let [x_at, dy_at] = [channels, filters].map(|c| Layout::new(c, plan.block));
    let [buffer, v, g] = split(scratch, x_at.len(tile.points()));
    for range in plan.blocks() {
        for (image, input_shift, to, to_at) in [
            (x, Some(win.shift), &mut *v, x_at),
            (dy, None, &mut *g, dy_at),
        ] {
            let range = range.clone();
            T::vectorised(image::Forth {
                tile,
                image,
                grid: plan.grid,
                range,
                input_shift,
                to,
                to_at,
                buffer,
            });
        }
        let rows = channels.next_multiple_of(CHUNK);
        T::vectorised(Product {
            points: tile.points(),
            rows,
            depth: range.len(),
            left: v,
            left_at: x_at,
            right: g,
            right_at: dy_at,
            result: du,
            result_at: Layout::new(filters, rows),
            over_tiles: true,
        });
    }
}

/// Adds the transformed gradient `du` to the gradient `dw` of a filter `[O, C, 3, 3]`.
///
/// # Panics
/// If `du` is shorter than [`filter_grad_len`].
pub(crate) fn filter_grad_finish<T: Lane>(tile: Tile, du: &[T], dw: ViewMut<'_, T>) {
    T::vectorised(filter::Back { tile, from: du, dw });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::reference;
    use crate::conv2d::testing::{Case, Dims, Rng, assert_close, cases};
    use crate::simd::at_every_level;

    fn check<T: Lane>(case: &Case<T>, tile: Tile, k: usize) {
        let (x, w, dy) = (case.x.view(), case.w.view(), case.dy.view());
        let (win, nan) = (&case.win, |n: usize| vec![T::from_f64(f64::NAN); n]);
        let mut u = nan(filter_len(tile, w.dims()));
        transform_filter(tile, w, &mut u);
        let len = forward_scratch_len(tile, x.dims(), dy.dims());
        case.check_forward(k, len, |b, relu, y, s| {
            forward(tile, x, &u, b, relu, y, win, s)
        });

        let mut u = nan(filter_for_input_grad_len(tile, w.dims()));
        transform_filter_for_input_grad(tile, w, &mut u);
        let len = input_grad_scratch_len(tile, dy.dims(), x.dims());
        case.check_input_grad(len, |dx, s| input_grad(tile, dy, &u, dx, win, s));

        let mut du = vec![T::ZERO; filter_grad_len(tile, w.dims())];
        let len = filter_grad_scratch_len(tile, x.dims(), dy.dims());
        case.check_filter_grad(len, |dw, s| {
            filter_grad_accumulate(tile, x, dy, &mut du, win, s);
            filter_grad_finish(tile, &du, dw);
        });
    }

    fn agree<T: Lane>(count: usize, seed: u64) {
        let cases = cases::<T>(count, seed, Rng::three);
        at_every_level(|_| {
            for (k, case) in cases.iter().enumerate() {
                check(case, Tile::Two, k);
                check(case, Tile::Four, k);
            }
        });
    }

    #[test]
    fn single_precision_agrees_with_the_reference() {
        agree::<f32>(40, 21);
    }

    #[test]
    fn double_precision_agrees_with_the_reference() {
        agree::<f64>(40, 22);
    }

    /// Rounding errors must not outgrow the sums as channels and blocks become many.
    #[test]
    fn many_channels_agree_with_the_reference() {
        let case = &cases::<f32>(1, 24, |_| Dims {
            samples: 3,
            channels: 256,
            filters: 32,
            input: [12, 16],
            output: [12, 16],
            win: Window {
                kernel: [3, 3],
                stride: [1, 1],
                shift: [1, 1],
            },
        })[0];
        check(case, Tile::Two, 0);
        check(case, Tile::Four, 1);
    }

    #[test]
    fn gradients_of_several_tasks_add_up() {
        let case = &cases::<f64>(1, 23, |r| {
            let mut d = r.three();
            d.samples = 3;
            d
        })[0];
        let (x, dy) = (case.x.view(), case.dy.view());
        let one = |v: View<'_, f64>, n: usize| {
            let [_, c, h, w] = v.dims();
            // SAFETY: sample `n` of a view that outlives the result.
            unsafe {
                View::from_raw(
                    v.as_ptr().add(n * v.strides()[0]),
                    [1, c, h, w],
                    v.strides(),
                )
            }
        };
        let mut du = vec![0.0; filter_grad_len(Tile::Four, case.w.view().dims())];
        for n in 0..3 {
            let mut scratch =
                vec![0.0; filter_grad_scratch_len(Tile::Four, one(x, n).dims(), one(dy, n).dims())];
            filter_grad_accumulate(
                Tile::Four,
                one(x, n),
                one(dy, n),
                &mut du,
                &case.win,
                &mut scratch,
            );
        }
        let (mut got, mut want) = (case.w.clone(), case.w.clone());
        filter_grad_finish(Tile::Four, &du, got.view_mut());
        reference::filter_grad(x, dy, want.view_mut(), &case.win);
        assert_close(&got, &want, "three tasks");
    }

    #[test]
    fn the_cheaper_tile_is_chosen() {
        assert_eq!(Tile::for_output(32, 32), Tile::Four);
        assert_eq!(Tile::for_output(2, 2), Tile::Two);
        assert_eq!(Tile::for_output(5, 5), Tile::Four);
        assert_eq!(Tile::for_output(1, 6), Tile::Two);
    }
}
