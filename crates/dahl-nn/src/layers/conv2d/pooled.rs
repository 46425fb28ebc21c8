//! A convolution of few channels, the positive part and max-pooling as one kernel: a code per pooled output
//! says where its value came from, so what lies between is never written.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Reduce, Write};
use dahl_ops::conv2d::fused;
use dahl_ops::window::Window;

use super::tasks::{channels_of, filters};
use super::{Conv2d, Tape};
use crate::layers::fusion::Fused;
use crate::lower::grain::{Conv, Parts};
use crate::lower::tiles::{self, Geometry, Tile};

/// The three layers.
pub(in crate::layers) struct ConvReluPool {
    pub(in crate::layers) conv: Conv2d,
    /// The side of the pooling's window, which is also its stride.
    pub(in crate::layers) side: usize,
}

/// Tiles of a pooled output; rows of codes are not cut.
fn pooled_grid(tape: &Tape<'_>, y: &Handle, conv: &Conv) -> Vec<Tile> {
    let parts = tape.parts(|| conv.parts(conv.channels[1]));
    tiles::grid(y.shape.dims4(), Parts { width: 1, ..parts })
}

impl ConvReluPool {
    fn params(&self, window: Window) -> fused::Params {
        let side = self.side;
        fused::Params { window, side }
    }

    /// The input that a tile of pooled outputs reads, and the window that maps the convolution's outputs
    /// under it.
    fn input_of(&self, x: &Handle, [n, _, h, v]: Tile) -> (Handle, Window) {
        let geometry: Geometry = self.conv.geometry();
        let under = [h, v].map(|(a, b)| (a * self.side, b * self.side));
        let inp = [
            geometry.read_by(0, under[0], x.shape[2]),
            geometry.read_by(1, under[1], x.shape[3]),
        ];
        let win = geometry.window([under[0].0, under[1].0], [inp[0].0, inp[1].0]);
        (tiles::part(x, [n, (0, x.shape[1]), inp[0], inp[1]]), win)
    }

    /// The gradient of the convolution's output, written out.
    fn expanded(&self, tape: &Tape<'_>, dy: &Handle) -> Handle {
        let (conv, out) = self.conv.size(tape);
        let (codes, o) = (tape.kept(0), dy.shape[1]);
        let extents = [tape.batch(), o, out[0], out[1]];
        let full = tape.temporary("gradient before pooling", &extents);
        let parts = tape.parts(|| conv.parts(o));
        for &n in &tiles::pieces(tape.batch(), parts.sample) {
            let [a, b, c] = [dy, &codes, &full].map(|x| tiles::samples(x, n));
            let operands = fused::Expand {
                dy: a.with(Read),
                codes: b.with(Read),
                full: c.with(Write),
            };
            let side = self.side;
            fused::EXPAND.submit(tape.recorder(), operands, fused::Side { side });
        }
        full
    }

    /// The input's gradient straight from that of the pooled output; cut by samples and channels.
    fn input_gradient(&self, tape: &mut Tape<'_>, dy: &Handle, whole: &Window) {
        let (conv, _) = self.conv.size(tape);
        let (dx, codes, w) = (tape.new_gradient(0), tape.kept(0), tape.param("weight"));
        let parts = tape.parts(|| conv.parts(conv.channels[0]));
        let dims = dx.shape.dims4();
        let (height, width) = ((0, dims[2]), (0, dims[3]));
        for &n in &tiles::pieces(dims[0], parts.sample) {
            for &c in &tiles::pieces(dims[1], parts.channel) {
                let filter = channels_of(&w, c);
                let [grad, code] = [dy, &codes].map(|h| tiles::samples(h, n));
                let to = tiles::part(&dx, [n, c, height, width]);
                let operands = fused::InputGrad {
                    dy: grad.with(Read),
                    codes: code.with(Read),
                    w: filter.with(Read),
                    dx: to.with(Write),
                };
                fused::INPUT_GRAD.submit(tape.recorder(), operands, self.params(*whole));
            }
        }
        tape.give_gradient(0, dx);
    }
}

impl Fused for ConvReluPool {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (conv, _) = self.conv.size(tape);
        let (x, y) = (tape.input(0), tape.new_output());
        let [_, o, ph, pw] = y.shape.dims4();
        let columns = fused::code_columns(tape.dtype(), pw);
        let codes = tape.temporary("codes", &[tape.batch(), o, ph, columns]);
        let w = tape.param("weight");
        let bias = self.conv.bias.then(|| tape.param("bias"));
        for tile in pooled_grid(tape, &y, &conv) {
            let [n, c, h, _] = tile;
            let (from, win) = self.input_of(&x, tile);
            let (filter, to) = (filters(&w, c), tiles::part(&y, tile));
            let code = tiles::part(&codes, [n, c, h, (0, columns)]);
            let b = bias.as_ref().map(|b| tiles::last(b, c));
            let operands = fused::Forward {
                x: from.with(Read),
                w: filter.with(Read),
                bias: b.as_ref().map(|b| b.with(Read)),
                y: to.with(Write),
                codes: code.with(Write),
            };
            fused::FORWARD.submit(tape.recorder(), operands, self.params(win));
        }
        tape.keep(codes);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (conv, _) = self.conv.size(tape);
        let codes = tape.kept(0);
        let columns = codes.shape[3];
        if tape.wants_gradient(0) {
            let whole = self.conv.geometry().window([0, 0], [0, 0]);
            if fused::input_grad_pays(conv.channels[0], &whole) {
                self.input_gradient(tape, dy, &whole);
            } else {
                let full = self.expanded(tape, dy);
                self.conv.input_gradient(tape, &full);
            }
        }
        let (x, w) = (tape.input(0), tape.param("weight"));
        let dw = tape.temporary("filter gradient", w.shape.extents());
        let db = self
            .conv
            .bias
            .then(|| tape.temporary("bias gradient", &[self.conv.out_channels]));
        for tile in pooled_grid(tape, dy, &conv) {
            let [n, c, h, _] = tile;
            let (from, win) = self.input_of(&x, tile);
            let (grad, to) = (tiles::part(dy, tile), filters(&dw, c));
            let code = tiles::part(&codes, [n, c, h, (0, columns)]);
            let b = db.as_ref().map(|b| tiles::last(b, c));
            let operands = fused::FilterGrad {
                x: from.with(Read),
                dy: grad.with(Read),
                codes: code.with(Read),
                dw: to.with(Reduce),
                db: b.as_ref().map(|b| b.with(Reduce)),
            };
            fused::FILTER_GRAD.submit(tape.recorder(), operands, self.params(win));
        }
        tape.give_param_gradient("weight", dw);
        if let Some(db) = db {
            tape.give_param_gradient("bias", db);
        }
    }
}
