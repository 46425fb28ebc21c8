//! In which order nodes do what others wait for.
//!
//! Left to itself a policy runs what was made ready last: half of the samples go forth and back before the others begin, and
//! every gradient is complete at the end of a step, all at once. In program order one after the other is, each while there
//! is much left to compute. So a task is *due* at the place of the first task, in program order, that has to do with it: itself,
//! if its result goes to another node or to the next launch, or else the first of those that wait for it. Of tasks that are due at the same
//! place, as those of all layers up to the loss may be, a policy runs first what it likes, so that data stays warm.
//!
//! A message within a launch is due where it is asked for. What earlier launches left is due a launch before that:
//! it can go at once, and what is read first goes first.
//!
//! Dues are counted in parts of a launch ([`LAUNCH`]), to compare those of different graphs. They say what to begin first and never
//! what to wait for, so nobody waits in a circle for them, and no bit depends on them.

use crate::graph::Graph;

use super::place::flow;
use super::{Placement, Transfer};

/// The whole of a launch, in the unit of dues.
pub const LAUNCH: i32 = 1 << 20;

/// Where the tasks and the transfers of a launch are due.
pub(super) struct Dues {
    pub tasks: Vec<i32>,
    pub transfers: Vec<i32>,
}

/// The dues of a launch; none if there are no messages.
pub(super) fn dues(graph: &Graph, placement: &Placement, transfers: &[Transfer]) -> Option<Dues> {
    if transfers.is_empty() {
        return None;
    }
    let unit = |place: i64| (place * i64::from(LAUNCH) / graph.len().max(1) as i64) as i32;
    let end = graph.len() as u32;
    let mut places = vec![end; graph.len()];
    for task in (0..end).rev() {
        let next = graph.successors(task).iter();
        let first = next.map(|&s| places[s as usize]).min();
        places[task as usize] = match leaves(graph, placement, task) {
            true => task,
            false => first.unwrap_or(end),
        };
    }
    let of_transfer = |t: &Transfer| {
        let asked = i64::from(t.before);
        match is_kept(graph, t.array) && t.before < end {
            true => asked - i64::from(end),
            false => asked,
        }
    };
    Some(Dues {
        tasks: places.into_iter().map(|p| unit(i64::from(p))).collect(),
        transfers: transfers.iter().map(|t| unit(of_transfer(t))).collect(),
    })
}

/// Whether what a task makes goes to another node, or is there for later launches.
fn leaves(graph: &Graph, placement: &Placement, task: u32) -> bool {
    let mut accesses = graph.accesses_of(task).iter();
    let elsewhere = |&next: &u32| {
        let mut nodes = placement.of(next).iter();
        nodes.any(|&n| !placement.runs(task, n)) && flow(graph, task, next) > 0
    };
    accesses.any(|a| a.mode.writes() && is_kept(graph, a.array))
        || graph.successors(task).iter().any(elsewhere)
}

fn is_kept(graph: &Graph, array: u32) -> bool {
    let storage = graph.arrays[array as usize].storage;
    graph.storages[storage as usize].temporary.is_none()
}
