//! Copies: which memory holds which parts of which arrays, and how full memories are.
//!
//! A pure bookkeeper, as the runtime's directory is: a mask of memories per cell says where its value is
//! current; a device holds an array whole or not at all; what has to go is what was needed longest ago.
//! Persistent arrays have one set of cells, temporaries one for each launch in flight.

use dahl_core::{Bytes, Graph, Machine, Seconds};

use super::cells::Cells;
use super::outcome::MemoryUse;

/// The host, as a mask.
const HOST: u64 = 1;

/// A storage of a launch: one for each storage and place in the ring, of which persistent ones use the
/// first only.
pub(super) type Key = u32;

/// See the module.
#[derive(Debug)]
pub(super) struct Copies {
    pub cells: Cells,
    memories: usize,
    storages: usize,
    /// Memories where a cell is current.
    valid: Vec<u64>,
    /// Transfers under way that touch a cell.
    pub moving: Vec<u16>,
    /// Memories where a storage has a buffer.
    buffers: Vec<u64>,
    pins: Vec<u32>,
    last_use: Vec<u64>,
    clock: u64,
    bytes: Vec<u64>,
    temporary: Vec<bool>,
    uses: Vec<u32>,
    uses_left: Vec<u32>,
    capacity: Vec<u64>,
    /// Storages with a buffer in each memory.
    resident: Vec<Vec<Key>>,
    used: Vec<u64>,
    /// What each memory held at most, and over time.
    pub curves: Vec<MemoryUse>,
    /// Changes whenever an answer about places might.
    pub version: u64,
}

impl Copies {
    /// For a graph with so many launches in flight; everything is in the host.
    pub fn new(graph: &Graph, machine: &Machine, ring: usize) -> Copies {
        let cells = Cells::new(graph);
        let (memories, storages) = (machine.memories.len(), graph.storages.len());
        let mut uses = vec![0; storages];
        for access in &graph.accesses {
            uses[graph.arrays[access.array as usize].storage as usize] += 1;
        }
        let keys = storages * ring;
        let capacity = |m: &dahl_core::Memory| m.capacity.map_or(u64::MAX, |c| c.0);
        Copies {
            memories,
            storages,
            valid: vec![HOST; cells.bytes.len() * ring],
            moving: vec![0; cells.bytes.len() * ring],
            buffers: vec![HOST; keys],
            pins: vec![0; keys * memories],
            last_use: vec![0; keys * memories],
            clock: 0,
            bytes: graph
                .storages
                .iter()
                .map(|s| s.storage.bytes() as u64)
                .collect(),
            temporary: graph
                .storages
                .iter()
                .map(|s| s.temporary.is_some())
                .collect(),
            uses_left: (0..keys).map(|k| uses[k % storages.max(1)]).collect(),
            uses,
            capacity: machine.memories.iter().map(capacity).collect(),
            resident: vec![Vec::new(); memories],
            used: vec![0; memories],
            curves: vec![MemoryUse::default(); memories],
            version: 0,
            cells,
        }
    }

    /// The key of a storage in a launch at a place of the ring.
    #[inline]
    pub fn key(&self, storage: u32, slot: usize) -> Key {
        if self.temporary[storage as usize] {
            (slot * self.storages) as u32 + storage
        } else {
            storage
        }
    }

    /// The cell of a key, by its number in the graph.
    #[inline]
    pub fn cell(&self, key: Key, cell: u32) -> u32 {
        let slot = key as usize / self.storages;
        (slot * self.cells.bytes.len()) as u32 + cell
    }

    /// Bytes of a cell.
    #[inline]
    pub fn cell_bytes(&self, cell: u32) -> u64 {
        self.cells.bytes[cell as usize % self.cells.bytes.len()]
    }

    /// Memories where a cell is current, as a mask.
    #[inline]
    pub fn places(&self, cell: u32) -> u64 {
        self.valid[cell as usize]
    }

    /// A cell's value has arrived in a memory.
    pub fn arrived(&mut self, cell: u32, memory: usize) {
        self.version += 1;
        self.valid[cell as usize] |= 1 << memory;
    }

    /// A cell was written in a memory: it is current there and nowhere else.
    pub fn written(&mut self, cell: u32, memory: usize) {
        self.version += 1;
        self.valid[cell as usize] = 1 << memory;
    }

