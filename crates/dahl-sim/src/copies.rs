//! Copies: which memory holds which parts of which arrays, and how full memories are.
//!
//! A pure bookkeeper, as the runtime's directory is: a mask of memories per cell says where its value is
//! current; a device holds an array whole or not at all; what has to go is what was needed longest ago.
//! Persistent arrays have one set of cells, temporaries one for each launch in flight. The host holds
//! everything, always: only devices have lists of what they hold, and pins that keep it there.

use std::ops::Range;

use dahl_core::graph::cells::Cells;
use dahl_core::{Bytes, Graph, Machine, Seconds};

use super::prediction::MemoryUse;
use super::recent::Recent;

/// The host, as a mask.
const HOST: u64 = 1;

/// A storage of a launch: one for each storage and place in the ring, of which persistent ones use the
/// first only.
pub(super) type Key = u32;

/// What is known of a key.
#[derive(Clone, Debug)]
struct Held {
    bytes: u64,
    /// Memories where it has a buffer.
    buffers: u64,
    cells: Range<u32>,
    is_temporary: bool,
    uses: u32,
    uses_left: u32,
}

#[derive(Debug)]
pub(super) struct Copies {
    memories: usize,
    held: Vec<Held>,
    /// Memories where a cell is current.
    valid: Vec<u64>,
    cell_bytes: Vec<u64>,
    /// Transfers under way that touch a cell.
    pub moving: Vec<u16>,
    /// By key and memory.
    pins: Vec<u32>,
    recent: Recent,
    capacity: Vec<u64>,
    used: Vec<u64>,
    /// What each memory held at most, and over time.
    pub curves: Vec<MemoryUse>,
}

impl Copies {
    /// For a graph with so many launches in flight; everything is in the host.
    pub(crate) fn new(graph: &Graph, cells: &Cells, machine: &Machine, ring: usize) -> Copies {
        let memories = machine.memories.len();
        let mut uses = vec![0; graph.storages.len()];
        for access in &graph.accesses {
            uses[graph.arrays[access.array as usize].storage as usize] += 1;
        }
        let each = cells.bytes.len() as u32;
        let held = |(slot, s): (usize, usize)| Held {
            bytes: graph.storages[s].storage.bytes() as u64,
            buffers: HOST,
            cells: slot as u32 * each + cells.start[s]..slot as u32 * each + cells.start[s + 1],
            is_temporary: graph.storages[s].temporary.is_some(),
            uses: uses[s],
            uses_left: uses[s],
        };
        let storages = 0..graph.storages.len();
        let keys = (0..ring).flat_map(|slot| storages.clone().map(move |s| (slot, s)));
        let held: Vec<Held> = keys.map(held).collect();
        let capacity = |m: &dahl_core::Memory| m.capacity.map_or(u64::MAX, |c| c.0);
        Copies {
            memories,
            valid: vec![HOST; cells.bytes.len() * ring],
            cell_bytes: cells.bytes.repeat(ring),
            moving: vec![0; cells.bytes.len() * ring],
            pins: vec![0; held.len() * memories],
            recent: Recent::new(held.len(), memories),
            capacity: machine.memories.iter().map(capacity).collect(),
            used: vec![0; memories],
            curves: vec![MemoryUse::default(); memories],
            held,
        }
    }

    /// Bytes of a cell.
    #[inline]
    pub(crate) fn cell_bytes(&self, cell: u32) -> u64 {
        self.cell_bytes[cell as usize]
    }

    /// Memories where a cell is current, as a mask.
    #[inline]
    pub(crate) fn places(&self, cell: u32) -> u64 {
        self.valid[cell as usize]
    }

    /// A cell's value has arrived in a memory.
    #[inline]
    pub(crate) fn arrived(&mut self, cell: u32, memory: usize) {
        self.valid[cell as usize] |= 1 << memory;
    }

    /// A cell was written in a memory: it is current there and nowhere else.
    #[inline]
    pub(crate) fn written(&mut self, cell: u32, memory: usize) {
        self.valid[cell as usize] = 1 << memory;
    }

    /// All of a storage was written in the host.
    pub(crate) fn written_by_host(&mut self, key: Key) {
        self.own_places(key).fill(HOST);
    }

