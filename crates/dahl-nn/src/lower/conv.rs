//! Convolutions: forward, and the gradients of filter, bias and input.
//!
//! Three ways: Winograd's for 3×3 filters of stride 1 with enough channels, where filters are
//! transformed once per step; fused with positive part and pooling for few channels; and the plain
//! codelets, whose implementation the static costs choose.

use dahl_core::Mode::{Read, Reduce, Write};
use dahl_core::{Handle, Param};
use dahl_ops::codelets::{conv_pool, conv2d, elementwise, window_params, winograd};
use dahl_ops::conv2d::{channels_last, winograd as kernel};

use super::grain::{Conv, Parts};
use super::tiles::{self, Geometry, Piece};
use super::{Step, groups::Work};

/// Fewest channels, in and out, for which Winograd's transforms pay.
const WINOGRAD_CHANNELS: usize = 16;

fn uses_winograd(g: &Geometry, channels: [usize; 2]) -> bool {
    g.kernel == [3, 3] && g.stride == [1, 1] && channels.iter().all(|&c| c >= WINOGRAD_CHANNELS)
}

/// The tile of a task: samples, channels, rows, columns of what it writes.
type Tile = [Piece; 4];

/// All tiles of an array of these extents.
fn grid(dims: [usize; 4], parts: Parts) -> Vec<Tile> {
    let cuts = [
        tiles::pieces(dims[0], parts.sample),
        tiles::pieces(dims[1], parts.channel),
        tiles::pieces(dims[2], parts.height),
        tiles::pieces(dims[3], parts.width),
    ];
    let mut all = Vec::new();
    for &n in &cuts[0] {
        for &c in &cuts[1] {
            for &h in &cuts[2] {
                all.extend(cuts[3].iter().map(|&w| [n, c, h, w]));
            }
        }
    }
    all
}

/// Filters `c` of a weight.
fn filters(w: &Handle, c: Piece) -> Handle {
    tiles::samples(w, c)
}

