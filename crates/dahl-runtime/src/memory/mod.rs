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
//! its task asks for its operands itself. What travels besides, for tasks to come, has an argument of
//! its own (`join`), and so has what a plan decided on (`planned`).
//!
//! Nobody waits for room while holding any, so tasks cannot wait for each other in a circle.
//!
//! While elements of a persistent array are current only on a device, its chunk stays leased: another
//! runtime would see old values in the host, and an arena must not reuse the bytes they will be
//! written back to.
//!
//! What goes when room is short is decided by the order of the tasks to come (`needs`, `victims`,
//! `outlook`). A device that fails is taken out (`loss`).
//!
//! A machine with host memory only has none of this, and pays nothing for it.

mod ahead;
mod backing;
mod batch;
mod carry;
mod directory;
mod hold;
mod join;
mod loss;
pub(crate) mod needs;
mod outlook;
mod planned;
mod prefetch;
pub(crate) mod readers;
mod room;
mod transfer;
mod victims;

pub use backing::{Backing, Broken, Buffer, Cargo, DeviceLost, Direction, HostDevice};
pub use hold::Hold;

use std::sync::{Arc, OnceLock};

use dahl_core::access::Access;
use dahl_core::operands::Placed;
use dahl_core::trace::MemorySample;
use dahl_core::{Bytes, Handle, MemoryId, Seconds};
use dahl_sched::policy::TaskRef;

use crate::error::RunError;
use crate::instance::Instance;
use crate::sleep::Sleep;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock};
use crate::tracer::{Notes, Tracer};
use directory::Directory;
use planned::Following;
use prefetch::Request;

/// A memory other than the host's.
pub struct Device {
    /// Its name.
    pub name: String,
    /// Most bytes of copies it may hold.
    pub capacity: Bytes,
    /// Where they are kept.
    pub backing: Box<dyn Backing>,
    /// Why it is out of use, once it is.
    lost: OnceLock<String>,
    /// Bytes that it would have to hold for tasks that found no room; zero if none did.
    needed: AtomicU64,
    /// The most scratch memory that a task asked for and did not get.
    scratch: AtomicU64,
    /// The largest copy for which it had no piece, though as many bytes were free.
    refused: AtomicU64,
}

