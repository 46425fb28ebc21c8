//! Placement by rows: each node gets its share of a batch, and of what is left.
//!
//! The program marks arrays whose rows are independent of each other, such as the samples of a batch
//! ([`Recorder::by_rows`](crate::Recorder::by_rows)). Three rules, in this order:
//!
//! 1. A task that touches some rows of a marked array runs on the node whose share of the rows they are in.
//! 2. A task that touches no rows and writes persistent arrays, such as an update of parameters, runs where the fewest
//!    bytes of such arrays are owned so far, in proportion to the shares. So each piece of the parameters has one owner.
//! 3. Every other task runs where its first successor does, since that is where its result is needed: merged gradients
//!    at the owner of the parameters.
//!
//! Whatever the shares, the graph stays the same, and so do the bits.

use crate::access::Access;
use crate::graph::Graph;
use crate::shape::MAX_RANK;

use super::PlacementError;

/// The node of every task, for nodes with these shares of the rows; not all may be zero.
pub fn place_by_rows(graph: &Graph, shares: &[f64]) -> Result<Vec<u16>, PlacementError> {
    let total: f64 = shares.iter().sum();
    let usable = |s: &f64| *s >= 0.0 && s.is_finite();
    if !(total > 0.0 && total.is_finite() && shares.iter().all(usable)) {
        return Err(PlacementError::Shares(shares.to_vec()));
    }
    let shares: Vec<f64> = shares.iter().map(|s| s / total).collect();
    let mut node_of: Vec<Option<u16>> = (0..graph.len() as u32)
        .map(|task| rows_of(graph, task).map(|middle| node_at(&shares, middle)))
        .collect();
    let mut owned = vec![0.0; shares.len()];
    for task in 0..graph.len() as u32 {
        if node_of[task as usize].is_none() {
            let bytes = written(graph, task);
            if bytes > 0 {
                let node = least_loaded(&owned, &shares);
                owned[node] += bytes as f64;
                node_of[task as usize] = Some(node as u16);
            }
        }
    }
    // Successors come later in program order, so those of a task have a node when it is looked at.
    for task in (0..graph.len() as u32).rev() {
        if node_of[task as usize].is_none() {
            let next = graph.successors(task).first();
            let node = next.and_then(|&s| node_of[s as usize]);
            node_of[task as usize] = Some(node.unwrap_or(node_at(&shares, 0.0)));
        }
    }
    Ok(node_of.into_iter().flatten().collect())
}

/// The middle of the rows that a task touches, from 0 to 1: of what it writes if it can, else of what it reads.
fn rows_of(graph: &Graph, task: u32) -> Option<f64> {
    let accesses = graph.accesses_of(task).iter();
    let mut marked = accesses.filter_map(|a| {
        let array = &graph.arrays[a.array as usize];
        let by_rows = graph.storages[array.storage as usize].by_rows;
        by_rows.then_some((a, array.shape))
    });
    let first = marked.next()?;
    let writes = |(a, _): &(&Access, _)| a.mode.writes();
    let (access, shape) = match writes(&first) {
        true => first,
        false => marked.find(writes).unwrap_or(first),
    };
    let axis = MAX_RANK - shape.rank().max(1);
    let (from, to) = (access.region.start()[axis], access.region.end()[axis]);
    Some((from + to) as f64 / 2.0 / shape.dims4()[axis] as f64)
}

/// Bytes of persistent arrays that a task writes.
fn written(graph: &Graph, task: u32) -> usize {
    let accesses = graph.accesses_of(task).iter();
    let bytes = |a: &Access| {
        let array = &graph.arrays[a.array as usize];
        let storage = &graph.storages[array.storage as usize];
        match storage.temporary.is_none() && a.mode.writes() {
            true => a.region.len() * storage.storage.dtype.size(),
            false => 0,
        }
    };
    accesses.map(bytes).sum()
}

/// The node whose share contains a place from 0 to 1.
fn node_at(shares: &[f64], place: f64) -> u16 {
    let mut end = 0.0;
    for (node, share) in shares.iter().enumerate() {
        end += share;
        if place < end {
            return node as u16;
        }
    }
    let last = shares.iter().rposition(|&s| s > 0.0);
    last.unwrap_or(0) as u16
}

/// The node that owns the least for its share.
fn least_loaded(owned: &[f64], shares: &[f64]) -> usize {
    let nodes = (0..shares.len()).filter(|&n| shares[n] > 0.0);
    let load = |n: usize| owned[n] / shares[n];
    nodes
        .min_by(|&a, &b| load(a).total_cmp(&load(b)))
        .unwrap_or(0)
}
