//! Traces: what ran where and when, as plain data.
//!
//! One event model for all that produce a trace (the runtime, the simulator) and all that look at it
//! (summaries, exports, the viewer). Tasks are named by launch and number; what a task *is* stands once
//! per graph, however often the graph was launched. Nothing here reads a clock or a file: who produces a
//! trace brings the times, in nanoseconds since the trace began.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::access::Mode;
use crate::graph::Graph;
use crate::graph::boundary::meetings;
use crate::graph::deps::Edge;
use crate::kernels::DeviceKernels;
use crate::machine::{Machine, UnitKind};
use crate::region::Region;
use crate::shape::Shape;

/// Nanoseconds since the trace began.
pub type Nanos = u64;

/// No task: a [`TaskRun`] that nobody released was released by the launch itself.
pub const NOBODY: u32 = u32::MAX;

/// A task of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// Index into [`Trace::launches`].
    pub launch: u32,
    /// The task's number in the launch's graph.
    pub task: u32,
}

/// What happened, and what it happened to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// What made it, as pairs of a name and a text: command, model, policy, version…
    pub about: Vec<(String, String)>,
    /// Whether the times are a simulator's.
    pub simulated: bool,
    /// The units.
    pub units: Vec<TraceUnit>,
    /// The memories; the first is the host's.
    pub memories: Vec<TraceMemory>,
    /// The graphs that were launched.
    pub graphs: Vec<TraceGraph>,
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// Tasks that ran, by start, then unit.
    pub tasks: Vec<TaskRun>,
    /// Copies between memories, by start.
    pub transfers: Vec<Transfer>,
    /// Bytes of copies in a memory that is not the host's, whenever that changed, by time. What a
    /// graph's temporaries take in the host follows from its tasks.
    pub memory: Vec<MemorySample>,
    /// What power samples are of, with where they come from: `measured (rapl: package-0)`.
    pub domains: Vec<String>,
    /// Power over time, by time.
    pub power: Vec<PowerSample>,
    /// Events that were given up because buffers were full; the oldest go first.
    pub dropped: u64,
    /// When recording ended.
    pub end: Nanos,
}

/// A unit of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceUnit {
    /// Its name, such as `cpu:0`.
    pub name: String,
    /// Its kind, which says which implementation of a codelet it ran.
    pub kind: UnitKind,
    /// Index into [`Trace::memories`].
    pub memory: u16,
}

/// A memory of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMemory {
    /// Its name.
    pub name: String,
    /// Most bytes it holds, where that is limited.
    pub capacity: Option<u64>,
}

/// One execution of a graph: a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Its number in the program, from 1: later events of a long run have higher ones.
    pub step: u64,
    /// Index into [`Trace::graphs`].
    pub graph: u32,
    /// When it was launched.
    pub at: Nanos,
}

/// A task that ran. `ready <= taken <= start <= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRun {
    /// Which task.
    pub id: TaskId,
    /// The task whose end made it ready, possibly of an earlier launch; its `task` is [`NOBODY`] if
    /// that was the launch itself.
    pub released_by: TaskId,
    /// Index into [`Trace::units`].
    pub unit: u16,
    /// When the last task it waits for had ended.
    pub ready: Nanos,
    /// When the unit turned to it, and began to bring its operands where needed.
    pub taken: Nanos,
    /// When its body began.
    pub start: Nanos,
    /// When its body ended.
    pub end: Nanos,
    /// Whether it ran on the host's processor, in the host's memory, because the unit's device lacked room
    /// for it or had failed.
    pub fell_back: bool,
}

/// A copy from one memory to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Where from: index into [`Trace::memories`].
    pub from: u16,
    /// Where to.
    pub to: u16,
    /// How much.
    pub bytes: u64,
    /// The task it was made for; [`NOBODY`] where the host asked, or where room was made.
    pub for_task: TaskId,
    /// Whether it was made before the task asked for it.
    pub ahead: bool,
    /// What it carries, and why that much.
    pub load: Load,
    /// How many copies, this one among them, were started together over the link: the time of all is
    /// measured, and divided among them by the link's speed.
    pub batch: u32,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
}

/// What a copy carries. Whether a part of an array travels alone or with parts that later tasks want is
/// decided by cost; this says what was decided, and among how many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes that the task itself needs; the rest is for tasks to come.
    pub asked: u64,
    /// Parts that travel, the task's own among them.
    pub parts: u32,
    /// Parts that are wanted there, the task's own among them. Those that do not travel would have taken
    /// longer on the way than a copy of their own takes to start.
    pub wanted: u32,
    /// Whether this is the whole array.
    pub whole: bool,
}

