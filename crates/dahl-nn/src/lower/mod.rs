//! Lowering: from a step to the graph of its tasks, for training, evaluation or prediction.
//!
//! Layers that belong together are *fused* into groups first; then every group submits its forward
//! tasks, the loss its own, and in reverse order every group its backward tasks; each parameter is
//! updated as soon as its gradient is complete. What is computed depends on the [`crate::Step`], the
//! [`Pass`] and the number of samples, and on nothing else.
//!
//! | file | what |
//! |---|---|
//! | `groups` | which layers run as one |
//! | `conv`, `layers` | how each kind of group runs forward and backward |
//! | `loss`, `update` | losses and optimisers |
//! | `tiles`, `grain` | how work is cut into tasks |
//! | `state` | parameters and optimiser state; what goes in and comes out of a step |

mod conv;
pub mod grain;
mod groups;
mod layers;
mod loss;
pub mod state;
pub mod tiles;
mod update;

use std::sync::Arc;

use dahl_core::graph::Operand;
use dahl_core::{Codelet, Graph, GraphError, Handle, Param, Recorder, Task};

use crate::model::{Extent, Model};
use crate::step::Pass;
use grain::{Grain, Parts};
use groups::Group;
pub use loss::{LossPart, LossTape};
use state::{Io, State};

/// The graph of one pass over so many samples: the only place where a step becomes tasks.
pub(crate) fn graph(
    step: &crate::Step,
    pass: Pass,
    batch: usize,
    state: &State,
    io: &Io,
) -> Result<Arc<Graph>, GraphError> {
    let mut lowering = Step::new(step, pass, batch, state, io);
    if pass == Pass::Train {
        lowering.check_batch_norm()?;
    }
    lowering.forward();
    lowering.loss(&step.loss);
    if pass == Pass::Train {
        lowering.backward();
    }
    lowering.recorder.finish()
}

/// A step while it is being lowered.
struct Step<'a> {
    model: &'a Model,
    state: &'a State,
    io: &'a Io,
    settings: &'a crate::Step,
    pass: Pass,
    batch: usize,
    recorder: Recorder,
    groups: Vec<Group>,
    /// Outputs of layers; interior values of groups have none.
    values: Vec<Option<Handle>>,
    /// Gradients of values, one from each reader.
    gradients: Vec<Vec<Handle>>,
    /// What a group keeps from its forward for its backward pass.
    kept: Vec<Vec<Handle>>,
    /// Whether anything that is trained lies behind a value.
    needs_gradient: Vec<bool>,
    /// Gradients of parameters that wait for clipping.
    clipped: Vec<(usize, Handle)>,
}

impl<'a> Step<'a> {
    fn new(
        settings: &'a crate::Step,
        pass: Pass,
        batch: usize,
        state: &'a State,
        io: &'a Io,
    ) -> Self {
        let model = &settings.model;
        let groups = groups::find(model);
        let mut needs_gradient = vec![false; model.layers.len() + 1];
        for (i, layer) in model.layers.iter().enumerate() {
            let trained = model
                .params()
                .iter()
                .any(|p| p.layer == i && p.role.is_trained());
            needs_gradient[i + 1] = trained || layer.from.iter().any(|&v| needs_gradient[v]);
        }
        let mut values = vec![None; model.layers.len() + 1];
        values[0] = Some(io.inputs.clone());
        Step {
            kept: vec![Vec::new(); groups.len()],
            gradients: vec![Vec::new(); values.len()],
            clipped: Vec::new(),
            recorder: {
                let mut recorder = Recorder::new();
                if let Some(chooser) = settings.kernels.chooser() {
                    recorder = recorder.with_chooser(chooser);
                }
                if let Some(extra) = settings.extra {
                    recorder = recorder.with_extra(extra);
                }
                recorder
            },
            model,
            state,
            io,
            settings,
            pass,
            batch,
            groups,
            values,
            needs_gradient,
        }
    }

