//! Memories: copies of arrays in more than one place, and the transfers between them.
//!
//! Before a task runs, its operands are *held* in its unit's memory: room is found for all of them at
//! once (others are evicted if it is short), the copies are pinned, and what is missing is copied from
//! where it is current. When the task has ended, what it wrote is current there and nowhere else.
//!
//! All bookkeeping is behind one lock; no bytes are copied while it is held. Elements on their way are
//! marked as *arriving*: nobody fetches them twice, and nobody writes them before they have arrived.
//! The rest follows from the dependencies between tasks: nothing is written while a task reads it, a
//! transfer for a task ends before the task does, and a prefetch that has not begun is dropped when
//! its task asks for its operands itself.
//!
//! Nobody waits for room while holding any, so tasks cannot wait for each other in a circle.
//!
//! While elements of a persistent array are current only on a device, its chunk stays leased: another
//! runtime would see old values in the host, and an arena must not reuse the bytes they will be
//! written back to.
//!
//! A machine with host memory only has none of this, and pays nothing for it.

mod backing;
mod directory;
mod prefetch;
mod room;
mod transfer;

pub use backing::{Backing, Buffer, Direction, HostDevice};

use std::sync::Arc;

use dahl_core::access::Access;
use dahl_core::operands::Placed;
use dahl_core::trace::MemorySample;
use dahl_core::{Bytes, Handle, MemoryId, Region, Seconds};
use dahl_sched::policy::TaskRef;

use crate::error::RunError;
use crate::instance::Instance;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock};
use crate::tracer::{Notes, Tracer};
use directory::Directory;
use prefetch::Request;
use transfer::Why;

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
    /// The runtime, as chunks know it.
    runtime: u64,
    devices: Vec<Device>,
    state: Mutex<State>,
    changed: Condvar,
    counters: Counters,
    tracer: Option<Arc<Tracer>>,
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
    /// What is recorded for a trace.
    notes: Notes,
    /// Bytes in use when they were last noted, by memory.
    noted: Vec<u64>,
}

impl Memories {
    /// For these devices of a runtime; device `i` is memory `i + 1`.
    pub(crate) fn new(devices: Vec<Device>, runtime: u64, tracer: Option<Arc<Tracer>>) -> Self {
        let state = State {
            directory: Directory::new(devices.len() + 1, runtime),
            requests: std::collections::VecDeque::new(),
            stopping: false,
            serving: Vec::new(),
            spare: Vec::new(),
            notes: Notes::default(),
            noted: Vec::new(),
        };
        Memories {
            runtime,
            devices,
            state: Mutex::new(state),
            changed: Condvar::new(),
            counters: Counters::default(),
            tracer,
        }
    }

    fn device(&self, memory: MemoryId) -> Option<&Device> {
        usize::from(memory.0)
            .checked_sub(1)
            .map(|i| &self.devices[i])
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
        (
            Bytes(state.directory.used[m]),
            Bytes(state.directory.peak[m]),
        )
    }

    /// How long it would take to bring a task's missing operands to a memory.
    pub fn transfer_time(&self, instance: &Instance, task: u32, memory: MemoryId) -> Seconds {
        let state = lock(&self.state);
        let graph = instance.graph();
        let mut seconds = 0.0;
        let mut add = |memory: MemoryId, way: Direction, elements: usize, size: usize| {
            if elements > 0
                && let Some(device) = self.device(memory)
            {
                seconds += device
                    .backing
                    .duration(Bytes((elements * size) as u64), way)
                    .0;
            }
        };
        for access in instance
            .accesses(task)
            .iter()
            .filter(|a| a.mode.reads() && a.fresh.is_none())
        {
            let array = &graph.arrays[access.array as usize];
            let size = graph.storages[array.storage as usize].storage.dtype.size();
            let Some(entry) = state
                .directory
                .entries
                .get(&instance.keys[array.storage as usize])
            else {
                add(memory, Direction::In, access.region.len(), size);
                continue;
            };
            let (mut missing, mut away) = (0, vec![0; entry.copies.len()]);
            entry.translate(&array.shape, &access.region, |piece| {
                entry.copies[usize::from(memory.0)]
                    .valid
                    .missing(&piece, |p| {
                        missing += p.len();
                        entry.copies[0].valid.missing(&p, |p| {
                            // From the first device that has some of it, as a fetch would.
                            for (copy, away) in entry.copies.iter().zip(&mut away).skip(1) {
                                let before = *away;
                                copy.valid.common(&p, |p| *away += p.len());
                                if *away > before {
                                    break;
                                }
                            }
                        });
                    });
            });
            add(memory, Direction::In, missing, size);
            for (m, &elements) in away.iter().enumerate() {
                add(MemoryId(m as u16), Direction::Out, elements, size);
            }
        }
        Seconds(seconds)
    }

