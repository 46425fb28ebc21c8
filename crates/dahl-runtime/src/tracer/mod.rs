//! Recording traces: a ring of events per unit, written by the unit's worker alone.
//!
//! A worker writes an event of two words and then how many it has written; nobody reads before all
//! launches have ended. Words are atomics stored without ordering, which costs what plain stores cost:
//! what orders them is the end of the launch, which the reader has waited for ([`Instance::account`]
//! releases, [`Instance::has_ended`] acquires). Nothing is allocated while tasks run; when a ring is
//! full, its oldest events go, and the trace says how many did.
//!
//! A task of a microsecond must not pay for being watched, so what can be found out afterwards is not
//! written: who made a task ready is the one of its predecessors that ended last, and only where that
//! was a task of another launch is it noted. And of tasks that follow each other on a unit without a
//! look for work, every eighth is asked when it began; the others began as long after the last one's end
//! as those that were asked ([`GapEstimate`]). Ends are always asked.

mod log;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dahl_core::trace::{MemorySample, Transfer};

use crate::clock::Clock;
#[cfg(doc)]
use crate::instance::Instance;

pub(crate) use log::Log;

/// What an event is, in the highest bits of its first word; the low half is a task's number.
///
/// | kind | first word's middle | second word |
/// |---|---|---|
/// | a task ran | its duration in ticks | its end in ticks |
/// | a task began that runs for long, or in the host's memory | 1 if the latter | its beginning; its end follows as a task that ran |
/// | events from now on are of a launch | | its number |
/// | the last task made another launch's task ready | | that launch's number |
const RAN: u64 = 0;
const BEGAN: u64 = 1;
const LAUNCH: u64 = 2;
const RELEASED: u64 = 3;

/// Bits of a duration.
const LONG: u32 = 30;

/// The launch is said again after so many events: when the oldest are overwritten, few of the others
/// lose theirs.
const AGAIN: u64 = 1 << 10;

/// Tasks in a row of which one is asked when it began.
const ASKED: u32 = 8;

/// When tasks of a worker begin, from few looks at the clock.
#[derive(Default)]
pub(crate) struct GapEstimate {
    /// When the last task ended.
    pub end: u64,
    /// Ticks from the end of a task to the beginning of the next.
    gap: u64,
    /// Tasks until one is asked again; zero after a look for work.
    left: u32,
}

impl GapEstimate {
    /// The worker looked for work: the next task is asked.
    pub(crate) fn pause(&mut self) {
        self.left = 0;
    }

    /// When the task that follows begins.
    #[inline]
    pub(crate) fn start(&mut self, clock: &Clock) -> u64 {
        if self.left > 1 {
            self.left -= 1;
            return self.end + self.gap;
        }
        let now = clock.ticks();
        if self.left == 1 {
            // An interruption in between is no steady gap.
            self.gap = (3 * self.gap + now.saturating_sub(self.end).min(4 * self.gap + 64)) / 4;
        }
        self.left = ASKED;
        now
    }
}

/// The times of one execution, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// When the unit turned to the task.
    pub taken: u64,
    /// When the body began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

struct Ring {
    slots: Box<[[AtomicU64; 2]]>,
    /// When units turned to tasks, where that is not when they began: operands are brought.
    taken: Box<[AtomicU64]>,
    /// How many were written, as of the worker's last [`TraceWriter::settle`].
    written: AtomicU64,
}

/// Events of a cache line, and how far ahead lines are sent for.
const LINE: usize = 4;
const AHEAD: usize = 8 * LINE;

/// What a worker writes with: its ring, and what it needs at hand to write without looking around.
pub(crate) struct TraceWriter {
    pub clock: Clock,
    ring: Arc<Ring>,
    mask: usize,
    written: u64,
    /// The launch that events are of.
    launch: u64,
    /// Events before the launch is said again.
    again: u64,
}

