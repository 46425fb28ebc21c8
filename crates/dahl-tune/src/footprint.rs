//! What a step needs before anything runs: bytes and floating-point operations, from its graph alone.

use dahl_core::Bytes;
use dahl_nn::Step;
use dahl_nn::step::StepError;

/// Bytes and work of a training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// Numbers that training changes.
    pub parameters: usize,
    /// Weights and buffers.
    pub weights: Bytes,
    /// The optimiser's arrays.
    pub optimizer: Bytes,
    /// Temporaries of one step, packed: activations, gradients, scratch arrays.
    pub temporaries: Bytes,
    /// Steps in flight at a time, each with temporaries of its own.
    pub in_flight: usize,
    /// Arrays that talk to the host, of all steps in flight.
    pub io: Bytes,
    /// Batches that are prepared ahead.
    pub batches: Bytes,
    /// Floating-point operations of one training step.
    pub flops: f64,
    /// Tasks of one training step.
    pub tasks: usize,
}

/// Batches that the prefetcher holds at most, as a training run starts it.
const AHEAD: u64 = 5;

impl Footprint {
    /// That of a step on this step's batch; lowers it once, on arrays that are never touched.
    pub fn of(step: &Step) -> Result<Footprint, StepError> {
        let lowered = step.lower()?;
        let size = step.dtype.size() as u64;
        let bytes = |handles: &mut dyn Iterator<Item = &dahl_core::Handle>| -> u64 {
            handles.map(|h| h.shape.len() as u64 * size).sum()
        };
        let (state, io, graph) = (&lowered.state, &lowered.io, &lowered.graph);
        let in_flight = lowered.in_flight();
        let input = bytes(&mut [&io.inputs, &io.targets].into_iter());
        let others = bytes(&mut [&io.losses, &io.correct, &io.values, &io.step].into_iter());
        Ok(Footprint {
            parameters: step.model.parameter_count(),
            weights: Bytes(bytes(&mut state.params.iter().flatten())),
            optimizer: Bytes(bytes(&mut state.slots.iter().flatten())),
            temporaries: Bytes(graph.memory.bytes),
            in_flight,
            io: Bytes((input + others) * in_flight as u64),
            batches: Bytes(input * AHEAD),
            flops: (0..graph.len() as u32)
                .map(|t| graph.class_of(t).cost.flops)
                .sum(),
            tasks: graph.len(),
        })
    }

    /// All that a device needs to hold at once.
    pub(crate) fn on_device(&self) -> Bytes {
        let temporaries = self.temporaries.0 * self.in_flight as u64;
        Bytes(self.weights.0 + self.optimizer.0 + self.io.0 + temporaries)
    }

    /// All that the host needs: the same, and batches prepared ahead.
    pub(crate) fn on_host(&self) -> Bytes {
        Bytes(self.on_device().0 + self.batches.0)
    }
}
