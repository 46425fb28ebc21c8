//! The critical path: the chain of tasks, each waiting for the one before, that takes longest.
//!
//! Chains follow the graph's edges inside a launch and, from launch to launch, the task that released
//! each. What counts is how long the bodies took: waiting and overhead are not on the path, so no
//! number of units and no scheduler can run these tasks, at these speeds, in less.
//!
//! Between launches a trace knows only the dependency that was satisfied last. It is the one that
//! mattered in this run, but a chain through an earlier one might have been longer by a little.

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

/// Finds the critical path. Linear in tasks and edges.
pub fn critical_path(trace: &Trace, index: &Index) -> Path {
    let runs = trace.tasks.len();
    // Of each run, the longest chain that ends before it, later with it; and the run before it there.
    let mut length: Vec<Nanos> = vec![0; runs];
    let mut before = vec![NONE; runs];
    let mut place = vec![
        NONE;
        trace
            .graphs
            .iter()
            .map(|g| g.tasks.len())
            .max()
            .unwrap_or(0)
    ];
    let mut best = NONE;
    for launch in 0..trace.launches.len() as u32 {
        let graph = trace.graph_of(launch);
        for &r in index.of_launch(launch) {
            place[trace.tasks[r as usize].id.task as usize] = r;
        }
        // Tasks by number: edges lead to higher ones, so each is reached after all before it.
        for &r in index.of_launch(launch) {
            let run = &trace.tasks[r as usize];
            if run.released_by.launch != launch
                && let Some(p) = index.find(trace, run.released_by)
            {
                extend(&mut length, &mut before, p, r);
            }
            length[r as usize] += run.end - run.start;
            if best == NONE || length[r as usize] > length[best as usize] {
                best = r;
            }
            for &s in graph.successors_of(run.id.task) {
                if place[s as usize] != NONE {
                    extend(&mut length, &mut before, r, place[s as usize]);
                }
            }
        }
        for &r in index.of_launch(launch) {
            place[trace.tasks[r as usize].id.task as usize] = NONE;
        }
    }
    let mut path = Path::default();
    if best != NONE {
        path.length_ns = length[best as usize];
    }
    while best != NONE {
        path.runs.push(best);
        best = before[best as usize];
    }
    path.runs.reverse();
    path
}

/// Run `to` may come after run `from`, whose length is final.
fn extend(length: &mut [Nanos], before: &mut [u32], from: u32, to: u32) {
    let (f, t) = (from as usize, to as usize);
    if before[t] == NONE || length[f] > length[t] {
        length[t] = length[f];
        before[t] = from;
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
