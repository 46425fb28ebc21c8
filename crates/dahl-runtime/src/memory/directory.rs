//! The directory: which memory holds which elements of which array.
//!
//! For every storage that was ever used outside the host it keeps, per memory, the set of elements
//! whose value there is the current one, and the buffer they are in. A pure bookkeeper: it copies
//! nothing and waits for nobody. Regions are in the storage's own shape.

use std::collections::HashMap;
use std::sync::Arc;

use dahl_core::graph::runs;
use dahl_core::hash::FastBuild;
use dahl_core::{Handle, MemoryId, Region, RegionSet, Shape, Storage};

use super::backing::Buffer;
use crate::instance::Instance;

/// A copy of a storage in one memory.
pub struct Copy {
    /// Where; `None` for the host, whose memory is the storage's own.
    pub buffer: Option<Arc<dyn Buffer>>,
    /// Elements that are current here.
    pub valid: RegionSet,
    /// Elements that are on their way here.
    pub arriving: RegionSet,
    /// Tasks and transfers that need the buffer to stay.
    pub pins: usize,
    /// When it was last needed, by the directory's own count.
    pub last_use: u64,
}

/// What is known of one storage.
pub struct Entry {
    /// Its own shape.
    pub shape: Shape,
    /// Bytes per element.
    pub size: usize,
    /// Its bytes in the host's memory.
    pub host: *mut u8,
    /// One per memory.
    pub copies: Vec<Copy>,
    /// For a temporary: how many accesses of this launch are still to come.
    pub uses_left: usize,
    /// Keeps a persistent storage's memory.
    pub owner: Option<Arc<Storage>>,
}

// SAFETY: the address is only used by transfers, which argue for it; everything else is plain data.
unsafe impl Send for Entry {}

impl Entry {
    /// Bytes of the whole storage.
    pub fn bytes(&self) -> usize {
        self.shape.len() * self.size
    }

    /// Calls `piece` with boxes, under the storage's own shape, of a region seen under `shape`.
    pub fn translate(&self, shape: &Shape, region: &Region, mut piece: impl FnMut(Region)) {
        if *shape == self.shape {
            piece(*region);
        } else {
            runs::runs(shape, region, |lo, hi| runs::boxes(&self.shape, lo, hi, &mut piece));
        }
    }

    /// The value of these elements is now the one in `memory`, and no other.
    pub fn written(&mut self, memory: MemoryId, region: &Region) {
        for (m, copy) in self.copies.iter_mut().enumerate() {
            if m == usize::from(memory.0) {
                copy.valid.add(region);
            } else {
                copy.valid.remove(region);
            }
        }
    }

    /// Elements that are current nowhere but in `memory`.
    pub fn only_in(&self, memory: MemoryId) -> Vec<Region> {
        let mut rest = self.copies[usize::from(memory.0)].valid.clone();
        for (m, copy) in self.copies.iter().enumerate() {
            if m != usize::from(memory.0) {
                copy.valid.boxes().iter().for_each(|b| rest.remove(b));
            }
        }
        rest.boxes().to_vec()
    }
}

/// All storages, and how full memories are.
pub struct Directory {
    /// By the keys of [`Instance::keys`].
    pub entries: HashMap<u64, Entry, FastBuild>,
    /// Bytes in use, per memory.
    pub used: Vec<u64>,
    /// Most bytes ever in use, per memory.
    pub peak: Vec<u64>,
    clock: u64,
    sweep_at: usize,
}

impl Directory {
    /// For so many memories.
    pub fn new(memories: usize) -> Self {
        Directory {
            entries: HashMap::default(),
            used: vec![0; memories],
            peak: vec![0; memories],
            clock: 0,
            sweep_at: 256,
        }
    }

    /// The entry of a storage of a launch, made if it is new: its elements are then in the host.
    pub fn entry(&mut self, instance: &Instance, storage: u32) -> &mut Entry {
        self.sweep();
        let memories = self.used.len();
        let graph = instance.graph();
        self.entries.entry(instance.keys[storage as usize]).or_insert_with(|| {
            let s = &graph.storages[storage as usize];
            let array = graph.arrays.iter().position(|a| a.storage == storage).expect("used");
            let (owner, uses_left) = match s.temporary {
                None => (Some(s.storage.clone()), 0),
                Some(_) => (None, instance.prepared.uses[storage as usize] as usize),
            };
            new_entry(&s.storage, instance.placed[array].base, memories, owner, uses_left)
        })
    }

    /// The entry of an array outside any graph, if there is one.
    pub fn entry_of(&mut self, handle: &Handle) -> Option<&mut Entry> {
        self.entries.get_mut(&handle.storage.id)
    }

    /// Notes that a copy is needed now.
    pub fn touch(&mut self, key: u64, memory: MemoryId) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.copies[usize::from(memory.0)].last_use = self.clock;
        }
    }

    /// Notes that a buffer was allocated.
    pub fn grow(&mut self, memory: MemoryId, bytes: usize) {
        let m = usize::from(memory.0);
        self.used[m] += bytes as u64;
        self.peak[m] = self.peak[m].max(self.used[m]);
    }

    /// Gives up the copy of an entry in a memory.
    pub fn discard(&mut self, key: u64, memory: MemoryId) {
        let m = usize::from(memory.0);
        if let Some(entry) = self.entries.get_mut(&key) {
            let bytes = entry.bytes() as u64;
            entry.copies[m].valid = RegionSet::default();
            if entry.copies[m].buffer.take().is_some() {
                self.used[m] -= bytes;
            }
        }
    }

    /// Forgets a storage.
    pub fn remove(&mut self, key: u64) {
        for m in 0..self.used.len() {
            self.discard(key, MemoryId(m as u16));
        }
        self.entries.remove(&key);
    }

    /// The copy in `memory` that was needed longest ago and that nobody needs now.
    pub fn victim(&self, memory: MemoryId) -> Option<u64> {
        let m = usize::from(memory.0);
        let idle = self.entries.iter().filter(|(_, e)| {
            let c = &e.copies[m];
            c.buffer.is_some() && c.pins == 0 && c.arriving.is_empty()
        });
        idle.min_by_key(|(key, e)| (e.copies[m].last_use, **key)).map(|(key, _)| *key)
    }

    /// Forgets persistent storages that nobody else knows any more.
    fn sweep(&mut self) {
        if self.entries.len() < self.sweep_at {
            return;
        }
        let dead = |e: &Entry| {
            e.owner.as_ref().is_some_and(|o| Arc::strong_count(o) == 1)
                && e.copies.iter().all(|c| c.pins == 0 && c.arriving.is_empty())
        };
        let keys: Vec<u64> = self.entries.iter().filter(|(_, e)| dead(e)).map(|(k, _)| *k).collect();
        keys.iter().for_each(|&k| self.remove(k));
        self.sweep_at = (self.entries.len() * 2).max(256);
    }
}

fn new_entry(
    storage: &Storage,
    host: *mut u8,
    memories: usize,
    owner: Option<Arc<Storage>>,
    uses_left: usize,
) -> Entry {
    let copy = |m: usize| Copy {
        buffer: None,
        valid: if m == 0 { RegionSet::of(Region::whole(&storage.shape)) } else { RegionSet::default() },
        arriving: RegionSet::default(),
        pins: 0,
        last_use: 0,
    };
    Entry {
        shape: storage.shape,
        size: storage.dtype.size(),
        host,
        copies: (0..memories).map(copy).collect(),
        uses_left,
        owner,
    }
}
