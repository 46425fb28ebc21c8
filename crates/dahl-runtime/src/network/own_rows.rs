//! What of an array a node needs, by where tasks are placed: so much of a batch has to be read from disk here.

use std::ops::Range;

use dahl_core::graph::partition::Placement;
use dahl_core::{Graph, Handle};

/// The elements of an array, from the first to the last, that a node's tasks touch.
pub(super) fn touched(
    graph: &Graph,
    array: &Handle,
    placement: &Placement,
    node: u16,
) -> Range<usize> {
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
