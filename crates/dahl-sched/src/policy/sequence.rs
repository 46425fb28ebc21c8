//! Orders as edges: what lets the memory plan see in which order a pipeline computes.
//!
//! A rank of a group begins when the rank before has ended, or where units look one rank ahead, the one before that. Nobody waits
//! longer for it than the policy would have made them, and temporaries of a micro-batch that has come back make room for the
//! next.
//!
//! On a node, messages have a place in the one order of all tasks: that of the task which asks for them, and it is the
//! same at both ends. A receive begins when the rank has ended that is two before the asking one (three, where units look
//! ahead), so that it is still early; what is behind a send's place waits for the send. All these edges lead forward in the
//! one order, and so do those of the graph, on all nodes: nobody waits in a circle.

use std::collections::BTreeMap;
use std::sync::Arc;

use dahl_core::Graph;
use dahl_core::graph::partition::{Part, Transfer};

use super::ordered::Order;

/// More edges than these are not worth their memory.
const MOST: usize = 1 << 20;

/// A rank of a group: what nothing of it waits for, what waits for nothing of it, and its first place.
#[derive(Default)]
struct Rank {
    sources: Vec<u32>,
    sinks: Vec<u32>,
    first: u32,
}

impl Order {
    /// The order of a part of the graph on one node: one group, and what belongs to messages at any time.
    pub fn of_part(&self, part: &Part, transfers: &[Transfer]) -> Order {
        let of = |all: &[u32], task: u32| all.get(task as usize).copied();
        let mut place: Vec<u32> = part
            .origin
            .iter()
            .map(|&task| of(&self.place, task).unwrap_or(u32::MAX))
            .collect();
        for message in &part.graph.messages {
            let transfer = &transfers[message.transfer as usize];
            if let Some(asks) = of(&self.place, transfer.before) {
                place[message.task as usize] = asks;
            }
        }
        let rank = |&task: &u32| of(&self.rank, task).unwrap_or(0);
        Order {
            group: vec![0; part.origin.len()],
            rank: part.origin.iter().map(rank).collect(),
            place,
            parts: self.parts,
        }
    }

    /// The graph with this order as edges, where units look so many ranks ahead; none if that would be too many.
    pub(super) fn sequenced(&self, graph: &Graph, ahead: usize) -> Option<Arc<Graph>> {
        if self.place.len() != graph.len() || self.parts < 2 {
            return None;
        }
        let mut edges = Vec::new();
        let mut join = |from: &[u32], to: &[u32]| {
            let fits = edges.len() + from.len() * to.len() <= MOST;
            if fits {
                let pairs = from.iter().flat_map(|&f| to.iter().map(move |&t| (f, t)));
                edges.extend(pairs);
            }
            fits
        };
        for (group, ranks) in self.ranks(graph) {
            for (i, rank) in ranks.iter().enumerate() {
                for later in ranks.iter().skip(i + 1 + ahead).take(1 + ahead) {
                    if !join(&rank.sinks, &later.sources) {
                        return None;
                    }
                }
            }
            for message in graph.messages.iter() {
                let task = message.task as usize;
                let at = self.place[task];
                if self.group[task] != group || at == u32::MAX {
                    continue;
                }
                let behind = ranks.partition_point(|r| r.first <= at);
                let own = [message.task];
                let fits = match message.sends {
                    true => ranks.get(behind).is_none_or(|r| join(&own, &r.sources)),
                    false => match behind.checked_sub(3 + ahead) {
                        Some(before) => join(&ranks[before].sinks, &own),
                        None => true,
                    },
                };
                if !fits {
                    return None;
                }
            }
        }
        graph.sequenced(self.parts, &edges)
    }

    /// The ranks of every group, in their order.
    fn ranks(&self, graph: &Graph) -> BTreeMap<u16, Vec<Rank>> {
        let key = |task: u32| (self.group[task as usize], self.rank[task as usize]);
        let mut waits = vec![false; graph.len()];
        let mut waited_for = vec![false; graph.len()];
        for (from, to) in graph.edges() {
            if key(from) == key(to) {
                (waits[to as usize], waited_for[from as usize]) = (true, true);
            }
        }
        let mut all: BTreeMap<(u16, u32), Rank> = BTreeMap::new();
        for task in 0..graph.len() as u32 {
            if key(task).1 == 0 {
                continue;
            }
            let place = self.place[task as usize];
            let rank = all.entry(key(task)).or_insert(Rank {
                first: place,
                ..Rank::default()
            });
            rank.first = rank.first.min(place);
            if !waits[task as usize] {
                rank.sources.push(task);
            }
            if !waited_for[task as usize] {
                rank.sinks.push(task);
            }
        }
        let mut groups: BTreeMap<u16, Vec<Rank>> = BTreeMap::new();
        for ((group, _), rank) in all {
            groups.entry(group).or_default().push(rank);
        }
        groups
    }
}
