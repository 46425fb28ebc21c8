//! Merges of many accumulators as merges of two.
//!
//! A graph merges the accumulators of a reduction in one task, in the order of a binary tree: on one node that
//! touches the least memory. Between nodes, one that has all accumulators of a subtree should send their sum and not each
//! of them. So before tasks are placed, every merge is cut along its tree. The values have the same bits: the
//! same pairs are joined.

use std::sync::Arc;

use crate::access::{Access, Mode};
use crate::graph::Graph;
use crate::graph::reduce::{is_merge, tree};

use super::part::Making;
use super::pieces::pieces;

/// The program that nodes with these shares run: with merges of two and what is large in pieces, unless one of them has
/// everything.
pub fn for_shares(graph: &Arc<Graph>, shares: &[f64]) -> Arc<Graph> {
    match shares.iter().filter(|s| **s > 0.0).count() {
        0 | 1 => graph.clone(),
        nodes => pieces(&pairwise(graph), nodes),
    }
}

/// The same program with merges of two only.
pub fn pairwise(graph: &Arc<Graph>) -> Arc<Graph> {
    let many = |task: u32| graph.tasks[task as usize].access_count > 2;
    let is_cut = |task: u32| many(task) && is_merge(graph.codelet_of(task));
    if !(0..graph.len() as u32).any(is_cut) {
        return graph.clone();
    }
    let spans = graph.storages.iter().map(|s| Some(s.span)).collect();
    let mut making = Making::new(graph, spans);
    for task in 0..graph.len() as u32 {
        if !is_cut(task) {
            making.task(task);
            continue;
        }
        let accesses = graph.accesses_of(task);
        tree(accesses.len(), &mut |to, from| {
            let to = Access {
                mode: Mode::ReadWrite,
                ..accesses[to]
            };
            making.merge(task, [to, accesses[from]]);
        });
    }
    let cut = making.finish();
    cut.expect("what tasks read was written before").graph
}
