//! Transfers: finding room, moving what is missing, fetching ahead.

use std::ops::Range;
use std::sync::Arc;

use dahl_core::graph::runs;
use dahl_core::{MemoryId, Region, Shape};
use dahl_sched::policy::TaskRef;

use super::backing::{Buffer, Direction};
use super::{Memories, NoRoom};
use crate::instance::Instance;
use crate::sync::{Ordering, lock};

/// Operands to fetch before their task asks for them.
pub struct Request {
    /// The task.
    pub task: TaskRef,
    memory: MemoryId,
    parts: Vec<(u64, Shape, Region)>,
}

/// A copy to make, decided under the lock and made without it.
struct Move {
    buffer: Arc<dyn Buffer>,
    host: *mut u8,
    device: MemoryId,
    piece: Region,
    ranges: Vec<Range<usize>>,
    way: Direction,
}

impl Memories {
    /// Gives a storage room in a memory, fetches a region of it there if `fetch`, and pins it. Returns
    /// its address, or `None` for the host, where it has one already.
    pub(super) fn hold(
        &self,
        key: u64,
        shape: &Shape,
        region: &Region,
        fetch: bool,
        memory: MemoryId,
    ) -> Result<Option<*mut u8>, NoRoom> {
        let base = self.allocate(key, memory, true)?;
        if fetch {
            self.fetch(key, shape, region, memory);
        }
        Ok(base)
    }

    /// Room for a storage in a memory, pinned if `pin`. Evicts others only for a pinned one.
    fn allocate(&self, key: u64, memory: MemoryId, pin: bool) -> Result<Option<*mut u8>, NoRoom> {
        let m = usize::from(memory.0);
        let mut state = lock(&self.state);
        loop {
            state.directory.touch(key, memory);
            let Some(entry) = state.directory.entries.get_mut(&key) else { return Err(NoRoom) };
            let bytes = entry.bytes();
            let copy = &mut entry.copies[m];
            let Some(device) = self.device(memory) else {
                copy.pins += usize::from(pin);
                return Ok(None);
            };
            if let Some(buffer) = &copy.buffer {
                copy.pins += usize::from(pin);
                return Ok(Some(buffer.base()));
            }
            if state.directory.used[m] + bytes as u64 <= device.capacity.0 {
                if let Some(buffer) = device.backing.allocate(bytes) {
                    let entry = state.directory.entries.get_mut(&key).expect("looked up above");
                    entry.copies[m].buffer = Some(Arc::from(buffer));
                    state.directory.grow(memory, bytes);
                    continue;
                }
            }
            if !pin || bytes as u64 > device.capacity.0 {
                return Err(NoRoom);
            }
            if let Some(victim) = state.directory.victim(memory) {
                drop(state);
                self.evict(victim, memory);
                state = lock(&self.state);
                continue;
            }
            // Everything here is in use. If all of it is by tasks of this thread, waiting is in vain.
            let others = state.directory.entries.values().any(|e| {
                !e.copies[m].arriving.is_empty() || e.copies.iter().any(|c| !c.arriving.is_empty())
            });
            if !others {
                return Err(NoRoom);
            }
            state = self.wait(state);
        }
    }

