//! Winograd convolutions, in blocks of samples so that scratch memory stays bounded.

use dahl_ops::api::Tile;
use dahl_ops::conv2d::transformed::{
    Filter, FilterGrad, Finish, Finished, Forward, InputGrad, Params, Purpose, Tiled,
};

use crate::launch::{Arg, Steps, Task};
use crate::tensor::Tensor;

/// Elements of transformed images in scratch memory that a block of samples tries not to exceed.
const BLOCK: usize = 1 << 23;

/// Outputs of a tile along one axis.
fn outputs(tile: Tile) -> usize {
    match tile {
        Tile::Two => 2,
        Tile::Four => 4,
    }
}

fn tiles(extents: [usize; 4], out: usize) -> [usize; 2] {
    [extents[2].div_ceil(out), extents[3].div_ceil(out)]
}

/// Lanes of a transformed filter come in whole chunks, as on the CPU.
const CHUNK: usize = 16;

/// Filters in the transformed domain.
pub(super) fn filter(t: &Task<'_>, s: &mut Steps) {
    let (Filter { w, u }, given) = (Filter::of(t.tensors), Purpose::of(t.params));
    let turned = given.for_input;
    let (lanes, rows) = if turned {
        (w.dims[1], w.dims[0])
    } else {
        (w.dims[0], w.dims[1])
    };
    let count = lanes.next_multiple_of(CHUNK) * rows;
    let args = [
        w.into(),
        u.into(),
        outputs(given.tile).into(),
        turned.into(),
        count.into(),
    ];
    s.items("wino_filter", args, count);
}

/// Transforms tiles of `x` that lie as those of an output of these tiles do.
fn forth(
    x: Tensor,
    to: Tensor,
    out: usize,
    shift: Option<[i32; 2]>,
    grid: [usize; 2],
    s: &mut Steps,
) {
    let count = x.dims[0] * grid[0] * grid[1] * x.dims[1];
    let [ph, pw] = shift.unwrap_or([0, 0]);
    let args = [
        x.into(),
        to.into(),
        out.into(),
        shift.is_some().into(),
        Arg::Int(ph),
        Arg::Int(pw),
        grid[0].into(),
        grid[1].into(),
        count.into(),
    ];
    s.items("wino_forth", args, count);
}

/// Samples of a block, for so many elements per sample.
fn block(samples: usize, each: usize) -> usize {
    (BLOCK / each.max(1)).clamp(1, samples)
}

fn correlate(
    [x, u, y]: [Tensor; 3],
    bias: Option<Tensor>,
    positive: bool,
    out: usize,
    shift: [i32; 2],
    s: &mut Steps,
) {
    let (grid, points) = (tiles(y.dims, out), (out + 2) * (out + 2));
    let (channels, filters, per) = (x.dims[1], y.dims[1], grid[0] * grid[1]);
    let many = block(x.dims[0], points * per * (channels + filters));
    let v = s.scratch([1, points, channels, many * per]);
    let m = s.scratch([1, points, filters, many * per]);
    let size = s.dtype.size();
    for from in (0..x.dims[0]).step_by(many) {
        let n = many.min(x.dims[0] - from);
        let (x, y) = (x.samples(from, n, size), y.samples(from, n, size));
        forth(x, v, out, Some(shift), grid, s);
        let args = [
            u.into(),
            v.into(),
            m.into(),
            filters.into(),
            channels.into(),
            (n * per).into(),
        ];
        s.blocks("wino_product", args, [filters, n * per, points]);
        let args = [
            m.into(),
            bias.unwrap_or(u).into(),
            bias.is_some().into(),
            positive.into(),
            y.into(),
            out.into(),
            grid[0].into(),
            grid[1].into(),
            (n * per * filters).into(),
        ];
        s.items("wino_back", args, n * per * filters);
    }
}

/// The convolution.
pub(super) fn forward(t: &Task<'_>, s: &mut Steps) {
    let (Forward { x, u, bias, y }, given) = (Forward::of(t.tensors), Params::of(t.params));
    let (out, shift) = (outputs(given.tile), given.window.shift.map(|p| p as i32));
    correlate([x, u, y], bias, given.relu, out, shift, s);
}

/// The gradient by the input: a convolution with kernels turned and the complementary shift.
pub(super) fn input_grad(t: &Task<'_>, s: &mut Steps) {
    let (InputGrad { dy, u, dx }, given) = (InputGrad::of(t.tensors), Tiled::of(t.params));
    let (out, shift) = (
        outputs(given.tile),
        given.window.shift.map(|p| 2 - p as i32),
    );
    correlate([dy, u, dx], None, false, out, shift, s);
}

/// The gradient by the filters, still transformed.
pub(super) fn filter_grad(t: &Task<'_>, s: &mut Steps) {
    let (FilterGrad { x, dy, du }, given) = (FilterGrad::of(t.tensors), Tiled::of(t.params));
    let (out, shift) = (outputs(given.tile), given.window.shift.map(|p| p as i32));
    let (grid, points) = (tiles(dy.dims, out), (out + 2) * (out + 2));
    let (channels, filters, per) = (x.dims[1], dy.dims[1], grid[0] * grid[1]);
    let many = block(x.dims[0], points * per * (channels + filters));
    let v = s.scratch([1, points, channels, many * per]);
    let g = s.scratch([1, points, filters, many * per]);
    let size = s.dtype.size();
    for from in (0..x.dims[0]).step_by(many) {
        let n = many.min(x.dims[0] - from);
        forth(x.samples(from, n, size), v, out, Some(shift), grid, s);
        forth(dy.samples(from, n, size), g, out, None, grid, s);
        let args = [
            g.into(),
            v.into(),
            du.into(),
            filters.into(),
            channels.into(),
            (n * per).into(),
        ];
        s.blocks("wino_over_tiles", args, [filters, channels, points]);
    }
}

/// The gradient by the filters, from the transformed one.
pub(super) fn finish(t: &Task<'_>, s: &mut Steps) {
    let (Finish { du, dw }, given) = (Finish::of(t.tensors), Finished::of(t.params));
    let count = dw.dims[0] * dw.dims[1];
    let out = outputs(given.tile);
    let args = [du.into(), dw.into(), out.into(), count.into()];
    s.items("wino_finish", args, count);
}
