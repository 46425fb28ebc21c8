//! A trace as blocks of columns: what the page needs, in the order in which it draws.
//!
//! Runs are sorted by unit, then start, so that a lane of the chart is a range of every column, and
//! times become short differences. What the page needs only when somebody asks for a task (edges,
//! regions) is in blocks of its own, which it leaves packed until then.

use dahl_core::access::Mode;
use dahl_core::trace::{NOBODY, TaskId, TaskRun, Trace, TraceGraph};

use super::encode::{Columns, step, varint};
use crate::Index;
use crate::summary::timeline::message_waits;

/// A block and the name under which the page asks for it.
pub(super) type Block = (String, Columns);

/// Which run of the trace stands where on the page: by unit, then as in the trace.
pub(super) fn order(trace: &Trace) -> Vec<u32> {
    let mut order: Vec<u32> = (0..trace.tasks.len() as u32).collect();
    order.sort_by_key(|&i| trace.tasks[i as usize].unit);
    order
}

/// All blocks of a trace.
pub(super) fn blocks(trace: &Trace, index: &Index, order: &[u32], critical: &[u32]) -> Vec<Block> {
    let mut out = vec![
        ("launches".to_string(), launches(trace)),
        ("runs".to_string(), runs(trace, index, order)),
        ("messages".to_string(), messages(trace, index, order)),
        ("transfers".to_string(), transfers(trace)),
        ("power".to_string(), power(trace)),
        ("critical".to_string(), path(order, critical)),
    ];
    for (i, graph) in trace.graphs.iter().enumerate() {
        out.push((format!("tasks-{i}"), tasks(graph)));
        out.push((format!("edges-{i}"), edges(graph)));
        out.push((format!("accesses-{i}"), accesses(graph)));
    }
    out
}

fn launches(trace: &Trace) -> Columns {
    let mut out = Columns::default();
    out.numbers(trace.launches.iter().map(|l| l.step));
    out.numbers(trace.launches.iter().map(|l| u64::from(l.graph)));
    out.numbers(steps(trace.launches.iter().map(|l| l.at)));
    out
}

/// Each value as the step from the one before.
fn steps(values: impl ExactSizeIterator<Item = u64>) -> impl ExactSizeIterator<Item = u64> {
    let mut last = 0;
    values.map(move |v| step(std::mem::replace(&mut last, v), v))
}

fn runs(trace: &Trace, index: &Index, order: &[u32]) -> Columns {
    let sorted = || order.iter().map(|&i| &trace.tasks[i as usize]);
    let mut out = Columns::default();
    let mut counts = vec![0; trace.units.len()];
    for run in &trace.tasks {
        counts[usize::from(run.unit)] += 1;
    }
    out.numbers(counts.into_iter());
    // A task usually begins soon after the one before it on its unit ended.
    let mut last = (0, 0);
    out.numbers(sorted().map(|run: &TaskRun| {
        let from = if last.0 == run.unit { last.1 } else { 0 };
        last = (run.unit, run.end);
        step(from, run.start)
    }));
    out.numbers(sorted().map(|r| r.end.saturating_sub(r.start)));
    out.numbers(sorted().map(|r| r.start.saturating_sub(r.taken)));
    out.numbers(sorted().map(|r| r.taken.saturating_sub(r.ready)));
    out.numbers(steps(sorted().map(|r| u64::from(r.id.launch))));
    out.numbers(steps(sorted().map(|r| u64::from(r.id.task))));
    // Who released it: zero for the launch itself, else the launch one higher, then the task.
    out.numbers(sorted().map(|r| match r.released_by.task {
        NOBODY => 0,
        _ => 1 + step(u64::from(r.released_by.launch), u64::from(r.id.launch)),
    }));
    out.numbers(sorted().map(|r| match r.released_by.task {
        NOBODY => 0,
        task => step(u64::from(task), u64::from(r.id.task)),
    }));
    out.numbers(sorted().map(|r| u64::from(r.fell_back)));
    // How long its unit waited for messages before.
    let mut waited = vec![
        0;
        if trace.messages.is_empty() {
            0
        } else {
            trace.tasks.len()
        }
    ];
    for (run, from, to) in message_waits(trace, index) {
        waited[run as usize] = to - from;
    }
    let waited = |&run: &u32| waited.get(run as usize).copied().unwrap_or(0);
    out.numbers(order.iter().map(waited));
    out
}

/// The pairs of memories between which something was copied, in the order of the page's lanes.
pub(super) fn links(trace: &Trace) -> Vec<(u16, u16)> {
    let mut links: Vec<(u16, u16)> = trace.transfers.iter().map(|t| (t.from, t.to)).collect();
    links.sort_unstable();
    links.dedup();
    links
}

