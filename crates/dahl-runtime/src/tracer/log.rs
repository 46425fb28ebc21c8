//! Reading what was recorded: rings, launches and notes become a trace.
//!
//! Units run one task at a time, so what a unit's ring says about beginnings is made to fit. The network's ring is that
//! of the thread that communicates: many messages are under way at once, and their times stand as they are.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dahl_core::trace::{
    Launch, MemorySample, MessageRun, NOBODY, Nanos, TaskId, TaskRun, Trace, TraceGraph, Transfer,
};
use dahl_core::{DeviceKernels, Graph, Machine};

use super::{BEGAN, LAUNCH, LONG, Notes, RELEASED, Ring, Tracer};

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
        let rings = tracer.rings.iter().chain(&tracer.network);
        self.read.resize(rings.clone().count(), 0);
        for (number, ring) in rings.enumerate() {
            let unit = (number < tracer.rings.len()).then_some(number as u16);
            // Oldest first: a unit runs one task at a time, and estimated beginnings must not overlap.
            let (mut free, mut last) = (0, None);
            let lost = read(ring, &mut self.read[number], |found| match found {
                Found::Released(serial, task) => {
                    releases.extend(places.find(serial, task).zip(last))
                }
                Found::Ran(ran) => {
                    last = ran.launch.and_then(|launch| places.find(launch, ran.task));
                    let Some(id) = last else {
                        trace.dropped += 1;
                        return;
                    };
                    let (start, end) = (nanos(ran.start), nanos(ran.end));
                    let Some(unit) = unit else {
                        trace.messages.push(MessageRun { id, start, end });
                        return;
                    };
                    let end = end.max(free);
                    let start = start.clamp(free, end);
                    free = end;
                    trace.tasks.push(TaskRun {
                        id,
                        released_by: TaskId {
                            launch: id.launch,
                            task: NOBODY,
                        },
                        unit,
                        ready: 0,
                        taken: ran.taken.map_or(start, nanos).min(start),
                        start,
                        end,
                        fell_back: ran.fell_back,
                    });
                }
            });
            trace.dropped += lost;
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

/// An event of a ring.
enum Found {
    Ran(Ran),
    /// The last task that ran made this one of another launch ready.
    Released(u64, u32),
}

/// A task that ran; times are ticks.
struct Ran {
    launch: Option<u64>,
    task: u32,
    taken: Option<u64>,
    start: u64,
    end: u64,
    fell_back: bool,
}

/// Hands out what is new in a ring, oldest first; `so_far` is how much was read before. Returns how many events were
/// overwritten before anybody read them.
fn read(ring: &Ring, so_far: &mut u64, mut see: impl FnMut(Found)) -> u64 {
    let written = ring.written.load(Ordering::Relaxed);
    let new = written - std::mem::replace(so_far, written);
    let kept = new.min(ring.slots.len() as u64);
    let (mut launch, mut began) = (None, None);
    for n in written - kept..written {
        let place = n as usize & (ring.slots.len() - 1);
        let [first, second] = ring.slots[place]
            .each_ref()
            .map(|w| w.load(Ordering::Relaxed));
        let (task, middle) = (first as u32, first >> 32 & ((1 << LONG) - 1));
        match first >> 62 {
            LAUNCH => launch = Some(second),
            BEGAN => began = Some((second, middle == 1)),
            RELEASED => see(Found::Released(second, task)),
            _ => {
                let began: Option<(u64, bool)> = began.take();
                let taken = ring.taken.get(place);
                see(Found::Ran(Ran {
                    launch,
                    task,
                    taken: taken.map(|t| t.load(Ordering::Relaxed)),
                    start: began.map_or(second - middle.min(second), |b| b.0),
                    end: second,
                    fell_back: began.is_some_and(|b| b.1),
                }));
            }
        }
    }
    new - kept
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
    let ran = trace.tasks.iter().map(|t| (t.id, t.end));
    for (id, end) in ran.chain(trace.messages.iter().map(|m| (m.id, m.end))) {
        ends[place(id)] = end;
        for &task in trace.graph_of(id.launch).successors_of(id.task) {
            let launch = id.launch;
            let before = &mut last[place(TaskId { launch, task })];
            *before = (*before).max((end, id.task));
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
                    node: 0,
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
