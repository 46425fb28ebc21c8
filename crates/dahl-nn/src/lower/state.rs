//! What outlives a step: parameters and optimiser state; and what goes in and comes out of one.

use std::rc::Rc;

use dahl_core::{Arena, ArenaError, DType, Element, Handle};

use super::grain;
use super::tiles::{self, Piece};
use crate::Step;
use crate::losses::Targets;
use crate::model::Role;
use crate::step::Pass;

/// What keeps arrays alive: an arena, or what owns it.
enum Owner {
    Own(#[allow(dead_code)] Arena),
    Shared(#[allow(dead_code)] Rc<State>),
}

/// Parameters and optimiser state, in an arena of their own.
pub struct State {
    /// Where they live; kept so that the handles stay valid.
    _arena: Owner,
    /// The versions of every parameter of the model: one, or a ring of them where its layer reads older ones; counters have
    /// none.
    pub params: Vec<Vec<Handle>>,
    /// For every parameter, its optimiser's arrays.
    pub slots: Vec<Vec<Handle>>,
}

impl State {
    /// Zeros for all of it.
    pub(crate) fn new(step: &Step) -> Result<Self, ArenaError> {
        let (arena, dtype) = (Arena::new(), step.dtype);
        let (mut params, mut slots) = (Vec::new(), Vec::new());
        for p in step.model.params() {
            if p.role == Role::Counter {
                params.push(Vec::new());
                slots.push(Vec::new());
                continue;
            }
            let delay = step.delays.get(p.layer).copied().unwrap_or(0);
            let count = match p.role.is_trained() && delay > 0 {
                true => step.versions(),
                false => 1,
            };
            let version = |i| match i {
                0 => arena.alloc(&p.key, &p.shape, dtype),
                _ => arena.alloc(&format!("{} version {i}", p.key), &p.shape, dtype),
            };
            params.push((0..count).map(version).collect::<Result<_, _>>()?);
            let names = match p.role.is_trained() {
                true => step.slots(),
                false => Vec::new(),
            };
            let own = names
                .iter()
                .map(|s| arena.alloc(&format!("{} {s}", p.key), &p.shape, dtype));
            slots.push(own.collect::<Result<_, _>>()?);
        }
        Ok(State {
            _arena: Owner::Own(arena),
            params,
            slots,
        })
    }
}

impl State {
    /// Whether layers read older weights than the newest.
    pub(crate) fn has_versions(&self) -> bool {
        self.params.iter().any(|versions| versions.len() > 1)
    }

    /// The newest version of a parameter after so many updates, or an older one; counters have none.
    pub(crate) fn version(&self, place: usize, turn: usize, older: usize) -> Option<&Handle> {
        let ring = &self.params[place];
        let at = |n: usize| (turn + n - older % n) % n;
        (!ring.is_empty()).then(|| &ring[at(ring.len())])
    }
}

/// The arrays through which a step talks to its caller. Steps in flight at once need one each.
pub struct Io {
    _arena: Arena,
    /// Samples: batch × channels × height × width.
    pub inputs: Handle,
    /// Class numbers, one per sample; or batch × outputs values.
    pub targets: Handle,
    /// What the model gives, batch × outputs; only where it is predicting.
    pub scores: Option<Handle>,
    /// Losses, one per sample.
    pub losses: Handle,
    /// Correct predictions, one count per task of the loss, if there are classes.
    pub correct: Handle,
    /// Whether targets are classes, or shares of them.
    pub(crate) classes: bool,
    /// The optimiser's values: rates and the like.
    pub values: Handle,
    /// The number of the step, for dropout.
    pub step: Handle,
    /// Rows of numbers that the loss reads and nobody changes.
    pub(crate) constants: Vec<Handle>,
}

impl Io {
    /// For steps of so many samples.
    pub(crate) fn new(step: &Step, pass: Pass, batch: usize) -> Result<Self, ArenaError> {
        let (arena, dtype) = (Arena::new(), step.dtype);
        let [c, h, w] = step.model.input;
        let targets = match step.loss.targets() {
            Targets::Classes => vec![batch],
            Targets::Values | Targets::Shares => vec![batch, step.model.classes()],
        };
        let (values, _) = step.value_count();
        let row = |values: Vec<f64>| match dtype {
            DType::F32 => row::<f32>(&arena, &values),
            DType::F64 => row::<f64>(&arena, &values),
        };
        let constants = step.loss.constants().into_iter().map(row);
        let outputs = [batch, step.model.classes()];
        let loss_tasks = step
            .parts(batch)
            .into_iter()
            .map(|n| loss_tasks(step, pass, n))
            .sum();
        let scores = (pass == Pass::Predict).then(|| arena.alloc("scores", &outputs, dtype));
        Ok(Io {
            classes: step.loss.targets().has_classes(),
            constants: constants.collect::<Result<_, _>>()?,
            scores: scores.transpose()?,
            inputs: arena.alloc("inputs", &[batch, c, h, w], dtype)?,
            targets: arena.alloc("targets", &targets, dtype)?,
            losses: arena.alloc("losses", &[batch], dtype)?,
            correct: arena.alloc("correct", &[loss_tasks], dtype)?,
            values: arena.alloc("optimiser values", &[values], dtype)?,
            step: arena.alloc("step", &[1], dtype)?,
            _arena: arena,
        })
    }
}

/// Tasks of the loss of some samples.
fn loss_tasks(step: &Step, pass: Pass, (from, to): Piece) -> usize {
    let samples = to - from;
    let tasks = grain::loss(samples, grain::blocks(&step.model, samples));
    grain::aligned(tasks, samples, step.micro_batches_of(pass, samples))
}

impl State {
    /// The same with averages in the place of the parameters that have one: for evaluation.
    pub(crate) fn averaged(self: &Rc<Self>) -> Self {
        let average = |(versions, slots): (&Vec<Handle>, &Vec<Handle>)| match slots.last() {
            Some(average) => vec![average.clone()],
            None => versions.clone(),
        };
        State {
            _arena: Owner::Shared(self.clone()),
            params: self.params.iter().zip(&self.slots).map(average).collect(),
            slots: vec![Vec::new(); self.params.len()],
        }
    }
}

impl Io {
    /// What belongs to each part of the batch, in which it is computed.
    pub(super) fn parts(&self, step: &Step, pass: Pass) -> Vec<IoPart<'_>> {
        let mut counted = 0;
        let part = |n: Piece| {
            let first = counted;
            counted += loss_tasks(step, pass, n);
            IoPart {
                io: self,
                inputs: tiles::samples(&self.inputs, n),
                targets: tiles::samples(&self.targets, n),
                losses: tiles::last(&self.losses, n),
                correct: tiles::last(&self.correct, (first, counted)),
                samples: n,
            }
        };
        step.parts(self.losses.shape.len())
            .into_iter()
            .map(part)
            .collect()
    }
}

/// A part of the batch, as [`Io`] has them.
pub(super) struct IoPart<'a> {
    /// The whole.
    pub io: &'a Io,
    /// Its samples.
    pub inputs: Handle,
    /// Their targets.
    pub targets: Handle,
    /// Their losses.
    pub losses: Handle,
    /// Counts of their loss's tasks.
    pub correct: Handle,
    /// Which samples of the batch these are.
    pub samples: Piece,
}

impl IoPart<'_> {
    /// What the model gives for its samples.
    pub(super) fn scores(&self) -> Option<Handle> {
        let scores = self.io.scores.as_ref()?;
        Some(tiles::samples(scores, self.samples))
    }
}

/// An array with these values.
fn row<T: Element>(arena: &Arena, values: &[f64]) -> Result<Handle, ArenaError> {
    let values: Vec<T> = values.iter().map(|&x| T::from_f64(x)).collect();
    let array = arena.from_slice([values.len()], &values)?;
    Ok(array.handle().clone())
}
