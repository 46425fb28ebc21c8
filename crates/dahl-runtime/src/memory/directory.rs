//! The directory: which memory holds which elements of which array.
//!
//! For every storage that was ever used outside the host it keeps, per memory, the set of elements
//! whose value there is the current one, and the buffer they are in. A pure bookkeeper: it copies
//! nothing and waits for nobody. Regions are in the storage's own shape.

use std::collections::HashMap;
use std::sync::Arc;

use dahl_core::array::Home;
use dahl_core::graph::runs;
use dahl_core::hash::FastBuild;
use dahl_core::{MemoryId, Region, RegionSet, Shape, Storage};

use super::backing::Buffer;
use super::needs::Need;
use crate::instance::Instance;

/// Fewer storages than this are not searched for dead ones.
const SWEEP_FROM: usize = 64;

/// A copy of a storage in one memory.
pub(super) struct Copy {
    /// Where; `None` for the host, whose memory is the storage's own.
    pub buffer: Option<Arc<dyn Buffer>>,
    /// Elements that are current here.
    pub valid: RegionSet,
    /// Elements that are on their way here.
    pub arriving: RegionSet,
    /// Tasks and transfers that need the buffer to stay.
    pub pins: usize,
    /// Bytes of its memory that the buffer takes.
    held: u64,
    /// When it was last needed, by the directory's own count.
    pub last_use: u64,
    /// When it is needed next.
    pub need: Need,
}

impl Copy {
    /// Whether it is there and nobody needs it now.
    pub(super) fn is_idle(&self) -> bool {
        self.buffer.is_some() && self.pins == 0 && self.arriving.is_empty()
    }
}

/// What is known of one storage.
pub(super) struct Entry {
    /// Its own shape.
    pub shape: Shape,
    /// Bytes per element.
    pub size: usize,
    /// Its bytes in the host's memory.
    pub host: *mut u8,
    /// One per memory.
    pub copies: Vec<Copy>,
    /// Elements that tasks write just now, in whichever memory.
    pub writing: RegionSet,
    /// For a temporary: how many accesses of this launch are still to come.
    pub uses_left: usize,
    /// Keeps a persistent storage's memory.
    pub owner: Option<Arc<Storage>>,
    /// Whether the storage's chunk is leased because some elements are current only elsewhere.
    leased: bool,
}

// SAFETY: the address is only used by transfers, which argue for it; everything else is plain data.
unsafe impl Send for Entry {}

impl Entry {
    /// Bytes of a memory that its copy there takes.
    pub(super) fn held(&self, memory: MemoryId) -> u64 {
        self.copies[usize::from(memory.0)].held
    }

    /// Bytes of the whole storage.
    pub(super) fn bytes(&self) -> usize {
        self.shape.len() * self.size
    }

    /// Calls `piece` with boxes, under the storage's own shape, of a region seen under `shape`.
    pub(super) fn translate(&self, shape: &Shape, region: &Region, mut piece: impl FnMut(Region)) {
        if *shape == self.shape {
            piece(*region);
        } else {
            runs::runs(shape, region, |lo, hi| {
                runs::boxes(&self.shape, lo, hi, &mut piece)
            });
        }
    }

    /// Whether some elements are not current in the host.
    pub(super) fn is_away(&self) -> bool {
        self.copies[0]
            .valid
            .boxes()
            .iter()
            .map(Region::len)
            .sum::<usize>()
            < self.shape.len()
    }

    /// Whether elements of a region are on their way to anywhere.
    pub(super) fn is_moving(&self, shape: &Shape, region: &Region) -> bool {
        let mut moving = false;
        if self.copies.iter().any(|c| !c.arriving.is_empty()) {
            self.translate(shape, region, |piece| {
                self.copies
                    .iter()
                    .for_each(|c| c.arriving.common(&piece, |_| moving = true));
            });
        }
        moving
    }

    /// Takes or gives back the lease, as [`Entry::is_away`] demands. Called after every change.
    pub(super) fn mind_lease(&mut self, runtime: u64) {
        let Some(Home::Arena(place)) = self.owner.as_ref().map(|o| &o.home) else {
            return;
        };
        match (self.is_away(), self.leased) {
            // The cause of the change has a lease, so no other runtime can have one.
            (true, false) => self.leased = place.chunk.lease(runtime),
            (false, true) => {
                place.chunk.release();
                self.leased = false;
            }
            _ => {}
        }
    }

