//! The critical path of several launches in flight equals the longest path of the joined graph, which is
//! found element by element.

mod common;

use std::sync::Arc;

use common::run;
use dahl_core::trace::{
    Launch, NOBODY, TaskId, Trace, TraceGraph, TraceMemory, TraceNode, TraceUnit,
};
use dahl_core::{Arena, DType, Graph, UnitKind};
use dahl_test_support::program::{Dice, Program, Use, elements, record};
use dahl_test_support::scaled;
use dahl_trace::summary::critical::critical_path;
use dahl_trace::{Index, check};

/// Launches of a few graphs over the same arrays, and who must wait for whom in them.
struct Joined {
    graphs: Vec<Arc<Graph>>,
    /// Index into `graphs`.
    launches: Vec<usize>,
    tasks: Vec<TaskId>,
    /// Of each of `tasks`, those before it that it must wait for.
    waits: Vec<Vec<usize>>,
}

/// Elements of persistent arrays that a task touches: storage, element, whether it writes.
fn touches(graph: &Graph, task: u32) -> Vec<(u64, usize, bool)> {
    let t = &graph.tasks[task as usize];
    let accesses = &graph.accesses[t.first_access as usize..][..usize::from(t.access_count)];
    let mut out = vec![];
    for a in accesses {
        let array = &graph.arrays[a.array as usize];
        let storage = &graph.storages[array.storage as usize];
        if storage.temporary.is_none() {
            let place = elements(&Use {
                array: 0,
                shape: array.shape.extents().to_vec(),
                region: a.region,
                mode: a.mode,
            });
            let of = |e| (storage.storage.id, e, a.mode.writes());
            out.extend(place.into_iter().map(of));
        }
    }
    out
}

impl Joined {
    fn random(seed: u64, dice: &mut Dice) -> Joined {
        let program = Program::random(seed, seed.is_multiple_of(3));
        let arena = Arena::new();
        let alloc = |e: &Vec<usize>| arena.alloc("", e, DType::F64).unwrap();
        let handles: Vec<_> = program.arrays.iter().map(alloc).collect();
        // Neighbouring steps make a graph; the same arrays are in all.
        let cut = 1 + dice.below(program.steps.len());
        let parts = [&program.steps[..cut], &program.steps[cut..]];
        let parts = parts.into_iter().filter(|p| !p.is_empty());
        let graphs: Vec<_> = parts.map(|p| record(p, &handles)).collect();
        let launches: Vec<usize> = (0..1 + dice.below(6))
            .map(|_| dice.below(graphs.len()))
            .collect();
        let mut joined = Joined {
            graphs,
            launches,
            tasks: vec![],
            waits: vec![],
        };
        let mut touched: Vec<Vec<(u64, usize, bool)>> = vec![];
        for (launch, &g) in joined.launches.iter().enumerate() {
            let graph = &joined.graphs[g];
            let first = joined.tasks.len();
            for task in 0..graph.len() as u32 {
                let own = touches(graph, task);
                let conflict = |a: &(u64, usize, bool)| {
                    own.iter().any(|b| a.0 == b.0 && a.1 == b.1 && (a.2 || b.2))
                };
                let across = (0..first).filter(|&t| touched[t].iter().any(conflict));
                let inside = (0..task).filter(|&p| graph.successors(p).contains(&task));
                let waits = across.chain(inside.map(|p| first + p as usize)).collect();
                joined.waits.push(waits);
                touched.push(own);
                let launch = launch as u32;
                joined.tasks.push(TaskId { launch, task });
            }
        }
        joined
    }