    /// Brings a task's operands to a memory and keeps them there.
    pub fn acquire(
        &self,
        instance: &Instance,
        task: u32,
        memory: MemoryId,
    ) -> Result<Hold<'_>, RunError> {
        let mut state = self.drop_request(lock(&self.state), instance.task(task));
        let (mut accesses, mut placed, mut keys) = state.spare.pop().unwrap_or_default();
        let graph = instance.graph();
        for (i, access) in instance.accesses(task).iter().enumerate() {
            let array = &graph.arrays[access.array as usize];
            state.directory.entry(instance, array.storage);
            keys.push(instance.keys[array.storage as usize]);
            accesses.push(Access {
                array: i as u32,
                ..*access
            });
            placed.push(Placed {
                shape: array.shape,
                ..instance.placed[access.array as usize]
            });
        }
        let (guard, room) = self.reserve(state, &keys, memory);
        state = guard;
        if let Err(none) = room {
            state
                .spare
                .push((accesses.cleared(), placed.cleared(), keys.cleared()));
            return Err(none.explain(graph.describe(task), self, memory));
        }
        self.note_usage(&mut state);
        let why = Why::task(instance, task, false);
        for ((access, place), &key) in accesses.iter().zip(&mut placed).zip(&keys) {
            let reads = access.mode.reads() && access.fresh.is_none();
            if reads {
                state = self
                    .fetch(state, key, &place.shape, &access.region, memory, why)
                    .0;
            }
            if access.mode.writes() {
                state = self.claim(state, key, &place.shape, &access.region, memory, !reads);
            }
            if let Some(base) = state.directory.address(key, memory) {
                place.base = base;
            }
        }
        drop(state);
        Ok(Hold {
            memories: self,
            memory,
            accesses,
            placed,
            keys,
        })
    }

    /// Brings an array to the host, to be read there.
    pub fn to_host(&self, handle: &Handle) {
        let state = lock(&self.state);
        let _ = self.fetch(
            state,
            handle.storage.id,
            &handle.whole,
            &handle.region,
            MemoryId::HOST,
            Why::NO_TASK,
        );
    }

    /// Brings everything that is current only on a device back to the host: nobody will afterwards.
    pub fn flush(&self) {
        let mut state = lock(&self.state);
        let entries = state.directory.entries.iter();
        let away = |e: &directory::Entry| e.owner.is_some() && e.is_away();
        let dirty: Vec<_> = entries
            .filter(|(_, e)| away(e))
            .map(|(k, e)| (*k, e.shape))
            .collect();
        for (key, shape) in dirty {
            state = self
                .fetch(
                    state,
                    key,
                    &shape,
                    &Region::whole(&shape),
                    MemoryId::HOST,
                    Why::NO_TASK,
                )
                .0;
        }
    }

    /// The host has written an array.
    pub fn host_wrote(&self, handle: &Handle) {
        let mut state = lock(&self.state);
        state.directory.written(
            handle.storage.id,
            &handle.whole,
            &handle.region,
            MemoryId::HOST,
        );
    }

    /// Ticks of the recording, if there is one.
    fn ticks(&self) -> u64 {
        self.tracer.as_ref().map_or(0, |t| t.clock.ticks())
    }

    /// Records how full each memory is, where that has changed and anybody wants to know.
    fn note_usage(&self, state: &mut StateGuard<'_>) {
        if self.tracer.is_none() {
            return;
        }
        let (at, state) = (self.ticks(), &mut **state);
        state.noted.resize(state.directory.used.len(), 0);
        for (m, noted) in state.noted.iter_mut().enumerate().skip(1) {
            let bytes = state.directory.used[m];
            if bytes != *noted {
                *noted = bytes;
                let memory = m as u16;
                state.notes.memory(MemorySample { at, memory, bytes });
            }
        }
    }

    /// What has been recorded since the last call.
    pub(crate) fn take_notes(&self) -> Notes {
        std::mem::take(&mut lock(&self.state).notes)
    }

    fn wait<'s>(&self, state: StateGuard<'s>) -> StateGuard<'s> {
        self.changed
            .wait(state)
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Forgets all temporaries, after launches that were stopped half-way. Nothing may be in flight.
    pub fn forget_temporaries(&self) {
        let mut state = lock(&self.state);
        let entries = &state.directory.entries;
        let keys: Vec<u64> = entries
            .iter()
            .filter(|(_, e)| e.owner.is_none())
            .map(|(k, _)| *k)
            .collect();
        keys.iter().for_each(|&k| state.directory.remove(k));
    }

    /// Forgets a temporary that no task will use again. Its bytes in the host may be another's from now
    /// on, so whoever still writes it back must have finished first.
    fn bury<'s>(&self, mut state: StateGuard<'s>, key: u64) -> StateGuard<'s> {
        let in_use = |e: &directory::Entry| {
            e.copies
                .iter()
                .any(|c| c.pins > 0 || !c.arriving.is_empty())
        };
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

/// A vector emptied, its memory kept.
trait Cleared {
    fn cleared(self) -> Self;
}

impl<T> Cleared for Vec<T> {
    fn cleared(mut self) -> Self {
        self.clear();
        self
    }
}

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
            state.directory.unpin(key, self.memory);
            if succeeded && access.mode.writes() {
                state
                    .directory
                    .written(key, &placed.shape, &access.region, self.memory);
            }
            if state.directory.used_once(key) {
                state = self.memories.bury(state, key);
            }
        }
        let buffers = (
            std::mem::take(&mut self.accesses).cleared(),
            std::mem::take(&mut self.placed).cleared(),
            std::mem::take(&mut self.keys).cleared(),
        );
        state.spare.push(buffers);
        self.memories.note_usage(&mut state);
        drop(state);
        self.memories.changed.notify_all();
    }
}
