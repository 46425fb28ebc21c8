//! Temporaries of a part take no more memory than from the first to the last element that its node touches.
//!
//! A node that has some samples of a batch touches some rows of the activations. Shapes and regions stay as they are, so
//! that a task sees where in the whole array it works; only the memory before and behind is left out.

use crate::graph::Graph;
use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};

/// For every storage of a graph that is touched, from which element to which: `touched` calls what it is given with each
/// array and part.
pub(super) fn spans(
    graph: &Graph,
    touched: impl FnOnce(&mut dyn FnMut(u32, &Region)),
) -> Vec<Option<(usize, usize)>> {
    let mut spans: Vec<Option<(usize, usize)>> = vec![None; graph.storages.len()];
    touched(&mut |array, region| {
        let array = &graph.arrays[array as usize];
        let span = &mut spans[array.storage as usize];
        let (from, to) = interval(&array.shape, region);
        *span = Some(span.map_or((from, to), |(lo, hi)| (lo.min(from), hi.max(to))));
    });
    spans
}

/// The elements from the first to the last of a region.
pub(in crate::graph) fn interval(shape: &Shape, region: &Region) -> (usize, usize) {
    let (strides, start, end) = (shape.strides4(), region.start(), region.end());
    let at = |place: [usize; MAX_RANK]| (0..MAX_RANK).map(|a| place[a] * strides[a]).sum::<usize>();
    (at(start), at(end.map(|e| e - 1)) + 1)
}
