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

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dahl_core::trace::{
    Launch, MemorySample, NOBODY, Nanos, TaskId, TaskRun, Trace, TraceGraph, Transfer,
};
use dahl_core::{DeviceKernels, Graph, Machine};

use crate::clock::Clock;
#[cfg(doc)]
use crate::instance::Instance;

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

/// What a launch was, for reading the events.
struct Launched {
    serial: u64,
    graph: u64,
    at: u64,
}

/// Most launches kept; the oldest go.
const LAUNCHES: usize = 1 << 18;

/// Most graphs kept, for programs that make them as they go.
const GRAPHS: usize = 1 << 12;

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
    rings: Box<[Arc<Ring>]>,
}

impl Tracer {
    /// For so many units, each with room for so many events. `brings` says whether operands may have to
    /// be brought before a task begins.
    pub(crate) fn new(units: usize, events: usize, brings: bool) -> Self {
        // A power of two: places in the ring are found without dividing.
        let events = events.max(LINE).next_power_of_two();
        let ring = |_| {
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
            rings: (0..units).map(ring).collect(),
        }
    }

    /// What the worker of a unit writes with; each unit has one worker.
    pub(crate) fn writer(&self, unit: usize) -> TraceWriter {
        let ring = self.rings[unit].clone();
        TraceWriter {
            clock: self.clock,
            mask: ring.slots.len() - 1,
            written: 0,
            launch: 0,
            again: 0,
            ring,
        }
    }
}

/// The part of a recording that the thread owns which launches.
pub(crate) struct Log {
    launches: VecDeque<Launched>,
    graphs: VecDeque<Arc<Graph>>,
    /// How far each ring has been read.
    read: Vec<u64>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Log {
            launches: VecDeque::with_capacity(LAUNCHES),
            graphs: VecDeque::new(),
            read: Vec::new(),
        }
    }

    /// Notes a launch.
    pub(crate) fn launch(&mut self, graph: &Arc<Graph>, serial: u64, at: u64) {
        // The graph is nearly always one of the last few.
        if !self.graphs.iter().rev().any(|g| g.id == graph.id) {
            if self.graphs.len() == GRAPHS {
                self.graphs.pop_front();
            }
            self.graphs.push_back(graph.clone());
        }
        if self.launches.len() == LAUNCHES {
            self.launches.pop_front();
        }
        self.launches.push_back(Launched {
            serial,
            graph: graph.id,
            at,
        });
    }

    /// Makes a trace of everything recorded since the last one. No launch may be in flight.
    pub(crate) fn take(&mut self, tracer: &Tracer, machine: &Machine, notes: Notes) -> Trace {
        let mut trace = Trace::of(machine);
        let rate = tracer.clock.rate();
        let nanos = |ticks: u64| (ticks as f64 * rate).round() as u64;
        trace.end = nanos(tracer.clock.ticks());
        trace.dropped = notes.dropped;
        let mut places = Places::of(self, &machine.kernels, &mut trace, nanos);
        let mut releases = HashMap::new();
        self.read.resize(tracer.rings.len(), 0);
        for (unit, ring) in tracer.rings.iter().enumerate() {
            let written = ring.written.load(Ordering::Relaxed);
            let new = written - std::mem::replace(&mut self.read[unit], written);
            let kept = new.min(ring.slots.len() as u64);
            trace.dropped += new - kept;
            // Oldest first: a unit runs one task at a time, and estimated beginnings must not overlap.
            let (mut free, mut launch, mut began, mut last) = (0, None, None, None);
            for n in written - kept..written {
                let place = n as usize & (ring.slots.len() - 1);
                let [first, second] = ring.slots[place]
                    .each_ref()
                    .map(|w| w.load(Ordering::Relaxed));
                let (task, middle) = (first as u32, first >> 32 & ((1 << LONG) - 1));
                match first >> 62 {
                    LAUNCH => launch = Some(second),
                    BEGAN => began = Some((second, middle == 1)),
                    RELEASED => {
                        let released = places.find(second, task);
                        releases.extend(released.zip(last));
                    }
                    _ => {
                        let began = began.take();
                        let start = began.map_or(second - middle.min(second), |b| b.0);
                        last = launch.and_then(|launch| places.find(launch, task));
                        let Some(id) = last else {
                            trace.dropped += 1;
                            continue;
                        };
                        let end = nanos(second).max(free);
                        let start = nanos(start).clamp(free, end);
                        let taken = ring.taken.get(place);
                        let taken = taken.map(|t| nanos(t.load(Ordering::Relaxed)));
                        free = end;
                        trace.tasks.push(TaskRun {
                            id,
                            released_by: TaskId {
                                launch: id.launch,
                                task: NOBODY,
                            },
                            unit: unit as u16,
                            ready: 0,
                            taken: taken.unwrap_or(start).min(start),
                            start,
                            end,
                            fell_back: began.is_some_and(|b| b.1),
                        });
                    }
                }
            }
        }
        find_releasers(&mut trace, &releases);
        trace.transfers.extend(notes.transfers.iter().map(|t| {
            let for_task = places.find(t.for_task.launch.into(), t.for_task.task);
            Transfer {
                for_task: for_task.unwrap_or(TaskId {
                    launch: 0,
                    task: NOBODY,
                }),
                start: nanos(t.start),
                end: nanos(t.end),
                ..*t
            }
        }));
        trace
            .memory
            .extend(notes.memory.iter().map(|m| MemorySample {
                at: nanos(m.at),
                ..*m
            }));
        trace.sort();
        self.launches.clear();
        self.graphs.clear();
        trace
    }
}

