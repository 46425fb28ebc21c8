//! Sums and updates of large arrays as several tasks.
//!
//! A task that updates a parameter of some size would make one node its owner, to which all of the gradient goes before
//! all of the value comes back: one way after the other. Cut into pieces, a parameter has several owners, both ways are in
//! use at once. What is cut are merges of accumulators and
//! the updates that read their sums. Each element is computed as before ([`Codelet::elementwise`](crate::Codelet)), so the
//! bits are the same.
//!
//! A sum stays whole if something else reads it, such as the norm of all gradients: it would have to be brought together again.

use std::sync::Arc;

use crate::access::{Access, Mode};
use crate::graph::Graph;
use crate::graph::reduce::is_merge;
use crate::region::Region;
use crate::shape::MAX_RANK;
use crate::split::{By, cut};

use super::part::Making;
use super::place::{bytes_of, flow, rows_of};

/// Pieces of all that nodes own, for each node, about: enough for nodes to own alike, and few messages.
const PIECES: usize = 2;

/// Bytes of a piece at least: less takes hardly less time to send.
const LEAST: usize = 8 << 10;

/// The same program for so many nodes, with large sums and updates in pieces.
pub(super) fn pieces(graph: &Arc<Graph>, nodes: usize) -> Arc<Graph> {
    let able: Vec<Option<usize>> = (0..graph.len() as u32).map(|t| able(graph, t)).collect();
    let is_update = |t: u32| !is_merge(graph.codelet_of(t));
    let updates = (0..graph.len() as u32).filter(|&t| is_update(t));
    let owned: usize = updates.filter_map(|t| able[t as usize]).sum();
    let piece = (owned / (PIECES * nodes)).max(LEAST);
    let cut = cuttable(graph, &able);
    let parts = |t: u32| match able[t as usize].filter(|_| cut[t as usize]) {
        Some(bytes) => parts_of(graph, t, bytes.div_ceil(piece).next_power_of_two()),
        None => Vec::new(),
    };
    let parts: Vec<_> = (0..graph.len() as u32).map(parts).collect();
    if parts.iter().all(|parts| parts.len() < 2) {
        return graph.clone();
    }
    let spans = graph.storages.iter().map(|s| Some(s.span)).collect();
    let mut making = Making::new(graph, spans);
    for (task, parts) in (0..).zip(parts) {
        match parts.len() {
            0 | 1 => making.task(task),
            _ => parts.iter().for_each(|part| making.piece(task, part)),
        }
    }
    let made = making.finish();
    made.expect("what tasks read was written before").graph
}

/// Bytes of each large operand of a task that computes element by element; none if it does not, or works on rows of
/// the batch.
fn able(graph: &Graph, task: u32) -> Option<usize> {
    let accesses = graph.accesses_of(task);
    let written = accesses.iter().find(|a| a.mode.writes())?;
    let fits = |a: &Access| match is_large(a, written) {
        true => a.fresh.is_none() && a.mode != Mode::Reduce,
        false => a.mode == Mode::Read,
    };
    let able = graph.codelet_of(task).elementwise && accesses.iter().all(fits);
    (able && rows_of(graph, task).is_none()).then(|| bytes_of(graph, written))
}

fn is_large(access: &Access, written: &Access) -> bool {
    access.region.dims4() == written.region.dims4()
}

/// Which tasks are cut: merges whose sum is read by such tasks alone, and tasks that read what such tasks make and nothing
/// else that is made in this launch.
fn cuttable(graph: &Graph, able: &[Option<usize>]) -> Vec<bool> {
    let mut cut: Vec<bool> = able.iter().map(Option::is_some).collect();
    for task in (0..graph.len() as u32)
        .rev()
        .filter(|&t| is_merge(graph.codelet_of(t)))
    {
        let mut readers = graph.successors(task).iter();
        cut[task as usize] &= readers.all(|&s| cut[s as usize] || flow(graph, task, s) == 0);
    }
    // Whether anything is made that a task reads.
    let mut reads = vec![false; graph.len()];
    for task in 0..graph.len() as u32 {
        let own = task as usize;
        cut[own] &= reads[own] || is_merge(graph.codelet_of(task));
        for &next in graph.successors(task) {
            let next_is_merge = is_merge(graph.codelet_of(next));
            if !next_is_merge && able[next as usize].is_some() && flow(graph, task, next) > 0 {
                reads[next as usize] = true;
                cut[next as usize] &= cut[own];
            }
        }
    }
    cut
}

/// The accesses of a task's parts, cut along the outermost axis that is longer than one.
fn parts_of(graph: &Graph, task: u32, count: usize) -> Vec<Vec<Access>> {
    let accesses = graph.accesses_of(task);
    let written = accesses.iter().find(|a| a.mode.writes());
    let written = written.expect("it is able to be cut");
    let dims = written.region.dims4();
    let axis = (0..MAX_RANK).find(|&a| dims[a] > 1).unwrap_or(MAX_RANK - 1);
    let parts = cut(axis, dims[axis], By::Count(count.min(dims[axis])));
    let parts = parts.expect("between 1 and the axis").into_iter();
    let part = |(from, to): (usize, usize)| {
        let (mut start, mut end) = ([0; MAX_RANK], dims);
        (start[axis], end[axis]) = (from, to);
        let part = Region::new(start, end).expect("not empty");
        let own = |a: &Access| match is_large(a, written) {
            true => Access {
                region: part.inside(&a.region),
                ..*a
            },
            false => *a,
        };
        accesses.iter().map(own).collect()
    };
    parts.map(part).collect()
}