impl Device {
    /// A memory of this capacity.
    pub(crate) fn new(name: String, capacity: Bytes, backing: Box<dyn Backing>) -> Self {
        Device {
            name,
            capacity,
            backing,
            lost: OnceLock::new(),
            needed: AtomicU64::new(0),
            scratch: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

/// Who hears that a device is taken out: its name, and why. Called by whichever thread finds out, under a
/// lock: it must not use the runtime.
pub type OnLoss = Box<dyn Fn(&str, &str) + Send + Sync>;

/// Who hears, once for each device, that tasks find no room there and run in the host's memory: its name,
/// what it would have to hold, and what it holds. Called as [`OnLoss`].
pub type OnNoRoom = Box<dyn Fn(&str, Bytes, Bytes) + Send + Sync>;

/// Why a task did not run in a memory.
pub enum Refusal {
    /// The memory has no room for it, or is out of use. It can run in the host's.
    Elsewhere(RunError),
    /// The task cannot run anywhere: it failed, or some operands are nowhere any more.
    Failed(RunError),
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
    /// Number of copies, each of one array.
    pub copies: u64,
    /// Times that a link was started for them: copies that travel together share one.
    pub batches: u64,
    /// Copies given up to make room.
    pub evictions: u64,
    /// Tasks that ran in the host's memory because their device had no room for them, or had failed.
    pub elsewhere: u64,
    /// Bytes that a device would have to hold for its tasks to find room there; zero if all did.
    pub needed: u64,
}

#[derive(Default)]
struct Counters {
    bytes: [AtomicU64; 2],
    prefetched: AtomicU64,
    copies: AtomicU64,
    batches: AtomicU64,
    evictions: AtomicU64,
    elsewhere: AtomicU64,
}

/// All memories of a machine that has more than the host's.
pub struct Memories {
    /// The runtime, as chunks know it.
    runtime: u64,
    devices: Vec<Device>,
    state: Mutex<State>,
    /// Something that somebody may wait for has changed.
    changed: Condvar,
    /// There is something to prefetch: for the copying threads, which every other change would wake in
    /// vain.
    requested: Condvar,
    counters: Counters,
    tracer: Option<Arc<Tracer>>,
    on_loss: Option<OnLoss>,
    on_no_room: Option<OnNoRoom>,
    sleep: Option<Arc<Sleep>>,
}

type StateGuard<'s> = crate::sync::MutexGuard<'s, State>;

struct State {
    directory: Directory,
    requests: std::collections::VecDeque<Request>,
    stopping: bool,
    /// Tasks whose operands are being fetched ahead.
    serving: Vec<TaskRef>,
    /// Transfers that were planned, once a graph is launched of which they are.
    following: Option<Following>,
    /// The storage of which the host writes some elements by a guard; there is one such guard at most.
    guarded: Option<u64>,
    /// Buffers of holds that have been released, to be used again.
    spare: Vec<(Vec<Access>, Vec<Placed>, Vec<u64>)>,
    /// What is recorded for a trace.
    notes: Notes,
    /// Bytes in use when they were last noted, by memory.
    noted: Vec<u64>,
}

impl Memories {
    /// For these devices of a runtime; device `i` is memory `i + 1`.
    pub(crate) fn new(
        devices: Vec<Device>,
        runtime: u64,
        tracer: Option<Arc<Tracer>>,
        on_loss: Option<OnLoss>,
    ) -> Self {
        let capacity = devices.iter().map(|d| d.capacity.0);
        let capacity = std::iter::once(u64::MAX).chain(capacity).collect();
        let state = State {
            directory: Directory::new(capacity, runtime),
            requests: std::collections::VecDeque::new(),
            stopping: false,
            serving: Vec::new(),
            following: None,
            guarded: None,
            spare: Vec::new(),
            notes: Notes::default(),
            noted: Vec::new(),
        };
        Memories {
            runtime,
            devices,
            state: Mutex::new(state),
            changed: Condvar::new(),
            requested: Condvar::new(),
            counters: Counters::default(),
            tracer,
            on_loss,
            on_no_room: None,
            sleep: None,
        }
    }

    /// Says when tasks find no room.
    pub(crate) fn saying(mut self, on_no_room: Option<OnNoRoom>) -> Self {
        self.on_no_room = on_no_room;
        self
    }

    /// Wakes these threads when a device is lost.
    pub(crate) fn waking(mut self, sleep: Arc<Sleep>) -> Self {
        self.sleep = Some(sleep);
        self
    }

    fn device(&self, memory: MemoryId) -> Option<&Device> {
        usize::from(memory.0)
            .checked_sub(1)
            .map(|i| &self.devices[i])
    }

    /// What has been moved so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let c = &self.counters;
        let needed = self
            .devices
            .iter()
            .map(|d| d.needed.load(Ordering::Relaxed));
        Traffic {
            bytes_in: c.bytes[0].load(Ordering::Relaxed),
            bytes_out: c.bytes[1].load(Ordering::Relaxed),
            bytes_prefetched: c.prefetched.load(Ordering::Relaxed),
            copies: c.copies.load(Ordering::Relaxed),
            batches: c.batches.load(Ordering::Relaxed),
            evictions: c.evictions.load(Ordering::Relaxed),
            elsewhere: c.elsewhere.load(Ordering::Relaxed),
            needed: needed.max().unwrap_or(0),
        }
    }

    /// Bytes of copies in a memory: now, and at most so far.
    pub(crate) fn usage(&self, memory: MemoryId) -> (Bytes, Bytes) {
        let state = lock(&self.state);
        let m = usize::from(memory.0);
        (
            Bytes(state.directory.used[m]),
            Bytes(state.directory.peak[m]),
        )
    }

    /// How long it would take to bring a task's missing operands to a memory.
    pub(crate) fn transfer_time(
        &self,
        instance: &Instance,
        task: u32,
        memory: MemoryId,
    ) -> Seconds {
        let state = lock(&self.state);
        let graph = instance.graph();
        let mut sum = batch::Estimate::default();
        let mut add = |memory: MemoryId, way: Direction, elements: usize, size: usize| {
            if elements > 0
                && let Some(device) = self.device(memory)
            {
                sum.add(memory, &*device.backing, (elements * size) as u64, way);
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
        sum.seconds()
    }

    /// The host has written an array, by a guard that is gone.
    pub(crate) fn host_wrote(&self, handle: &Handle) {
        let mut state = lock(&self.state);
        state.guarded = None;
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

    /// Launches with planned transfers that are still to go, for people.
    pub(crate) fn backlog(&self) -> Vec<String> {
        let state = lock(&self.state);
        state.following.as_ref().map_or(Vec::new(), |f| f.backlog())
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
    pub(crate) fn forget_temporaries(&self) {
        let mut state = lock(&self.state);
        if let Some(following) = &mut state.following {
            following.clear();
        }
        let entries = &state.directory.entries;
        let keys: Vec<u64> = entries
            .iter()
            .filter(|(_, e)| e.owner.is_none())
            .map(|(k, _)| *k)
            .collect();
        keys.iter().for_each(|&k| state.directory.remove(k));
    }

    /// Forgets a temporary that no task will use again. Its bytes in the host may be another's from now
    /// on, so a thread that still writes it back must have finished first.
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
}
