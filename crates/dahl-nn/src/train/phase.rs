//! Phases: the arrays of a step with the graph that uses them, and the order in which results come.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use dahl_core::{ExecError, Executor, Graph, Shown};

use crate::step::{Lowered, StepError};

use super::TrainError;

/// Sums over the samples seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Of losses.
    pub loss: f64,
    /// Of correct predictions.
    pub correct: f64,
    /// Of samples.
    pub samples: u64,
}

impl Totals {
    /// The mean loss.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.samples.max(1) as f64
    }

    /// The share of correct predictions.
    pub fn accuracy(&self) -> f64 {
        self.correct / self.samples.max(1) as f64
    }
}

/// One of the steps that may be in flight.
struct Phase {
    lowered: Lowered,
    /// Whether a step was launched whose results have not been collected.
    pending: bool,
}

/// What the host writes before a step.
pub struct Input<'a, T> {
    /// Samples of the batch.
    pub inputs: &'a [T],
    /// Class numbers.
    pub labels: &'a [usize],
    /// The optimiser's values.
    pub values: &'a [f64],
    /// The step's number.
    pub step: u64,
}

/// As many phases as steps are in flight for every batch size met, and the steps in flight.
#[derive(Default)]
pub struct Phases {
    by_batch: HashMap<usize, (Vec<Phase>, usize)>,
    /// Batch size and place of the phase, oldest first.
    flight: VecDeque<(usize, usize)>,
}

impl Phases {
    /// Launches a step; makes phases with `make` where they are missing. Results of earlier steps that
    /// must be collected first go to `totals`.
    pub fn launch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        input: &Input<'_, T>,
        totals: &mut Totals,
        mut make: impl FnMut(usize) -> Result<Lowered, StepError>,
    ) -> Result<(), TrainError> {
        let batch = input.labels.len();
        let (phases, next) = self.by_batch.entry(batch).or_default();
        let most = phases.first().map_or(usize::MAX, |p| p.lowered.in_flight());
        let place = *next % most;
        *next = place + 1;
        if phases.len() <= place {
            phases.push(Phase {
                lowered: make(batch)?,
                pending: false,
            });
        }
        while self.by_batch[&batch].0[place].pending {
            self.collect(exec, totals)?;
        }
        let phase = &mut self.by_batch.get_mut(&batch).expect("made above").0[place];
        let io = &phase.lowered.io;
        exec.write(&io.inputs, &mut |v| {
            if let Some(v) = T::values_mut(v) {
                v.copy_from_slice(input.inputs);
            }
        })?;
        write(exec, &io.targets, input.labels.iter().map(|&l| l as f64))?;
        write(exec, &io.values, input.values.iter().copied())?;
        write(exec, &io.step, std::iter::once(input.step as f64))?;
        exec.launch(&phase.lowered.graph)?;
        phase.pending = true;
        self.flight.push_back((batch, place));
        Ok(())
    }

    /// Collects the results of the oldest step in flight.
    fn collect(&mut self, exec: &mut dyn Executor, totals: &mut Totals) -> Result<(), TrainError> {
        let Some((batch, place)) = self.flight.pop_front() else {
            return Ok(());
        };
        let phase = &mut self.by_batch.get_mut(&batch).expect("in flight").0[place];
        phase.pending = false;
        exec.read(&phase.lowered.io.losses, &mut |v| totals.loss += v.sum())?;
        exec.read(&phase.lowered.io.correct, &mut |v| {
            totals.correct += v.sum()
        })?;
        totals.samples += batch as u64;
        Ok(())
    }

    /// Collects the results of all steps in flight.
    pub fn drain(
        &mut self,
        exec: &mut dyn Executor,
        totals: &mut Totals,
    ) -> Result<(), TrainError> {
        while !self.flight.is_empty() {
            self.collect(exec, totals)?;
        }
        Ok(())
    }

    /// Bytes of temporaries of all graphs: each has arrays of its own, so each is in flight once.
    pub fn planned_bytes(&self) -> u64 {
        let phases = self.by_batch.values().flat_map(|(phases, _)| phases);
        phases.map(|p| p.lowered.graph.memory.bytes).sum()
    }

    /// The graph of the most usual batch size, if a step has been launched.
    pub fn graph(&self, batch: usize) -> Option<&Arc<Graph>> {
        self.by_batch
            .get(&batch)?
            .0
            .first()
            .map(|p| &p.lowered.graph)
    }
}

fn write(
    exec: &mut dyn Executor,
    array: &dahl_core::Handle,
    values: impl Iterator<Item = f64> + Clone,
) -> Result<(), ExecError> {
    exec.write(array, &mut |mut v| {
        let n = v.len();
        values
            .clone()
            .take(n)
            .enumerate()
            .for_each(|(i, x)| v.set(i, x));
    })
}
