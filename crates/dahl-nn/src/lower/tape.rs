//! The tape: a step while it is being lowered, as layers see it.
//!
//! Groups submit their forward tasks in order and their backward tasks in reverse order; in between, the tape
//! knows which group is at work, what values and gradients there are, and how the batch is cut into tasks.
//! It computes nothing itself but the sum of several gradients of one value.

use std::sync::Arc;

use dahl_core::Mode::{Read, Write};
use dahl_core::graph::Operand;
use dahl_core::{Codelet, DType, GraphError, Handle, Param, Recorder, Task};
use dahl_ops::elementwise::{ADD, Binary, COPY};

use super::grain::{self, Grain, Parts};
use super::state::{IoPart, State};
use super::tiles;
use super::update::Sums;
use crate::layers::fusion::{Group, groups};
use crate::model::{Extent, Model};
use crate::step::{Pass, Step};

/// A step while it is being lowered. Inputs, parameters and what was kept are those of the layer at work.
pub struct Tape<'a> {
    pub(super) model: &'a Model,
    pub(super) state: &'a State,
    pub(super) io: &'a IoPart<'a>,
    pub(super) step: &'a Step,
    pass: Pass,
    batch: usize,
    blocks: usize,
    micro_batches: usize,
    /// Updates before this step, modulo the versions of weights.
    pub(super) turn: usize,
    pub(super) recorder: Recorder,
    groups: Vec<Group>,
    /// The group at work.
    at: usize,
    /// Outputs of layers; interior values of groups have none.
    values: Vec<Option<Handle>>,
    /// Gradients of values, one from each reader.
    gradients: Vec<Vec<Handle>>,
    /// What a group keeps from its forward for its backward pass.
    kept: Vec<Vec<Handle>>,
    /// Whether anything that is trained lies behind a value.
    needs_gradient: Vec<bool>,
    /// Gradients of parameters that wait for other parts of the batch, or for clipping.
    pub(super) sums: Sums,
}

