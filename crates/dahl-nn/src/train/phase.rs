//! Phases: the steps that may be in flight, and the order in which results come.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use dahl_core::{ExecError, Executor, Graph, Shown};
use dahl_data::{DataError, Part, Prefetcher, Prepared};

use super::TrainError;
use crate::lower::state::Io;
use crate::step::{Lowered, StepError};

/// Takes what a step leaves in its output arrays.
pub(super) trait Collect {
    /// Adds the results of a step of so many samples.
    fn collect(
        &mut self,
        exec: &mut dyn Executor,
        io: &Io,
        samples: usize,
    ) -> Result<(), ExecError>;
}

/// One of the steps that may be in flight.
struct Phase {
    lowered: Lowered,
    /// Whether a step was launched whose results have not been collected.
    pending: bool,
}

/// What the host writes before a step.
pub(super) struct Input<'a, T> {
    /// How many samples.
    pub samples: usize,
    /// Which of them are given; nobody here needs the others.
    pub given: Range<usize>,
    /// Their values.
    pub inputs: &'a [T],
    /// Their targets; nothing for predictions.
    pub targets: &'a [T],
    /// The optimiser's values.
    pub values: &'a [f64],
    /// The step's number.
    pub step: u64,
}

impl<'a, T: Shown> Input<'a, T> {
    /// A batch.
    pub(super) fn of(batch: &'a Prepared<T>, values: &'a [f64], step: u64) -> Self {
        Input {
            samples: batch.samples(),
            given: batch.made(),
            inputs: batch.inputs(),
            targets: batch.targets(),
            values,
            step,
        }
    }
}

/// Batch size, and which version of the weights is the newest. Where weights have versions, each of them has a phase.
type Kind = (usize, usize);

/// As many phases as steps are in flight for every batch size met, and the steps in flight.
#[derive(Default)]
pub(super) struct Phases {
    by_batch: HashMap<Kind, (Vec<Phase>, usize)>,
    /// Kind and place of the phase, oldest first.
    flight: VecDeque<(Kind, usize)>,
}

impl Phases {
    /// Launches a step; makes phases with `make` where they are missing. Results of earlier steps that
    /// must be collected first go to `results`.
    pub(super) fn launch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        (input, turn): (&Input<'_, T>, usize),
        results: &mut dyn Collect,
        make: impl FnOnce(usize) -> Result<Lowered, StepError>,
    ) -> Result<(), TrainError> {
        let batch = input.samples;
        let kind = (batch, turn);
        let (phases, next) = self.by_batch.entry(kind).or_default();
        // The first one says how many there are.
        let most = phases.first().map_or(1, |p| p.lowered.in_flight());
        let place = *next % most;
        if phases.len() <= place {
            phases.push(Phase {
                lowered: make(batch)?,
                pending: false,
            });
        }
        *next = place + 1;
        while self.by_batch[&kind].0[place].pending {
            self.collect(exec, results)?;
        }
        let phase = &mut self.by_batch.get_mut(&kind).expect("made above").0[place];
        let io = &phase.lowered.io;
        for (array, values) in [(&io.inputs, input.inputs), (&io.targets, input.targets)] {
            exec.write(array, &mut |v| {
                let Some(v) = T::values_mut(v) else {
                    return;
                };
                let each = v.len() / batch;
                let given = input.given.start * each..input.given.end * each;
                if given.len() == values.len() && given.end <= v.len() {
                    v[given].copy_from_slice(values);
                }
            })?;
        }
        write(exec, &io.values, input.values.iter().copied())?;
        write(exec, &io.step, std::iter::once(input.step as f64))?;
        exec.launch(&phase.lowered.graph)?;
        phase.pending = true;
        self.flight.push_back((kind, place));
        Ok(())
    }

    /// The samples of a batch of so many that are needed here; all, where no step of that size has been made.
    pub(super) fn samples(&self, exec: &mut dyn Executor, batch: usize) -> Range<usize> {
        let Some(phase) = self.of_size(batch) else {
            return 0..batch;
        };
        let Lowered { graph, io, .. } = &phase.lowered;
        let mut needed = [&io.inputs, &io.targets].map(|array| {
            let each = (array.storage.shape.len() / batch).max(1);
            let touched = exec.touched(graph, array);
            touched.start / each..touched.end.div_ceil(each)
        });
        needed.sort_by_key(|r: &Range<usize>| r.is_empty());
        match &needed {
            [a, b] if b.is_empty() => a.clone(),
            [a, b] => a.start.min(b.start)..a.end.max(b.end),
        }
    }

    /// Makes what a batch lacks of the samples that are needed here, and lets no others be made from now on.
    pub(super) fn complete<T: Shown>(
        &self,
        exec: &mut dyn Executor,
        source: &mut Prefetcher<T>,
        batch: &mut Prepared<T>,
    ) -> Result<(), DataError> {
        let of = batch.samples();
        let samples = self.samples(exec, of);
        source.want(Part {
            samples: samples.clone(),
            of,
        });
        source.complete(batch, samples)
    }

    /// Makes the first phase of a batch size, if there is none.
    pub(super) fn prepare(
        &mut self,
        kind: Kind,
        make: impl FnOnce(usize) -> Result<Lowered, StepError>,
    ) -> Result<(), StepError> {
        let (phases, _) = self.by_batch.entry(kind).or_default();
        if phases.is_empty() {
            phases.push(Phase {
                lowered: make(kind.0)?,
                pending: false,
            });
        }
        Ok(())
    }

    /// Collects the results of the oldest step in flight.
    fn collect(
        &mut self,
        exec: &mut dyn Executor,
        results: &mut dyn Collect,
    ) -> Result<(), TrainError> {
        let Some((kind, place)) = self.flight.pop_front() else {
            return Ok(());
        };
        let phase = &mut self.by_batch.get_mut(&kind).expect("in flight").0[place];
        phase.pending = false;
        Ok(results.collect(exec, &phase.lowered.io, kind.0)?)
    }

    /// Collects the results of all steps in flight.
    pub(super) fn drain(
        &mut self,
        exec: &mut dyn Executor,
        results: &mut dyn Collect,
    ) -> Result<(), TrainError> {
        while !self.flight.is_empty() {
            self.collect(exec, results)?;
        }
        Ok(())
    }

    /// Forgets steps in flight whose results nobody will ask for: after an error.
    pub(super) fn forget(&mut self) {
        for (kind, place) in self.flight.drain(..) {
            if let Some((phases, _)) = self.by_batch.get_mut(&kind) {
                phases[place].pending = false;
            }
        }
    }

    /// Bytes of temporaries of all graphs: each has arrays of its own, so each is in flight once.
    pub(super) fn planned_bytes(&self) -> u64 {
        let phases = self.by_batch.values().flat_map(|(phases, _)| phases);
        phases.map(|p| p.lowered.graph.memory.bytes).sum()
    }

    /// The graph of a batch size, if a step of it has been launched.
    pub(super) fn graph(&self, batch: usize) -> Option<&Arc<Graph>> {
        self.of_size(batch).map(|p| &p.lowered.graph)
    }

    /// A phase of a batch size, if there is one: all are alike but for their arrays.
    fn of_size(&self, batch: usize) -> Option<&Phase> {
        let own = self.by_batch.iter().filter(|(kind, _)| kind.0 == batch);
        let first = own.min_by_key(|(kind, _)| kind.1)?;
        first.1.0.first()
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
