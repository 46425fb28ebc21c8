//! Memories: copies of arrays in more than one place, and the transfers between them.
//!
//! Before a task runs, its operands are *held* in its unit's memory: room is found (others are evicted
//! if it is short), what is missing is copied from where it is current, and the copies are pinned.
//! When the task has ended, what it wrote is current there and nowhere else.
//!
//! All bookkeeping is behind one lock; no bytes are copied while it is held. Elements on their way are
//! marked as *arriving*, so that nobody fetches them twice: others wait for them. Dependencies between
//! tasks already guarantee that nothing is written while it is read, copied or prefetched: a transfer
//! for a task ends before the task does, and a prefetch that has not begun is dropped when its task
//! asks for its operands itself.
//!
//! A machine with host memory only has none of this, and pays nothing for it.

mod backing;
mod directory;
mod transfer;

pub use backing::{Backing, Buffer, Direction, HostDevice};

use dahl_core::access::Access;
use dahl_core::operands::Placed;
use dahl_core::{Bytes, Handle, MemoryId, Region, Seconds};

use crate::error::RunError;
use crate::instance::Instance;
use dahl_sched::policy::TaskRef;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock};
use directory::Directory;
use transfer::Request;

/// A memory other than the host's.
pub struct Device {
    /// Its name.
    pub name: String,
    /// Most bytes of copies it may hold.
    pub capacity: Bytes,
    /// Where they are kept.
    pub backing: Box<dyn Backing>,
}

/// What has been moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from the host to devices.
    pub bytes_in: u64,
    /// Bytes from devices to the host.
    pub bytes_out: u64,
    /// Of the bytes in, those that were fetched before their task asked for them.
    pub bytes_prefetched: u64,
    /// Number of copies.
    pub copies: u64,
    /// Copies given up to make room.
    pub evictions: u64,
}

#[derive(Default)]
struct Counters {
    bytes: [AtomicU64; 2],
    prefetched: AtomicU64,
    copies: AtomicU64,
    evictions: AtomicU64,
}

/// All memories of a machine that has more than the host's.
pub struct Memories {
    devices: Vec<Device>,
    state: Mutex<State>,
    changed: Condvar,
    counters: Counters,
}

type StateGuard<'s> = crate::sync::MutexGuard<'s, State>;

struct State {
    directory: Directory,
    requests: std::collections::VecDeque<Request>,
    stopping: bool,
    /// Tasks whose operands are being fetched ahead.
    serving: Vec<TaskRef>,
    /// Buffers of holds that have been released, to be used again.
    spare: Vec<(Vec<Access>, Vec<Placed>, Vec<u64>)>,
}

impl Memories {
    /// For these devices; device `i` is memory `i + 1`.
    pub fn new(devices: Vec<Device>) -> Self {
        let state = State {
            directory: Directory::new(devices.len() + 1),
            requests: std::collections::VecDeque::new(),
            stopping: false,
            serving: Vec::new(),
            spare: Vec::new(),
        };
        Memories {
            devices,
            state: Mutex::new(state),
            changed: Condvar::new(),
            counters: Counters::default(),
        }
    }

    fn device(&self, memory: MemoryId) -> Option<&Device> {
        usize::from(memory.0).checked_sub(1).map(|i| &self.devices[i])
    }

    /// What has been moved so far.
    pub fn traffic(&self) -> Traffic {
        let c = &self.counters;
        Traffic {
            bytes_in: c.bytes[0].load(Ordering::Relaxed),
            bytes_out: c.bytes[1].load(Ordering::Relaxed),
            bytes_prefetched: c.prefetched.load(Ordering::Relaxed),
            copies: c.copies.load(Ordering::Relaxed),
            evictions: c.evictions.load(Ordering::Relaxed),
        }
    }

    /// Bytes of copies in a memory: now, and at most so far.
    pub fn usage(&self, memory: MemoryId) -> (Bytes, Bytes) {
        let state = lock(&self.state);
        let m = usize::from(memory.0);
        (Bytes(state.directory.used[m]), Bytes(state.directory.peak[m]))
    }

    /// How long it would take to bring a task's missing operands to a memory.
    pub fn transfer_time(&self, instance: &Instance, task: u32, memory: MemoryId) -> Seconds {
        let mut state = lock(&self.state);
        let mut seconds = 0.0;
        for access in instance.accesses(task).iter().filter(|a| a.mode.reads() && !a.zeroed) {
            let array = &instance.graph().arrays[access.array as usize];
            let Some(entry) = state.directory.entries.get_mut(&instance.keys[array.storage as usize]) else {
                if let Some(device) = self.device(memory) {
                    let bytes = access.region.len() * instance.graph().storages[array.storage as usize].storage.dtype.size();
                    seconds += device.backing.duration(Bytes(bytes as u64), Direction::In).0;
                }
                continue;
            };
            let mut missing = 0;
            entry.translate(&array.shape, &access.region, |piece| {
                entry.copies[usize::from(memory.0)].valid.missing(&piece, |p| missing += p.len());
            });
            if missing > 0 {
                let bytes = Bytes((missing * entry.size) as u64);
                let (device, way) = match self.device(memory) {
                    Some(device) => (device, Direction::In),
                    None => (&self.devices[0], Direction::Out),
                };
                seconds += device.backing.duration(bytes, way).0;
            }
        }
        Seconds(seconds)
    }