/// What layers use.
impl Tape<'_> {
    /// Samples of the step, or of the part of it that is being computed.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Parts of the batch that layers are cut into at least, where their weights allow.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.step.dtype
    }

    /// Whether there will be a backward pass.
    pub(crate) fn is_training(&self) -> bool {
        self.pass == Pass::Train
    }

    /// The key of random numbers: another one in each part of the batch.
    pub fn seed(&self) -> u64 {
        let first = self.io.samples.0 as u64;
        self.step
            .seed
            .wrapping_add(first.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// An array of one element, the number of the step: together with [`Tape::seed`] and [`Tape::layer`],
    /// what random numbers depend on.
    pub(crate) fn step_number(&self) -> Handle {
        self.io.io.step.clone()
    }

    /// The place of the layer in the model, counted from 0.
    pub fn layer(&self) -> usize {
        self.group().layer
    }

    /// How many values the layer reads.
    pub(crate) fn input_count(&self) -> usize {
        self.group().inputs.len()
    }

    /// Value `i` of those that the layer reads: batch × channels × height × width, or batch × numbers.
    pub fn input(&self, i: usize) -> Handle {
        self.value(self.group().inputs[i])
    }

    /// In the backward pass: what the layer gave.
    pub fn output(&self) -> Handle {
        self.value(self.group().output)
    }

    /// A new array for the output.
    pub fn new_output(&self) -> Handle {
        self.like_output("output")
    }

    /// A new array of the output's shape for something else.
    pub(crate) fn like_output(&self, what: &str) -> Handle {
        self.array_for(what, self.group().output)
    }

    /// The first input under the output's shape, which has as many elements: no task, no copy, unless it is a part of the
    /// step's samples, which has no other shape.
    pub(crate) fn input_as_output(&self) -> Handle {
        let (x, extents) = (self.input(0), self.extents(self.group().output));
        if let Ok(y) = x.reshape(&extents) {
            return y;
        }
        let y = self.new_output();
        let to = y.reshape(x.shape.extents()).expect("as many elements");
        self.map(&COPY, &[&x], &to, &[]);
        y
    }

    /// A new array for the gradient of input `i`.
    pub fn new_gradient(&self, i: usize) -> Handle {
        self.array_for("gradient", self.group().inputs[i])
    }

    /// An array that lives for the step.
    pub fn temporary(&self, name: &str, extents: &[usize]) -> Handle {
        self.recorder
            .temporary_handle(name, extents, self.step.dtype)
    }

    /// The parts to cut the layer's work into: the user's, or else what `auto` says. None crosses a micro-batch's border.
    pub fn parts(&self, auto: impl FnOnce() -> Parts) -> Parts {
        let parts = match &self.step.grain {
            Grain::Auto => auto(),
            Grain::Fixed(parts) => *parts,
            Grain::Layers(all) => {
                let own = all.get(self.layer()).copied().flatten();
                own.unwrap_or_else(auto)
            }
        };
        Parts {
            sample: grain::aligned(parts.sample, self.batch, self.micro_batches),
            ..parts
        }
    }

    /// Pieces of the batch, for a layer that touches each of so many elements about once.
    pub fn samples(&self, elements: usize) -> Vec<tiles::Piece> {
        let parts = self.parts(|| grain::light(self.batch(), elements, self.blocks));
        tiles::pieces(self.batch(), parts.sample)
    }

    /// Where operations record their tasks: `RELU.submit(tape.recorder(), …)`.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Appends a task.
    pub fn submit(&self, codelet: &Arc<Codelet>, operands: &[Operand<'_>], params: &[Param]) {
        self.recorder
            .submit(Task::new(codelet, operands).params(params));
    }

    /// Appends a task for each piece of the batch, which reads that piece of `inputs` and writes it of
    /// `output`.
    pub fn map(
        &self,
        codelet: &Arc<Codelet>,
        inputs: &[&Handle],
        output: &Handle,
        params: &[Param],
    ) {
        let longest = inputs.iter().map(|h| h.shape.len()).max();
        for n in self.samples(longest.unwrap_or(0).max(output.shape.len())) {
            let from: Vec<Handle> = inputs.iter().map(|h| tiles::samples(h, n)).collect();
            let to = tiles::samples(output, n);
            let mut operands: Vec<_> = from.iter().map(|h| h.with(Read)).collect();
            operands.push(to.with(Write));
            self.submit(codelet, &operands, params);
        }
    }

    /// The output of a layer that computes each piece of the batch from that of its input: see [`Tape::map`].
    pub(crate) fn map_output(&self, codelet: &Arc<Codelet>, params: &[Param]) -> Handle {
        let y = self.new_output();
        self.map(codelet, &[&self.input(0)], &y, params);
        y
    }

    /// Gives the input the gradient that a codelet computes, piece by piece of the batch, from `inputs`: see
    /// [`Tape::map`].
    pub(crate) fn map_gradient(
        &mut self,
        codelet: &Arc<Codelet>,
        inputs: &[&Handle],
        params: &[Param],
    ) {
        let dx = self.new_gradient(0);
        self.map(codelet, inputs, &dx, params);
        self.give_gradient(0, dx);
    }

    /// The layer's parameter or buffer of this name.
    ///
    /// # Panics
    /// If [`crate::layers::Layer::params`] has none of this name.
    pub fn param(&self, name: &str) -> Handle {
        let delay = match self.is_training() {
            true => self.step.delays.get(self.layer()).copied().unwrap_or(0),
            false => 0,
        };
        let array = self.state.version(self.place(name), self.turn, delay);
        array.expect("counters are no arrays").clone()
    }

    /// Keeps an array of the forward pass for the backward pass.
    pub fn keep(&mut self, array: Handle) {
        self.kept[self.at].push(array);
    }

    /// Array `i` of those that were kept.
    pub fn kept(&self, i: usize) -> Handle {
        self.kept[self.at][i].clone()
    }

    /// Whether anybody needs the gradient of input `i`.
    pub(crate) fn wants_gradient(&self, i: usize) -> bool {
        self.needs_gradient[self.group().inputs[i]]
    }

    /// Gives input `i` a gradient, of as many elements as the input; several are added.
    pub fn give_gradient(&mut self, i: usize, gradient: Handle) {
        let value = self.group().inputs[i];
        let gradient = gradient
            .reshape(&self.extents(value))
            .expect("as many elements as the value");
        self.gradients[value].push(gradient);
    }

    /// Gives a parameter its gradient, of the same shape, complete: it is updated at once, or clipped with
    /// the others first.
    pub fn give_param_gradient(&mut self, name: &str, gradient: Handle) {
        self.update(self.place(name), gradient);
    }
}

/// What lowering uses.
impl<'a> Tape<'a> {
    pub(super) fn new(
        step: &'a Step,
        pass: Pass,
        (state, turn): (&'a State, usize),
        io: &'a IoPart<'a>,
        (recorder, sums): (Recorder, Sums),
    ) -> Self {
        let batch = io.samples.1 - io.samples.0;
        let model = &step.model;
        let groups = groups(model);
        let mut needs_gradient = vec![false; model.layers.len() + 1];
        for (i, layer) in model.layers.iter().enumerate() {
            let trained = model.params_of(i).any(|(_, p)| p.role.is_trained());
            needs_gradient[i + 1] = trained || layer.from.iter().any(|&v| needs_gradient[v]);
        }
        let mut values = vec![None; model.layers.len() + 1];
        values[0] = Some(io.inputs.clone());
        Tape {
            kept: groups.iter().map(|_| Vec::new()).collect(),
            gradients: vec![Vec::new(); values.len()],
            sums,
            at: 0,
            recorder,
            model,
            state,
            io,
            step,
            pass,
            batch,
            blocks: grain::blocks(model, batch),
            micro_batches: step.micro_batches_of(pass, batch),
            turn,
            groups,
            values,
            needs_gradient,
        }
    }

    /// Asks every layer whether it can be trained with this batch.
    pub(super) fn check_batch(&self) -> Result<(), GraphError> {
        for (i, entry) in self.model.layers.iter().enumerate() {
            let input = self.model.extents()[entry.from[0]];
            let checked = entry.layer.check_batch(input, self.batch());
            checked.map_err(|problem| GraphError {
                codelet: entry.layer.name().into(),
                section: format!(" {:?}", self.model.label(i)),
                problem,
                place: self.model.file.clone().unwrap_or_else(|| "model".into()),
            })?;
        }
        Ok(())
    }

    pub(super) fn forward(&mut self) {
        for g in 0..self.groups.len() {
            self.at = g;
            self.recorder.section(&self.groups[g].label);
            let model = self.model;
            let value = match self.groups[g].fused.take() {
                Some(fused) => {
                    let value = fused.forward(self);
                    self.groups[g].fused = Some(fused);
                    value
                }
                None => model.layers[self.groups[g].layer].layer.forward(self),
            };
            let output = self.groups[g].output;
            self.values[output] = Some(value);
        }
    }

    pub(super) fn backward(&mut self) {
        for g in (0..self.groups.len()).rev() {
            self.at = g;
            self.recorder
                .section(&format!("{} backward", self.groups[g].label));
            let output = self.groups[g].output;
            if !self.needs_gradient[output] {
                continue;
            }
            let Some(dy) = self.gradient_of(output) else {
                continue;
            };
            let model = self.model;
            match self.groups[g].fused.take() {
                Some(fused) => fused.backward(self, &dy),
                None => model.layers[self.groups[g].layer].layer.backward(self, &dy),
            }
        }
        self.recorder.section("update");
        self.clip_and_update();
    }

    /// The model's output, and in training an array for its gradient.
    pub(super) fn end(&self) -> (Handle, Option<Handle>) {
        let value = self.model.layers.len();
        let gradient = self
            .is_training()
            .then(|| self.array_for("gradient", value));
        (self.value(value), gradient)
    }

    /// Gives the model's output its gradient.
    pub(super) fn give_last_gradient(&mut self, gradient: Option<Handle>) {
        self.gradients[self.model.layers.len()].extend(gradient);
    }

    fn group(&self) -> &Group {
        &self.groups[self.at]
    }

    /// The extents of a value with the batch in front.
    fn extents(&self, value: usize) -> Vec<usize> {
        match self.model.extents()[value] {
            Extent::Image([c, h, w]) => vec![self.batch(), c, h, w],
            Extent::Flat(n) => vec![self.batch(), n],
        }
    }

    /// An array for a value or its gradient.
    fn array_for(&self, what: &str, value: usize) -> Handle {
        let array = self.temporary(&format!("{what} {value}"), &self.extents(value));
        self.recorder.by_rows(&array);
        array
    }

    fn value(&self, value: usize) -> Handle {
        self.values[value]
            .clone()
            .expect("groups are in the order of their inputs")
    }

    /// The place of the layer's parameter of this name among all of the model.
    fn place(&self, name: &str) -> usize {
        let layer = self.layer();
        let mut params = self.model.params_of(layer);
        let found = params.find(|(_, p)| p.name == name);
        let place = found.map(|(place, _)| place);
        place.unwrap_or_else(|| panic!("layer {layer} has no parameter {name:?}"))
    }

    /// The gradient of a value: the sum of what its readers gave, in their order.
    fn gradient_of(&mut self, value: usize) -> Option<Handle> {
        let parts = std::mem::take(&mut self.gradients[value]);
        let mut parts = parts.into_iter();
        let mut total = parts.next()?;
        for other in parts {
            let sum = self.array_for("gradient", value);
            let cut = grain::light(self.batch(), sum.shape.len(), self.blocks).sample;
            let cut = grain::aligned(cut, self.batch, self.micro_batches);
            for piece in tiles::pieces(self.batch(), cut) {
                let [a, b, c] = [&total, &other, &sum].map(|h| tiles::samples(h, piece));
                let operands = Binary {
                    a: a.with(Read),
                    b: b.with(Read),
                    c: Some(c.with(Write)),
                };
                ADD.submit(&self.recorder, operands, ());
            }
            total = sum;
        }
        Some(total)
    }
}