    /// A run of it on a few units. Launches come early or late, so that some tasks are released by a
    /// task and others by their launch.
    fn trace(&self, dice: &mut Dice) -> Trace {
        let units = 1 + dice.below(4);
        let kernels = dahl_core::DeviceKernels::default();
        let mut at = 0;
        let launch = |(i, &g): (usize, &usize)| {
            at += dice.below(3) as u64 * dice.below(200) as u64;
            Launch {
                step: i as u64 + 1,
                graph: g as u32,
                at,
                node: 0,
            }
        };
        let mut trace = Trace {
            nodes: vec![TraceNode::default()],
            units: vec![
                TraceUnit {
                    name: "u".into(),
                    kind: UnitKind::CPU,
                    memory: 0,
                };
                units
            ],
            memories: vec![TraceMemory {
                name: "host".into(),
                capacity: None,
                node: 0,
            }],
            graphs: self
                .graphs
                .iter()
                .map(|g| TraceGraph::of(g, &kernels))
                .collect(),
            launches: self.launches.iter().enumerate().map(launch).collect(),
            ..Trace::default()
        };
        let mut free = vec![0u64; units];
        let mut ends: Vec<u64> = vec![];
        for (id, waits) in self.tasks.iter().zip(&self.waits) {
            let launched = trace.launches[id.launch as usize].at;
            let last = waits.iter().copied().max_by_key(|&w| ends[w]);
            let last = last.filter(|&w| ends[w] > launched);
            let ready = last.map_or(launched, |w| ends[w]);
            let unit = dice.below(units);
            let start = ready.max(free[unit]);
            let end = start + dice.below(4) as u64 * dice.below(30) as u64;
            free[unit] = end;
            ends.push(end);
            let times = [ready, start, start, end];
            let mut done = run(id.launch, id.task, NOBODY, unit as u16, times);
            done.released_by = last.map_or(done.released_by, |w| self.tasks[w]);
            trace.tasks.push(done);
        }
        trace.sort();
        trace
    }

    /// The longest path by trying every edge; tasks that are not in the trace take no time.
    fn longest(&self, trace: &Trace) -> u64 {
        let mut lengths: Vec<u64> = vec![];
        for (id, waits) in self.tasks.iter().zip(&self.waits) {
            let run = trace.tasks.iter().find(|t| t.id == *id);
            let before = waits.iter().map(|&w| lengths[w]).max().unwrap_or(0);
            lengths.push(before + run.map_or(0, |r| r.end - r.start));
        }
        lengths.into_iter().max().unwrap_or(0)
    }

    /// Whether one task waits for another, through others or not.
    fn leads(&self, from: TaskId, to: TaskId) -> bool {
        let place = |id| self.tasks.iter().position(|t| *t == id).unwrap();
        let (from, mut open) = (place(from), vec![place(to)]);
        let mut seen = vec![false; self.tasks.len()];
        while let Some(t) = open.pop() {
            if t == from {
                return true;
            }
            if !std::mem::replace(&mut seen[t], true) {
                open.extend(&self.waits[t]);
            }
        }
        false
    }
}

#[test]
fn it_is_the_longest_path_of_the_joined_graph() {
    let mut across = 0;
    for seed in 0..scaled(2000) {
        let mut dice = Dice::new(seed ^ 0xC417);
        let joined = Joined::random(seed, &mut dice);
        let mut trace = joined.trace(&mut dice);
        if dice.chance(25) {
            let lost = dice.below(trace.tasks.len() + 1);
            trace.tasks.drain(..lost);
            trace.dropped = lost as u64;
        }
        check(&trace).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let path = critical_path(&trace, &Index::of(&trace));
        assert_eq!(path.length_ns, joined.longest(&trace), "seed {seed}");
        let of = |r: &u32| trace.tasks[*r as usize];
        let sum: u64 = path.runs.iter().map(|r| of(r).end - of(r).start).sum();
        assert_eq!(sum, path.length_ns, "seed {seed}");
        for pair in path.runs.windows(2) {
            let (a, b) = (of(&pair[0]), of(&pair[1]));
            assert!(joined.leads(a.id, b.id), "seed {seed}");
            // Where the launch came last, the trace names no task that released this one.
            across += u32::from(a.id.launch != b.id.launch && b.released_by.task == NOBODY);
        }
        // What is written to a file is enough to find it again.
        if seed.is_multiple_of(16) {
            let mut file = vec![];
            dahl_trace::write(&trace, &mut file).unwrap();
            let again = dahl_trace::read(&file).unwrap();
            assert_eq!(again, trace, "seed {seed}");
        }
    }
    assert!(across > 0, "no path through a launch that came last");
}
