//! A convolution's tasks: forward, and the gradients of filter, bias and input.
//!
//! Winograd's codelets for 3×3 filters of stride 1 with enough channels, where filters are transformed once
//! per step; else the plain ones, or with groups or gaps the grouped ones, whose implementation the static costs
//! choose.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Reduce, Write};
use dahl_core::graph::ACCUMULATORS;
use dahl_ops::api::Tile;
use dahl_ops::conv2d::grouped::op as grouped;
use dahl_ops::conv2d::plain::{self, Slide};
use dahl_ops::conv2d::transformed::{self, Tiled};
use dahl_ops::elementwise::relu::{RELU_GRAD, ReluGrad};
use dahl_ops::elementwise::unary::{FILL, Filled, Value};
use dahl_ops::window::Window;

use super::{Conv2d, Tape};
use crate::lower::grain::{self, Conv, Parts};
use crate::lower::tiles::{self, Piece};

/// Fewest channels, in and out, for which Winograd's transforms pay.
const WINOGRAD_CHANNELS: usize = 16;

/// Filters `c` of a weight.
pub(super) fn filters(w: &Handle, c: Piece) -> Handle {
    tiles::samples(w, c)
}

/// All filters, input channels `c` of each.
pub(super) fn channels_of(w: &Handle, c: Piece) -> Handle {
    let mut axes = tiles::whole(w);
    axes[1] = c;
    tiles::part(w, axes)
}

/// A filter in Winograd's domain.
fn transform(tape: &Tape<'_>, w: &Handle, tile: Tile, for_input: bool) -> Handle {
    let dims = w.shape.dims4();
    let len = match for_input {
        false => transformed::filter_len(tile, dims),
        true => transformed::filter_for_input_grad_len(tile, dims),
    };
    let u = tape.temporary("transformed filter", &[len]);
    let operands = transformed::Filter {
        w: w.with(Read),
        u: u.with(Write),
    };
    let purpose = transformed::Purpose { tile, for_input };
    transformed::FILTER.submit(tape.recorder(), operands, purpose);
    u
}

/// The gradient in front of the positive part.
fn through_relu(tape: &Tape<'_>, dy: &Handle) -> Handle {
    let y = tape.output();
    let before = tape.like_output("gradient before relu");
    let parts = tape.parts(|| grain::light(tape.batch(), y.shape.len(), tape.blocks()));
    for tile in tiles::grid(y.shape.dims4(), parts) {
        let [a, b, c] = [dy, &y, &before].map(|x| tiles::part(x, tile));
        let operands = ReluGrad {
            dy: a.with(Read),
            y: b.with(Read),
            dx: Some(c.with(Write)),
        };
        RELU_GRAD.submit(tape.recorder(), operands, ());
    }
    before
}

/// Gives the parameter `bias` its gradient, from so many parts of the batch.
pub(in crate::layers) fn bias_gradient(tape: &mut Tape<'_>, dy: &Handle, parts: usize) {
    let db = tape.temporary("bias gradient", &[dy.shape[1]]);
    for &n in &tiles::pieces(tape.batch(), parts) {
        let grad = tiles::samples(dy, n);
        let operands = plain::BiasGrad {
            dy: grad.with(Read),
            db: db.with(Reduce),
        };
        plain::BIAS_GRAD.submit(tape.recorder(), operands, ());
    }
    tape.give_param_gradient("bias", db);
}

impl Conv2d {
    /// What the size of tasks depends on, and the output's height and width. Channels in are those that an output
    /// sees.
    pub(super) fn size(&self, tape: &Tape<'_>) -> (Conv, [usize; 2]) {
        self.size_of(tape, &tape.input(0))
    }

    /// The same, where this is what it convolves.
    fn size_of(&self, tape: &Tape<'_>, x: &Handle) -> (Conv, [usize; 2]) {
        let geometry = self.geometry();
        let [_, channels, h, w] = x.shape.dims4();
        let out = [0, 1].map(|a| geometry.outputs(a, [h, w][a]));
        let conv = Conv {
            batch: tape.batch(),
            blocks: tape.blocks(),
            channels: [channels / self.groups, self.out_channels],
            taps: geometry.kernel[0] * geometry.kernel[1],
            positions: out[0] * out[1],
        };
        (conv, out)
    }

    fn uses_winograd(&self, conv: &Conv) -> bool {
        let g = self.geometry();
        let enough = conv.channels.iter().all(|&c| c >= WINOGRAD_CHANNELS);
        self.is_plain() && g.kernel == [3, 3] && g.stride == [1, 1] && enough
    }

    /// The parameter `weight` as filters, whatever shape it is kept in.
    fn weight(&self, tape: &Tape<'_>) -> Handle {
        let (w, [kh, kw]) = (tape.param("weight"), self.kernel.0);
        let channels = w.shape.len() / (self.out_channels * kh * kw);
        w.reshape(&[self.out_channels, channels, kh, kw])
            .expect("as many elements")
    }

