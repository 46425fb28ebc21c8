//! Times by codelet, by layer and by step.

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

use super::labels::Labels;
use super::stats::{Spread, ratio};
use crate::Index;

/// A codelet's time.
#[derive(Clone, Debug, Serialize)]
pub struct CodeletTime {
    /// The codelet.
    pub codelet: String,
    /// And how it was computed.
    pub implementation: String,
    /// How long its tasks took.
    #[serde(flatten)]
    pub time: Spread,
    /// Its share of all tasks' time.
    pub share: f64,
    /// Floating-point operations by its time.
    pub gflops: f64,
    /// Bytes touched by its time.
    pub gbytes: f64,
}

/// A layer's time.
#[derive(Clone, Debug, Serialize)]
pub struct LayerTime {
    /// Its name; empty for tasks of no layer.
    pub layer: String,
    /// Tasks.
    pub tasks: u64,
    /// Their time.
    pub total_ns: Nanos,
    /// Its share of all tasks' time.
    pub share: f64,
}

/// A step's time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepTime {
    /// Its number.
    pub step: u64,
    /// When it was launched.
    pub launched_ns: Nanos,
    /// When its first task began.
    pub start_ns: Nanos,
    /// When its last task ended.
    pub end_ns: Nanos,
    /// Tasks that ran.
    pub tasks: u64,
    /// Their time.
    pub busy_ns: Nanos,
}

/// Codelets, by time.
pub(super) fn codelets(trace: &Trace, labels: &Labels) -> Vec<CodeletTime> {
    let n = labels.codelets.len();
    let mut durations = vec![vec![]; n];
    let mut costs = vec![(0.0, 0.0); n];
    for t in &trace.tasks {
        let c = labels.codelet(trace, t);
        durations[c].push(t.end - t.start);
        let class = trace.class_of(t.id);
        costs[c].0 += class.flops;
        costs[c].1 += class.bytes;
    }
    let all: u64 = durations.iter().flatten().sum();
    let mut rows: Vec<CodeletTime> = durations
        .iter_mut()
        .enumerate()
        .filter(|(_, d)| !d.is_empty())
        .map(|(c, d)| {
            let time = Spread::of(d);
            // Operations by nanoseconds are thousands of millions by seconds.
            let total = time.total_ns as f64;
            CodeletTime {
                codelet: labels.codelets[c].0.clone(),
                implementation: labels.codelets[c].1.clone(),
                time,
                share: ratio(total, all as f64),
                gflops: ratio(costs[c].0, total),
                gbytes: ratio(costs[c].1, total),
            }
        })
        .collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.time.total_ns));
    rows
}

/// Layers, by time.
pub(super) fn layers(trace: &Trace, labels: &Labels) -> Vec<LayerTime> {
    let mut sums = vec![(0u64, 0u64); labels.layers.len()];
    for t in &trace.tasks {
        let sum = &mut sums[labels.layer(trace, t)];
        sum.0 += 1;
        sum.1 += t.end - t.start;
    }
    let all: u64 = sums.iter().map(|s| s.1).sum();
    let mut rows: Vec<LayerTime> = sums
        .into_iter()
        .zip(&labels.layers)
        .filter(|(sum, _)| sum.0 > 0)
        .map(|((tasks, total_ns), layer)| LayerTime {
            layer: layer.clone(),
            tasks,
            total_ns,
            share: ratio(total_ns as f64, all as f64),
        })
        .collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.total_ns));
    rows
}

/// Steps of which a task ran, in order.
pub(super) fn steps(trace: &Trace, index: &Index) -> Vec<StepTime> {
    let step = |launches: std::ops::Range<u32>| {
        let first = &trace.launches[launches.start as usize];
        let runs = || launches.clone().flat_map(|l| index.of_launch(l));
        let tasks = || runs().map(|&r| &trace.tasks[r as usize]);
        Some(StepTime {
            step: first.step,
            launched_ns: first.at,
            start_ns: tasks().map(|t| t.start).min()?,
            end_ns: tasks().map(|t| t.end).max()?,
            tasks: runs().count() as u64,
            busy_ns: tasks().map(|t| t.end - t.start).sum(),
        })
    };
    launches_by_step(trace).filter_map(step).collect()
}

/// Launches of the same step, which nodes run together.
pub(super) fn launches_by_step(trace: &Trace) -> impl Iterator<Item = std::ops::Range<u32>> {
    let steps = trace.launches.chunk_by(|a, b| a.step == b.step);
    let mut next = 0;
    steps.map(move |launches| {
        let first = next;
        next += launches.len() as u32;
        first..next
    })
}