impl Step<'_> {
    fn conv_of(&self, g: usize) -> (Geometry, Conv, [usize; 2]) {
        let group = &self.groups[g];
        let geometry = match group.work {
            Work::Conv { geometry, .. } | Work::ConvPool { geometry, .. } => geometry,
            _ => unreachable!("only called for convolutions"),
        };
        let [c, h, w] = self.image(group.inputs[0]);
        let out = [h, w];
        let out: [usize; 2] = std::array::from_fn(|a| {
            (out[a] + 2 * geometry.padding[a] - geometry.kernel[a]) / geometry.stride[a] + 1
        });
        let o = self.image(group.layer + 1)[0];
        let conv = Conv {
            batch: self.batch(),
            channels: [c, o],
            taps: geometry.kernel[0] * geometry.kernel[1],
            positions: out[0] * out[1],
        };
        (geometry, conv, out)
    }

    pub(super) fn conv_forward(&mut self, g: usize, relu: bool) -> Handle {
        let (geometry, conv, out) = self.conv_of(g);
        let group = self.groups[g].clone();
        let x = self.value(group.inputs[0]);
        let y = self.array_for("output", group.output);
        let (_, w) = self
            .param(group.layer, "weight")
            .expect("convolutions have a weight");
        let bias = self.param(group.layer, "bias").map(|p| p.1);
        let parts = self.parts(group.layer, || conv.parts(conv.channels[1]));
        let fast = uses_winograd(&geometry, conv.channels);
        let dims = y.shape.dims4();
        // One transformed filter per part of the channels, before the tasks that read it.
        let mut transformed = Vec::new();
        if fast {
            let tile = winograd::tile_for(out[0], out[1]);
            for &c in &tiles::pieces(dims[1], parts.channel) {
                transformed.push((c, self.transform(&filters(&w, c), tile, false), tile));
            }
        }
        for tile in grid(dims, parts) {
            let [n, c, h, v] = tile;
            let inp = [
                geometry.read_by(0, h, x.shape[2]),
                geometry.read_by(1, v, x.shape[3]),
            ];
            let win = geometry.window([h.0, v.0], [inp[0].0, inp[1].0]);
            let from = tiles::part(&x, [n, (0, x.shape[1]), inp[0], inp[1]]);
            let to = tiles::part(&y, tile);
            let b = bias.as_ref().map(|b| tiles::last(b, c));
            let mut params = window_params(&win).to_vec();
            let filter = match transformed.iter().find(|t| t.0 == c) {
                Some((_, u, size)) => {
                    params.push(Param::Int(*size));
                    u.clone()
                }
                None => filters(&w, c),
            };
            params.push(Param::Int(i64::from(relu)));
            let mut operands = vec![from.with(Read), filter.with(Read)];
            operands.extend(b.as_ref().map(|b| b.with(Read)));
            operands.push(to.with(Write));
            let codelet = if fast {
                &winograd::FORWARD
            } else {
                &conv2d::FORWARD
            };
            self.submit(codelet, &operands, &params);
        }
        y
    }

    /// A filter in Winograd's domain.
    fn transform(&self, w: &Handle, tile: i64, for_input: bool) -> Handle {
        let dims = w.shape.dims4();
        let len = match for_input {
            false => kernel::filter_len(winograd::tile(tile), dims),
            true => kernel::filter_for_input_grad_len(winograd::tile(tile), dims),
        };
        let u = self.temporary("transformed filter", &[len]);
        let params = [Param::Int(tile), Param::Int(i64::from(for_input))];
        self.submit(&winograd::FILTER, &[w.with(Read), u.with(Write)], &params);
        u
    }

    pub(super) fn conv_backward(&mut self, g: usize, dy: Handle, relu: bool) {
        let dy = if relu { self.through_relu(g, dy) } else { dy };
        // The input's gradient first: layers before this one wait for it, nobody for the filter's.
        if self.needs_gradient[self.groups[g].inputs[0]] {
            self.conv_input_gradient(g, &dy);
        }
        self.conv_filter_gradient(g, &dy);
    }

    /// The gradient in front of the positive part.
    fn through_relu(&mut self, g: usize, dy: Handle) -> Handle {
        let value = self.groups[g].output;
        let y = self.value(value);
        let before = self.array_for("gradient before relu", value);
        let parts = self.parts(self.groups[g].layer, || {
            super::grain::light(self.batch(), y.shape.len())
        });
        for tile in grid(y.shape.dims4(), parts) {
            let [a, b, c] = [&dy, &y, &before].map(|x| tiles::part(x, tile));
            let operands = [a.with(Read), b.with(Read), c.with(Write)];
            self.submit(&elementwise::RELU_GRAD, &operands, &[]);
        }
        before
    }

    fn conv_input_gradient(&mut self, g: usize, dy: &Handle) {
        let (geometry, conv, _) = self.conv_of(g);
        let group = self.groups[g].clone();
        let value = group.inputs[0];
        let dx = self.array_for("gradient", value);
        let (_, w) = self
            .param(group.layer, "weight")
            .expect("convolutions have a weight");
        let parts = self.parts(group.layer, || conv.parts(conv.channels[0]));
        let fast = uses_winograd(&geometry, conv.channels);
        let dims = dx.shape.dims4();
        let part_of = |c: Piece| {
            let mut axes = tiles::whole(&w);
            axes[1] = c;
            tiles::part(&w, axes)
        };
        let mut transformed = Vec::new();
        if fast {
            let tile = winograd::tile_for(dims[2], dims[3]);
            for &c in &tiles::pieces(dims[1], parts.channel) {
                transformed.push((c, self.transform(&part_of(c), tile, true), tile));
            }
        }
        for tile in grid(dims, parts) {
            let [n, c, h, v] = tile;
            let out = [
                geometry.reading(0, h, dy.shape[2]),
                geometry.reading(1, v, dy.shape[3]),
            ];
            let win = geometry.window([out[0].0, out[1].0], [h.0, v.0]);
            let from = tiles::part(dy, [n, (0, dy.shape[1]), out[0], out[1]]);
            let to = tiles::part(&dx, tile);
            let mut params = window_params(&win).to_vec();
            let (filter, codelet) = match transformed.iter().find(|t| t.0 == c) {
                Some((_, u, size)) => {
                    params.push(Param::Int(*size));
                    (u.clone(), &winograd::INPUT_GRAD)
                }
                None => (part_of(c), &conv2d::INPUT_GRAD),
            };
            self.submit(
                codelet,
                &[from.with(Read), filter.with(Read), to.with(Write)],
                &params,
            );
        }
        self.give_gradient(value, dx);
    }

    fn conv_filter_gradient(&mut self, g: usize, dy: &Handle) {
        let (geometry, conv, out) = self.conv_of(g);
        let group = self.groups[g].clone();
        let x = self.value(group.inputs[0]);
        let (place, w) = self
            .param(group.layer, "weight")
            .expect("convolutions have a weight");
        let dw = self.temporary("filter gradient", w.shape.extents());
        let parts = self.parts(group.layer, || conv.filter_parts());
        let fast = uses_winograd(&geometry, conv.channels);
        let size = winograd::tile_for(out[0], out[1]);
        let mut sums: Vec<(Piece, Handle)> = Vec::new();
        if fast {
            for &c in &tiles::pieces(dy.shape[1], parts.channel) {
                let mut dims = w.shape.dims4();
                dims[0] = c.1 - c.0;
                let len = kernel::filter_grad_len(winograd::tile(size), dims);
                sums.push((c, self.temporary("transformed filter gradient", &[len])));
            }
        }
        for tile in grid(dy.shape.dims4(), parts) {
            let [n, c, h, v] = tile;
            let inp = [
                geometry.read_by(0, h, x.shape[2]),
                geometry.read_by(1, v, x.shape[3]),
            ];
            let win = geometry.window([h.0, v.0], [inp[0].0, inp[1].0]);
            let from = tiles::part(&x, [n, (0, x.shape[1]), inp[0], inp[1]]);
            let grad = tiles::part(dy, tile);
            let mut params = window_params(&win).to_vec();
            let (to, codelet) = match sums.iter().find(|s| s.0 == c) {
                Some((_, du)) => {
                    params.push(Param::Int(size));
                    (du.clone(), &winograd::FILTER_GRAD)
                }
                None => (filters(&dw, c), &conv2d::FILTER_GRAD),
            };
            self.submit(
                codelet,
                &[from.with(Read), grad.with(Read), to.with(Reduce)],
                &params,
            );
        }
        for (c, du) in &sums {
            let to = filters(&dw, *c);
            let operands = [du.with(Read), to.with(Reduce)];
            self.submit(&winograd::FILTER_FINISH, &operands, &[Param::Int(size)]);
        }
        self.update(place, dw);
        if let Some((place, b)) = self.param(group.layer, "bias") {
            let db = self.temporary("bias gradient", b.shape.extents());
            for &n in &tiles::pieces(self.batch(), parts.sample) {
                let grad = tiles::samples(dy, n);
                self.submit(&conv2d::BIAS_GRAD, &[grad.with(Read), db.with(Reduce)], &[]);
            }
            self.update(place, db);
        }
    }

    pub(super) fn conv_pool_forward(&mut self, g: usize, pool: usize) -> Handle {
        let (geometry, conv, _) = self.conv_of(g);
        let group = self.groups[g].clone();
        let x = self.value(group.inputs[0]);
        let y = self.array_for("output", group.output);
        let [_, o, ph, pw] = y.shape.dims4();
        let columns = conv_pool::code_columns(self.settings.dtype, pw);
        let codes = self.temporary("codes", &[self.batch(), o, ph, columns]);
        let (_, w) = self
            .param(group.layer, "weight")
            .expect("convolutions have a weight");
        let bias = self.param(group.layer, "bias").map(|p| p.1);
        for tile in self.pooled_grid(group.layer, &y, &conv) {
            let [n, c, h, _] = tile;
            let (from, win) = pooled_input(&x, &geometry, pool, tile);
            let (filter, to) = (filters(&w, c), tiles::part(&y, tile));
            let code = tiles::part(&codes, [n, c, h, (0, columns)]);
            let b = bias.as_ref().map(|b| tiles::last(b, c));
            let mut params = window_params(&win).to_vec();
            params.push(Param::Int(pool as i64));
            let mut operands = vec![from.with(Read), filter.with(Read)];
            operands.extend(b.as_ref().map(|b| b.with(Read)));
            operands.extend([to.with(Write), code.with(Write)]);
            self.submit(&conv_pool::FORWARD, &operands, &params);
        }
        self.kept[g].push(codes);
        y
    }

    /// Tiles of a pooled output; rows of codes are not cut.
    fn pooled_grid(&self, layer: usize, y: &Handle, conv: &Conv) -> Vec<Tile> {
        let parts = self.parts(layer, || conv.parts(conv.channels[1]));
        grid(y.shape.dims4(), Parts { width: 1, ..parts })
    }

    /// The gradient of the convolution's output, written out.
    fn expanded(&mut self, g: usize, dy: &Handle, pool: usize, out: [usize; 2]) -> Handle {
        let (_, conv, _) = self.conv_of(g);
        let codes = self.kept[g][0].clone();
        let o = dy.shape[1];
        let full = self.temporary(
            "gradient before pooling",
            &[self.batch(), o, out[0], out[1]],
        );
        let parts = self.parts(self.groups[g].layer, || conv.parts(o));
        for &n in &tiles::pieces(self.batch(), parts.sample) {
            let [a, b, c] = [dy, &codes, &full].map(|x| tiles::samples(x, n));
            let operands = [a.with(Read), b.with(Read), c.with(Write)];
            self.submit(&conv_pool::EXPAND, &operands, &[Param::Int(pool as i64)]);
        }
        full
    }

    /// The input's gradient straight from that of the pooled output; cut by samples and channels.
    fn conv_pool_input_gradient(&mut self, g: usize, dy: &Handle, pool: usize) {
        let (geometry, conv, _) = self.conv_of(g);
        let group = self.groups[g].clone();
        let value = group.inputs[0];
        let (dx, codes) = (self.array_for("gradient", value), self.kept[g][0].clone());
        let (_, w) = self
            .param(group.layer, "weight")
            .expect("convolutions have a weight");
        let parts = self.parts(group.layer, || conv.parts(conv.channels[0]));
        let mut params = window_params(&geometry.window([0, 0], [0, 0])).to_vec();
        params.push(Param::Int(pool as i64));
        let dims = dx.shape.dims4();
        let (height, width) = ((0, dims[2]), (0, dims[3]));
        for &n in &tiles::pieces(dims[0], parts.sample) {
            for &c in &tiles::pieces(dims[1], parts.channel) {
                let mut axes = tiles::whole(&w);
                axes[1] = c;
                let filter = tiles::part(&w, axes);
                let [grad, code] = [dy, &codes].map(|h| tiles::samples(h, n));
                let to = tiles::part(&dx, [n, c, height, width]);
                let operands = [
                    grad.with(Read),
                    code.with(Read),
                    filter.with(Read),
                    to.with(Write),
                ];
                self.submit(&conv_pool::INPUT_GRAD, &operands, &params);
            }
        }
        self.give_gradient(value, dx);
    }

    pub(super) fn conv_pool_backward(&mut self, g: usize, dy: Handle, pool: usize) {
        let (geometry, conv, out) = self.conv_of(g);
        let group = self.groups[g].clone();
        let codes = self.kept[g][0].clone();
        let columns = codes.shape[3];
        if self.needs_gradient[group.inputs[0]] {
            let whole = geometry.window([0, 0], [0, 0]);
            if channels_last::input::pays(conv.channels[0], &whole) {
                self.conv_pool_input_gradient(g, &dy, pool);
            } else {
                let full = self.expanded(g, &dy, pool, out);
                self.conv_input_gradient(g, &full);
            }
        }
        let x = self.value(group.inputs[0]);
        let (place, w) = self
            .param(group.layer, "weight")
            .expect("convolutions have a weight");
        let bias = self.param(group.layer, "bias");
        let dw = self.temporary("filter gradient", w.shape.extents());
        let db = bias
            .as_ref()
            .map(|(_, b)| self.temporary("bias gradient", b.shape.extents()));
        for tile in self.pooled_grid(group.layer, &dy, &conv) {
            let [n, c, h, _] = tile;
            let (from, win) = pooled_input(&x, &geometry, pool, tile);
            let (grad, to) = (tiles::part(&dy, tile), filters(&dw, c));
            let code = tiles::part(&codes, [n, c, h, (0, columns)]);
            let b = db.as_ref().map(|b| tiles::last(b, c));
            let mut params = window_params(&win).to_vec();
            params.push(Param::Int(pool as i64));
            let mut operands = vec![
                from.with(Read),
                grad.with(Read),
                code.with(Read),
                to.with(Reduce),
            ];
            operands.extend(b.as_ref().map(|b| b.with(Reduce)));
            self.submit(&conv_pool::FILTER_GRAD, &operands, &params);
        }
        self.update(place, dw);
        if let (Some((place, _)), Some(db)) = (bias, db) {
            self.update(place, db);
        }
    }
}

/// The input that a tile of pooled outputs reads, and the window that maps the convolution's outputs
/// under it.
fn pooled_input(
    x: &Handle,
    geometry: &Geometry,
    pool: usize,
    [n, _, h, v]: Tile,
) -> (Handle, dahl_ops::window::Window) {
    let under = [h, v].map(|(a, b)| (a * pool, b * pool));
    let inp = [
        geometry.read_by(0, under[0], x.shape[2]),
        geometry.read_by(1, under[1], x.shape[3]),
    ];
    let win = geometry.window([under[0].0, under[1].0], [inp[0].0, inp[1].0]);
    (tiles::part(x, [n, (0, x.shape[1]), inp[0], inp[1]]), win)
}
