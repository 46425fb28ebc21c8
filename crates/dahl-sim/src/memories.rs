//! Memories: bringing a task's operands to its unit, in virtual time.
//!
//! The rules are the runtime's. Room is found for all operands of a task at once, evicting what was
//! needed longest ago and writing back what is current nowhere else (`room`); the copies are pinned; what is
//! missing is fetched from where it is current (`fetch`), small copies together, device to device by way of
//! whatever lies between (`moves`). When the task ends, what it wrote is current in its unit's memory only. Operands of the next
//! task are fetched ahead while one runs, where there is room without evicting; where a plan decided on
//! transfers, they go ahead in its order, and tasks wait for those that are meant for them (`planned`).
//!
//! A unit whose operands are not there yet waits, and tries again when what it waits for has happened:
//! [`Memories::acquire`] may be called any number of times for one task.

use dahl_core::graph::cells::Cells;
use dahl_core::{Graph, Machine};

use super::Options;
use super::SimError;
use super::agenda::Agenda;
use super::copies::{Copies, Key};
use super::fetch::Loading;
use super::links::Lanes;
use super::moves::Moves;
use super::needs::Needs;
use super::planned::Planned;
use super::prediction::TransferSpan;
use super::routes::Routes;
use dahl_sched::policy::TaskRef;

/// The host's memory, which has room for everything.
const HOST: usize = 0;

/// What a unit waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Want {
    /// Transfers that have not ended.
    pub transfers: u32,
    /// Whether the operands of its task are pinned.
    pub pinned: bool,
    /// The array it is writing back to make room.
    pub evicting: Option<Key>,
}

#[derive(Debug)]
pub(super) struct Memories<'a> {
    pub graph: &'a Graph,
    pub machine: &'a Machine,
    pub needs: Needs<'a>,
    pub copies: Copies,
    pub routes: Routes,
    pub lanes: Lanes,
    /// Room for transfers that may begin: nothing is allocated per transfer.
    pub begin: Vec<(u32, u16)>,
    pub moves: Moves,
    pub wants: Vec<Want>,
    /// Units that wait until something is released, by memory.
    pub for_room: Vec<Vec<u16>>,
    /// Transfers that have ended, if anybody wants to know.
    pub log: Option<Vec<TransferSpan>>,
    /// Arrays whose parts were too many to follow one by one.
    pub coarse: usize,
    /// Storages that the host writes before each launch: each launch in flight has its own.
    new_inputs_each_step: Vec<u32>,
    pub ring: usize,
    /// Transfers that were decided beforehand, if they were.
    pub planned: Option<Planned>,
    /// Room for the keys of a task: nothing is allocated per task.
    pub keys: Vec<Key>,
    pub loading: Loading,
}

/// Persistent arrays that a graph only reads.
fn only_read(graph: &Graph) -> Vec<u32> {
    let mut is: Vec<bool> = graph
        .storages
        .iter()
        .map(|s| s.temporary.is_none())
        .collect();
    for access in graph.accesses.iter().filter(|a| a.mode.writes()) {
        is[graph.arrays[access.array as usize].storage as usize] = false;
    }
    (0..is.len() as u32).filter(|&s| is[s as usize]).collect()
}

impl<'a> Memories<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        ring: usize,
        options: &Options,
    ) -> Self {
        let cells = Cells::new(graph);
        let routes = Routes::new(machine);
        let new_inputs_each_step = match options.new_inputs_each_step {
            true => only_read(graph),
            false => Vec::new(),
        };
        let storages = graph.storages.iter();
        let mut per_launch: Vec<bool> = storages.map(|s| s.temporary.is_some()).collect();
        new_inputs_each_step
            .iter()
            .for_each(|&s| per_launch[s as usize] = true);
        let transfers = options.transfers.as_ref();
        Memories {
            graph,
            machine,
            copies: Copies::new(graph, &cells, machine, ring),
            coarse: cells.coarse,
            planned: transfers.map(|t| Planned::new(t, &cells, &routes)),
            needs: Needs::new(graph, cells, per_launch),
            routes,
            lanes: Lanes::new(machine),
            begin: Vec::new(),
            moves: Moves::default(),
            wants: vec![Want::default(); machine.units.len()],
            for_room: vec![Vec::new(); machine.memories.len()],
            log: options.record.then(Vec::new),
            new_inputs_each_step,
            ring,
            keys: Vec::new(),
            loading: Loading::default(),
        }
    }

    /// The host writes what a launch at a place of the ring only reads.
    pub(crate) fn feed(&mut self, slot: usize) {
        for &storage in &self.new_inputs_each_step {
            let (key, _) = self.needs.in_launch(storage, slot);
            self.copies.written_by_host(key);
        }
    }

    /// The memory of a unit; messages, which come after all units, are in the host's.
    pub(super) fn memory(&self, unit: u16) -> usize {
        let unit = self.machine.units.get(usize::from(unit));
        unit.map_or(HOST, |u| usize::from(u.memory.0))
    }

    /// Brings a task's operands to its unit; true once they are all there. Else the unit is told by
    /// [`Memories::arrived`] or [`Memories::release`] when to try again.
    pub(crate) fn acquire(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<bool, SimError> {
        let memory = self.memory(unit);
        if !self.is_brought(task, memory) {
            self.await_planned(unit);
            return Ok(false);
        }
        if memory != HOST
            && !self.wants[usize::from(unit)].pinned
            && !self.reserve(unit, task, slot, now, agenda)?
        {
            return Ok(false);
        }
        for i in 0..self.needs.count(task) {
            let need = self.needs.get(task, i, slot);
            if need.reads {
                self.load(&need, memory, Some(unit));
            }
            if need.writes {
                self.await_still(&need, unit);
            }
        }
        self.send_loaded(Some(unit), task, now, agenda)?;
        Ok(self.wants[usize::from(unit)].transfers == 0)
    }

    /// Units that wait for room in a memory may try again.
    pub(super) fn retry(&mut self, memory: usize, again: &mut Vec<u16>) {
        again.append(&mut self.for_room[memory]);
    }

    /// A task has ended: lets go of its operands. Collects the units that may try again.
    pub(crate) fn release(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        again: &mut Vec<u16>,
    ) {
        let memory = self.memory(unit);
        for need in self.needs.of(task, slot) {
            if memory != HOST {
                self.copies.unpin(need.key, memory);
            }
            if need.writes {
                for cell in self.needs.cells(&need) {
                    self.copies.written(cell, memory);
                }
            }
        }
        for need in self.needs.of(task, slot) {
            self.copies.used_once(need.key, now);
        }
        self.wants[usize::from(unit)].pinned = false;
        // A temporary that has died leaves every memory.
        (0..self.for_room.len()).for_each(|m| self.retry(m, again));
    }

    /// Fetches the operands of a task that is to come, where there is room without evicting, and nothing is
    /// on its way as it was planned.
    pub(crate) fn prefetch(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let memory = self.memory(unit);
        if !self.is_brought(task, memory) {
            return Ok(());
        }
        for i in 0..self.needs.count(task) {
            let need = self.needs.get(task, i, slot);
            if !need.reads {
                continue;
            }
            if !self.copies.has_buffer(need.key, memory) {
                if !self.copies.fits(self.copies.bytes(need.key), memory) {
                    continue;
                }
                self.copies.allocate(need.key, memory, now);
            }
            self.copies.touch(need.key, memory);
            self.load(&need, memory, None);
        }
        self.send_loaded(None, task, now, agenda)
    }
}
