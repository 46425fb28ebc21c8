//! What of an array a node needs, where tasks are placed by samples: so much of a batch has to be read from disk here.

use std::ops::Range;
use std::sync::Arc;

use dahl_core::graph::partition::{pairwise, place_by_rows};
use dahl_core::{Graph, Handle};

/// The elements of an array, from the first to the last, that a node's tasks touch with these shares.
pub(super) fn touched(
    graph: &Arc<Graph>,
    array: &Handle,
    shares: &[f64],
    node: u16,
) -> Range<usize> {
    let whole = 0..array.storage.shape.len();
    let graph = &*pairwise(graph);
    let Ok(placement) = place_by_rows(graph, shares) else {
        return whole;
    };
    let mut all: Option<Range<usize>> = None;
    let own = (0..graph.len() as u32).filter(|&t| placement.runs(t, node));
    for access in own.flat_map(|t| graph.accesses_of(t)) {
        let seen = &graph.arrays[access.array as usize];
        if graph.storages[seen.storage as usize].storage.id != array.storage.id {
            continue;
        }
        let (strides, region) = (seen.shape.strides4(), access.region);
        let at = |place: [usize; 4]| -> usize { (0..4).map(|a| place[a] * strides[a]).sum() };
        let (from, to) = (at(region.start()), at(region.end().map(|e| e - 1)) + 1);
        let so_far = all.unwrap_or(from..to);
        all = Some(so_far.start.min(from)..so_far.end.max(to));
    }
    all.unwrap_or(0..0)
}
