//! Preparing a launch: what the runtime keeps of a graph, and whether and as which instance it can be launched.
//!
//! A graph is checked and prepared once, when it is first launched: which units can run its tasks, when its arrays are
//! needed, what a schedule moves. Later launches find an idle instance and nothing else. This module starts no task.

use std::collections::HashMap;
use std::sync::Arc;

use dahl_core::{Graph, UnitKind};
use dahl_sched::transfers::{PlannedTransfer, Transfers};

use crate::error::RunError;
use crate::instance::{Instance, Prepared};
use crate::layers::{Entry, Slot};
use crate::memory::needs::Needs;
use crate::memory::readers::Readers;
use crate::runtime::Runtime;

/// Idle graphs kept ready to be launched again; more are forgotten, the longest unused first.
const KEPT: usize = 32;

/// The graph that a schedule is for.
pub(crate) struct Planned {
    /// Its fingerprint.
    pub fingerprint: u64,
    /// How many tasks it has.
    pub tasks: usize,
    /// For every unit, its tasks in order.
    pub order: Vec<Vec<u32>>,
    /// What is moved.
    pub transfers: TransferList,
}

/// The transfers of a schedule.
pub(crate) enum TransferList {
    /// As the schedule lists them.
    Unchecked(Vec<PlannedTransfer>),
    /// Found to be those of the graph.
    Checked(Arc<Transfers>),
}

impl Runtime {
    /// Refuses graphs that cannot run.
    pub(crate) fn check(&self, graph: &Graph) -> Result<(), RunError> {
        if !self.graphs.contains_key(&graph.id) {
            let (kinds, kernels) = (self.kinds(), &self.shared.machine.kernels);
            let real = self.shared.units.iter().any(|u| u.driver.executes());
            let able = |class, kind| kernels.choice(graph, class, kind).is_some();
            let classes = 0..graph.classes.len() as u32;
            let network = self.place_in_cluster().map(|_| UnitKind::NET);
            let able: Vec<bool> = classes
                .map(|c| kinds.iter().chain(&network).any(|&kind| able(c, kind)))
                .collect();
            let stuck = graph.tasks.iter().position(|t| !able[t.class as usize]);
            if real && let Some(task) = stuck {
                return Err(RunError::NoImplementation(graph.describe(task as u32)));
            }
        }
        let stale = |s: &&dahl_core::graph::GraphStorage| s.place().is_some_and(|p| !p.is_live());
        match graph.storages.iter().find(stale) {
            Some(s) => Err(RunError::Stale(s.storage.label())),
            None => Ok(()),
        }
    }

    /// The kinds of its units.
    fn kinds(&self) -> Vec<UnitKind> {
        self.shared.units.iter().map(|u| u.driver.kind()).collect()
    }

    /// The runtime's entry for a graph, by its id.
    pub(crate) fn entry(&mut self, graph: &Arc<Graph>) -> Result<u64, RunError> {
        if !self.graphs.contains_key(&graph.id) {
            self.forget();
            // The fingerprint is asked only of graphs that could be meant.
            let planned = self.planned.as_ref().filter(|planned| {
                planned.tasks == graph.len() && planned.fingerprint == graph.fingerprint()
            });
            if let Some(planned) = planned {
                let fits = dahl_sched::policy::check_orders(graph, &planned.order);
                fits.map_err(|e| RunError::Start(format!("the schedule: {e}")))?;
            }
            let foreseen = self.foresee(graph, planned);
            let units = (&self.kinds()[..], &self.shared.machine.kernels);
            let mut prepared = Prepared::new(graph.clone(), units, planned.is_some(), foreseen);
            if prepared.is_planned {
                prepared.transfers = self.transfers(graph)?;
            }
            let prepared = Arc::new(prepared);
            let entry = Entry {
                prepared,
                ring: Vec::new(),
                next: 0,
                launched: 0,
                from: HashMap::default(),
            };
            if let Some(learner) = &mut self.learner {
                learner.expect(&entry.prepared);
            }
            self.graphs.insert(graph.id, entry);
        }
        Ok(graph.id)
    }

    /// What runs for a graph: where graphs have orders, one whose temporaries take what its order needs. A graph that is new
    /// here is asked about.
    pub(crate) fn in_order(&mut self, graph: &Arc<Graph>) -> Arc<Graph> {
        let units = self.shared.units.len();
        let Some((orders, make)) = &mut self.orders else {
            return graph.clone();
        };
        if let Some((_, known)) = self.sequenced.get(&graph.id) {
            return known.clone();
        }
        if self.graphs.contains_key(&graph.id) || orders.knows(graph.id) {
            return graph.clone();
        }
        let Some(order) = make(graph, orders.groups(units)) else {
            return graph.clone();
        };
        let sequenced = orders.sequenced(graph, &order, units);
        let run = sequenced.unwrap_or_else(|| graph.clone());
        orders.insert(run.id, order);
        if run.id != graph.id {
            let known = (Arc::downgrade(graph), run.clone());
            self.sequenced.insert(graph.id, known);
        }
        run
    }