impl Load {
    /// What was asked for, where nothing else was thought of.
    pub fn asked(bytes: u64) -> Load {
        Load {
            asked: bytes,
            parts: 1,
            wanted: 1,
            whole: false,
        }
    }

    /// What was decided, in two words.
    pub fn choice(&self) -> &'static str {
        match (self.whole, self.parts, self.wanted) {
            (true, ..) => "whole array",
            (false, 2.., _) => "parts joined",
            (false, _, 2..) => "part alone",
            _ => "only part",
        }
    }
}

/// Bytes in use in a memory from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySample {
    /// When.
    pub at: Nanos,
    /// Index into [`Trace::memories`].
    pub memory: u16,
    /// How much.
    pub bytes: u64,
}

/// Power over the time since the domain's last sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerSample {
    /// The end of that time.
    pub at: Nanos,
    /// Index into [`Trace::domains`].
    pub domain: u16,
    /// The mean.
    pub watts: f64,
}

/// A graph, as a trace needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceGraph {
    /// The graph's fingerprint.
    pub fingerprint: u64,
    /// Names of its sections (layers); the first is empty.
    pub sections: Vec<String>,
    /// Its kinds of tasks.
    pub classes: Vec<TraceClass>,
    /// Its tasks.
    pub tasks: Vec<TraceTask>,
    /// What the tasks touch, those of one task next to each other.
    pub accesses: Vec<TraceAccess>,
    /// The data behind.
    pub storages: Vec<TraceStorage>,
    /// Where each task's successors begin in [`TraceGraph::successors`], and the end of the last.
    pub successor_start: Vec<u32>,
    /// The tasks that wait for each.
    pub successors: Vec<u32>,
    /// What tasks of a launch may wait for in earlier launches, by storage.
    pub inlets: Vec<TraceEnd>,
    /// What tasks of later launches may wait for, by storage.
    pub outlets: Vec<TraceEnd>,
}

/// An access at a graph's boundary: the first of a launch, or the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEnd {
    /// Index into [`TraceGraph::storages`].
    pub storage: u32,
    /// The shape under which the storage is seen.
    pub shape: Shape,
    /// Which task, which part, and whether it writes.
    pub edge: Edge,
}

/// Tasks that are equal but for the data they touch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceClass {
    /// The codelet's name.
    pub codelet: String,
    /// For each kind of unit that can run it, the implementation used there.
    pub implementations: BTreeMap<UnitKind, String>,
    /// Operands' shapes and the element type, for people: `f32 [64, 1, 28, 28] [4, 1, 3, 3]`.
    pub shapes: String,
    /// Floating-point operations of one task.
    pub flops: f64,
    /// Bytes that one task reads and writes.
    pub bytes: f64,
}

/// One task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceTask {
    /// Index into [`TraceGraph::classes`].
    pub class: u32,
    /// Index into [`TraceGraph::sections`].
    pub section: u32,
    /// First of its accesses.
    pub first_access: u32,
    /// How many it has.
    pub access_count: u16,
    /// Higher is more urgent.
    pub priority: i32,
}

/// What a task does with a part of some data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceAccess {
    /// Index into [`TraceGraph::storages`].
    pub storage: u32,
    /// How it is used.
    pub mode: Mode,
    /// Which part.
    pub region: Region,
}

/// Data that tasks touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStorage {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it lives during one launch only.
    pub temporary: bool,
    /// Storages of several graphs with the same number are the same data, unless temporary.
    pub data: u64,
    /// Whether a launch leaves no element as it was.
    pub overwritten: bool,
}

impl Trace {
    /// An empty trace of a machine.
    pub fn of(machine: &Machine) -> Trace {
        Trace {
            units: machine
                .units
                .iter()
                .map(|u| TraceUnit {
                    name: u.name.clone(),
                    kind: u.kind,
                    memory: u.memory.0,
                })
                .collect(),
            memories: machine
                .memories
                .iter()
                .map(|m| TraceMemory {
                    name: m.name.clone(),
                    capacity: m.capacity.map(|b| b.0),
                })
                .collect(),
            ..Trace::default()
        }
    }

    /// The graph of a launch.
    pub fn graph_of(&self, launch: u32) -> &TraceGraph {
        &self.graphs[self.launches[launch as usize].graph as usize]
    }

    /// The class of a task.
    pub fn class_of(&self, id: TaskId) -> &TraceClass {
        let graph = self.graph_of(id.launch);
        &graph.classes[graph.tasks[id.task as usize].class as usize]
    }

    /// The section, or layer, of a task.
    pub fn section_of(&self, id: TaskId) -> &str {
        let graph = self.graph_of(id.launch);
        &graph.sections[graph.tasks[id.task as usize].section as usize]
    }

