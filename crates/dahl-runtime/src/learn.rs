//! Learning: timings of tasks become estimates for the policies that ask for them.
//!
//! Workers time what they run; now and then the runtime hands the timings over. They are recorded in
//! a performance model, which rejects outliers, and the estimates of the graphs they came from are set
//! anew. Estimates steer where and when tasks run, never what they compute. This module does no
//! timing, and decides nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use dahl_core::hash::FastBuild;
use dahl_core::{DeviceKernels, Machine, UnitId, UnitKind};
use dahl_sched::model::{Key, PerfModel};

use crate::instance::Prepared;
use crate::perf_store::{PerfStore, StoreError, Warning};
use crate::shared::Sample;

/// Samples kept until they are asked for.
const RECENT: usize = 1 << 14;

/// The first samples of a key that do not count: caches are cold, memory is touched first.
const COLD: u32 = 1;

/// How many times samples are all taken in, and how often after that.
const EAGER_FOR: u64 = 64;
const THEN_EVERY: u64 = 16;

/// Samples of one class on one kind of unit that are taken in at a time; more would say little new.
const ENOUGH: u32 = 32;

pub(crate) struct Learner {
    knowledge: Knowledge,
    keys: Keys,
    /// How many samples of each were taken in, during one call.
    taken: HashMap<(u64, u32, usize), u32, FastBuild>,
    /// Graphs with news, while samples are taken in.
    touched: Vec<u64>,
    calls: u64,
    recent: Vec<Sample>,
}

enum Knowledge {
    Stored(PerfStore),
    Own(PerfModel),
}

impl Learner {
    /// For a machine, beginning with what a store knows.
    pub(crate) fn new(store: Option<PerfStore>, machine: &Machine) -> Self {
        let name = |unit: &dahl_core::Unit| (machine.timed_as(unit), unit.kind);
        Learner {
            knowledge: match store {
                Some(store) => Knowledge::Stored(store),
                None => Knowledge::Own(PerfModel::new().with_cold(COLD)),
            },
            keys: Keys {
                units: machine.units.iter().map(name).collect(),
                kernels: machine.kernels.clone(),
                made: HashMap::default(),
            },
            taken: HashMap::default(),
            touched: Vec::new(),
            calls: 0,
            recent: Vec::new(),
        }
    }

    pub(crate) fn model(&self) -> &PerfModel {
        match &self.knowledge {
            Knowledge::Stored(store) => store.model(),
            Knowledge::Own(model) => model,
        }
    }

    /// Writes down what is new, if there is a store.
    pub(crate) fn save(&mut self) -> Result<Option<Warning>, StoreError> {
        match &mut self.knowledge {
            Knowledge::Stored(store) => store.save(),
            Knowledge::Own(_) => Ok(None),
        }
    }

    /// The samples since the last call, at most the last few thousand.
    pub(crate) fn take_recent(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.recent)
    }

    /// Takes in samples, of most calls at first and of few once much is known; `find` knows graphs by their ids. Samples of forgotten graphs are dropped.
    pub(crate) fn learn<'g>(
        &mut self,
        samples: &[Sample],
        find: impl Fn(u64) -> Option<&'g Prepared>,
    ) {
        self.calls += u64::from(!samples.is_empty());
        let room = RECENT.saturating_sub(self.recent.len());
        self.recent
            .extend(&samples[samples.len().saturating_sub(room)..]);
        if self.calls > EAGER_FOR && !self.calls.is_multiple_of(THEN_EVERY) {
            return;
        }
        self.taken.clear();
        for sample in samples {
            let unit = self.keys.first_alike(sample.unit);
            let taken = self
                .taken
                .entry((sample.graph, sample.class, unit))
                .or_default();
            *taken += 1;
            if *taken > ENOUGH {
                continue;
            }
            let Some(prepared) = find(sample.graph) else {
                continue;
            };
            let Some(key) = self.keys.of(prepared, sample.class, unit) else {
                continue;
            };
            let cost = prepared.graph.classes[sample.class as usize].cost;
            match &mut self.knowledge {
                Knowledge::Stored(store) => store.record(key, cost, sample.seconds),
                Knowledge::Own(model) => model.record(key, cost, sample.seconds),
            };
            if self.touched.last() != Some(&sample.graph) && !self.touched.contains(&sample.graph) {
                self.touched.push(sample.graph);
            }
        }
        for id in std::mem::take(&mut self.touched) {
            if let Some(prepared) = find(id) {
                self.expect(prepared);
            }
        }
        if self.keys.made.len() > 1 << 16 {
            self.keys.made.clear(); // Graphs come and go; the keys of those in use are made again.
        }
    }

    /// Sets the estimates of a graph's tasks on every unit, where the model knows anything.
    pub(crate) fn expect(&mut self, prepared: &Prepared) {
        for class in 0..prepared.graph.classes.len() as u32 {
            for unit in 0..self.keys.units.len() {
                let alike = self.keys.first_alike(UnitId(unit as u16));
                let Some(key) = self.keys.of(prepared, class, alike) else {
                    continue;
                };
                let model = match &self.knowledge {
                    Knowledge::Stored(store) => store.model(),
                    Knowledge::Own(model) => model,
                };
                if let Some(e) = model.estimate(key, prepared.graph.classes[class as usize].cost) {
                    prepared.set_estimate(class, UnitId(unit as u16), e.seconds);
                }
            }
        }
    }
}

/// What durations are recorded under, on every unit of a machine.
struct Keys {
    /// For every unit, the name that durations are recorded under, which equal units share, and its kind.
    units: Vec<(String, UnitKind)>,
    kernels: DeviceKernels,
    /// Those already made, by graph, class and the first unit of that name.
    made: HashMap<(u64, u32, usize), Key, FastBuild>,
}

impl Keys {
    /// The first unit that goes by the same name.
    fn first_alike(&self, unit: UnitId) -> usize {
        let unit = usize::from(unit.0);
        let alike = |u: &(String, UnitKind)| *u == self.units[unit];
        self.units.iter().position(alike).unwrap_or(unit)
    }

    /// The key of a class on a unit; none if it cannot run there.
    fn of(&mut self, prepared: &Prepared, class: u32, unit: usize) -> Option<&Key> {
        let graph = &prepared.graph;
        match self.made.entry((graph.id, class, unit)) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => {
                let (name, kind) = &self.units[unit];
                Some(new.insert(Key::of(graph, class, (name, *kind), &self.kernels)?))
            }
        }
    }
}