    /// When the storages of a graph are needed, and by whom, if anybody will ask.
    fn foresee(&self, graph: &Graph, planned: Option<&Planned>) -> (Needs, Readers) {
        if self.shared.memories.is_none() {
            return Default::default();
        }
        let units = || self.shared.units.iter();
        let kinds: Vec<_> = units().map(|u| (u.driver.kind(), u.memory.0)).collect();
        let kinds = (&kinds[..], &self.shared.machine.kernels);
        let Some(planned) = planned else {
            let readers = Readers::new(graph, kinds, None);
            return (Needs::new(graph, None), readers);
        };
        let mut lists = vec![Vec::new(); self.shared.machine.memories.len()];
        let mut homes = vec![0; graph.len()];
        for (unit, list) in units().zip(&planned.order) {
            lists[usize::from(unit.memory.0)].push(&list[..]);
            list.iter().for_each(|&t| homes[t as usize] = unit.memory.0);
        }
        let readers = Readers::new(graph, kinds, Some(homes));
        (Needs::new(graph, Some(&lists)), readers)
    }

    /// What the schedule moves of a graph that it is for, if it says so and anybody moves anything.
    fn transfers(&mut self, graph: &Graph) -> Result<Option<Arc<Transfers>>, RunError> {
        let moves =
            self.shared.memories.is_some() && self.shared.units.iter().all(|u| u.driver.executes());
        let Some(planned) = self.planned.as_mut().filter(|_| moves) else {
            return Ok(None);
        };
        if let TransferList::Unchecked(all) = &planned.transfers {
            let all = Transfers::new(graph, &planned.order, all.clone(), &self.shared.machine);
            let all = all.map_err(|e| RunError::Start(format!("the schedule: {e}")))?;
            planned.transfers = TransferList::Checked(Arc::new(all));
        }
        Ok(match &planned.transfers {
            TransferList::Checked(all) if !all.is_empty() => Some(all.clone()),
            _ => None,
        })
    }

    /// Forgets graphs that nobody else knows any more, and arrays without launches in flight.
    fn forget(&mut self) {
        self.layers.retain(|_, layers| {
            layers.retain(|l| !l.instance.has_ended(l.serial));
            !layers.is_empty()
        });
        self.in_flight
            .get_mut()
            .retain(|(i, serial)| !i.has_ended(*serial));
        let busy = |e: &Entry| !e.ring.iter().all(|s| s.instance.is_idle());
        self.sequenced.retain(|_, (of, _)| of.strong_count() > 0);
        self.graphs
            .retain(|_, e| Arc::strong_count(&e.prepared.graph) > 1 || busy(e));
        // Another runtime, or a collection somewhere, may know a graph that is never launched again.
        while self.graphs.len() > KEPT {
            let idle = self.graphs.iter().filter(|(_, e)| !busy(e));
            let Some(oldest) = idle.min_by_key(|(_, e)| e.launched).map(|(id, _)| *id) else {
                break;
            };
            self.graphs.remove(&oldest);
        }
        let known: Vec<u64> = self.graphs.keys().copied().collect();
        for entry in self.graphs.values_mut() {
            entry.from.retain(|(id, _), _| known.contains(id));
        }
    }

    /// An idle instance of a graph.
    pub(crate) fn next_slot(&mut self, id: u64) -> Result<usize, RunError> {
        let entry = self.graphs.get_mut(&id).expect("made by the caller");
        if let Some(i) = entry.ring.iter().position(|s| s.instance.is_idle()) {
            return Ok(i);
        }
        if entry.ring.len() < self.ring {
            let engine = self.engine.as_ref();
            let engine = engine.map(|e| e.prepare(&entry.prepared.graph));
            let prepared = entry.prepared.clone();
            let instance = Instance::new(prepared, engine.transpose()?, self.heap.as_ref())?;
            let instance = Arc::new(instance);
            entry.ring.push(Slot {
                instance,
                nodes: Box::new([]),
            });
            return Ok(entry.ring.len() - 1);
        }
        let place = entry.next;
        entry.next = (place + 1) % self.ring;
        let instance = entry.ring[place].instance.clone();
        self.wait_until(|| instance.is_idle())?;
        Ok(place)
    }

    pub(crate) fn lease(&self, id: u64) -> Result<(), RunError> {
        let chunks = &self.graphs[&id].prepared.chunks;
        for (i, (chunk, array)) in chunks.iter().enumerate() {
            if !chunk.lease(self.id) {
                chunks[..i].iter().for_each(|(c, _)| c.release());
                return Err(RunError::InUse(array.clone()));
            }
        }
        Ok(())
    }
}