    /// The kind of processor that a task ran on: its unit's, unless it fell back to the host's.
    pub fn kind_of(&self, run: &TaskRun) -> UnitKind {
        match run.fell_back {
            true => UnitKind::CPU,
            false => self.units[usize::from(run.unit)].kind,
        }
    }

    /// The implementation that a task ran with.
    pub fn implementation_of(&self, run: &TaskRun) -> &str {
        let kind = self.kind_of(run);
        let names = &self.class_of(run.id).implementations;
        names.get(&kind).map_or("", String::as_str)
    }

    /// Brings events into the order that this type promises.
    pub fn sort(&mut self) {
        // Of tasks that begin together on a unit, those that took no time came first.
        self.tasks
            .sort_unstable_by_key(|t| (t.start, t.unit, t.end, t.id));
        self.transfers
            .sort_unstable_by_key(|t| (t.start, t.from, t.to));
        self.memory.sort_by_key(|m| (m.at, m.memory));
        self.power.sort_by_key(|p| (p.at, p.domain));
    }
}

impl TraceGraph {
    /// Takes from a graph what a trace needs, on a machine with these kernels.
    pub fn of(graph: &Graph, kernels: &DeviceKernels) -> TraceGraph {
        let class = |(number, c): (usize, &crate::graph::Class)| {
            let names = kernels.names(graph, number as u32).into_iter();
            let codelet = &graph.codelets[c.codelet as usize];
            let mut shapes = c.call.dtype.to_string();
            for (shape, _) in &c.call.operands {
                shapes.push_str(&format!(" {shape}"));
            }
            TraceClass {
                codelet: codelet.name.clone(),
                implementations: names.map(|(kind, name)| (kind, name.into())).collect(),
                shapes,
                flops: c.cost.flops,
                bytes: c.cost.bytes,
            }
        };
        let mut out = TraceGraph {
            fingerprint: graph.fingerprint(),
            sections: graph.sections.clone(),
            classes: graph.classes.iter().enumerate().map(class).collect(),
            ..TraceGraph::default()
        };
        for (i, t) in graph.tasks.iter().enumerate() {
            out.tasks.push(TraceTask {
                class: t.class,
                section: t.section,
                first_access: t.first_access,
                access_count: t.access_count,
                priority: t.priority,
            });
            out.successor_start.push(out.successors.len() as u32);
            out.successors.extend(graph.successors(i as u32));
        }
        out.successor_start.push(out.successors.len() as u32);
        out.accesses
            .extend(graph.accesses.iter().map(|a| TraceAccess {
                storage: graph.arrays[a.array as usize].storage,
                mode: a.mode,
                region: a.region,
            }));
        let storages = (0..).zip(&graph.storages);
        out.storages.extend(storages.map(|(i, s)| TraceStorage {
            name: s.storage.label(),
            bytes: (s.storage.shape.len() * s.storage.dtype.size()) as u64,
            temporary: s.temporary.is_some(),
            data: s.storage.id,
            overwritten: s.temporary.is_none() && graph.boundary.overwrites(i),
        }));
        let end = |(storage, shape, edge)| TraceEnd {
            storage,
            shape,
            edge,
        };
        let kept = |e: &TraceEnd| graph.storages[e.storage as usize].temporary.is_none();
        let boundary = &graph.boundary;
        out.inlets
            .extend(boundary.all_inlets().map(end).filter(kept));
        out.outlets
            .extend(boundary.all_outlets().map(end).filter(kept));
        out
    }

    /// Pairs of a task of a launch of this graph and a task of a launch of `later` that must wait for
    /// it, because of the data that is storage `from` here and `to` there.
    pub fn edges_to(&self, from: u32, later: &TraceGraph, to: u32) -> Vec<(u32, u32)> {
        meetings(ends_of(&self.outlets, from), ends_of(&later.inlets, to))
    }

    /// Tasks that wait for `task` inside the graph.
    pub fn successors_of(&self, task: u32) -> &[u32] {
        let t = task as usize;
        &self.successors[self.successor_start[t] as usize..self.successor_start[t + 1] as usize]
    }

    /// What a task touches.
    pub fn accesses_of(&self, task: u32) -> &[TraceAccess] {
        let t = &self.tasks[task as usize];
        &self.accesses[t.first_access as usize..][..usize::from(t.access_count)]
    }
}

/// The ends of one storage; `ends` are by storage.
fn ends_of(ends: &[TraceEnd], storage: u32) -> impl Iterator<Item = (&Shape, &Edge)> + Clone {
    let first = ends.partition_point(|e| e.storage < storage);
    let of = ends[first..]
        .iter()
        .take_while(move |e| e.storage == storage);
    of.map(|e| (&e.shape, &e.edge))
}
