//! What a placement asks of each node: work and bytes, counted without running anything.

use std::sync::Arc;

use crate::codelet::Cost;
use crate::graph::Graph;

use super::{Holders, Placement, PlacementError, Transfer, for_shares, place_by_rows};

/// What one launch asks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Seconds of one core, by static costs: to compare nodes, not to predict them.
    pub work: f64,
    /// Bytes that it sends.
    pub sent: u64,
    /// Bytes that it receives.
    pub received: u64,
    /// Messages that it sends.
    pub messages: usize,
}

/// The load of every node.
pub fn loads(
    graph: &Graph,
    placement: &Placement,
    transfers: &[Transfer],
    nodes: u16,
) -> Vec<Load> {
    let mut loads = vec![Load::default(); usize::from(nodes)];
    for task in 0..graph.len() as u32 {
        let seconds = seconds(&graph.class_of(task).cost);
        for &node in placement.of(task) {
            loads[usize::from(node)].work += seconds;
        }
    }
    for t in transfers {
        let storage = graph.arrays[t.array as usize].storage as usize;
        let size = graph.storages[storage].storage.dtype.size();
        let bytes = (t.region.len() * size) as u64;
        loads[usize::from(t.from)].sent += bytes;
        loads[usize::from(t.from)].messages += 1;
        loads[usize::from(t.to)].received += bytes;
    }
    loads
}

/// The load of every node in a launch that follows others of the same graph, with rows placed by these shares.
pub fn steady_loads(graph: &Arc<Graph>, shares: &[f64]) -> Result<Vec<Load>, PlacementError> {
    let (graph, nodes) = (for_shares(graph, shares), shares.len() as u16);
    let placement = place_by_rows(&graph, shares)?;
    let mut holders = Holders::new(nodes);
    holders.exchange(&graph, &placement)?;
    let transfers = holders.exchange(&graph, &placement)?;
    Ok(loads(&graph, &placement, &transfers, nodes))
}

/// Bytes that each of `nodes` sends if so many bytes are summed over all of them and every node gets the sum: what a
/// ring needs, and what merging by trees with evenly spread owners needs too. Each node sends its partial sum of what
/// others own, and what it owns to all others.
pub fn ring_bytes(bytes: u64, nodes: u16) -> u64 {
    let nodes = u64::from(nodes.max(1));
    2 * bytes * (nodes - 1) / nodes
}

/// A core of 32 GFLOP/s and 8 GB/s, as an estimate.
pub(super) fn seconds(cost: &Cost) -> f64 {
    cost.flops / 32e9 + cost.bytes / 8e9
}