    /// With the positive part behind it where `relu` is set.
    pub(in crate::layers) fn forward_with(&self, tape: &mut Tape<'_>, relu: bool) -> Handle {
        let (x, y, w) = (tape.input(0), tape.new_output(), self.weight(tape));
        let bias = self.bias.then(|| tape.param("bias"));
        self.convolve(tape, [&x, &w, &y], bias.as_ref(), relu);
        y
    }

    /// `y = x ∗ w`, with the bias if there is one, and the positive part where `relu` is set.
    pub(in crate::layers) fn convolve(
        &self,
        tape: &Tape<'_>,
        [x, w, y]: [&Handle; 3],
        bias: Option<&Handle>,
        relu: bool,
    ) {
        let (geometry, (conv, out)) = (self.geometry(), self.size_of(tape, x));
        let parts = tape.parts(|| conv.parts(conv.channels[1]));
        let fast = self.uses_winograd(&conv);
        let dims = y.shape.dims4();
        // One transformed filter per part of the channels, before the tasks that read it.
        let mut filters_of = Vec::new();
        if fast {
            let tile = Tile::for_output(out[0], out[1]);
            for &c in &tiles::pieces(dims[1], parts.channel) {
                filters_of.push((c, transform(tape, &filters(w, c), tile, false), tile));
            }
        }
        for tile in self.grid(dims, parts) {
            let [n, c, h, v] = tile;
            let inp = [
                geometry.read_by(0, h, x.shape[2]),
                geometry.read_by(1, v, x.shape[3]),
            ];
            let win = geometry.window([h.0, v.0], [inp[0].0, inp[1].0]);
            let seen = self.across(c, self.out_channels, x.shape[1]);
            let from = tiles::part(x, [n, seen, inp[0], inp[1]]);
            let to = tiles::part(y, tile);
            let b = bias.map(|b| tiles::last(b, c));
            let (x, bias) = (from.with(Read), b.as_ref().map(|b| b.with(Read)));
            let (y, window) = (to.with(Write), win);
            match filters_of.iter().find(|t| t.0 == c) {
                Some((_, u, tile)) => {
                    let u = u.with(Read);
                    let (operands, tile) = (transformed::Forward { x, u, bias, y }, *tile);
                    let params = transformed::Params { window, tile, relu };
                    transformed::FORWARD.submit(tape.recorder(), operands, params);
                }
                None => {
                    let w = filters(w, c);
                    let w = w.with(Read);
                    let operands = plain::Forward { x, w, bias, y };
                    if self.is_plain() {
                        let params = plain::Params { window, relu };
                        plain::FORWARD.submit(tape.recorder(), operands, params);
                    } else {
                        let params = self.grouped(window, c, relu);
                        grouped::FORWARD.submit(tape.recorder(), operands, params);
                    }
                }
            }
        }
    }

    /// With the positive part behind it where `relu` is set.
    pub(in crate::layers) fn backward_with(&self, tape: &mut Tape<'_>, dy: &Handle, relu: bool) {
        let before = relu.then(|| through_relu(tape, dy));
        let dy = before.as_ref().unwrap_or(dy);
        // The input's gradient first: layers before this one wait for it, nobody for the filter's.
        if tape.wants_gradient(0) {
            self.input_gradient(tape, dy);
        }
        self.filter_gradient(tape, dy);
    }

    pub(super) fn input_gradient(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (dx, w) = (tape.new_gradient(0), self.weight(tape));
        self.convolve_back(tape, [dy, &w, &dx]);
        tape.give_gradient(0, dx);
    }

    /// `dx`, what the input's gradient is of the output's.
    pub(in crate::layers) fn convolve_back(&self, tape: &Tape<'_>, [dy, w, dx]: [&Handle; 3]) {
        let (geometry, (conv, _)) = (self.geometry(), self.size_of(tape, dx));
        let dims = dx.shape.dims4();
        let parts = tape.parts(|| conv.parts(dims[1]));
        let mut filters_of = Vec::new();
        if self.uses_winograd(&conv) {
            let tile = Tile::for_output(dims[2], dims[3]);
            for &c in &tiles::pieces(dims[1], parts.channel) {
                filters_of.push((c, transform(tape, &channels_of(w, c), tile, true), tile));
            }
        }
        for tile in self.grid(dims, parts) {
            let [n, c, h, v] = tile;
            let out = [
                geometry.reading(0, h, dy.shape[2]),
                geometry.reading(1, v, dy.shape[3]),
            ];
            let win = geometry.window([out[0].0, out[1].0], [h.0, v.0]);
            let outputs = self.across(c, dims[1], dy.shape[1]);
            let from = tiles::part(dy, [n, outputs, out[0], out[1]]);
            let to = tiles::part(dx, tile);
            let (dy, dx, window) = (from.with(Read), to.with(Write), win);
            match filters_of.iter().find(|t| t.0 == c) {
                Some((_, u, tile)) => {
                    let (u, tile) = (u.with(Read), *tile);
                    let operands = transformed::InputGrad { dy, u, dx };
                    transformed::INPUT_GRAD.submit(
                        tape.recorder(),
                        operands,
                        Tiled { window, tile },
                    );
                }
                None => {
                    let w = self.filters_reading(w, c, dims[1]);
                    let w = w.with(Read);
                    let operands = plain::InputGrad { dy, w, dx };
                    if self.is_plain() {
                        plain::INPUT_GRAD.submit(tape.recorder(), operands, Slide { window });
                    } else {
                        let params = self.grouped_grad(window, outputs);
                        grouped::INPUT_GRAD.submit(tape.recorder(), operands, params);
                    }
                }
            }
        }
    }