fn transfers(trace: &Trace) -> Columns {
    let links = links(trace);
    let mut sorted: Vec<_> = trace.transfers.iter().collect();
    sorted.sort_by_key(|t| (t.from, t.to));
    let mut counts = vec![0; links.len()];
    for t in &sorted {
        if let Ok(i) = links.binary_search(&(t.from, t.to)) {
            counts[i] += 1;
        }
    }
    let task = |id: TaskId| match id.task {
        NOBODY => 0,
        task => u64::from(task) + 1,
    };
    let mut out = Columns::default();
    out.numbers(counts.into_iter());
    out.numbers(steps(sorted.iter().map(|t| t.start)));
    out.numbers(sorted.iter().map(|t| t.end.saturating_sub(t.start)));
    out.numbers(sorted.iter().map(|t| t.bytes));
    out.numbers(sorted.iter().map(|t| u64::from(t.ahead)));
    out.numbers(sorted.iter().map(|t| u64::from(t.load.parts)));
    out.numbers(sorted.iter().map(|t| u64::from(t.load.wanted)));
    out.numbers(sorted.iter().map(|t| u64::from(t.load.whole)));
    out.numbers(sorted.iter().map(|t| u64::from(t.batch)));
    out.numbers(sorted.iter().map(|t| task(t.for_task)));
    out.numbers(sorted.iter().map(|t| match t.for_task.task {
        NOBODY => 0,
        _ => u64::from(t.for_task.launch),
    }));
    out
}

/// One curve per domain, in microwatts.
fn power(trace: &Trace) -> Columns {
    let mut out = Columns::default();
    for domain in 0..trace.domains.len() {
        let of = trace.power.iter();
        let samples: Vec<_> = of.filter(|p| usize::from(p.domain) == domain).collect();
        out.numbers(steps(samples.iter().map(|p| p.at)));
        // The cast saturates: nonsense stays nonsense, but is drawn inside the page.
        out.numbers(samples.iter().map(|p| (p.watts * 1e6).round() as u64));
    }
    out
}

/// Where each run of the trace stands on the page.
fn places(order: &[u32]) -> Vec<u32> {
    let mut place = vec![0u32; order.len()];
    for (at, &run) in order.iter().enumerate() {
        place[run as usize] = at as u32;
    }
    place
}

/// The runs that messages join, as places on the page, by the end of the first.
fn messages(trace: &Trace, index: &Index, order: &[u32]) -> Columns {
    let place = places(order);
    let mut joined = crate::network::joined(trace, index);
    joined.sort_by_key(|j| trace.tasks[j.0 as usize].end);
    let mut out = Columns::default();
    for side in [|j: &(u32, u32)| j.0, |j: &(u32, u32)| j.1] {
        let at = |j: &(u32, u32)| u64::from(place[side(j) as usize]);
        out.numbers(joined.iter().map(at));
    }
    out
}

/// The critical path as places on the page.
fn path(order: &[u32], critical: &[u32]) -> Columns {
    let place = places(order);
    let mut out = Columns::default();
    out.numbers(steps(
        critical.iter().map(|&run| u64::from(place[run as usize])),
    ));
    out
}

fn tasks(graph: &TraceGraph) -> Columns {
    let mut out = Columns::default();
    out.numbers(graph.tasks.iter().map(|t| u64::from(t.class)));
    out.numbers(graph.tasks.iter().map(|t| u64::from(t.section)));
    out
}

fn edges(graph: &TraceGraph) -> Columns {
    let count = graph.tasks.len() as u32;
    let mut ends = Vec::with_capacity(graph.successors.len());
    for task in 0..count {
        for &next in graph.successors_of(task) {
            ends.push(step(u64::from(task), u64::from(next)));
        }
    }
    let mut out = Columns::default();
    out.numbers((0..count as usize).map(|t| graph.successors_of(t as u32).len() as u64));
    out.numbers(ends.into_iter());
    out
}

/// The accesses of each task as a row of bytes, the rows' lengths before, the storages' names behind.
fn accesses(graph: &TraceGraph) -> Columns {
    let mut rows = Vec::new();
    let mut lengths = Vec::with_capacity(graph.tasks.len());
    for task in 0..graph.tasks.len() as u32 {
        let before = rows.len();
        for access in graph.accesses_of(task) {
            rows.push(match access.mode {
                Mode::Read => 0,
                Mode::Write => 1,
                Mode::ReadWrite => 2,
                Mode::Reduce => 3,
            });
            varint(&mut rows, u64::from(access.storage));
            for end in [access.region.start(), access.region.end()] {
                end.iter().for_each(|&x| varint(&mut rows, x as u64));
            }
        }
        lengths.push((rows.len() - before) as u64);
    }
    let names: Vec<&str> = graph.storages.iter().map(|s| s.name.as_str()).collect();
    let mut out = Columns::default();
    out.numbers(lengths.into_iter());
    out.raw(&rows);
    out.raw(serde_json::json!(names).to_string().as_bytes());
    out
}
