//! Graphs, as traces need them: what each task is, what it touches, and who waits for whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::access::Mode;
use crate::graph::Graph;
use crate::graph::boundary::meetings;
use crate::graph::deps::Edge;
use crate::kernels::DeviceKernels;
use crate::machine::UnitKind;
use crate::region::Region;
use crate::shape::Shape;

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
    /// Tasks that stand for messages, by task.
    pub messages: Vec<TraceMessage>,
}

/// A task that sends something to another node or receives it from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceMessage {
    /// The task.
    pub task: u32,
    /// What both nodes call it: in launches of the same step, the ends with the same number belong together.
    pub transfer: u32,
    /// The node at the other end.
    pub peer: u16,
    /// Whether it is sent, not received.
    pub sends: bool,
    /// How much.
    pub bytes: u64,
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
        out.messages.extend(graph.messages.iter().map(|m| {
            let access = &graph.accesses_of(m.task)[0];
            let storage = graph.arrays[access.array as usize].storage;
            let size = graph.storages[storage as usize].storage.dtype.size();
            TraceMessage {
                task: m.task,
                transfer: m.transfer,
                peer: m.peer,
                sends: m.sends,
                bytes: (access.region.len() * size) as u64,
            }
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

    /// The message that a task stands for, if it does.
    pub fn message(&self, task: u32) -> Option<&TraceMessage> {
        let place = self.messages.binary_search_by_key(&task, |m| m.task);
        place.ok().map(|i| &self.messages[i])
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