    /// The value of these elements is now the one in `memory`, and no other.
    fn written(&mut self, memory: MemoryId, region: &Region) {
        for (m, copy) in self.copies.iter_mut().enumerate() {
            if m == usize::from(memory.0) {
                copy.valid.add(region);
            } else {
                copy.valid.remove(region);
            }
        }
    }

    /// Elements that are current nowhere but in `memory`.
    pub(super) fn only_in(&self, memory: MemoryId) -> Vec<Region> {
        let mut rest = self.copies[usize::from(memory.0)].valid.clone();
        for (m, copy) in self.copies.iter().enumerate() {
            if m != usize::from(memory.0) {
                copy.valid.boxes().iter().for_each(|b| rest.remove(b));
            }
        }
        rest.boxes().to_vec()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.leased
            && let Some(Home::Arena(place)) = self.owner.as_ref().map(|o| &o.home)
        {
            place.chunk.release();
        }
    }
}

/// All storages, and how full memories are.
pub(super) struct Directory {
    /// By the keys of [`Instance::keys`].
    pub entries: HashMap<u64, Entry, FastBuild>,
    /// Bytes in use, per memory.
    pub used: Vec<u64>,
    /// Most bytes ever in use, per memory.
    pub peak: Vec<u64>,
    /// Most bytes that may be in use, per memory.
    pub capacity: Vec<u64>,
    /// Which memories are out of use.
    lost: Vec<bool>,
    runtime: u64,
    clock: u64,
    sweep_at: usize,
}

impl Directory {
    /// For memories of these capacities, of a runtime.
    pub(super) fn new(capacity: Vec<u64>, runtime: u64) -> Self {
        let memories = capacity.len();
        Directory {
            entries: HashMap::default(),
            used: vec![0; memories],
            peak: vec![0; memories],
            lost: vec![false; memories],
            capacity,
            runtime,
            clock: 0,
            sweep_at: SWEEP_FROM,
        }
    }

    /// The entry of a storage of a launch, made if it is new: its elements are then in the host.
    pub(super) fn entry(&mut self, instance: &Instance, storage: u32) -> &mut Entry {
        self.sweep();
        let memories = self.used.len();
        let graph = instance.graph();
        self.entries
            .entry(instance.keys[storage as usize])
            .or_insert_with(|| {
                let s = &graph.storages[storage as usize];
                let array = instance.prepared.view_of[storage as usize] as usize;
                let (owner, uses_left) = match s.temporary {
                    None => (Some(s.storage.clone()), 0),
                    Some(_) => (None, instance.prepared.uses[storage as usize] as usize),
                };
                new_entry(
                    &s.storage,
                    instance.placed[array].base,
                    memories,
                    owner,
                    uses_left,
                )
            })
    }

    /// Where a storage is in a memory; `None` for the host, where the storage knows itself.
    pub(super) fn address(&self, key: u64, memory: MemoryId) -> Option<*mut u8> {
        let copy = &self.entries.get(&key)?.copies[usize::from(memory.0)];
        copy.buffer.as_ref().map(|b| b.base())
    }

    /// Whether a memory is out of use.
    pub(super) fn is_lost(&self, memory: MemoryId) -> bool {
        self.lost[usize::from(memory.0)]
    }

