//! The critical path: the chain of tasks, each waiting for the one before, that takes longest.
//!
//! Chains follow the graph's edges inside a launch and, from launch to launch, whatever the boundaries of
//! the two graphs make wait, whichever task ended last. What counts is how long the bodies took:
//! waiting and overhead are not on the path, so no number of units and no scheduler can run these tasks,
//! at these speeds, in less. Tasks whose events were lost take no time, but chains lead through them.
//!
//! From node to node chains lead along messages, which take as long as they were under way. Nodes run the same step
//! together, so their launches are looked at together: a node that waits for a message goes on when the sender has come
//! as far.

use std::collections::HashMap;
use std::ops::Range;

use dahl_core::trace::{Nanos, TaskId, Trace};
use serde::Serialize;

use super::groups::launches_by_step;
use super::labels::Labels;
use super::stats::ratio;
use super::task::TaskRef;
use crate::Index;
use crate::network::{Crossing, crossings};

/// A chain of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The sum of their durations.
    pub length_ns: Nanos,
    /// Their numbers, in order.
    pub runs: Vec<u32>,
    /// How many messages lie between them.
    pub messages: u64,
    /// How long these were under way, which is part of the length.
    pub network_ns: Nanos,
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
    /// How many messages between nodes.
    pub messages: u64,
    /// And how long these took.
    pub network_ns: Nanos,
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
    let crossings = crossings(trace);
    let end = |end: u32| trace.messages[end as usize].id;
    let mut search = Search {
        trace,
        before: vec![NONE; trace.tasks.len() + crossings.len()],
        ends: trace.graphs.iter().map(|_| vec![]).collect(),
        touched: HashMap::new(),
        edges: HashMap::new(),
        sender: (0..)
            .zip(&crossings)
            .map(|(i, c)| (end(c.receive), (end(c.send), i)))
            .collect(),
        crossings: &crossings,
        sent: HashMap::new(),
    };
    let mut best = (0, NONE);
    let lost = |step: &Range<u32>| step.clone().all(|l| index.of_launch(l).is_empty());
    for step in launches_by_step(trace).skip_while(lost) {
        best = best.max(search.step(step, index));
    }
    let mut path = Path {
        length_ns: best.0,
        ..Path::default()
    };
    let mut link = best.1;
    while link != NONE {
        match (link as usize).checked_sub(trace.tasks.len()) {
            None => path.runs.push(link),
            Some(message) => {
                path.messages += 1;
                path.network_ns += crossings[message].end - crossings[message].start;
            }
        }
        link = search.before[link as usize];
    }
    path.runs.reverse();
    path
}

struct Search<'a> {
    trace: &'a Trace,
    /// What comes before each run on the longest chain that ends with it; messages come after all runs.
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
    crossings: &'a [Crossing],
    /// Of each receive, its send and the number of the message.
    sender: HashMap<TaskId, (TaskId, u32)>,
    /// Chains to sends that were looked at.
    sent: HashMap<TaskId, Chain>,
}

/// A launch that is being looked at.
struct Open<'i> {
    launch: u32,
    /// Chains to its tasks, as far as they are known.
    chains: Vec<Chain>,
    /// The next task.
    task: u32,
    /// The runs from there on, by task.
    runs: &'i [u32],
}

impl Search<'_> {
    /// Extends chains by the tasks of all launches of a step; returns the longest.
    fn step(&mut self, launches: Range<u32>, index: &Index) -> Chain {
        let mut best = (0, NONE);
        let mut open: Vec<Open> = launches
            .map(|launch| Open {
                launch,
                chains: self.chains_before(launch),
                task: 0,
                runs: index.of_launch(launch),
            })
            .collect();
        // In turns, as far as each gets; senders of lost messages are not waited for.
        while !open.is_empty() {
            let mut moved = false;
            for launch in &mut open {
                moved |= self.advance(launch, &mut best, false);
            }
            if !moved {
                self.advance(&mut open[0], &mut best, true);
            }
            let whole = |o: &mut Open| o.task as usize == o.chains.len();
            for done in open.extract_if(.., whole) {
                let number = self.trace.launches[done.launch as usize].graph;
                let ends = &mut self.ends[number as usize];
                ends.resize(done.chains.len(), (0, NONE));
                for (end, chain) in ends.iter_mut().zip(done.chains) {
                    extend(end, chain);
                }
            }
        }
        self.sent.clear();
        best
    }

    /// Chains from earlier launches to the tasks of one.
    fn chains_before(&mut self, launch: u32) -> Vec<Chain> {
        let number = self.trace.launches[launch as usize].graph;
        let graph = self.trace.graph_of(launch);
        let mut chains = vec![(0, NONE); graph.tasks.len()];
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
        chains
    }

    /// Goes on with a launch until it waits for a message whose sender has not come so far; with `anyway` past that
    /// one. Whether it got anywhere. Tasks by number: edges lead to higher ones, so each is reached after all before it.
    fn advance(&mut self, open: &mut Open, best: &mut Chain, mut anyway: bool) -> bool {
        let (trace, before) = (self.trace, open.task);
        let graph = trace.graph_of(open.launch);
        while (open.task as usize) < open.chains.len() {
            let task = open.task;
            let id = TaskId {
                launch: open.launch,
                task,
            };
            let mut chain = open.chains[task as usize];
            if let Some(&(send, message)) = self.sender.get(&id) {
                let Some(sent) = self
                    .sent
                    .get(&send)
                    .copied()
                    .or(anyway.then_some((0, NONE)))
                else {
                    break;
                };
                anyway = false;
                extend(&mut chain, sent);
                let crossing = &self.crossings[message as usize];
                chain = self.link(
                    chain,
                    trace.tasks.len() as u32 + message,
                    crossing.end - crossing.start,
                );
            }
            if let Some((&r, rest)) = open.runs.split_first()
                && trace.tasks[r as usize].id.task == task
            {
                let run = &trace.tasks[r as usize];
                open.runs = rest;
                chain = self.link(chain, r, run.end - run.start);
                *best = (*best).max(chain);
            }
            open.chains[task as usize] = chain;
            if graph.message(task).is_some_and(|m| m.sends) {
                self.sent.insert(id, chain);
            }
            for &s in graph.successors_of(task) {
                extend(&mut open.chains[s as usize], chain);
            }
            open.task += 1;
        }
        open.task > before
    }

    /// A chain with one more link.
    fn link(&mut self, chain: Chain, link: u32, time: Nanos) -> Chain {
        self.before[link as usize] = chain.1;
        (chain.0 + time, link)
    }
}

fn extend(chain: &mut Chain, from: Chain) {
    if from.1 != NONE && (chain.1 == NONE || from.0 > chain.0) {
        *chain = from;
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
        messages: path.messages,
        network_ns: path.network_ns,
        codelets,
        longest: longest.iter().map(|&r| TaskRef::of(trace, r)).collect(),
    }
}
