//! Room on a device for all operands of a task at once, made by giving up what was needed longest ago.

use dahl_core::Bytes;

use super::SimError;
use super::agenda::Agenda;
use super::copies::Key;
use super::memories::Memories;
use dahl_sched::policy::TaskRef;

impl Memories<'_> {
    /// Finds room on a unit's device for a task's operands and pins them; false if the unit must wait.
    pub(super) fn reserve(
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
        keys.extend(self.needs.of(task, slot).map(|n| n.key));
        for &key in &keys {
            self.copies.touch(key, memory);
        }
        if let Some(key) = self.wants[usize::from(unit)].evicting.take() {
            self.copies.unpin(key, memory);
            self.give_up(key, memory, now);
        }
        let found = keys.iter().all(|&k| self.copies.has_buffer(k, memory))
            || self.find_room(unit, task, &keys, now, agenda)?;
        if found {
            for &key in &keys {
                self.copies.pin(key, memory);
            }
            self.wants[usize::from(unit)].pinned = true;
        }
        self.keys = keys;
        Ok(found)
    }

    /// Gives buffers to those of a task's operands that have none; false if the unit must wait.
    fn find_room(
        &mut self,
        unit: u16,
        task: TaskRef,
        keys: &[Key],
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<bool, SimError> {
        let memory = self.memory(unit);
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
        let lacking = places().filter(|&i| !self.copies.has_buffer(keys[i], memory));
        let missing: u64 = lacking.map(|i| self.copies.bytes(keys[i])).sum();
        while !self.copies.fits(missing, memory) {
            let Some(victim) = self.copies.victim(memory, keys) else {
                // All the rest is pinned by tasks and transfers under way, which end.
                self.for_room[memory].push(unit);
                return Ok(false);
            };
            if self.copies.only_in(victim, memory).next().is_none() {
                self.give_up(victim, memory, now);
                continue;
            }
            self.write_back(unit, victim, now, agenda)?;
            return Ok(false);
        }
        for &key in keys {
            if !self.copies.has_buffer(key, memory) {
                self.copies.allocate(key, memory, now);
            }
        }
        // In the order in which they are named, new ones and old ones.
        for &key in keys {
            self.copies.touch(key, memory);
        }
        Ok(true)
    }

    /// Sends home what is current nowhere but on a unit's device; the unit waits for it.
    fn write_back(
        &mut self,
        unit: u16,
        key: Key,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let memory = self.memory(unit);
        self.copies.pin(key, memory);
        self.wants[usize::from(unit)].evicting = Some(key);
        let id = self.moves.draw(memory, 0);
        let m = self.moves.get(id);
        m.cells.extend(self.copies.only_in(key, memory));
        m.close(key, &mut self.copies);
        self.send(id, Some(unit), None, now, agenda)
    }

    /// Gives up a copy, unless somebody needs it by now.
    fn give_up(&mut self, key: Key, memory: usize, now: f64) {
        if self.copies.has_buffer(key, memory)
            && !self.copies.is_pinned(key, memory)
            && self.copies.only_in(key, memory).next().is_none()
        {
            self.copies.discard(key, memory, now);
            self.copies.curves[memory].evictions += 1;
        }
    }
}
