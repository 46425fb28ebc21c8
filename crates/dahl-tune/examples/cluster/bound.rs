//! How short a step can be at best, whatever the order of tasks and messages, where every node has one core.
//!
//! A node that reads a parameter which another one owns goes round in a circle: it gets the value, computes all that lies
//! between the first use of it and its part of the gradient, sends that, and waits for the new value. One launch after the
//! other, no step is shorter than such a round.

use std::sync::Arc;

use dahl_core::graph::partition::{Holders, Placement, Transfer, for_shares, place_by_rows};
use dahl_core::{Graph, Region, Shape};

/// Sets of tasks, one for every task.
struct Sets(Vec<Vec<u64>>);

impl Sets {
    /// Itself and all that it waits for, on its own node or for a value of another: to write where another node still reads
    /// its own copy, nobody waits.
    fn before(graph: &Graph, placement: &Placement) -> Sets {
        let words = graph.len().div_ceil(64);
        let mut sets = vec![vec![0u64; words]; graph.len()];
        for task in 0..graph.len() {
            sets[task][task / 64] |= 1 << (task % 64);
            for &next in graph.successors(task as u32) {
                let nodes = placement.of(task as u32);
                let together = nodes.iter().any(|&n| placement.runs(next, n));
                if !together && !flows(graph, task as u32, next) {
                    continue;
                }
                let [own, other] = sets
                    .get_disjoint_mut([task, next as usize])
                    .expect("successors come later");
                own.iter().zip(other).for_each(|(from, to)| *to |= from);
            }
        }
        Sets(sets)
    }

    /// Whether a task waits for another, or is it.
    fn has(&self, task: u32, before: u32) -> bool {
        self.0[task as usize][before as usize / 64] & (1 << (before % 64)) != 0
    }
}

/// Seconds of the longest round, with tasks and messages as long as these say.
pub fn longest_round(
    graph: &Arc<Graph>,
    shares: &[f64],
    seconds_of: impl Fn(&Graph, u32) -> f64,
    message: impl Fn(u64) -> f64,
) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let graph = &for_shares(graph, shares);
    let placement = place_by_rows(graph, shares)?;
    let mut holders = Holders::new(shares.len() as u16);
    holders.exchange(graph, &placement)?;
    let transfers = holders.exchange(graph, &placement)?;
    let rounds = Rounds {
        graph,
        placement: &placement,
        before: Sets::before(graph, &placement),
    };
    let length = |t: &Transfer| {
        let storage = graph.arrays[t.array as usize].storage as usize;
        message((t.region.len() * graph.storages[storage].storage.dtype.size()) as u64)
    };
    let parameters = transfers.iter().filter(|t| rounds.is_kept(t));
    let round = |value: &Transfer| -> Option<f64> {
        let makers = rounds.makers(value);
        // Parts of the gradient that the reader sends to where the new value is made.
        let waits = |t: u32| makers.iter().any(|&u| rounds.before.has(u, t));
        let back = |t: &&Transfer| {
            t.to == value.from
                && (t.before as usize) < graph.len()
                && !rounds.is_kept(t)
                && waits(t.before)
        };
        let back = transfers.iter().filter(back).map(length);
        let back = back.min_by(f64::total_cmp)?;
        let readers = rounds.readers(value);
        let between = |&t: &u32| {
            placement.runs(t, value.to)
                && waits(t)
                && readers.iter().any(|&r| rounds.before.has(t, r))
        };
        let work = (0..graph.len() as u32).filter(between);
        let work: f64 = work.map(|t| seconds_of(graph, t)).sum();
        let update = makers.iter().map(|&u| seconds_of(graph, u));
        Some(work + back + update.fold(f64::INFINITY, f64::min) + length(value))
    };
    Ok(parameters.filter_map(round).fold(0.0, f64::max))
}

struct Rounds<'a> {
    graph: &'a Graph,
    placement: &'a Placement,
    before: Sets,
}

impl Rounds<'_> {
    /// Whether what moves was made by an earlier launch, and this one makes a new value of it where it comes from.
    fn is_kept(&self, t: &Transfer) -> bool {
        let storage = self.graph.arrays[t.array as usize].storage as usize;
        self.graph.storages[storage].temporary.is_none() && !self.makers(t).is_empty()
    }

    /// Tasks that touch what moves, on a node.
    fn touching(&self, value: &Transfer, node: u16, writes: bool) -> Vec<u32> {
        let moved = &self.graph.arrays[value.array as usize];
        let touches = |&t: &u32| {
            self.placement.runs(t, node)
                && self.graph.accesses_of(t).iter().any(|a| {
                    let seen = &self.graph.arrays[a.array as usize];
                    a.mode.writes() == writes
                        && seen.storage == moved.storage
                        && overlap((&moved.shape, &value.region), (&seen.shape, &a.region))
                })
        };
        (0..self.graph.len() as u32).filter(touches).collect()
    }

    fn makers(&self, value: &Transfer) -> Vec<u32> {
        self.touching(value, value.from, true)
    }

    fn readers(&self, value: &Transfer) -> Vec<u32> {
        self.touching(value, value.to, false)
    }
}

/// Whether a task reads what another writes.
fn flows(graph: &Graph, task: u32, next: u32) -> bool {
    let seen = |array: u32| &graph.arrays[array as usize];
    let mut written = graph.accesses_of(task).iter().filter(|a| a.mode.writes());
    written.any(|w| {
        graph.accesses_of(next).iter().any(|r| {
            let (a, b) = (seen(w.array), seen(r.array));
            r.mode.reads()
                && a.storage == b.storage
                && overlap((&a.shape, &w.region), (&b.shape, &r.region))
        })
    })
}

/// Whether two parts of one storage may share an element, by the first and the last of each.
fn overlap(a: (&Shape, &Region), b: (&Shape, &Region)) -> bool {
    let [a, b] = [a, b].map(|(shape, region)| {
        let strides = shape.strides4();
        let at = |place: [usize; 4]| -> usize { (0..4).map(|i| place[i] * strides[i]).sum() };
        (at(region.start()), at(region.end().map(|e| e - 1)))
    });
    a.0 <= b.1 && b.0 <= a.1
}