    /// Writes back what is current nowhere else, then gives the copy up.
    fn evict(&self, key: u64, memory: MemoryId) {
        let m = usize::from(memory.0);
        let mut state = lock(&self.state);
        let Some(entry) = state.directory.entries.get_mut(&key) else { return };
        if entry.copies[m].pins > 0 || entry.copies[m].buffer.is_none() {
            return; // Somebody was faster, and needs it or evicted it.
        }
        entry.copies[m].pins += 1;
        let shape = entry.shape;
        let only = entry.only_in(memory);
        drop(state);
        for piece in &only {
            self.fetch(key, &shape, piece, MemoryId::HOST);
        }
        let mut state = lock(&self.state);
        if let Some(entry) = state.directory.entries.get_mut(&key) {
            entry.copies[m].pins -= 1;
            if entry.copies[m].pins == 0 && entry.only_in(memory).is_empty() {
                state.directory.discard(key, memory);
                self.counters.evictions.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Makes a region of a storage current in a memory where it has room. Device to device goes by way
    /// of the host.
    fn fetch(&self, key: u64, shape: &Shape, region: &Region, memory: MemoryId) -> usize {
        let mut fetched = 0;
        let mut state = lock(&self.state);
        loop {
            let Some(entry) = state.directory.entries.get_mut(&key) else { return fetched };
            let target = &entry.copies[usize::from(memory.0)];
            let (mut missing, mut arriving) = (Vec::new(), false);
            entry.translate(shape, region, |piece| {
                target.valid.missing(&piece, |p| {
                    target.arriving.missing(&p, |q| missing.push(q));
                    target.arriving.common(&p, |_| arriving = true);
                });
            });
            if missing.is_empty() {
                if !arriving {
                    return fetched;
                }
                state = self.wait(state);
                continue;
            }
            let mut moves = Vec::new();
            let (mut by_host, mut unwritten) = (Vec::new(), Vec::new());
            for piece in missing {
                plan_move(entry, piece, memory, &mut moves, &mut by_host, &mut unwritten);
            }
            // A failed task may leave elements that are current nowhere: any value will do.
            unwritten.iter().for_each(|p| entry.written(memory, p));
            for mv in &moves {
                entry.copies[usize::from(memory.0)].arriving.add(&mv.piece);
                entry.copies[usize::from(mv.device.0)].pins += 1;
            }
            let own = entry.shape;
            drop(state);
            for piece in by_host {
                self.fetch(key, &own, &piece, MemoryId::HOST);
            }
            for mv in &moves {
                fetched += self.make(mv);
            }
            state = lock(&self.state);
            if let Some(entry) = state.directory.entries.get_mut(&key) {
                for mv in &moves {
                    let target = &mut entry.copies[usize::from(memory.0)];
                    target.arriving.remove(&mv.piece);
                    target.valid.add(&mv.piece);
                    entry.copies[usize::from(mv.device.0)].pins -= 1;
                }
            }
            self.changed.notify_all();
        }
    }

    fn make(&self, mv: &Move) -> usize {
        let bytes: usize = mv.ranges.iter().map(Range::len).sum();
        let device = self.device(mv.device).expect("one side is a device");
        // SAFETY: the ranges come from a region inside the storage; the buffer is pinned; the region is
        // marked as arriving, so nobody else fills it, and the task this is for reads it, so no task
        // writes it meanwhile.
        unsafe { device.backing.copy(&*mv.buffer, mv.host, &mv.ranges, mv.way) };
        self.count(bytes, mv.way);
        bytes
    }

    /// Asks for a task's operands to be fetched while others run.
    pub fn prefetch(&self, instance: &Instance, task: u32, memory: MemoryId) {
        let graph = instance.graph();
        let mut state = lock(&self.state);
        let mut parts = Vec::new();
        for access in instance.accesses(task).iter().filter(|a| a.mode.reads() && !a.zeroed) {
            let array = &graph.arrays[access.array as usize];
            state.directory.entry(instance, array.storage);
            parts.push((instance.keys[array.storage as usize], array.shape, access.region));
        }
        state.requests.push_back(Request { task: instance.task(task), memory, parts });
        drop(state);
        self.changed.notify_all();
    }

    /// Serves prefetch requests until told to stop: the body of the copying thread.
    pub fn serve(&self) {
        let mut state = lock(&self.state);
        while !state.stopping {
            let Some(request) = state.requests.pop_front() else {
                state = self.wait(state);
                continue;
            };
            // Pinned under the same lock that takes the request: from here on the task that asks for
            // its operands waits for what is arriving instead of dropping the request.
            let m = usize::from(request.memory.0);
            for (key, ..) in &request.parts {
                if let Some(entry) = state.directory.entries.get_mut(key) {
                    entry.copies[m].pins += 1;
                }
            }
            state.serving.push(request.task);
            drop(state);
            for (key, shape, region) in &request.parts {
                if self.allocate(*key, request.memory, false).is_ok() {
                    let bytes = self.fetch(*key, shape, region, request.memory);
                    self.counters.prefetched.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
            state = lock(&self.state);
            for (key, ..) in &request.parts {
                if let Some(entry) = state.directory.entries.get_mut(key) {
                    entry.copies[m].pins -= 1;
                }
            }
            state.serving.retain(|t| *t != request.task);
            self.changed.notify_all();
        }
    }

    /// Lets [`Memories::serve`] return.
    pub fn stop(&self) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
    }
}

/// Plans how a missing piece gets to `memory`: directly if host and device are the two ends, else by
/// way of the host.
fn plan_move(
    entry: &super::directory::Entry,
    piece: Region,
    memory: MemoryId,
    moves: &mut Vec<Move>,
    by_host: &mut Vec<Region>,
    unwritten: &mut Vec<Region>,
) {
    let mut add = |device: MemoryId, piece: Region, way: Direction| {
        let buffer = entry.copies[usize::from(device.0)].buffer.clone();
        let mut ranges = Vec::new();
        runs::runs(&entry.shape, &piece, |lo, hi| ranges.push(lo * entry.size..hi * entry.size));
        moves.push(Move {
            buffer: buffer.expect("what is valid or has room has a buffer"),
            host: entry.host,
            device,
            piece,
            ranges,
            way,
        });
    };
    if memory != MemoryId::HOST {
        entry.copies[0].valid.common(&piece, |p| add(memory, p, Direction::In));
        entry.copies[0].valid.missing(&piece, |p| by_host.push(p));
        return;
    }
    let mut rest = vec![piece];
    for (m, copy) in entry.copies.iter().enumerate().skip(1) {
        let mut left = Vec::new();
        for r in &rest {
            copy.valid.common(r, |p| add(MemoryId(m as u16), p, Direction::Out));
            copy.valid.missing(r, |p| left.push(p));
        }
        rest = left;
    }
    unwritten.append(&mut rest);
}