    /// Bytes of a storage.
    #[inline]
    pub(crate) fn bytes(&self, key: Key) -> u64 {
        self.held[key as usize].bytes
    }

    /// Whether a storage has a buffer in a memory.
    #[inline]
    pub(crate) fn has_buffer(&self, key: Key, memory: usize) -> bool {
        self.held[key as usize].buffers & (1 << memory) != 0
    }

    /// Whether so many bytes more fit.
    pub(crate) fn fits(&self, bytes: u64, memory: usize) -> bool {
        self.used[memory].saturating_add(bytes) <= self.capacity[memory]
    }

    /// Whether so many bytes could ever fit.
    pub(crate) fn could_fit(&self, bytes: u64, memory: usize) -> bool {
        bytes <= self.capacity[memory]
    }

    /// Gives a storage a buffer, for which there must be room.
    pub(crate) fn allocate(&mut self, key: Key, memory: usize, now: f64) {
        self.held[key as usize].buffers |= 1 << memory;
        self.recent.add(key, memory);
        self.used[memory] += self.bytes(key);
        self.note(memory, now);
    }

    /// Gives up the copy of a storage.
    pub(crate) fn discard(&mut self, key: Key, memory: usize, now: f64) {
        self.held[key as usize].buffers &= !(1 << memory);
        self.recent.remove(key, memory);
        self.used[memory] -= self.bytes(key);
        for places in self.own_places(key) {
            *places &= !(1 << memory);
        }
        self.note(memory, now);
    }

    fn note(&mut self, memory: usize, now: f64) {
        self.curves[memory].set(Seconds(now), Bytes(self.used[memory]));
    }

    fn own_cells(&self, key: Key) -> Range<u32> {
        self.held[key as usize].cells.clone()
    }

    fn own_places(&mut self, key: Key) -> &mut [u64] {
        let Range { start, end } = self.own_cells(key);
        &mut self.valid[start as usize..end as usize]
    }

    /// Keeps a copy in place.
    pub(crate) fn pin(&mut self, key: Key, memory: usize) {
        self.pins[key as usize * self.memories + memory] += 1;
    }

    /// Takes back a [`Copies::pin`].
    pub(crate) fn unpin(&mut self, key: Key, memory: usize) {
        self.pins[key as usize * self.memories + memory] -= 1;
    }

    /// Whether somebody needs a copy.
    pub(crate) fn is_pinned(&self, key: Key, memory: usize) -> bool {
        self.pins[key as usize * self.memories + memory] > 0
    }

    /// Notes that a copy on a device, if there is one, is needed now.
    #[inline]
    pub(crate) fn touch(&mut self, key: Key, memory: usize) {
        if self.has_buffer(key, memory) {
            self.recent.remove(key, memory);
            self.recent.add(key, memory);
        }
    }

    /// The copy that was needed longest ago, that nobody needs now and that is none of `keep`.
    pub(crate) fn victim(&self, memory: usize, keep: &[Key]) -> Option<Key> {
        let mut held = self.recent.oldest_first(memory);
        held.find(|k| !self.is_pinned(*k, memory) && !keep.contains(k))
    }

    /// Cells of a storage that are current nowhere but in a memory.
    pub(crate) fn only_in(&self, key: Key, memory: usize) -> impl Iterator<Item = u32> {
        let cells = self.own_cells(key);
        cells.filter(move |&c| self.places(c) == 1 << memory)
    }

    /// Counts one use. After the last one a temporary is forgotten, and its place is as new for the next
    /// launch.
    #[inline]
    pub(crate) fn used_once(&mut self, key: Key, now: f64) {
        let held = &mut self.held[key as usize];
        if !held.is_temporary {
            return;
        }
        held.uses_left -= 1;
        if held.uses_left == 0 {
            held.uses_left = held.uses;
            self.forget(key, now);
        }
    }

    fn forget(&mut self, key: Key, now: f64) {
        for memory in 1..self.memories {
            if self.has_buffer(key, memory) {
                self.discard(key, memory, now);
            }
        }
        self.own_places(key).fill(HOST);
    }
}
