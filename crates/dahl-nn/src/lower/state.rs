//! What outlives a step: parameters and optimiser state; and what goes in and comes out of one.

use dahl_core::{Arena, ArenaError, DType, Handle};

use crate::model::{Model, Role};
use crate::optim::Optimizer;

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
    pub fn new(
        model: &Model,
        dtype: DType,
        optimizer: Option<&Optimizer>,
    ) -> Result<Self, ArenaError> {
        let arena = Arena::new();
        let (mut params, mut slots) = (Vec::new(), Vec::new());
        for p in model.params() {
            if p.role == Role::NumBatches {
                params.push(None);
                slots.push(Vec::new());
                continue;
            }
            params.push(Some(arena.alloc(&p.key, &p.shape, dtype)?));
            let names = optimizer
                .filter(|_| p.role.is_trained())
                .map_or_else(Vec::new, Optimizer::state_slots);
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
    /// Images: batch × channels × height × width.
    pub pixels: Handle,
    /// Class numbers, one per sample.
    pub labels: Handle,
    /// Losses, one per sample.
    pub losses: Handle,
    /// Correct predictions, one count per task of the loss.
    pub correct: Handle,
    /// The optimiser's values: rates and the like.
    pub values: Handle,
    /// The number of the step, for dropout.
    pub step: Handle,
}

/// Tasks that the loss of a batch is cut into.
pub fn loss_parts(batch: usize) -> usize {
    (batch / 32).clamp(1, 16)
}

impl Io {
    /// For steps of so many samples.
    pub fn new(model: &Model, batch: usize, dtype: DType) -> Result<Self, ArenaError> {
        let arena = Arena::new();
        let [c, h, w] = model.input;
        Ok(Io {
            pixels: arena.alloc("pixels", &[batch, c, h, w], dtype)?,
            labels: arena.alloc("labels", &[batch], dtype)?,
            losses: arena.alloc("losses", &[batch], dtype)?,
            correct: arena.alloc("correct", &[loss_parts(batch)], dtype)?,
            values: arena.alloc("optimiser values", &[Optimizer::VALUES], dtype)?,
            step: arena.alloc("step", &[1], dtype)?,
            _arena: arena,
        })
    }
}
