//! Room: finding space for what a task touches, and giving up what others may fetch again.

use std::sync::Arc;

use dahl_core::{Bytes, MemoryId};

use super::carry::Move;
use super::needs::Needs;
use super::outlook::{self, Outlook};
use super::transfer::Why;
use super::victims::{Shortage, victims};
use super::{Memories, StateGuard};
use crate::error::RunError;
use crate::instance::Instance;
use crate::sync::{Ordering, lock};

/// Why there is no room, and never will be.
pub(super) enum NoRoom {
    /// The operands together are larger than the memory.
    TooSmall(u64),
    /// The backing has less than its capacity promises.
    Refused(u64),
    /// The memory is out of use.
    Lost,
}

/// Room that is asked for.
pub(super) struct Wish<'a> {
    /// The storages; some may be equal.
    pub keys: &'a [u64],
    /// In which memory.
    pub memory: MemoryId,
    /// The moment of the task that needs them.
    pub now: u64,
    /// What is known of the order.
    pub needs: &'a Needs,
    /// The keys of the storages of the task's launch; none if there is no task.
    pub launch: &'a [u64],
}

/// Copies to give up.
pub(super) struct Choice {
    /// Which.
    pub keys: Vec<u64>,
    /// What that costs, compared with another choice that was made in the same way.
    pub cost: f64,
    /// Whether the tasks to come were played through, or else the rule chose.
    pub is_tried: bool,
}

impl NoRoom {
    /// The error of the task that wanted it.
    pub(super) fn explain(self, task: String, memories: &Memories, memory: MemoryId) -> RunError {
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
                if let Some(device) = memories.device(memory) {
                    device.refused.fetch_max(bytes, Ordering::Relaxed);
                }
                RunError::OutOfMemory(format!("{name} refused {bytes} bytes for {task}"))
            }
            NoRoom::Lost => {
                let why = memories.lost(memory).unwrap_or_default().to_string();
                let device = name;
                RunError::DeviceLost { task, device, why }
            }
        }
    }
}

