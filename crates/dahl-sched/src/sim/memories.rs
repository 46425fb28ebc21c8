//! Memories: bringing a task's operands to its unit, in virtual time.
//!
//! The rules are the runtime's. Room is found for all operands of a task at once, evicting what was
//! needed longest ago and writing back what is current nowhere else; the copies are pinned; what is
//! missing is fetched from where it is current, device to device by way of whatever lies between. When
//! the task ends, what it wrote is current in its unit's memory only. Operands of the next task are
//! fetched ahead while one runs, where there is room without evicting.
//!
//! A unit whose operands are not there yet waits, and tries again when what it waits for has happened:
//! [`Memories::acquire`] may be called any number of times for one task.

use dahl_core::{Bytes, Graph, Machine};

use super::SimError;
use super::agenda::Agenda;
use super::copies::{Copies, Key};
use super::links::{Lanes, Ways};
use super::moves::{Move, Order};
use super::outcome::Transfer;
use crate::policy::TaskRef;

/// What a unit waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Want {
    /// Transfers that have not ended.
    pub transfers: u32,
    /// Whether the operands of its task are pinned.
    pinned: bool,
    /// The array it is writing back to make room.
    evicting: Option<Key>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Memories<'a> {
    graph: &'a Graph,
    pub(super) machine: &'a Machine,
    pub copies: Copies,
    pub ways: Ways,
    pub lanes: Lanes,
    pub(super) moves: Vec<Option<Move>>,
    pub(super) free: Vec<u32>,
    pub(super) wants: Vec<Want>,
    /// Units that wait until something is released, by memory.
    for_room: Vec<Vec<u16>>,
    /// Transfers that have ended, if anybody wants to know.
    pub log: Option<Vec<Transfer>>,
    keys: Vec<Key>,
    /// Persistent arrays that the graph only reads.
    fed: Vec<Key>,
}

fn only_read(graph: &Graph) -> Vec<Key> {
    let mut is: Vec<bool> = graph
        .storages
        .iter()
        .map(|s| s.temporary.is_none())
        .collect();
    for access in graph.accesses.iter().filter(|a| a.mode.writes()) {
        is[graph.arrays[access.array as usize].storage as usize] = false;
    }
    (0..is.len() as Key).filter(|&k| is[k as usize]).collect()
}

impl<'a> Memories<'a> {
    pub fn new(graph: &'a Graph, machine: &'a Machine, ring: usize, record: bool) -> Self {
        Memories {
            graph,
            machine,
            copies: Copies::new(graph, machine, ring),
            ways: Ways::new(machine),
            lanes: Lanes::new(machine),
            moves: Vec::new(),
            free: Vec::new(),
            wants: vec![Want::default(); machine.units.len()],
            for_room: vec![Vec::new(); machine.memories.len()],
            log: record.then(Vec::new),
            keys: Vec::new(),
            fed: only_read(graph),
        }
    }

    /// The host writes whatever the graph only reads.
    pub fn feed(&mut self) {
        for &key in &self.fed {
            self.copies.written_by_host(key);
        }
    }

    fn memory(&self, unit: u16) -> usize {
        usize::from(self.machine.units[usize::from(unit)].memory.0)
    }

    /// The places in [`Graph::accesses`] of a task.
    fn accesses(&self, task: TaskRef) -> std::ops::Range<usize> {
        let t = &self.graph.tasks[task.task as usize];
        let first = t.first_access as usize;
        first..first + usize::from(t.access_count)
    }

    fn key(&self, access: usize, slot: usize) -> Key {
        let array = self.graph.accesses[access].array as usize;
        self.copies.key(self.graph.arrays[array].storage, slot)
    }

    /// Whether an access needs the values that were there.
    fn reads(&self, access: usize) -> bool {
        let a = &self.graph.accesses[access];
        a.mode.reads() && a.fresh.is_none()
    }

