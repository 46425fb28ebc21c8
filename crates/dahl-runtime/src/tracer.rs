//! Recording traces: a ring of events per unit, written by the unit's worker alone.
//!
//! A worker writes an event of six words and then how many it has written; nobody reads before all
//! launches have ended. Words are atomics stored without ordering, which costs what plain stores cost:
//! what orders them is the end of the launch, which the reader has waited for ([`Instance::account`]
//! releases, [`Instance::has_ended`] acquires). Nothing is allocated while tasks run; when a ring is
//! full, its oldest events go, and the trace says how many did.
//!
//! When a task became ready, and by whose end, is noted in its instance ([`Marks`]) by whoever releases
//! it, before the policy hears of it; the policy's own synchronisation carries it to the worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use dahl_core::trace::{
    Launch, MemorySample, NOBODY, TaskId, TaskRun, Trace, TraceGraph, Transfer,
};
use dahl_core::{Graph, Machine};

use crate::clock::Clock;
use crate::instance::Instance;

/// A task as events name it: the low half of its launch's number, and its own.
pub(crate) fn name(serial: u64, task: u32) -> u64 {
    serial << 32 | u64::from(task)
}

/// When the tasks of an instance became ready, and who released them.
pub(crate) struct Marks(Box<[[AtomicU64; 2]]>);

impl Marks {
    /// For so many tasks.
    pub fn new(tasks: usize) -> Self {
        Marks((0..tasks).map(|_| Default::default()).collect())
    }

    /// Notes that the end of `by` made a task ready.
    #[inline]
    pub fn set(&self, task: u32, ticks: u64, by: u64) {
        let [at, who] = &self.0[task as usize];
        at.store(ticks, Ordering::Relaxed);
        who.store(by, Ordering::Relaxed);
    }

    #[inline]
    fn get(&self, task: u32) -> [u64; 2] {
        self.0[task as usize]
            .each_ref()
            .map(|a| a.load(Ordering::Relaxed))
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
    slots: Box<[[AtomicU64; 6]]>,
    written: AtomicU64,
}

/// What a launch was, for whoever reads the events.
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
    pub fn transfer(&mut self, transfer: Transfer) {
        if self.transfers.len() == NOTES {
            self.transfers.pop_front();
            self.dropped += 1;
        }
        self.transfers.push_back(transfer);
    }

    /// Notes how full a memory is; its time is in ticks.
    pub fn memory(&mut self, sample: MemorySample) {
        if self.memory.len() == NOTES {
            self.memory.pop_front();
        }
        self.memory.push_back(sample);
    }
}

/// The part of a recording that workers write to.
pub(crate) struct Tracer {
    pub clock: Clock,
    rings: Box<[CachePadded<Ring>]>,
}

impl Tracer {
    /// For so many units, each with room for so many events.
    pub fn new(units: usize, events: usize) -> Self {
        let ring = |_| {
            CachePadded::new(Ring {
                slots: (0..events.max(1)).map(|_| Default::default()).collect(),
                written: AtomicU64::new(0),
            })
        };
        Tracer {
            clock: Clock::new(),
            rings: (0..units).map(ring).collect(),
        }
    }

    /// Records that a task ran. Only the unit's own worker calls this.
    #[inline]
    pub fn task(&self, unit: usize, instance: &Instance, task: u32, times: Times) {
        let Some(marks) = &instance.marks else { return };
        let [ready, by] = marks.get(task);
        let ring = &self.rings[unit];
        let n = ring.written.load(Ordering::Relaxed);
        let slot = &ring.slots[(n % ring.slots.len() as u64) as usize];
        let id = name(instance.serial(), task);
        let words = [id, by, ready, times.taken, times.start, times.end];
        for (place, word) in slot.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        ring.written.store(n + 1, Ordering::Relaxed);
    }
}

/// The part of a recording that the thread owns which launches.
pub(crate) struct Log {
    launches: VecDeque<Launched>,
    graphs: VecDeque<Arc<Graph>>,
}

impl Log {
    pub fn new() -> Self {
        Log {
            launches: VecDeque::with_capacity(1 << 10),
            graphs: VecDeque::new(),
        }
    }

    /// Notes a launch.
    pub fn launch(&mut self, graph: &Arc<Graph>, serial: u64, at: u64) {
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
    pub fn take(&mut self, tracer: &Tracer, machine: &Machine, notes: Notes) -> Trace {
        let mut trace = Trace::of(machine);
        let rate = tracer.clock.rate();
        let nanos = |ticks: u64| (ticks as f64 * rate).round() as u64;
        trace.end = nanos(tracer.clock.ticks());
        trace.dropped = notes.dropped;
        let mut places = Places::of(self, &mut trace, nanos);
        for (unit, ring) in tracer.rings.iter().enumerate() {
            let written = ring.written.swap(0, Ordering::Relaxed);
            let kept = written.min(ring.slots.len() as u64);
            trace.dropped += written - kept;
            // Oldest first: cores' counters may differ by a few ticks, and a unit runs one at a time.
            let mut free = 0;
            for n in written - kept..written {
                let slot = &ring.slots[(n % ring.slots.len() as u64) as usize];
                let [id, by, ready, taken, start, end] =
                    slot.each_ref().map(|w| w.load(Ordering::Relaxed));
                let Some(id) = places.find(id) else {
                    trace.dropped += 1;
                    continue;
                };
                let root = TaskId {
                    launch: id.launch,
                    task: NOBODY,
                };
                let ready = nanos(ready);
                let taken = nanos(taken).max(ready).max(free);
                let start = nanos(start).max(taken);
                let end = nanos(end).max(start);
                free = end;
                trace.tasks.push(TaskRun {
                    id,
                    released_by: places.find(by).unwrap_or(root),
                    unit: unit as u16,
                    ready,
                    taken,
                    start,
                    end,
                });
            }
        }
        trace.transfers.extend(notes.transfers.iter().map(|t| {
            let for_task = places.find(name(t.for_task.launch.into(), t.for_task.task));
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

/// Where launches are in a trace, by the low half of their number.
struct Places {
    first: u32,
    launches: Vec<Option<u32>>,
    last: (u32, Option<u32>),
}

impl Places {
    /// Enters the launches that are known, and their graphs, into a trace.
    fn of(log: &Log, trace: &mut Trace, nanos: impl Fn(u64) -> u64) -> Places {
        let first = log.launches.front().map_or(0, |l| l.serial) as u32;
        let mut launches = Vec::with_capacity(log.launches.len());
        let mut graphs: Vec<(u64, u32)> = Vec::new();
        for launched in &log.launches {
            let known = graphs.iter().rev().find(|g| g.0 == launched.graph);
            let graph = known.map(|g| g.1).or_else(|| {
                let graph = log.graphs.iter().find(|g| g.id == launched.graph)?;
                trace.graphs.push(TraceGraph::of(graph));
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

    /// A task by its name; none if it was not a task or its launch is not known any more.
    fn find(&mut self, name: u64) -> Option<TaskId> {
        let (serial, task) = ((name >> 32) as u32, name as u32);
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
