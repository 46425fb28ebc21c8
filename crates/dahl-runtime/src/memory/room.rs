//! Room: finding space for what a task touches, and giving up what others may fetch again.

use std::sync::Arc;

use dahl_core::{Bytes, MemoryId};

use super::transfer::{Move, Why};
use super::{Direction, Memories, StateGuard};
use crate::error::RunError;
use crate::sync::Ordering;

/// Why there is no room, and never will be.
pub(super) enum NoRoom {
    /// The operands together are larger than the memory.
    TooSmall(u64),
    /// The backing has less than its capacity promises.
    Refused(u64),
}

impl NoRoom {
    /// The error of the task that wanted it.
    pub fn explain(self, task: String, memories: &Memories, memory: MemoryId) -> RunError {
        let (name, capacity) = match memories.device(memory) {
            Some(device) => (device.name.clone(), device.capacity),
            None => ("host".into(), Bytes(0)),
        };
        match self {
            NoRoom::TooSmall(need) => RunError::TooSmall {
                task,
                need: Bytes(need),
                memory: name,
                capacity,
            },
            NoRoom::Refused(bytes) => {
                RunError::OutOfMemory(format!("{name} refused {bytes} bytes for {task}"))
            }
        }
    }
}

impl Memories {
    /// Room in a memory for the storages of `keys` (some may be equal), each pinned once per key: all
    /// of them or none. Waits, holding nothing, while others need what would have to go.
    pub(super) fn reserve<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        keys: &[u64],
        memory: MemoryId,
    ) -> (StateGuard<'s>, Result<(), NoRoom>) {
        let m = usize::from(memory.0);
        keys.iter()
            .for_each(|&key| state.directory.touch(key, memory));
        let Some(device) = self.device(memory) else {
            keys.iter()
                .for_each(|&key| state.directory.pin(key, memory));
            return (state, Ok(()));
        };
        let distinct = || {
            keys.iter()
                .enumerate()
                .filter(|(i, k)| !keys[..*i].contains(k))
                .map(|(_, k)| *k)
        };
        let bytes_of =
            |state: &StateGuard<'_>, key: u64| state.directory.entries[&key].bytes() as u64;
        let total = distinct().map(|key| bytes_of(&state, key)).sum::<u64>();
        if total > device.capacity.0 {
            return (state, Err(NoRoom::TooSmall(total)));
        }
        loop {
            let lacks =
                |state: &StateGuard<'_>, key: &u64| state.directory.address(*key, memory).is_none();
            let missing: u64 = distinct()
                .filter(|k| lacks(&state, k))
                .map(|key| bytes_of(&state, key))
                .sum();
            let mut refused = None;
            if state.directory.used[m] + missing <= device.capacity.0 {
                for key in distinct() {
                    if lacks(&state, &key) && !self.allocate(&mut state, key, memory) {
                        refused = Some(bytes_of(&state, key));
                        break;
                    }
                }
                if refused.is_none() {
                    keys.iter()
                        .for_each(|&key| state.directory.pin(key, memory));
                    return (state, Ok(()));
                }
            }
            state = match (state.directory.victim(memory, keys), refused) {
                (Some(victim), _) => self.evict(state, victim, memory),
                (None, Some(bytes)) => return (state, Err(NoRoom::Refused(bytes))),
                // All the rest is pinned by tasks and transfers under way, which end.
                (None, None) => self.wait(state),
            };
        }
    }

    /// A buffer for a storage that has none, if its memory has room for one just now.
    pub(super) fn allocate(&self, state: &mut StateGuard<'_>, key: u64, memory: MemoryId) -> bool {
        let Some(device) = self.device(memory) else {
            return true;
        };
        let m = usize::from(memory.0);
        let used = state.directory.used[m];
        let Some(entry) = state.directory.entries.get_mut(&key) else {
            return false;
        };
        if entry.copies[m].buffer.is_some() {
            return true;
        }
        let bytes = entry.bytes();
        if used + bytes as u64 > device.capacity.0 {
            return false;
        }
        let Some(buffer) = device.backing.allocate(bytes) else {
            return false;
        };
        entry.copies[m].buffer = Some(Arc::from(buffer));
        state.directory.grow(memory, bytes);
        true
    }

    /// Writes back what is current nowhere else, then gives the copy up, unless somebody needs it by
    /// then.
    fn evict<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        key: u64,
        memory: MemoryId,
    ) -> StateGuard<'s> {
        let m = usize::from(memory.0);
        let Some(entry) = state.directory.entries.get_mut(&key) else {
            return state;
        };
        let pieces = entry.only_in(memory).into_iter();
        let moves: Vec<Move> = pieces
            .map(|p| Move::plan(entry, p, memory, Direction::Out))
            .collect();
        if !moves.is_empty() {
            state = self.carry_out(state, key, &moves, Why::NO_TASK).0;
        }
        if let Some(entry) = state.directory.entries.get_mut(&key)
            && entry.copies[m].pins == 0
            && entry.only_in(memory).is_empty()
        {
            state.directory.discard(key, memory);
            self.counters.evictions.fetch_add(1, Ordering::Relaxed);
        }
        self.changed.notify_all();
        state
    }
}
