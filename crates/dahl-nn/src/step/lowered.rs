//! A step as a graph with the arrays it works on.

use std::rc::Rc;
use std::sync::Arc;

use dahl_core::random::Random;
use dahl_core::{ExecError, Executor, Graph};

use super::{Step, StepError};
use crate::losses::Targets;
use crate::lower::state::{Io, State};
use crate::{init, lower};

/// What a graph does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Forward, loss, backward, update.
    Train,
    /// Forward and loss, the weights as they are.
    Evaluate,
    /// Forward alone, as in evaluation, with the scores as an output.
    Predict,
}

/// A lowered step.
///
/// Steps that overlap need arrays of their own to talk to the host, so a training loop lowers a step as often
/// as it is in flight, each time with the same state. The graphs are equal but for these arrays.
pub struct Lowered {
    /// The tasks.
    pub graph: Arc<Graph>,
    /// Parameters and optimiser state; may be shared with other graphs.
    pub state: Rc<State>,
    /// What goes in and comes out.
    pub io: Io,
}

impl Lowered {
    /// How many steps of this graph are in flight at a time. Where weights have versions, each has a graph of its own, and
    /// one step of each is in flight.
    pub fn in_flight(&self) -> usize {
        match self.state.has_versions() {
            true => 1,
            false => in_flight(&self.graph),
        }
    }
}

/// Steps whose temporaries take more bytes than this run one at a time: what overlapping them would hide is
/// small beside what they compute, and the memory is not.
const LARGE: u64 = 128 << 20;

/// How many steps of a graph are in flight at a time: two, or one if their temporaries are large.
pub fn in_flight(graph: &Graph) -> usize {
    if graph.memory.bytes > LARGE { 1 } else { 2 }
}

impl Step {
    /// The graph of a training step, with arrays of its own.
    pub fn lower(&self) -> Result<Lowered, StepError> {
        self.lower_as(Pass::Train, self.batch, &self.state()?, 0)
    }

    /// The graphs of training steps that follow each other, in turn: one for each version of the weights, with one state and arrays
    /// of their own for the host.
    pub fn lower_turns(&self) -> Result<Vec<Lowered>, StepError> {
        let state = self.state()?;
        let turns = 0..self.versions();
        turns
            .map(|turn| self.lower_as(Pass::Train, self.batch, &state, turn))
            .collect()
    }

    /// One graph of as many steps as weights have versions, one after another, for simulations, which know no other graphs. Without
    /// versions it is that of [`Step::lower`]. With what goes in and comes out of each.
    pub fn lower_row(&self) -> Result<(Arc<Graph>, Vec<Io>), StepError> {
        self.check()?;
        let state = self.state()?;
        let io = |_| Io::new(self, Pass::Train, self.batch);
        let all: Vec<Io> = (0..self.versions()).map(io).collect::<Result<_, _>>()?;
        Ok((lower::row(self, &state, &all)?, all))
    }

    /// The graph of a pass over so many samples, on a state that is shared: the last batch of an epoch may be
    /// smaller, and evaluation sees the weights that training changes. Where weights have versions, `turn` says which
    /// of the ring is the newest: the number of updates before, modulo the versions.
    pub(crate) fn lower_as(
        &self,
        pass: Pass,
        batch: usize,
        state: &Rc<State>,
        turn: usize,
    ) -> Result<Lowered, StepError> {
        self.check()?;
        let io = Io::new(self, pass, batch)?;
        Ok(Lowered {
            graph: lower::graph(self, pass, (state, turn), &io)?,
            state: state.clone(),
            io,
        })
    }

    /// Parameters and optimiser state, all zeros.
    pub(crate) fn state(&self) -> Result<Rc<State>, StepError> {
        Ok(Rc::new(State::new(self)?))
    }

    /// Gives a state the first weights: PyTorch's distributions, from the step's seed.
    pub(crate) fn initialise(
        &self,
        exec: &mut dyn Executor,
        state: &State,
    ) -> Result<(), ExecError> {
        for (place, versions) in state.params.iter().enumerate() {
            let fill = init::fill(&self.model, place);
            let random = init::stream(self.seed, place);
            for array in versions {
                exec.write(array, &mut |mut v| {
                    (0..v.len()).for_each(|i| v.set(i, fill.value(&random, i)));
                })?;
            }
        }
        Ok(())
    }

    /// First weights, random inputs and targets, a small learning rate: enough to time steps without data.
    pub fn rehearse(&self, exec: &mut dyn Executor, lowered: &Lowered) -> Result<(), ExecError> {
        self.initialise(exec, &lowered.state)?;
        let (io, random) = (&lowered.io, Random::new(1, 1));
        exec.write(&io.inputs, &mut |mut v| {
            (0..v.len()).for_each(|i| v.set(i, random.uniform(i as u64)));
        })?;
        let classes = self.model.classes() as u64;
        let target = |i: u64| match self.loss.targets() {
            Targets::Classes => random.below(i, classes) as f64,
            Targets::Values | Targets::Shares => random.uniform(i),
        };
        exec.write(&io.targets, &mut |mut v| {
            (0..v.len()).for_each(|i| v.set(i, target(i as u64)));
        })?;
        let values = self.values(1e-4, 1);
        exec.write(&io.values, &mut |mut v| {
            values.iter().enumerate().for_each(|(i, &x)| v.set(i, x));
        })
    }
}