    /// Brings a task's operands to a memory and keeps them there.
    pub fn acquire(&self, instance: &Instance, task: u32, memory: MemoryId) -> Result<Hold<'_>, RunError> {
        let me = instance.task(task);
        let mut state = lock(&self.state);
        state.requests.retain(|r| r.task != me);
        while state.serving.contains(&me) {
            state = self.wait(state);
        }
        let (mut accesses, mut placed, mut keys) = state.spare.pop().unwrap_or_default();
        drop(state);
        let graph = instance.graph();
        let mut failed = None;
        for (i, access) in instance.accesses(task).iter().enumerate() {
            let array = &graph.arrays[access.array as usize];
            let key = instance.keys[array.storage as usize];
            let fetch = access.mode.reads() && !access.zeroed;
            lock(&self.state).directory.entry(instance, array.storage);
            match self.hold(key, &array.shape, &access.region, fetch, memory) {
                Ok(base) => {
                    let dtype = instance.placed[access.array as usize].dtype;
                    let base = base.unwrap_or(instance.placed[access.array as usize].base);
                    placed.push(Placed { base, shape: array.shape, dtype });
                    accesses.push(Access { array: i as u32, ..*access });
                    keys.push(key);
                }
                Err(NoRoom) => {
                    failed = Some(self.too_small(instance, task, memory));
                    break;
                }
            }
        }
        let hold = Hold { memories: self, memory, accesses, placed, keys };
        match failed {
            None => Ok(hold),
            Some(error) => {
                hold.release(false);
                Err(error)
            }
        }
    }

    fn too_small(&self, instance: &Instance, task: u32, memory: MemoryId) -> RunError {
        let graph = instance.graph();
        let mut storages: Vec<u32> =
            instance.accesses(task).iter().map(|a| graph.arrays[a.array as usize].storage).collect();
        storages.sort_unstable();
        storages.dedup();
        let need = storages.iter().map(|&s| graph.storages[s as usize].storage.bytes() as u64).sum();
        let device = self.device(memory).expect("the host has room for what it holds");
        RunError::TooSmall {
            task: graph.describe(task),
            need: Bytes(need),
            memory: device.name.clone(),
            capacity: device.capacity,
        }
    }

    /// Brings an array to the host, to be read there.
    pub fn to_host(&self, handle: &Handle) {
        let known = lock(&self.state).directory.entry_of(handle).is_some();
        if known {
            let key = handle.storage.id;
            let held = self.hold(key, &handle.whole, &handle.region, true, MemoryId::HOST);
            if held.is_ok() {
                self.unpin(key, MemoryId::HOST);
            }
        }
    }

    /// The host has written an array.
    pub fn host_wrote(&self, handle: &Handle) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.directory.entry_of(handle) {
            let mut pieces = Vec::new();
            entry.translate(&handle.whole, &handle.region, |p| pieces.push(p));
            pieces.iter().for_each(|p| entry.written(MemoryId::HOST, p));
        }
    }

    fn wait<'s>(&self, state: StateGuard<'s>) -> StateGuard<'s> {
        self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Forgets all temporaries, after launches that were stopped half-way. Nothing may be in flight.
    pub fn forget_temporaries(&self) {
        let mut state = lock(&self.state);
        let entries = &state.directory.entries;
        let keys: Vec<u64> = entries.iter().filter(|(_, e)| e.owner.is_none()).map(|(k, _)| *k).collect();
        keys.iter().for_each(|&k| state.directory.remove(k));
    }

    fn unpin(&self, key: u64, memory: MemoryId) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.directory.entries.get_mut(&key) {
            entry.copies[usize::from(memory.0)].pins -= 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Forgets a temporary that no task will use again. Its bytes in the host may be another's from now
    /// on, so whoever still writes it back must have finished first.
    fn bury<'s>(&self, mut state: StateGuard<'s>, key: u64) -> StateGuard<'s> {
        let in_use = |e: &directory::Entry| e.copies.iter().any(|c| c.pins > 0 || !c.arriving.is_empty());
        while state.directory.entries.get(&key).is_some_and(in_use) {
            state = self.wait(state);
        }
        state.directory.remove(key);
        state
    }

    fn count(&self, bytes: usize, way: Direction) {
        self.counters.bytes[way as usize].fetch_add(bytes as u64, Ordering::Relaxed);
        self.counters.copies.fetch_add(1, Ordering::Relaxed);
    }
}

/// There is no room, and nothing to evict.
pub(crate) struct NoRoom;

/// The operands of a task, kept in a memory until released.
pub struct Hold<'a> {
    memories: &'a Memories,
    memory: MemoryId,
    accesses: Vec<Access>,
    placed: Vec<Placed>,
    keys: Vec<u64>,
}

impl Hold<'_> {
    /// Where the operands are.
    pub fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// The task's accesses, referring to [`Hold::placed`].
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Lets go of the operands. If the task succeeded, what it wrote is current here now.
    pub fn release(mut self, succeeded: bool) {
        let mut state = lock(&self.memories.state);
        for ((access, placed), &key) in self.accesses.iter().zip(&self.placed).zip(&self.keys) {
            let Some(entry) = state.directory.entries.get_mut(&key) else { continue };
            entry.copies[usize::from(self.memory.0)].pins -= 1;
            if succeeded && access.mode.writes() {
                let mut pieces: Vec<Region> = Vec::new();
                entry.translate(&placed.shape, &access.region, |p| pieces.push(p));
                pieces.iter().for_each(|p| entry.written(self.memory, p));
            }
            if entry.owner.is_none() {
                entry.uses_left = entry.uses_left.saturating_sub(1);
                if entry.uses_left == 0 {
                    state = self.memories.bury(state, key);
                }
            }
        }
        self.accesses.clear();
        self.placed.clear();
        self.keys.clear();
        let buffers = (
            std::mem::take(&mut self.accesses),
            std::mem::take(&mut self.placed),
            std::mem::take(&mut self.keys),
        );
        state.spare.push(buffers);
        drop(state);
        self.memories.changed.notify_all();
    }
}
