//! All layers but convolutions: forward and backward.

use dahl_core::Mode::{Read, ReadWrite, Reduce, Write};
use dahl_core::{Handle, Param};
use dahl_ops::codelets::{batch_norm, dropout, elementwise, linear, pool, window_params};

use super::groups::Work;
use super::tiles::{self, Geometry};
use super::{Step, grain};

/// What batch normalisation adds to the variance, and how fast running statistics move: PyTorch's.
const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

impl Step<'_> {
    pub(super) fn forward_group(&mut self, g: usize) -> Handle {
        match self.groups[g].work.clone() {
            Work::Conv { relu, .. } => self.conv_forward(g, relu),
            Work::ConvPool { pool, .. } => self.conv_pool_forward(g, pool),
            Work::BatchNorm { relu } => self.batch_norm_forward(g, relu),
            Work::Relu => self.relu_forward(g),
            Work::MaxPool(geometry) => self.pool_forward(g, &geometry, true),
            Work::AvgPool(geometry) => self.pool_forward(g, &geometry, false),
            Work::GlobalPool => self.global_forward(g),
            Work::Dropout(p) => self.dropout_forward(g, p),
            Work::Flatten => self.reshaped(g),
            Work::Linear => self.linear_forward(g),
            Work::Add => self.add_forward(g),
        }
    }

    pub(super) fn backward_group(&mut self, g: usize, dy: Handle) {
        match self.groups[g].work.clone() {
            Work::Conv { relu, .. } => self.conv_backward(g, dy, relu),
            Work::ConvPool { pool, .. } => self.conv_pool_backward(g, dy, pool),
            Work::BatchNorm { relu } => self.batch_norm_backward(g, dy, relu),
            Work::Relu => self.relu_backward(g, dy),
            Work::MaxPool(geometry) => self.pool_backward(g, dy, &geometry, true),
            Work::AvgPool(geometry) => self.pool_backward(g, dy, &geometry, false),
            Work::GlobalPool => self.global_backward(g, dy),
            Work::Dropout(p) => self.dropout_backward(g, dy, p),
            Work::Flatten => self.give_gradient(self.groups[g].inputs[0], dy),
            Work::Linear => self.linear_backward(g, dy),
            Work::Add => {
                for value in self.groups[g].inputs.clone() {
                    if self.needs_gradient[value] {
                        self.give_gradient(value, dy.clone());
                    }
                }
            }
        }
    }

    /// Pieces of the batch for a layer that touches every element once.
    fn light_pieces(&self, g: usize, elements: usize) -> Vec<tiles::Piece> {
        let parts = self.parts(self.groups[g].layer, || {
            grain::light(self.batch(), elements)
        });
        tiles::pieces(self.batch(), parts.sample)
    }

    fn reshaped(&self, g: usize) -> Handle {
        let group = &self.groups[g];
        let extents = self.extents(group.output);
        self.value(group.inputs[0])
            .reshape(&extents)
            .expect("as many elements")
    }

    fn relu_forward(&mut self, g: usize) -> Handle {
        let group = self.groups[g].clone();
        let (x, y) = (
            self.value(group.inputs[0]),
            self.array_for("output", group.output),
        );
        for n in self.light_pieces(g, y.shape.len()) {
            let [a, b] = [&x, &y].map(|h| tiles::samples(h, n));
            self.submit(&elementwise::RELU, &[a.with(Read), b.with(Write)], &[]);
        }
        y
    }

    fn relu_backward(&mut self, g: usize, dy: Handle) {
        let group = self.groups[g].clone();
        let value = group.inputs[0];
        let (y, dx) = (self.value(group.output), self.array_for("gradient", value));
        for n in self.light_pieces(g, y.shape.len()) {
            let [a, b, c] = [&dy, &y, &dx].map(|h| tiles::samples(h, n));
            let operands = [a.with(Read), b.with(Read), c.with(Write)];
            self.submit(&elementwise::RELU_GRAD, &operands, &[]);
        }
        self.give_gradient(value, dx);
    }

    fn pool_forward(&mut self, g: usize, geometry: &Geometry, max: bool) -> Handle {
        let group = self.groups[g].clone();
        let (x, y) = (
            self.value(group.inputs[0]),
            self.array_for("output", group.output),
        );
        let places = (max && self.is_training()).then(|| self.array_for("places", group.output));
        let parts = self.parts(group.layer, || grain::light(self.batch(), x.shape.len()));
        let [_, channels, height, width] = y.shape.dims4();
        for &n in &tiles::pieces(self.batch(), parts.sample) {
            for &c in &tiles::pieces(channels, parts.channel) {
                for &h in &tiles::pieces(height, parts.height) {
                    for &w in &tiles::pieces(width, parts.width) {
                        let inp = [
                            geometry.read_by(0, h, x.shape[2]),
                            geometry.read_by(1, w, x.shape[3]),
                        ];
                        let win = geometry.window([h.0, w.0], [inp[0].0, inp[1].0]);
                        let from = tiles::part(&x, [n, c, inp[0], inp[1]]);
                        let to = tiles::part(&y, [n, c, h, w]);
                        let place = places.as_ref().map(|p| tiles::part(p, [n, c, h, w]));
                        let mut operands = vec![from.with(Read), to.with(Write)];
                        operands.extend(place.as_ref().map(|p| p.with(Write)));
                        let codelet = if max { &pool::MAX } else { &pool::AVERAGE };
                        self.submit(codelet, &operands, &window_params(&win));
                    }
                }
            }
        }
        self.kept[g].extend(places);
        y
    }

    fn pool_backward(&mut self, g: usize, dy: Handle, geometry: &Geometry, max: bool) {
        let group = self.groups[g].clone();
        let value = group.inputs[0];
        let dx = self.array_for("gradient", value);
        let parts = self.parts(group.layer, || grain::light(self.batch(), dx.shape.len()));
        let [_, channels, height, width] = dx.shape.dims4();
        for &n in &tiles::pieces(self.batch(), parts.sample) {
            for &c in &tiles::pieces(channels, parts.channel) {
                for &h in &tiles::pieces(height, parts.height) {
                    for &w in &tiles::pieces(width, parts.width) {
                        let out = [
                            geometry.reading(0, h, dy.shape[2]),
                            geometry.reading(1, w, dy.shape[3]),
                        ];
                        let win = geometry.window([out[0].0, out[1].0], [h.0, w.0]);
                        let from = tiles::part(&dy, [n, c, out[0], out[1]]);
                        let to = tiles::part(&dx, [n, c, h, w]);
                        let params = window_params(&win);
                        if max {
                            let place = tiles::part(&self.kept[g][0], [n, c, out[0], out[1]]);
                            let operands = [from.with(Read), place.with(Read), to.with(Write)];
                            self.submit(&pool::MAX_GRAD, &operands, &params);
                        } else {
                            self.submit(
                                &pool::AVERAGE_GRAD,
                                &[from.with(Read), to.with(Write)],
                                &params,
                            );
                        }
                    }
                }
            }
        }
        self.give_gradient(value, dx);
    }

    fn global_forward(&mut self, g: usize) -> Handle {
        let group = self.groups[g].clone();
        let (x, y) = (
            self.value(group.inputs[0]),
            self.array_for("output", group.output),
        );
        for n in self.light_pieces(g, x.shape.len()) {
            let [a, b] = [&x, &y].map(|h| tiles::samples(h, n));
            self.submit(&pool::GLOBAL, &[a.with(Read), b.with(Write)], &[]);
        }
        y
    }

    fn global_backward(&mut self, g: usize, dy: Handle) {
        let value = self.groups[g].inputs[0];
        let dx = self.array_for("gradient", value);
        for n in self.light_pieces(g, dx.shape.len()) {
            let [a, b] = [&dy, &dx].map(|h| tiles::samples(h, n));
            self.submit(&pool::GLOBAL_GRAD, &[a.with(Read), b.with(Write)], &[]);
        }
        self.give_gradient(value, dx);
    }

    fn dropout_tasks(&self, g: usize, from: &Handle, to: &Handle, p: f64) {
        let layer = self.groups[g].layer as i64;
        let params = [
            Param::Float(p),
            Param::Int(self.settings.seed as i64),
            Param::Int(layer),
        ];
        for n in self.light_pieces(g, to.shape.len()) {
            let [a, b] = [from, to].map(|h| tiles::samples(h, n));
            let operands = [a.with(Read), self.io.step.with(Read), b.with(Write)];
            self.submit(&dropout::DROPOUT, &operands, &params);
        }
    }

    fn dropout_forward(&mut self, g: usize, p: f64) -> Handle {
        let group = self.groups[g].clone();
        if !self.is_training() {
            return self.reshaped(g);
        }
        let (x, y) = (
            self.value(group.inputs[0]),
            self.array_for("output", group.output),
        );
        self.dropout_tasks(g, &x, &y, p);
        y
    }

    fn dropout_backward(&mut self, g: usize, dy: Handle, p: f64) {
        let value = self.groups[g].inputs[0];
        let dx = self.array_for("gradient", value);
        self.dropout_tasks(g, &dy, &dx, p);
        self.give_gradient(value, dx);
    }

    fn add_forward(&mut self, g: usize) -> Handle {
        let group = self.groups[g].clone();
        let mut total = self.value(group.inputs[0]);
        for &other in &group.inputs[1..] {
            let (b, y) = (self.value(other), self.array_for("output", group.output));
            for n in self.light_pieces(g, y.shape.len()) {
                let [a, b, y] = [&total, &b, &y].map(|h| tiles::samples(h, n));
                let operands = [a.with(Read), b.with(Read), y.with(Write)];
                self.submit(&elementwise::ADD, &operands, &[]);
            }
            total = y;
        }
        total
    }

    fn linear_forward(&mut self, g: usize) -> Handle {
        let group = self.groups[g].clone();
        let (x, y) = (
            self.value(group.inputs[0]),
            self.array_for("output", group.output),
        );
        let (_, w) = self
            .param(group.layer, "weight")
            .expect("linear layers have a weight");
        let bias = self.param(group.layer, "bias").map(|p| p.1);
        let parts = self.parts(group.layer, || {
            grain::linear(self.batch(), [w.shape[1], w.shape[0]])
        });
        for &n in &tiles::pieces(self.batch(), parts.sample) {
            for &c in &tiles::pieces(w.shape[0], parts.channel) {
                let (from, weight) = (tiles::samples(&x, n), tiles::samples(&w, c));
                let to = tiles::last(&tiles::samples(&y, n), c);
                let b = bias.as_ref().map(|b| tiles::last(b, c));
                let mut operands = vec![from.with(Read), weight.with(Read)];
                operands.extend(b.as_ref().map(|b| b.with(Read)));
                operands.push(to.with(Write));
                self.submit(&linear::FORWARD, &operands, &[]);
            }
        }
        y
    }

    fn linear_backward(&mut self, g: usize, dy: Handle) {
        let group = self.groups[g].clone();
        let value = group.inputs[0];
        let x = self.value(value);
        let (place, w) = self
            .param(group.layer, "weight")
            .expect("linear layers have a weight");
        let parts = self.parts(group.layer, || {
            grain::linear(self.batch(), [w.shape[1], w.shape[0]])
        });
        let samples = tiles::pieces(self.batch(), parts.sample);
        if self.needs_gradient[value] {
            let dx = self.array_for("gradient", value);
            for &n in &samples {
                // Cut along the input's features: each task needs all of the output's.
                for &i in &tiles::pieces(w.shape[1], parts.channel) {
                    let (from, weight) = (tiles::samples(&dy, n), tiles::last(&w, i));
                    let to = tiles::last(&tiles::samples(&dx, n), i);
                    let operands = [from.with(Read), weight.with(Read), to.with(Write)];
                    self.submit(&linear::INPUT_GRAD, &operands, &[]);
                }
            }
            self.give_gradient(value, dx);
        }
        let dw = self.temporary("weight gradient", w.shape.extents());
        for &n in &samples {
            for &c in &tiles::pieces(w.shape[0], parts.channel) {
                let from = tiles::last(&tiles::samples(&dy, n), c);
                let (x, to) = (tiles::samples(&x, n), tiles::samples(&dw, c));
                let operands = [from.with(Read), x.with(Read), to.with(Reduce)];
                self.submit(&linear::WEIGHT_GRAD, &operands, &[]);
            }
        }
        self.update(place, dw);
        if let Some((place, b)) = self.param(group.layer, "bias") {
            let db = self.temporary("bias gradient", b.shape.extents());
            for &n in &samples {
                let from = tiles::samples(&dy, n);
                self.submit(&linear::BIAS_GRAD, &[from.with(Read), db.with(Reduce)], &[]);
            }
            self.update(place, db);
        }
    }

    fn batch_norm_forward(&mut self, g: usize, relu: bool) -> Handle {
        let group = self.groups[g].clone();
        let (x, y) = (
            self.value(group.inputs[0]),
            self.array_for("output", group.output),
        );
        let param = |name: &str| self.param(group.layer, name).expect("batch norm has it").1;
        let [scale, shift, mean, var] =
            ["weight", "bias", "running_mean", "running_var"].map(param);
        let channels = x.shape[1];
        let stats = self.temporary("statistics", &[2, channels]);
        let pieces = self.light_pieces(g, x.shape.len());
        if self.is_training() {
            let moments = self.temporary("moments", &[pieces.len(), 3, channels]);
            for (i, &n) in pieces.iter().enumerate() {
                let from = tiles::samples(&x, n);
                let to = tiles::part(&moments, [(0, 1), (i, i + 1), (0, 3), (0, channels)]);
                self.submit(
                    &batch_norm::MOMENTS,
                    &[from.with(Read), to.with(Write)],
                    &[],
                );
            }
            let total = self.temporary("total moments", &[3, channels]);
            let operands = [
                moments.with(Read),
                total.with(Write),
                stats.with(Write),
                mean.with(ReadWrite),
                var.with(ReadWrite),
            ];
            self.submit(
                &batch_norm::FINISH,
                &operands,
                &[Param::Float(EPSILON), Param::Float(MOMENTUM)],
            );
        } else {
            let operands = [mean.with(Read), var.with(Read), stats.with(Write)];
            self.submit(&batch_norm::RUNNING, &operands, &[Param::Float(EPSILON)]);
        }
        for &n in &pieces {
            let [from, to] = [&x, &y].map(|h| tiles::samples(h, n));
            let operands = [
                from.with(Read),
                stats.with(Read),
                scale.with(Read),
                shift.with(Read),
                to.with(Write),
            ];
            self.submit(
                &batch_norm::NORMALISE,
                &operands,
                &[Param::Int(i64::from(relu))],
            );
        }
        self.kept[g].push(stats);
        y
    }

    fn batch_norm_backward(&mut self, g: usize, dy: Handle, relu: bool) {
        let group = self.groups[g].clone();
        let value = group.inputs[0];
        let (x, y, stats) = (
            self.value(value),
            self.value(group.output),
            self.kept[g][0].clone(),
        );
        let (scale_place, scale) = self
            .param(group.layer, "weight")
            .expect("batch norm has it");
        let (shift_place, _) = self.param(group.layer, "bias").expect("batch norm has it");
        let channels = x.shape[1];
        let sums = self.temporary("sums", &[2, channels]);
        let pieces = self.light_pieces(g, x.shape.len());
        for &n in &pieces {
            let [a, b, c] = [&x, &dy, &y].map(|h| tiles::samples(h, n));
            let mut operands = vec![
                a.with(Read),
                b.with(Read),
                stats.with(Read),
                sums.with(Reduce),
            ];
            operands.extend(relu.then(|| c.with(Read)));
            self.submit(&batch_norm::SUMS, &operands, &[]);
        }
        if self.needs_gradient[value] {
            let dx = self.array_for("gradient", value);
            let count = x.shape.len() / channels;
            for &n in &pieces {
                let [a, b, c, d] = [&x, &dy, &y, &dx].map(|h| tiles::samples(h, n));
                let mut operands = vec![
                    a.with(Read),
                    b.with(Read),
                    stats.with(Read),
                    sums.with(Read),
                    scale.with(Read),
                    d.with(Write),
                ];
                operands.extend(relu.then(|| c.with(Read)));
                self.submit(
                    &batch_norm::INPUT_GRAD,
                    &operands,
                    &[Param::Int(count as i64)],
                );
            }
            self.give_gradient(value, dx);
        }
        let row = |i: usize| tiles::samples(&sums, (i, i + 1));
        self.update(shift_place, row(0));
        self.update(scale_place, row(1));
    }
}
