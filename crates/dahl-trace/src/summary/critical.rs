//! The critical path: the chain of tasks, each waiting for the one before, that takes longest.
//!
//! Chains follow the graph's edges inside a launch and, from launch to launch, whatever the boundaries of
//! the two graphs make wait, whichever task ended last. What counts is how long the bodies took:
//! waiting and overhead are not on the path, so no number of units and no scheduler can run these tasks,
//! at these speeds, in less. Tasks whose events were lost take no time, but chains lead through them.

use std::collections::HashMap;

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

use super::labels::Labels;
use super::stats::ratio;
use super::task::TaskRef;
use crate::Index;

/// A chain of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The sum of their durations.
    pub length_ns: Nanos,
    /// Their numbers, in order.
    pub runs: Vec<u32>,
}

/// The critical path in figures.
#[derive(Clone, Debug, Serialize)]
pub struct CriticalPath {
    /// How long its tasks took.
    pub length_ns: Nanos,
    /// Divided by the span.
    pub share: f64,
    /// How many tasks it has.
    pub tasks: u64,
    /// What it is made of, by time.
    pub codelets: Vec<OnPath>,
    /// Its longest tasks, longest first.
    pub longest: Vec<TaskRef>,
}

/// A codelet's part of the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct OnPath {
    /// The codelet.
    pub codelet: String,
    /// And how it was computed.
    pub implementation: String,
    /// Tasks on the path.
    pub tasks: u64,
    /// Their time.
    pub total_ns: Nanos,
    /// Their share of the path.
    pub share: f64,
}

const NONE: u32 = u32::MAX;

/// A chain: how long it is, and the last run on it.
type Chain = (Nanos, u32);
/// A graph, and its number for some data.
type Side = (u32, u32);

/// Finds the critical path. Linear in tasks and edges.
pub fn critical_path(trace: &Trace, index: &Index) -> Path {
    let mut search = Search {
        trace,
        before: vec![NONE; trace.tasks.len()],
        ends: trace.graphs.iter().map(|_| vec![]).collect(),
        touched: HashMap::new(),
        edges: HashMap::new(),
    };
    let mut best = (0, NONE);
    let lost = |l: &u32| index.of_launch(*l).is_empty();
    for launch in (0..trace.launches.len() as u32).skip_while(lost) {
        best = best.max(search.launch(launch, index.of_launch(launch)));
    }
    let mut path = Path {
        length_ns: best.0,
        runs: vec![],
    };
    let mut run = best.1;
    while run != NONE {
        path.runs.push(run);
        run = search.before[run as usize];
    }
    path.runs.reverse();
    path
}

struct Search<'a> {
    trace: &'a Trace,
    /// The run before each on the longest chain that ends with it.
    before: Vec<u32>,
    /// Of each graph, the longest chain to each of its tasks, over all launches so far; empty before the
    /// first. What waits for a task of one launch waits for the same task of those before it, where it
    /// writes; and where it only reads, a later writer waits for all.
    ends: Vec<Vec<Chain>>,
    /// Graphs launched so far that touch some data, since the last that overwrote the data whole: chains
    /// from before lead through that one.
    touched: HashMap<u64, Vec<Side>>,
    /// Edges between graphs by some data.
    edges: HashMap<[Side; 2], Vec<(u32, u32)>>,
}

impl Search<'_> {
    /// Extends chains by the tasks of a launch, whose runs are by task; returns the longest.
    fn launch(&mut self, launch: u32, runs: &[u32]) -> Chain {
        let number = self.trace.launches[launch as usize].graph;
        let graph = self.trace.graph_of(launch);
        let mut chains = vec![(0, NONE); graph.tasks.len()];
        let extend = |chain: &mut Chain, from: Chain| {
            if from.1 != NONE && (chain.1 == NONE || from.0 > chain.0) {
                *chain = from;
            }
        };
        let kept = (0..).zip(&graph.storages).filter(|s| !s.1.temporary);
        for (storage, s) in kept {
            let later = (number, storage);
            let touched = self.touched.entry(s.data).or_default();
            for &earlier in touched.iter() {
                let edges = self.edges.entry([earlier, later]).or_insert_with(|| {
                    let from = &self.trace.graphs[earlier.0 as usize];
                    from.edges_to(earlier.1, graph, storage)
                });
                for &(from, to) in edges.iter() {
                    let from = self.ends[earlier.0 as usize][from as usize];
                    extend(&mut chains[to as usize], from);
                }
            }
            if s.overwritten {
                touched.clear();
            }
            if !touched.contains(&later) {
                touched.push(later);
            }
        }
        // Tasks by number: edges lead to higher ones, so each is reached after all before it.
        let mut runs = runs.iter().copied().peekable();
        let mut best = (0, NONE);
        for task in 0..graph.tasks.len() as u32 {
            let mut chain = chains[task as usize];
            let id = |r: &u32| self.trace.tasks[*r as usize].id.task;
            if let Some(r) = runs.next_if(|r| id(r) == task) {
                let run = &self.trace.tasks[r as usize];
                self.before[r as usize] = chain.1;
                chain = (chain.0 + (run.end - run.start), r);
                chains[task as usize] = chain;
                best = best.max(chain);
            }
            for &s in graph.successors_of(task) {
                extend(&mut chains[s as usize], chain);
            }
        }
        let ends = &mut self.ends[number as usize];
        ends.resize(chains.len(), (0, NONE));
        for (end, chain) in ends.iter_mut().zip(chains) {
            extend(end, chain);
        }
        best
    }
}

/// The path in figures.
pub(super) fn describe(
    trace: &Trace,
    labels: &Labels,
    path: &Path,
    span: Nanos,
    top: usize,
) -> CriticalPath {
    let mut sums = vec![(0u64, 0u64); labels.codelets.len()];
    let duration = |r: u32| trace.tasks[r as usize].end - trace.tasks[r as usize].start;
    for &r in &path.runs {
        let sum = &mut sums[labels.codelet(trace, &trace.tasks[r as usize])];
        sum.0 += 1;
        sum.1 += duration(r);
    }
    let mut codelets: Vec<OnPath> = sums
        .into_iter()
        .zip(&labels.codelets)
        .filter(|(sum, _)| sum.0 > 0)
        .map(|((tasks, total_ns), (codelet, implementation))| OnPath {
            codelet: codelet.clone(),
            implementation: implementation.clone(),
            tasks,
            total_ns,
            share: ratio(total_ns as f64, path.length_ns as f64),
        })
        .collect();
    codelets.sort_by_key(|c| std::cmp::Reverse(c.total_ns));
    let mut longest = path.runs.clone();
    longest.sort_by_key(|&r| std::cmp::Reverse(duration(r)));
    longest.truncate(top);
    CriticalPath {
        length_ns: path.length_ns,
        share: ratio(path.length_ns as f64, span as f64),
        tasks: path.runs.len() as u64,
        codelets,
        longest: longest.iter().map(|&r| TaskRef::of(trace, r)).collect(),
    }
}