    /// Refuses to normalise over a single value, whose variance says nothing.
    fn check_batch_norm(&self) -> Result<(), GraphError> {
        for group in &self.groups {
            let [_, h, w] = self.image(group.inputs[0]);
            if matches!(group.work, groups::Work::BatchNorm { .. }) && self.batch() * h * w == 1 {
                return Err(GraphError {
                    codelet: "batch_norm2d".into(),
                    section: format!(" {:?}", group.label),
                    problem:
                        "a batch of one sample has one value per channel, training needs two; \
                              choose a batch size that leaves no single sample over"
                            .into(),
                    place: self.model.file.clone().unwrap_or_else(|| "model".into()),
                });
            }
        }
        Ok(())
    }

    fn is_training(&self) -> bool {
        self.pass == Pass::Train
    }

    fn batch(&self) -> usize {
        self.batch
    }

    /// The extents of a value with the batch in front.
    fn extents(&self, value: usize) -> Vec<usize> {
        match self.model.extents()[value] {
            Extent::Image([c, h, w]) => vec![self.batch(), c, h, w],
            Extent::Flat(n) => vec![self.batch(), n],
        }
    }

    fn image(&self, value: usize) -> [usize; 3] {
        match self.model.extents()[value] {
            Extent::Image(image) => image,
            Extent::Flat(n) => [n, 1, 1],
        }
    }

    fn temporary(&self, name: &str, extents: &[usize]) -> Handle {
        self.recorder
            .temporary_handle(name, extents, self.settings.dtype)
    }

    /// An array for a value or its gradient.
    fn array_for(&self, what: &str, value: usize) -> Handle {
        self.temporary(&format!("{what} {value}"), &self.extents(value))
    }

    fn value(&self, value: usize) -> Handle {
        self.values[value]
            .clone()
            .expect("groups are in the order of their inputs")
    }

    fn submit(&self, codelet: &Arc<Codelet>, operands: &[Operand<'_>], params: &[Param]) {
        self.recorder
            .submit(Task::new(codelet, operands).params(params));
    }

    /// The parts to cut a layer's work into: the user's, or else what `auto` says.
    fn parts(&self, layer: usize, auto: impl FnOnce() -> Parts) -> Parts {
        match &self.settings.grain {
            Grain::Auto => auto(),
            Grain::Fixed(parts) => *parts,
            Grain::Layers(all) => all.get(layer).copied().flatten().unwrap_or_else(auto),
        }
    }

    /// A layer's parameter with this ending of its key.
    fn param(&self, layer: usize, name: &str) -> Option<(usize, Handle)> {
        let ending = format!(".{name}");
        let place = self
            .model
            .params()
            .iter()
            .position(|p| p.layer == layer && p.key.ends_with(&ending))?;
        Some((place, self.state.params[place].clone()?))
    }

    fn forward(&mut self) {
        for g in 0..self.groups.len() {
            self.recorder.section(&self.groups[g].label);
            let output = self.groups[g].output;
            let value = self.forward_group(g);
            self.values[output] = Some(value);
        }
    }

    fn backward(&mut self) {
        for g in (0..self.groups.len()).rev() {
            self.recorder
                .section(&format!("{} backward", self.groups[g].label));
            let output = self.groups[g].output;
            if !self.needs_gradient[output] {
                continue;
            }
            if let Some(dy) = self.gradient_of(output) {
                self.backward_group(g, dy);
            }
        }
        self.recorder.section("update");
        self.clip_and_update();
    }

    /// The gradient of a value: the sum of what its readers gave, in their order.
    fn gradient_of(&mut self, value: usize) -> Option<Handle> {
        let parts = std::mem::take(&mut self.gradients[value]);
        let mut parts = parts.into_iter();
        let mut total = parts.next()?;
        for other in parts {
            let sum = self.array_for("gradient", value);
            for piece in tiles::pieces(
                self.batch(),
                grain::light(self.batch(), sum.shape.len()).sample,
            ) {
                let [a, b, c] = [&total, &other, &sum].map(|h| tiles::samples(h, piece));
                use dahl_core::Mode::{Read, Write};
                let operands = [a.with(Read), b.with(Read), c.with(Write)];
                self.submit(&dahl_ops::codelets::elementwise::ADD, &operands, &[]);
            }
            total = sum;
        }
        Some(total)
    }

    /// Gives a value one more gradient, under the value's own shape.
    fn give_gradient(&mut self, value: usize, gradient: Handle) {
        let extents = self.extents(value);
        let gradient = gradient
            .reshape(&extents)
            .expect("as many elements as the value");
        self.gradients[value].push(gradient);
    }
}