    /// All of a storage was written in the host.
    pub fn written_by_host(&mut self, key: Key) {
        for cell in self.own_cells(key) {
            self.written(cell, 0);
        }
    }

    /// Bytes of a storage.
    pub fn bytes(&self, key: Key) -> u64 {
        self.bytes[key as usize % self.storages]
    }

    /// Whether a storage has a buffer in a memory.
    #[inline]
    pub fn has_buffer(&self, key: Key, memory: usize) -> bool {
        self.buffers[key as usize] & (1 << memory) != 0
    }

    /// Whether so many bytes more fit.
    pub fn fits(&self, bytes: u64, memory: usize) -> bool {
        self.used[memory].saturating_add(bytes) <= self.capacity[memory]
    }

    /// Whether so many bytes could ever fit.
    pub fn could_fit(&self, bytes: u64, memory: usize) -> bool {
        memory == 0 || bytes <= self.capacity[memory]
    }

    /// Gives a storage a buffer, for which there must be room.
    pub fn allocate(&mut self, key: Key, memory: usize, now: f64) {
        self.buffers[key as usize] |= 1 << memory;
        self.resident[memory].push(key);
        self.used[memory] += self.bytes(key);
        self.note(memory, now);
    }

    /// Gives up the copy of a storage.
    pub fn discard(&mut self, key: Key, memory: usize, now: f64) {
        if memory == 0 || !self.has_buffer(key, memory) {
            return;
        }
        self.version += 1;
        self.buffers[key as usize] &= !(1 << memory);
        self.resident[memory].retain(|&k| k != key);
        self.used[memory] -= self.bytes(key);
        for cell in self.own_cells(key) {
            self.valid[cell as usize] &= !(1 << memory);
        }
        self.note(memory, now);
    }

    fn note(&mut self, memory: usize, now: f64) {
        self.curves[memory].set(Seconds(now), Bytes(self.used[memory]));
    }

    fn own_cells(&self, key: Key) -> std::ops::Range<u32> {
        let s = key as usize % self.storages;
        self.cell(key, self.cells.start[s])..self.cell(key, self.cells.start[s + 1])
    }

    fn place(&self, key: Key, memory: usize) -> usize {
        key as usize * self.memories + memory
    }

    /// Keeps a copy in place.
    pub fn pin(&mut self, key: Key, memory: usize) {
        let at = self.place(key, memory);
        self.pins[at] += 1;
    }

    /// Takes back a [`Copies::pin`].
    pub fn unpin(&mut self, key: Key, memory: usize) {
        let at = self.place(key, memory);
        self.pins[at] -= 1;
    }

    /// Whether somebody needs a copy.
    pub fn is_pinned(&self, key: Key, memory: usize) -> bool {
        self.pins[self.place(key, memory)] > 0
    }

    /// Notes that a copy is needed now.
    pub fn touch(&mut self, key: Key, memory: usize) {
        self.clock += 1;
        let at = self.place(key, memory);
        self.last_use[at] = self.clock;
    }

    /// The copy that was needed longest ago, that nobody needs now and that is none of `keep`.
    pub fn victim(&self, memory: usize, keep: &[Key]) -> Option<Key> {
        let idle = self.resident[memory]
            .iter()
            .filter(|&&k| !self.is_pinned(k, memory) && !keep.contains(&k));
        idle.copied()
            .min_by_key(|&k| (self.last_use[self.place(k, memory)], k))
    }

    /// Cells of a storage that are current nowhere but in a memory.
    pub fn only_in(&self, key: Key, memory: usize) -> Vec<u32> {
        self.own_cells(key)
            .filter(|&c| self.valid[c as usize] == 1 << memory)
            .collect()
    }

    /// Counts one use. After the last one a temporary is forgotten, and its place is as new for the next
    /// launch.
    pub fn used_once(&mut self, key: Key, now: f64) {
        let storage = key as usize % self.storages;
        if !self.temporary[storage] {
            return;
        }
        self.uses_left[key as usize] -= 1;
        if self.uses_left[key as usize] > 0 {
            return;
        }
        for memory in 1..self.memories {
            self.discard(key, memory, now);
        }
        for cell in self.own_cells(key) {
            self.valid[cell as usize] = HOST;
        }
        self.uses_left[key as usize] = self.uses[storage];
    }
}