    /// Brings a task's operands to its unit; true once they are all there. Else the unit is told by
    /// [`Memories::arrived`] or [`Memories::release`] when to try again.
    pub fn acquire(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<bool, SimError> {
        if !self.wants[usize::from(unit)].pinned && !self.reserve(unit, task, slot, now, agenda)? {
            return Ok(false);
        }
        let memory = self.memory(unit);
        for access in self.accesses(task) {
            let key = self.key(access, slot);
            if self.reads(access) {
                self.fetch(access, key, memory, Some(unit), task, now, agenda)?;
            }
            if self.graph.accesses[access].mode.writes() {
                self.await_still(access, key, unit);
            }
        }
        Ok(self.wants[usize::from(unit)].transfers == 0)
    }

    /// Finds room for a task's operands and pins them; false if the unit must wait.
    fn reserve(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<bool, SimError> {
        let memory = self.memory(unit);
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        keys.extend(self.accesses(task).map(|a| self.key(a, slot)));
        for &key in &keys {
            self.copies.touch(key, memory);
        }
        let room = self.room(unit, task, &keys, memory, now, agenda);
        self.keys = keys;
        room
    }

    fn room(
        &mut self,
        unit: u16,
        task: TaskRef,
        keys: &[Key],
        memory: usize,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<bool, SimError> {
        if let Some(key) = self.wants[usize::from(unit)].evicting.take() {
            self.copies.unpin(key, memory);
            self.give_up(key, memory, now);
        }
        let distinct = |i: &usize| !keys[..*i].contains(&keys[*i]);
        let places = || (0..keys.len()).filter(distinct);
        let total: u64 = places().map(|i| self.copies.bytes(keys[i])).sum();
        if !self.copies.could_fit(total, memory) {
            let of = &self.machine.memories[memory];
            return Err(SimError::TooSmall {
                task: self.graph.describe(task.task),
                need: Bytes(total),
                memory: of.name.clone(),
                capacity: of.capacity.unwrap_or_default(),
            });
        }
        loop {
            let lacking = places().filter(|&i| !self.copies.has_buffer(keys[i], memory));
            let missing: u64 = lacking.map(|i| self.copies.bytes(keys[i])).sum();
            if missing == 0 || self.copies.fits(missing, memory) {
                for i in places() {
                    if !self.copies.has_buffer(keys[i], memory) {
                        self.copies.allocate(keys[i], memory, now);
                    }
                }
                for &key in keys {
                    self.copies.pin(key, memory);
                }
                self.wants[usize::from(unit)].pinned = true;
                return Ok(true);
            }
            let Some(victim) = self.copies.victim(memory, keys) else {
                // All the rest is pinned by tasks and transfers under way, which end.
                self.for_room[memory].push(unit);
                return Ok(false);
            };
            let dirty = self.copies.only_in(victim, memory);
            if dirty.is_empty() {
                self.give_up(victim, memory, now);
                continue;
            }
            self.copies.pin(victim, memory);
            self.wants[usize::from(unit)].evicting = Some(victim);
            let order = Order {
                key: victim,
                cells: dirty,
                from: memory,
                to: 0,
                unit: Some(unit),
                for_task: None,
            };
            self.send(order, now, agenda)?;
            return Ok(false);
        }
    }

    /// Gives up a copy, unless somebody needs it by now.
    fn give_up(&mut self, key: Key, memory: usize, now: f64) {
        if self.copies.has_buffer(key, memory)
            && !self.copies.is_pinned(key, memory)
            && self.copies.only_in(key, memory).is_empty()
        {
            self.copies.discard(key, memory, now);
            self.copies.curves[memory].evictions += 1;
        }
    }

    /// Sends for what a memory lacks of an access; `unit` waits for it.
    #[allow(clippy::too_many_arguments)]
    fn fetch(
        &mut self,
        access: usize,
        key: Key,
        memory: usize,
        unit: Option<u16>,
        task: TaskRef,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let mut by_source: Vec<(usize, Vec<u32>)> = Vec::new();
        let mut coming: Vec<u32> = Vec::new();
        for &cell in self.copies.cells.of(access) {
            let cell = self.copies.cell(key, cell);
            let places = self.copies.places(cell);
            if places & (1 << memory) != 0 {
                continue;
            }
            if self.copies.moving[cell as usize] > 0 {
                let here = |m: &Move| m.to == memory && m.cells.contains(&cell);
                let on_its_way = self.moves.iter().position(|m| m.as_ref().is_some_and(here));
                if let Some(i) = on_its_way {
                    if !coming.contains(&(i as u32)) {
                        coming.push(i as u32);
                    }
                    continue;
                }
            }
            let source = self.source(places, memory);
            match by_source.iter_mut().find(|(s, _)| *s == source) {
                Some((_, cells)) => cells.push(cell),
                None => by_source.push((source, vec![cell])),
            }
        }
        if let Some(unit) = unit {
            for i in coming {
                self.wait_for(i as usize, unit);
            }
        }
        for (from, cells) in by_source {
            let order = Order {
                key,
                cells,
                from,
                to: memory,
                unit,
                for_task: Some(task),
            };
            self.send(order, now, agenda)?;
        }
        Ok(())
    }

    /// The nearest of the memories in a mask.
    fn source(&self, places: u64, memory: usize) -> usize {
        let all = (0..self.machine.memories.len()).filter(|m| places & (1 << m) != 0);
        let far = |m: &usize| self.ways.duration(self.machine, *m, memory, 1 << 20);
        all.min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
    }

    /// Waits for transfers that touch what is to be written: a write-back, say.
    fn await_still(&mut self, access: usize, key: Key, unit: u16) {
        let mut touching: Vec<usize> = Vec::new();
        for &cell in self.copies.cells.of(access) {
            let cell = self.copies.cell(key, cell);
            if self.copies.moving[cell as usize] > 0 {
                let touches =
                    |m: &Option<Move>| m.as_ref().is_some_and(|m| m.cells.contains(&cell));
                for (i, _) in self.moves.iter().enumerate().filter(|(_, m)| touches(m)) {
                    if !touching.contains(&i) {
                        touching.push(i);
                    }
                }
            }
        }
        for i in touching {
            self.wait_for(i, unit);
        }
    }

    fn wait_for(&mut self, transfer: usize, unit: u16) {
        if let Some(m) = &mut self.moves[transfer]
            && !m.waiters.contains(&unit)
        {
            m.waiters.push(unit);
            self.wants[usize::from(unit)].transfers += 1;
        }
    }

    /// Units that wait for room in a memory may try again.
    pub(super) fn retry(&mut self, memory: usize, again: &mut Vec<u16>) {
        again.append(&mut self.for_room[memory]);
    }

    /// A task has ended: lets go of its operands. Collects the units that may try again.
    pub fn release(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        again: &mut Vec<u16>,
    ) {
        let memory = self.memory(unit);
        for access in self.accesses(task) {
            let key = self.key(access, slot);
            self.copies.unpin(key, memory);
            if self.graph.accesses[access].mode.writes() {
                for i in 0..self.copies.cells.of(access).len() {
                    let cell = self.copies.cells.of(access)[i];
                    let cell = self.copies.cell(key, cell);
                    self.copies.written(cell, memory);
                }
            }
        }
        for access in self.accesses(task) {
            let key = self.key(access, slot);
            self.copies.used_once(key, now);
        }
        self.wants[usize::from(unit)].pinned = false;
        // A temporary that has died leaves every memory.
        (0..self.for_room.len()).for_each(|m| self.retry(m, again));
    }

    /// Fetches the operands of a task that is to come, where there is room without evicting.
    pub fn prefetch(
        &mut self,
        unit: u16,
        task: TaskRef,
        slot: usize,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let memory = self.memory(unit);
        for access in self.accesses(task) {
            if !self.reads(access) {
                continue;
            }
            let key = self.key(access, slot);
            if !self.copies.has_buffer(key, memory) {
                if !self.copies.fits(self.copies.bytes(key), memory) {
                    continue;
                }
                self.copies.allocate(key, memory, now);
            }
            self.copies.touch(key, memory);
            self.fetch(access, key, memory, None, task, now, agenda)?;
        }
        Ok(())
    }

    /// How long it would take to bring a task's missing operands to a memory, if nothing else used the
    /// links.
    pub fn estimate(&self, task: TaskRef, slot: usize, memory: usize) -> f64 {
        let mut seconds = 0.0;
        let mut missing = [0u64; 64];
        for access in self.accesses(task) {
            if !self.reads(access) {
                continue;
            }
            let key = self.key(access, slot);
            let mut sources = 0u64;
            for &cell in self.copies.cells.of(access) {
                let cell = self.copies.cell(key, cell);
                let places = self.copies.places(cell);
                if places & (1 << memory) == 0 {
                    let source = match places.count_ones() {
                        1 => places.trailing_zeros() as usize,
                        _ => self.source(places, memory),
                    };
                    sources |= 1 << source;
                    missing[source] += self.copies.cell_bytes(cell);
                }
            }
            while sources != 0 {
                let source = sources.trailing_zeros() as usize;
                sources &= sources - 1;
                let bytes = std::mem::take(&mut missing[source]);
                seconds += self.ways.duration(self.machine, source, memory, bytes);
            }
        }
        seconds
    }
}