    /// A memory is out of use: nothing in it is current any more. Buffers that somebody still uses go
    /// when they are unpinned. False if that was known.
    pub(super) fn lose(&mut self, memory: MemoryId) -> bool {
        let m = usize::from(memory.0);
        if std::mem::replace(&mut self.lost[m], true) {
            return false;
        }
        let keys: Vec<u64> = self.entries.keys().copied().collect();
        for key in keys {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.copies[m].valid = RegionSet::default();
                if entry.copies[m].pins == 0 {
                    self.discard(key, memory);
                }
            }
        }
        true
    }

    /// A region of a storage, seen under `shape`, was written in a memory: it is current there and
    /// nowhere else. If the memory is out of use, nothing has changed.
    pub(super) fn written(&mut self, key: u64, shape: &Shape, region: &Region, memory: MemoryId) {
        if self.is_lost(memory) {
            return;
        }
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if *shape == entry.shape {
            entry.written(memory, region);
        } else {
            let mut pieces = Vec::new();
            entry.translate(shape, region, |p| pieces.push(p));
            pieces.iter().for_each(|p| entry.written(memory, p));
        }
        entry.mind_lease(self.runtime);
    }

    /// Marks a region, seen under `shape`, as being written by a task, or takes the mark back. Those who
    /// write an element take turns, by their dependencies.
    pub(super) fn mark_writing(
        &mut self,
        key: u64,
        shape: &Shape,
        region: &Region,
        is_written: bool,
    ) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let mut writing = std::mem::take(&mut entry.writing);
        entry.translate(shape, region, |p| match is_written {
            true => writing.add(&p),
            false => writing.remove(&p),
        });
        entry.writing = writing;
    }

    /// Keeps a copy in place.
    pub(super) fn pin(&mut self, key: u64, memory: MemoryId) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.copies[usize::from(memory.0)].pins += 1;
        }
    }

    /// Takes back a [`Directory::pin`].
    pub(super) fn unpin(&mut self, key: u64, memory: MemoryId) {
        if let Some(entry) = self.entries.get_mut(&key) {
            let pins = &mut entry.copies[usize::from(memory.0)].pins;
            debug_assert!(*pins > 0, "unpinned more often than pinned");
            *pins -= 1;
            if *pins == 0 && self.is_lost(memory) {
                self.discard(key, memory);
            }
        }
    }

    /// Counts one use of a storage; true if it is a temporary and this was its last.
    pub(super) fn used_once(&mut self, key: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else {
            return false;
        };
        if entry.owner.is_some() {
            return false;
        }
        entry.uses_left = entry.uses_left.saturating_sub(1);
        entry.uses_left == 0
    }

    /// Notes that a copy is needed now, and when next.
    pub(super) fn touch(&mut self, key: u64, memory: MemoryId, need: Need) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            let copy = &mut entry.copies[usize::from(memory.0)];
            (copy.last_use, copy.need) = (self.clock, need);
        }
    }

    /// Gives an entry a buffer that takes so many bytes of a memory.
    pub(super) fn put(&mut self, key: u64, memory: MemoryId, buffer: Arc<dyn Buffer>, bytes: u64) {
        let m = usize::from(memory.0);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.copies[m].buffer = Some(buffer);
            entry.copies[m].held = bytes;
            self.used[m] += bytes;
            self.peak[m] = self.peak[m].max(self.used[m]);
        }
    }

    /// Gives up the copy of an entry in a memory.
    pub(super) fn discard(&mut self, key: u64, memory: MemoryId) {
        let m = usize::from(memory.0);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.copies[m].valid = RegionSet::default();
            if entry.copies[m].buffer.take().is_some() {
                self.used[m] -= entry.copies[m].held;
            }
        }
    }

    /// Forgets a storage.
    pub(super) fn remove(&mut self, key: u64) {
        for m in 0..self.used.len() {
            self.discard(key, MemoryId(m as u16));
        }
        self.entries.remove(&key);
    }

    /// Forgets persistent storages that nobody else knows any more.
    fn sweep(&mut self) {
        if self.entries.len() < self.sweep_at {
            return;
        }
        let dead = |e: &Entry| {
            e.owner.as_ref().is_some_and(|o| Arc::strong_count(o) == 1)
                && e.copies
                    .iter()
                    .all(|c| c.pins == 0 && c.arriving.is_empty())
        };
        let keys: Vec<u64> = self
            .entries
            .iter()
            .filter(|(_, e)| dead(e))
            .map(|(k, _)| *k)
            .collect();
        keys.iter().for_each(|&k| self.remove(k));
        self.sweep_at = (self.entries.len() * 2).max(SWEEP_FROM);
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
        valid: if m == 0 {
            RegionSet::of(Region::whole(&storage.shape))
        } else {
            RegionSet::default()
        },
        arriving: RegionSet::default(),
        pins: 0,
        held: 0,
        last_use: 0,
        need: Need::NONE,
    };
    Entry {
        shape: storage.shape,
        size: storage.dtype.size(),
        host,
        copies: (0..memories).map(copy).collect(),
        writing: RegionSet::default(),
        uses_left,
        owner,
        leased: false,
    }
}
