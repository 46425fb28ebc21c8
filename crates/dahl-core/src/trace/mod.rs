//! Traces: what ran where and when, as plain data.
//!
//! One event model for all that produce a trace (the runtime, the simulator) and all that look at it
//! (summaries, exports, the viewer). Tasks are named by launch and number; what a task *is* stands once
//! per graph, however often the graph was launched. Nothing here reads a clock or a file: who produces a
//! trace brings the times, in nanoseconds since the trace began.
//!
//! The trace of a cluster is one trace: units and memories say on which node they are, and every node has launches of
//! its own part of a graph. A message is there twice, as it was seen by its sender and by its receiver.

mod align;
mod graph;

use serde::{Deserialize, Serialize};

use crate::machine::{Machine, UnitKind};

pub use align::Alignment;
pub use graph::{
    TraceAccess, TraceClass, TraceEnd, TraceGraph, TraceMessage, TraceStorage, TraceTask,
};

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
    /// The nodes; one for a computer alone.
    pub nodes: Vec<TraceNode>,
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
    /// Ends of messages between nodes, by start.
    pub messages: Vec<MessageRun>,
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

/// A node of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceNode {
    /// Its name.
    pub name: String,
    /// How far its times may be from those of the first node: half of the shortest way there and back.
    pub uncertainty: Nanos,
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
    /// Index into [`Trace::nodes`].
    pub node: u16,
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
    /// Who launched it: index into [`Trace::nodes`].
    pub node: u16,
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

/// One end of a message between nodes: a task that no unit runs. What it carries, and who is at the other end, the
/// graph knows ([`TraceGraph::messages`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRun {
    /// Which task.
    pub id: TaskId,
    /// When it was ready and given to the network.
    pub start: Nanos,
    /// When all of it had been sent, or received.
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

impl Trace {
    /// An empty trace of a machine.
    pub fn of(machine: &Machine) -> Trace {
        Trace {
            nodes: machine
                .nodes
                .iter()
                .map(|n| TraceNode {
                    name: n.name.clone(),
                    uncertainty: 0,
                })
                .collect(),
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
                    node: m.node.0,
                })
                .collect(),
            ..Trace::default()
        }
    }

    /// The graph of a launch.
    pub fn graph_of(&self, launch: u32) -> &TraceGraph {
        &self.graphs[self.launches[launch as usize].graph as usize]
    }

    /// The node of a unit.
    pub fn node_of(&self, unit: u16) -> u16 {
        let memory = self.units[usize::from(unit)].memory;
        self.memories[usize::from(memory)].node
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
        self.messages.sort_unstable_by_key(|m| (m.start, m.id));
        self.memory.sort_by_key(|m| (m.at, m.memory));
        self.power.sort_by_key(|p| (p.at, p.domain));
    }
}