impl Memories {
    /// Room for the storages of a wish, each pinned once per key: all of them or none. Waits, holding
    /// nothing, while others need what would have to go.
    pub(super) fn reserve<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        wish: &Wish<'_>,
    ) -> (StateGuard<'s>, Result<(), NoRoom>) {
        let (keys, memory) = (wish.keys, wish.memory);
        let m = usize::from(memory.0);
        if self.device(memory).is_none() {
            keys.iter()
                .for_each(|&key| state.directory.pin(key, memory));
            return (state, Ok(()));
        }
        let bytes_of = |state: &StateGuard<'_>, key: u64| self.footprint(state, key, memory);
        loop {
            if state.directory.is_lost(memory) {
                return (state, Err(NoRoom::Lost));
            }
            let total = self.together(&state, keys, memory);
            let capacity = state.directory.capacity[m];
            if total > capacity {
                return (state, Err(NoRoom::TooSmall(total)));
            }
            let lacks =
                |state: &StateGuard<'_>, key: &u64| state.directory.address(*key, memory).is_none();
            let missing: u64 = distinct(keys)
                .filter(|k| lacks(&state, k))
                .map(|key| bytes_of(&state, key))
                .sum();
            let (mut refused, used) = (None, state.directory.used[m]);
            if used + missing <= capacity {
                for key in distinct(keys) {
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
            let short = refused.unwrap_or((used + missing).saturating_sub(capacity));
            let chosen = self.victims(&state, wish, short, false).keys;
            if chosen.is_empty() && !state.directory.is_lost(memory) {
                match refused {
                    Some(bytes) if self.is_quiet(&state, memory) => {
                        return (state, Err(NoRoom::Refused(bytes)));
                    }
                    // All the rest is pinned by tasks and transfers under way, which end.
                    _ => state = self.wait(state),
                }
            }
            for victim in chosen {
                state = self.evict(state, victim, memory);
            }
        }
    }

    /// Copies to give up for a wish.
    pub(super) fn victims(
        &self,
        state: &StateGuard<'_>,
        wish: &Wish<'_>,
        short: u64,
        in_use: bool,
    ) -> Choice {
        let shortage = Shortage {
            memory: wish.memory,
            keep: wish.keys,
            bytes: short,
            now: wish.now,
            needs: wish.needs,
            in_use,
        };
        let footprint = |bytes: usize| {
            let device = self.device(wish.memory);
            device.map_or(bytes, |d| d.backing.footprint(bytes)) as u64
        };
        let outlook = Outlook {
            shortage: &shortage,
            keys: wish.launch,
            footprint: &footprint,
        };
        let tried = match wish.launch {
            [] => None,
            _ => outlook::best(&state.directory, &outlook),
        };
        let is_tried = tried.is_some();
        let (keys, cost) = tried.unwrap_or_else(|| victims(&state.directory, &shortage));
        Choice {
            keys,
            cost,
            is_tried,
        }
    }

    /// Whether nothing in a memory is pinned, so that waiting would be in vain.
    fn is_quiet(&self, state: &StateGuard<'_>, memory: MemoryId) -> bool {
        let m = usize::from(memory.0);
        let mut entries = state.directory.entries.values();
        entries.all(|e| e.copies[m].pins == 0 && e.copies[m].arriving.is_empty())
    }

    /// Bytes that storages take in a memory, all at once; some may be named twice.
    pub(super) fn together(&self, state: &StateGuard<'_>, keys: &[u64], memory: MemoryId) -> u64 {
        distinct(keys)
            .map(|key| self.footprint(state, key, memory))
            .sum()
    }

    /// Bytes of a memory that a storage takes there.
    pub(super) fn footprint(&self, state: &StateGuard<'_>, key: u64, memory: MemoryId) -> u64 {
        let bytes = state.directory.entries.get(&key).map_or(0, |e| e.bytes());
        let device = self.device(memory);
        device.map_or(bytes, |d| d.backing.footprint(bytes)) as u64
    }

    /// A buffer for a storage that has none, if its memory has room for one just now.
    pub(super) fn allocate(&self, state: &mut StateGuard<'_>, key: u64, memory: MemoryId) -> bool {
        let Some(device) = self.device(memory) else {
            return true;
        };
        let m = usize::from(memory.0);
        let Some(entry) = state.directory.entries.get(&key) else {
            return false;
        };
        if entry.copies[m].buffer.is_some() {
            return true;
        }
        let (bytes, takes) = (entry.bytes(), self.footprint(state, key, memory));
        let full = state.directory.used[m] + takes > state.directory.capacity[m];
        if full || state.directory.is_lost(memory) {
            return false;
        }
        match device.backing.allocate(bytes) {
            Ok(Some(buffer)) => {
                state.directory.put(key, memory, Arc::from(buffer), takes);
                true
            }
            Ok(None) => false,
            Err(lost) => {
                self.lose_locked(state, memory, &lost.0);
                false
            }
        }
    }

    /// A unit lacks room for `bytes` of scratch memory beside the copies in its memory: leaves that much
    /// to it from now on, and gives up what it can of the copies. False if that is not worth trying
    /// again.
    pub(crate) fn leave_room(&self, memory: MemoryId, bytes: usize, needs: &Needs) -> bool {
        let m = usize::from(memory.0);
        let mut state = lock(&self.state);
        let Some(device) = self.device(memory) else {
            return false;
        };
        let total = device.backing.total().unwrap_or(device.capacity.0);
        let scratch = device.backing.footprint(bytes) as u64;
        device.scratch.fetch_max(scratch, Ordering::Relaxed);
        let rest = total.saturating_sub(scratch);
        let capacity = &mut state.directory.capacity[m];
        *capacity = rest.min(*capacity);
        let wish = Wish {
            keys: &[],
            memory,
            now: 0,
            needs,
            launch: &[],
        };
        let mut freed = false;
        // Free bytes may lie in pieces that are too small: everything goes that can.
        for victim in self.victims(&state, &wish, u64::MAX, false).keys {
            state = self.evict(state, victim, memory);
            freed = true;
        }
        freed && !state.directory.is_lost(memory)
    }

    /// A task of a unit runs in the host's memory instead of the unit's. If that is for lack of room, notes
    /// how much its graph would need; the first time for each device, somebody hears of it.
    pub(crate) fn went_elsewhere(
        &self,
        instance: &Instance,
        task: u32,
        memory: MemoryId,
        error: Option<&RunError>,
    ) {
        self.counters.elsewhere.fetch_add(1, Ordering::Relaxed);
        let short = matches!(
            error,
            Some(RunError::TooSmall { .. } | RunError::OutOfMemory(_))
        );
        let Some(device) = self.device(memory).filter(|_| short) else {
            return;
        };
        let graph = instance.graph();
        let takes = |storage: u32| {
            let s = &graph.storages[storage as usize].storage;
            device.backing.footprint(s.shape.len() * s.dtype.size()) as u64
        };
        let operands = |task: u32| -> u64 {
            let storages = instance
                .accesses(task)
                .iter()
                .map(|a| instance.storage_of(a));
            let storages: std::collections::BTreeSet<u32> = storages.collect();
            storages.into_iter().map(takes).sum()
        };
        // Some of what the device deals out is kept for scratch memory, and tasks may have asked for more.
        let has = device.backing.total().unwrap_or(device.capacity.0);
        let scratch = device.scratch.load(Ordering::Relaxed);
        let in_all = |copies: u64| {
            let of = u128::from(device.capacity.0.max(1));
            let kept = (u128::from(copies) * u128::from(has)).div_ceil(of);
            u64::try_from(kept)
                .unwrap_or(u64::MAX)
                .max(copies + scratch)
        };
        // What is free may lie in pieces that are too small: one more of that size would be enough.
        let pieces = match device.refused.load(Ordering::Relaxed) {
            0 => 0,
            bytes => has + in_all(bytes),
        };
        let own = in_all(operands(task)).max(pieces);
        if device.needed.fetch_max(own, Ordering::Relaxed) > 0 {
            return;
        }
        let most = (0..graph.len() as u32).map(operands).max().unwrap_or(0);
        let most = in_all(most);
        device.needed.fetch_max(most, Ordering::Relaxed);
        if let Some(notify) = &self.on_no_room {
            notify(&device.name, Bytes(most.max(own)), Bytes(has));
        }
    }

    /// Writes back what is current nowhere else, then gives the copy up, unless somebody needs it by
    /// then.
    pub(super) fn evict<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        key: u64,
        memory: MemoryId,
    ) -> StateGuard<'s> {
        let m = usize::from(memory.0);
        let Some(entry) = state.directory.entries.get_mut(&key) else {
            return state;
        };
        if entry.copies[m].pins > 0 || entry.copies[m].buffer.is_none() {
            return state;
        }
        let pieces = entry.only_in(memory);
        if !pieces.is_empty() {
            let back = Move::back(entry, key, pieces, memory);
            state = self.carry_out(state, &[back], Why::NO_TASK).0;
        }
        if let Some(entry) = state.directory.entries.get_mut(&key)
            && entry.copies[m].pins == 0
            && entry.copies[m].buffer.is_some()
            && entry.only_in(memory).is_empty()
        {
            state.directory.discard(key, memory);
            self.counters.evictions.fetch_add(1, Ordering::Relaxed);
        }
        self.changed.notify_all();
        state
    }
}

fn distinct(keys: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let first = |(i, k): &(usize, &u64)| !keys[..*i].contains(k);
    keys.iter().enumerate().filter(first).map(|(_, k)| *k)
}