/// Sets when each task became ready and by whose end: the noted one of another launch, else the one of its
/// predecessors that ended last, else the launch.
fn find_releasers(trace: &mut Trace, releases: &HashMap<TaskId, TaskId>) {
    let mut base = Vec::with_capacity(trace.launches.len() + 1);
    base.push(0usize);
    for launch in 0..trace.launches.len() {
        base.push(base[launch] + trace.graph_of(launch as u32).tasks.len());
    }
    let place = |id: TaskId| base[id.launch as usize] + id.task as usize;
    let tasks = base[base.len() - 1];
    let mut ends: Vec<Nanos> = vec![0; tasks];
    let mut last: Vec<(Nanos, u32)> = vec![(0, NOBODY); tasks];
    for run in &trace.tasks {
        ends[place(run.id)] = run.end;
        for &task in trace.graph_of(run.id.launch).successors_of(run.id.task) {
            let launch = run.id.launch;
            let before = &mut last[place(TaskId { launch, task })];
            *before = (*before).max((run.end, run.id.task));
        }
    }
    let launched: Vec<Nanos> = trace.launches.iter().map(|l| l.at).collect();
    for run in &mut trace.tasks {
        let noted = releases.get(&run.id).map(|by| (ends[place(*by)], *by));
        let own = Some(last[place(run.id)]).filter(|l| l.1 != NOBODY);
        let own = own.map(|(end, task)| {
            let launch = run.id.launch;
            (end, TaskId { launch, task })
        });
        let (ready, by) = noted
            .filter(|n| n.0 > 0)
            .or(own)
            .unwrap_or((launched[run.id.launch as usize], run.released_by));
        run.released_by = by;
        // An estimated beginning is not before the task was ready.
        let taken_at_start = run.taken == run.start;
        run.start = run.start.max(ready).min(run.end);
        if taken_at_start {
            run.taken = run.start;
        }
        run.ready = ready.min(run.taken);
    }
}

/// Where launches are in a trace, by the low half of their number.
struct Places {
    first: u32,
    launches: Vec<Option<u32>>,
    last: (u32, Option<u32>),
}

impl Places {
    /// Enters the launches that are known, and their graphs, into a trace.
    fn of(
        log: &Log,
        kernels: &DeviceKernels,
        trace: &mut Trace,
        nanos: impl Fn(u64) -> u64,
    ) -> Places {
        let first = log.launches.front().map_or(0, |l| l.serial) as u32;
        let mut launches = Vec::with_capacity(log.launches.len());
        let mut graphs: Vec<(u64, u32)> = Vec::new();
        for launched in &log.launches {
            let known = graphs.iter().rev().find(|g| g.0 == launched.graph);
            let graph = known.map(|g| g.1).or_else(|| {
                let graph = log.graphs.iter().find(|g| g.id == launched.graph)?;
                trace.graphs.push(TraceGraph::of(graph, kernels));
                graphs.push((graph.id, trace.graphs.len() as u32 - 1));
                Some(trace.graphs.len() as u32 - 1)
            });
            launches.push(graph.map(|graph| {
                trace.launches.push(Launch {
                    step: launched.serial,
                    graph,
                    at: nanos(launched.at),
                });
                trace.launches.len() as u32 - 1
            }));
        }
        Places {
            first,
            launches,
            last: (0, None),
        }
    }

    /// A task of a launch, by the low half of the launch's number; none if it was not a task or the launch
    /// is not known any more.
    fn find(&mut self, serial: u64, task: u32) -> Option<TaskId> {
        let serial = serial as u32;
        if task == NOBODY {
            return None;
        }
        if self.last.0 != serial || self.last.1.is_none() {
            let place = serial.wrapping_sub(self.first) as usize;
            self.last = (serial, self.launches.get(place).copied().flatten());
        }
        let launch = self.last.1?;
        Some(TaskId { launch, task })
    }
}
