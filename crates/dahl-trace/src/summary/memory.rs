//! Memory over time, and its peaks.
//!
//! In the host, what a launch's temporaries take: each from the start of the first task that touches it
//! to the end of the last. That is what the run *needed*; the planned block that holds them may be
//! larger. In other memories, the copies that the runtime sampled.

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

use crate::Index;

/// The most that a memory held.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryPeak {
    /// The memory.
    pub memory: String,
    /// What was counted: `temporaries` or `copies`.
    pub what: &'static str,
    /// How much.
    pub peak_bytes: u64,
    /// When it was reached first.
    pub at_ns: Nanos,
    /// What the memory can hold, where that is limited.
    pub capacity_bytes: Option<u64>,
}

/// Memories in which temporaries are: the first of every node that launches, each with its node.
pub fn hosts(trace: &Trace) -> Vec<(u16, u16)> {
    let mut nodes: Vec<u16> = trace.launches.iter().map(|l| l.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let host = |node: &u16| {
        let place = trace.memories.iter().position(|m| m.node == *node)?;
        Some((place as u16, *node))
    };
    nodes.iter().filter_map(host).collect()
}

/// Bytes of live temporaries in a node's host, whenever that changed.
pub fn host_curve(trace: &Trace, index: &Index, node: u16) -> Vec<(Nanos, u64)> {
    let storages = trace.graphs.iter().map(|g| g.storages.len()).max();
    let mut lives: Vec<Option<(Nanos, Nanos)>> = vec![None; storages.unwrap_or(0)];
    let mut touched = vec![];
    let mut changes: Vec<(Nanos, i64)> = vec![];
    let own = |l: &u32| trace.launches[*l as usize].node == node;
    for launch in (0..trace.launches.len() as u32).filter(own) {
        let graph = trace.graph_of(launch);
        for &r in index.of_launch(launch) {
            let run = &trace.tasks[r as usize];
            for access in graph.accesses_of(run.id.task) {
                let s = access.storage as usize;
                if !graph.storages[s].temporary {
                    continue;
                }
                if lives[s].is_none() {
                    touched.push(s);
                }
                let life = lives[s].get_or_insert((run.start, run.end));
                *life = (life.0.min(run.start), life.1.max(run.end));
            }
        }
        for s in touched.drain(..) {
            if let Some((from, to)) = lives[s].take() {
                let bytes = i64::try_from(graph.storages[s].bytes).unwrap_or(i64::MAX);
                changes.push((from, bytes));
                changes.push((to, -bytes));
            }
        }
    }
    changes.sort_unstable();
    let mut curve: Vec<(Nanos, u64)> = vec![];
    let mut now = 0i128;
    for (at, change) in changes {
        now += i128::from(change);
        let bytes = u64::try_from(now.max(0)).unwrap_or(u64::MAX);
        match curve.last_mut() {
            Some(last) if last.0 == at => last.1 = bytes,
            _ => curve.push((at, bytes)),
        }
    }
    curve.dedup_by_key(|point| point.1);
    curve
}

/// The peak of each memory that held anything.
pub(super) fn peaks(trace: &Trace, index: &Index) -> Vec<MemoryPeak> {
    let mut peaks: Vec<(Nanos, u64)> = vec![(0, 0); trace.memories.len()];
    let mut higher = |memory: usize, at, bytes| {
        if bytes > peaks[memory].1 {
            peaks[memory] = (at, bytes);
        }
    };
    let hosts = hosts(trace);
    let is_host = |memory: usize| hosts.iter().any(|h| usize::from(h.0) == memory);
    for m in trace.memory.iter().filter(|m| !is_host(m.memory.into())) {
        higher(m.memory.into(), m.at, m.bytes);
    }
    for &(memory, node) in &hosts {
        for (at, bytes) in host_curve(trace, index, node) {
            higher(memory.into(), at, bytes);
        }
    }
    let peak = |(i, (at_ns, peak_bytes)): (usize, (Nanos, u64))| MemoryPeak {
        memory: trace.memories[i].name.clone(),
        what: if is_host(i) { "temporaries" } else { "copies" },
        peak_bytes,
        at_ns,
        capacity_bytes: trace.memories[i].capacity,
    };
    let held = |p: &(usize, (Nanos, u64))| p.1.1 > 0;
    peaks
        .into_iter()
        .enumerate()
        .filter(held)
        .map(peak)
        .collect()
}