impl TraceWriter {
    #[inline]
    fn push(&mut self, kind: u64, middle: u64, task: u32, second: u64) -> usize {
        let place = self.written as usize & self.mask;
        if place.is_multiple_of(LINE) {
            // A worker that accounts for its tasks waits for its stores: let none of them miss.
            fetch(&self.ring.slots[(place + AHEAD) & self.mask]);
        }
        let [a, b] = &self.ring.slots[place];
        a.store(
            kind << 62 | middle << 32 | u64::from(task),
            Ordering::Relaxed,
        );
        b.store(second, Ordering::Relaxed);
        self.written += 1;
        place
    }

    /// Records that a task ran.
    #[inline]
    pub(crate) fn task(&mut self, launch: u64, task: u32, times: Times, fell_back: bool) {
        if launch != self.launch || self.written >= self.again {
            self.push(LAUNCH, 0, 0, launch);
            (self.launch, self.again) = (launch, self.written + AGAIN);
        }
        let mut duration = times.end.saturating_sub(times.start);
        if duration >= 1 << LONG || fell_back {
            self.push(BEGAN, fell_back.into(), task, times.start);
            duration = 0;
        }
        let place = self.push(RAN, duration, task, times.end);
        if let Some(taken) = self.ring.taken.get(place) {
            taken.store(times.taken, Ordering::Relaxed);
        }
    }

    /// Records that the last task recorded made one of another launch ready.
    pub(crate) fn release(&mut self, launch: u64, task: u32) {
        self.push(RELEASED, 0, task, launch);
    }

    /// Lets readers know how much there is; before the tasks are accounted for.
    pub(crate) fn settle(&self) {
        self.ring.written.store(self.written, Ordering::Relaxed);
    }
}

/// Sends for a line that will be written soon.
#[inline]
fn fetch(slot: &[AtomicU64; 2]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address; nothing is read or written.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(slot.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slot;
}

/// What is recorded beside tasks, by threads that hold a lock anyway.
#[derive(Default)]
pub(crate) struct Notes {
    transfers: VecDeque<Transfer>,
    memory: VecDeque<MemorySample>,
    dropped: u64,
}

/// Most transfers and memory samples kept.
const NOTES: usize = 1 << 18;

impl Notes {
    /// Notes a copy; its times are ticks.
    pub(crate) fn transfer(&mut self, transfer: Transfer) {
        if self.transfers.len() == NOTES {
            self.transfers.pop_front();
            self.dropped += 1;
        }
        self.transfers.push_back(transfer);
    }

    /// Notes how full a memory is; its time is in ticks.
    pub(crate) fn memory(&mut self, sample: MemorySample) {
        if self.memory.len() == NOTES {
            self.memory.pop_front();
        }
        self.memory.push_back(sample);
    }
}

/// The part of a recording that is shared.
pub(crate) struct Tracer {
    pub clock: Clock,
    /// By unit.
    rings: Box<[Arc<Ring>]>,
    /// Of the thread that communicates with other nodes, if there is one.
    network: Option<Arc<Ring>>,
}

impl Tracer {
    /// For so many units, each with room for so many events, and a network if there is one. `brings` says whether
    /// operands may have to be brought before a task begins.
    pub(crate) fn new(units: usize, events: usize, brings: bool, network: bool) -> Self {
        // A power of two: places in the ring are found without dividing.
        let events = events.max(LINE).next_power_of_two();
        let ring = |brings: bool| {
            Arc::new(Ring {
                slots: (0..events).map(|_| Default::default()).collect(),
                taken: (0..if brings { events } else { 0 })
                    .map(|_| Default::default())
                    .collect(),
                written: AtomicU64::new(0),
            })
        };
        Tracer {
            clock: Clock::new(),
            rings: (0..units).map(|_| ring(brings)).collect(),
            network: network.then(|| ring(false)),
        }
    }

    /// What the worker of a unit writes with, or the thread that communicates: each ring has one writer.
    pub(crate) fn writer(&self, unit: Option<usize>) -> Option<TraceWriter> {
        let ring = match unit {
            Some(unit) => Some(&self.rings[unit]),
            None => self.network.as_ref(),
        };
        let ring = ring?.clone();
        Some(TraceWriter {
            clock: self.clock,
            mask: ring.slots.len() - 1,
            written: 0,
            launch: 0,
            again: 0,
            ring,
        })
    }
}