    fn filter_gradient(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (x, w) = (tape.input(0), self.weight(tape));
        let dw = tape.temporary("filter gradient", w.shape.extents());
        self.add_filter_gradient(tape, [&x, dy, &dw]);
        let kept = tape.param("weight");
        let dw = dw.reshape(kept.shape.extents());
        tape.give_param_gradient("weight", dw.expect("as many elements"));
        if self.bias {
            let (conv, _) = self.size(tape);
            let parts = tape.parts(|| conv.filter_parts());
            bias_gradient(tape, dy, parts.sample);
        }
    }

    /// `dw`, the filter's gradient from what was convolved and the output's gradient.
    pub(in crate::layers) fn add_filter_gradient(
        &self,
        tape: &Tape<'_>,
        [x, dy, dw]: [&Handle; 3],
    ) {
        let (conv, out) = self.size_of(tape, x);
        let parts = tape.parts(|| conv.filter_parts());
        if self.uses_winograd(&conv) {
            let size = Tile::for_output(out[0], out[1]);
            self.transformed_gradient(tape, [x, dy, dw], (parts, size));
        } else {
            for tile in self.grid(dy.shape.dims4(), parts) {
                let (from, grad, window) = self.seen_by(x, dy, tile);
                let (x, dy, to) = (from.with(Read), grad.with(Read), filters(dw, tile[1]));
                let dw = to.with(Reduce);
                let operands = plain::FilterGrad { x, dy, dw };
                if self.is_plain() {
                    plain::FILTER_GRAD.submit(tape.recorder(), operands, Slide { window });
                } else {
                    let params = self.grouped_grad(window, tile[1]);
                    grouped::FILTER_GRAD.submit(tape.recorder(), operands, params);
                }
            }
        }
    }

    /// The input and the output's gradient that a tile of the filter's gradient reads.
    fn seen_by(&self, x: &Handle, dy: &Handle, tile: tiles::Tile) -> (Handle, Handle, Window) {
        let geometry = self.geometry();
        let [n, c, h, v] = tile;
        let inp = [
            geometry.read_by(0, h, x.shape[2]),
            geometry.read_by(1, v, x.shape[3]),
        ];
        let window = geometry.window([h.0, v.0], [inp[0].0, inp[1].0]);
        let seen = self.across(c, self.out_channels, x.shape[1]);
        let from = tiles::part(x, [n, seen, inp[0], inp[1]]);
        (from, tiles::part(dy, tile), window)
    }

    /// By Winograd's codelets: summed up in their domain within a block of the batch, then turned back. What is merged
    /// over blocks, and sent by nodes, is a gradient as small as the filter. Large filters are cut by channels, which
    /// is enough to share the work, so their blocks take turns with one array.
    fn transformed_gradient(
        &self,
        tape: &Tape<'_>,
        [x, dy, dw]: [&Handle; 3],
        (parts, size): (Parts, Tile),
    ) {
        let grid = self.grid(dy.shape.dims4(), parts);
        for &c in &tiles::pieces(dy.shape[1], parts.channel) {
            let own: Vec<_> = grid.iter().filter(|tile| tile[1] == c).collect();
            let blocks = own.len().min(ACCUMULATORS);
            let arrays = if parts.channel > 1 { 1 } else { blocks };
            let to = filters(dw, c);
            let len = transformed::filter_grad_len(size, to.shape.dims4());
            let sum = |_| tape.temporary("transformed filter gradient", &[len]);
            let sums: Vec<Handle> = (0..arrays).map(sum).collect();
            for block in 0..blocks {
                let du = &sums[block % arrays];
                if block >= arrays {
                    let (x, value) = (du.with(Write), 0.0);
                    FILL.submit(tape.recorder(), Filled { x }, Value { value });
                }
                tape.recorder().in_order(|| {
                    for &&tile in &own[block * own.len() / blocks..(block + 1) * own.len() / blocks]
                    {
                        let (from, grad, window) = self.seen_by(x, dy, tile);
                        let operands = transformed::FilterGrad {
                            x: from.with(Read),
                            dy: grad.with(Read),
                            du: du.with(Reduce),
                        };
                        let params = Tiled { window, tile: size };
                        transformed::FILTER_GRAD.submit(tape.recorder(), operands, params);
                    }
                });
                let (du, dw) = (du.with(Read), to.with(Reduce));
                let finished = transformed::Finished { tile: size };
                let operands = transformed::Finish { du, dw };
                transformed::FILTER_FINISH.submit(tape.recorder(), operands, finished);
            }
        }
    }
}
