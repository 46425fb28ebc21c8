//! What outlives a step: parameters and optimiser state; and what goes in and comes out of one.

use dahl_core::{Arena, ArenaError, DType, Element, Handle};

use super::grain;
use crate::Step;
use crate::losses::Targets;
use crate::model::Role;
use crate::optim::Optimizer;
use crate::step::Pass;

/// Parameters and optimiser state, in an arena of their own.
pub struct State {
    /// Where they live; kept so that the handles stay valid.
    _arena: Arena,
    /// One per parameter of the model; counters have none.
    pub params: Vec<Option<Handle>>,
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
                params.push(None);
                slots.push(Vec::new());
                continue;
            }
            params.push(Some(arena.alloc(&p.key, &p.shape, dtype)?));
            let names = match p.role.is_trained() {
                true => step.optimizer.state_slots(),
                false => Vec::new(),
            };
            let own = names
                .iter()
                .map(|s| arena.alloc(&format!("{} {s}", p.key), &p.shape, dtype));
            slots.push(own.collect::<Result<_, _>>()?);
        }
        Ok(State {
            _arena: arena,
            params,
            slots,
        })
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
        let values = step.optimizer.values(0.0, 1).len();
        let values = values.max(Optimizer::VALUES);
        let row = |values: Vec<f64>| match dtype {
            DType::F32 => row::<f32>(&arena, &values),
            DType::F64 => row::<f64>(&arena, &values),
        };
        let constants = step.loss.constants().into_iter().map(row);
        let outputs = [batch, step.model.classes()];
        let loss_tasks = grain::loss(batch, grain::blocks(&step.model, batch));
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

/// An array with these values.
fn row<T: Element>(arena: &Arena, values: &[f64]) -> Result<Handle, ArenaError> {
    let values: Vec<T> = values.iter().map(|&x| T::from_f64(x)).collect();
    let array = arena.from_slice([values.len()], &values)?;
    Ok(array.handle().clone())
}
