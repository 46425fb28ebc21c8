//! Placement by rows: each node gets its share of a batch, and of what is left.
//!
//! The program marks arrays whose rows are independent of each other, such as the samples of a batch
//! ([`Recorder::by_rows`](crate::Recorder::by_rows)). Five rules, in this order:
//!
//! 1. A task that writes some rows of a marked array, or only reads such, runs on the node whose share of the rows they are
//!    in. If they are the rows of several nodes, it runs on that one of them which has the least work of the same section for
//!    its share. If it writes none and reads those of several, the fifth rule holds.
//! 2. A task that touches no rows and little else, and whose result such tasks wait for, as normalisation waits for the
//!    statistics of the batch, runs on every node that reads the result: nodes send each other what they have, once, and
//!    nobody waits for somebody else's answer. If one node makes all that it reads, it runs there.
//! 3. A task that touches no rows and writes persistent arrays, such as an update of parameters, runs where the fewest
//!    bytes of such arrays are owned so far, in proportion to the shares, the largest first. So each piece of the
//!    parameters has one owner, and owners are as even as pieces allow.
//! 4. A task that is cheaper to repeat than its result is to send ([`is_repeated`]), such as the transform of a filter,
//!    runs on every node that reads the result.
//! 5. Every other task, such as a merge, runs where the fewest bytes move: from those who make what it reads, and to
//!    where its result is wanted. So the partial sums of a node are merged there before they are sent.
//!
//! Where the tasks belong to the stages of a pipeline ([`place_by_stages`]), each stage has shares of its own, and the rules but the
//! second hold within it: a stage on one node runs there whole, one with replicas shares its rows and owns its parameters among them.
//!
//! Whatever the shares, the graph stays the same, and so do the bits.

use crate::access::Access;
use crate::graph::{Graph, runs};
use crate::shape::MAX_RANK;

use super::traffic::seconds;
use super::{Placement, PlacementError};

/// Operations for each byte of the result beyond which a task is not repeated: what a core does while a fast network
/// (10 Gbit/s) carries a byte.
const REPEATED_FLOPS: f64 = 16.0;

/// Bytes of operands up to which sending them takes about as long as sending nothing.
const LITTLE: usize = 128 << 10;

/// Where tasks run, for nodes with these shares of the rows; not all may be zero. Fewest bytes move if merges are
/// [`super::pairwise`].
pub fn place_by_rows(graph: &Graph, shares: &[f64]) -> Result<Placement, PlacementError> {
    place_by_stages(graph, &vec![0; graph.len()], &[shares.to_vec()])
}

/// Where tasks run that belong to stages: of every task its stage, and of every stage the share of the rows that each node
/// has, none where it takes no part in the stage.
pub fn place_by_stages(
    graph: &Graph,
    stage_of: &[u16],
    shares: &[Vec<f64>],
) -> Result<Placement, PlacementError> {
    let mut stages = Stages {
        of: stage_of,
        shares: Vec::new(),
    };
    for own in shares {
        let total: f64 = own.iter().sum();
        let usable = |s: &f64| *s >= 0.0 && s.is_finite();
        if !(total > 0.0 && total.is_finite() && own.iter().all(usable)) {
            return Err(PlacementError::Shares(own.clone()));
        }
        let relative = own.iter().map(|s| s / total).collect();
        stages.shares.push(relative);
    }
    if stage_of.len() != graph.len() {
        return Err(PlacementError::Length {
            placed: stage_of.len(),
            tasks: graph.len(),
        });
    }
    let outside = |&stage: &u16| usize::from(stage) >= shares.len();
    if let Some(task) = stage_of.iter().position(outside) {
        return Err(PlacementError::Stage {
            task,
            stage: stage_of[task],
            stages: shares.len(),
        });
    }
    let tasks = 0..graph.len() as u32;
    let mut homes = by_rows(graph, &stages);
    // A stage waits for the one before it anyway.
    let between = match shares.len() {
        1 => between_rows(graph, &mut homes),
        _ => vec![false; graph.len()],
    };
    own(graph, &stages, &between, &mut homes);
    let repeated: Vec<bool> = tasks
        .map(|t| between[t as usize] || homes[t as usize].is_none() && is_repeated(graph, t))
        .collect();
    settle(graph, &stages, &repeated, &mut homes);
    Ok(spread(graph, &stages, &repeated, &homes))
}

/// The stages of tasks, and who takes part in each.
struct Stages<'a> {
    of: &'a [u16],
    /// By stage and node; together 1 in each stage.
    shares: Vec<Vec<f64>>,
}

impl Stages<'_> {
    /// The shares of the rows that hold for a task.
    fn shares(&self, task: u32) -> &[f64] {
        &self.shares[usize::from(self.of[task as usize])]
    }

    /// The node with the first rows of a task's stage.
    fn first(&self, task: u32) -> u16 {
        node_at(self.shares(task), 0.0)
    }
}

/// The first rule.
fn by_rows(graph: &Graph, stages: &Stages<'_>) -> Vec<Option<u16>> {
    let ends = |shares: &Vec<f64>| -> Vec<f64> {
        let ends = shares.iter().scan(0.0, |end, share| {
            *end += share;
            Some(*end)
        });
        ends.collect()
    };
    let all: Vec<Vec<f64>> = stages.shares.iter().map(ends).collect();
    // Work of the section at hand, by node.
    let (mut section, mut work) = (None, vec![0.0; stages.shares[0].len()]);
    let node = |task: u32| {
        let ([from, to], writes) = rows_of(graph, task)?;
        let (shares, ends) = (
            stages.shares(task),
            &all[usize::from(stages.of[task as usize])],
        );
        let now = Some(graph.tasks[task as usize].section);
        if now != section {
            section = now;
            work.fill(0.0);
        }
        // Nodes at least half of whose share it is.
        let common = |n: usize| to.min(ends[n]) - from.max(ends[n] - shares[n]);
        let is_half = |&n: &usize| shares[n] > 0.0 && common(n) > 0.499 * shares[n];
        let mut several: Vec<usize> = (0..shares.len()).filter(is_half).collect();
        if several.len() > 1 && !writes {
            return None;
        }
        if several.len() < 2 {
            several = vec![usize::from(node_at(shares, (from + to) / 2.0))];
        }
        let load = |&n: &usize| work[n] / shares[n];
        let node = several
            .into_iter()
            .min_by(|a, b| load(a).total_cmp(&load(b)))?;
        work[node] += seconds(&graph.class_of(task).cost);
        Some(node as u16)
    };
    (0..graph.len() as u32).map(node).collect()
}

/// The second rule: which tasks it is about. Those that need what one node has, and nothing else, get their place there.
fn between_rows(graph: &Graph, homes: &mut [Option<u16>]) -> Vec<bool> {
    let mut between = vec![false; graph.len()];
    for task in (0..graph.len() as u32).rev() {
        if homes[task as usize].is_some() {
            continue;
        }
        let accesses = graph.accesses_of(task).iter();
        let all: usize = accesses.map(|a| bytes_of(graph, a)).sum();
        let waits = |next: u32| {
            let is_next = homes[next as usize].is_some() || between[next as usize];
            is_next && flow(graph, task, next) > 0
        };
        let mut next = graph.successors(task).iter();
        between[task as usize] = all <= LITTLE && next.any(|&n| waits(n));
    }
    // Who makes what a task reads: nobody yet, one node, or several.
    let mut makers: Vec<Option<Option<u16>>> = vec![None; graph.len()];
    for task in 0..graph.len() as u32 {
        let at = task as usize;
        if between[at]
            && let Some(Some(one)) = makers[at]
        {
            (homes[at], between[at]) = (Some(one), false);
        }
        for &next in graph.successors(task) {
            let next_at = next as usize;
            if between[next_at] && flow(graph, task, next) > 0 {
                let so_far = makers[next_at].unwrap_or(homes[at]);
                makers[next_at] = Some(so_far.filter(|_| so_far == homes[at]));
            }
        }
    }
    between
}

/// The third rule.
fn own(graph: &Graph, stages: &Stages<'_>, between: &[bool], homes: &mut [Option<u16>]) {
    let is_free = |t: usize| homes[t].is_none() && !between[t];
    let free = (0..graph.len() as u32).filter(|&t| is_free(t as usize));
    let mut updates: Vec<(usize, u32)> = free.map(|t| (written(graph, t), t)).collect();
    updates.retain(|&(bytes, _)| bytes > 0);
    updates.sort_by_key(|&(bytes, task)| (std::cmp::Reverse(bytes), task));
    let mut owned: Vec<Vec<f64>> = stages.shares.iter().map(|s| vec![0.0; s.len()]).collect();
    for (bytes, task) in updates {
        let owned = &mut owned[usize::from(stages.of[task as usize])];
        let node = least_loaded(owned, stages.shares(task));
        owned[node] += bytes as f64;
        homes[task as usize] = Some(node as u16);
    }
}

/// The fifth rule. Tasks whose result nobody wants go to the first node of their stage.
fn settle(graph: &Graph, stages: &Stages<'_>, repeated: &[bool], homes: &mut [Option<u16>]) {
    // Successors come later in program order, so what they want is known when a task is looked at.
    let mut wanted: Vec<Option<u16>> = homes.to_vec();
    for task in (0..graph.len() as u32).rev() {
        if wanted[task as usize].is_none() {
            let mut next = graph.successors(task).iter();
            wanted[task as usize] = next.find_map(|&s| wanted[s as usize]);
        }
    }
    // Where what a task reads is made, in bytes by node.
    let mut sources: Vec<Vec<(u16, usize)>> = vec![Vec::new(); graph.len()];
    for task in 0..graph.len() as u32 {
        if homes[task as usize].is_none() && !repeated[task as usize] {
            let from = &sources[task as usize];
            let (first, shares) = (stages.first(task), stages.shares(task));
            let takes_part = |n: &u16| shares[usize::from(*n)] > 0.0;
            let wanted = wanted[task as usize].filter(takes_part);
            let made = from.iter().map(|s| s.0).find(takes_part);
            let to = wanted.or(made).unwrap_or(first);
            let (all, out) = (from.iter().map(|s| s.1).sum::<usize>(), result(graph, task));
            let there = |n: u16| from.iter().filter(|s| s.0 == n).map(|s| s.1).sum::<usize>();
            let moved = |n: u16| all - there(n) + if n == to { 0 } else { out };
            let nodes = from.iter().map(|s| s.0).filter(takes_part).chain([to]);
            homes[task as usize] = nodes.min_by_key(|&n| (moved(n), n != to, n));
        }
        let Some(home) = homes[task as usize] else {
            continue;
        };
        for &next in graph.successors(task) {
            if homes[next as usize].is_none() && !repeated[next as usize] {
                let bytes = flow(graph, task, next);
                if bytes > 0 {
                    sources[next as usize].push((home, bytes));
                }
            }
        }
    }
}

/// The second and the fourth rule: with them, all tasks are placed.
fn spread(
    graph: &Graph,
    stages: &Stages<'_>,
    repeated: &[bool],
    homes: &[Option<u16>],
) -> Placement {
    let mut nodes: Vec<Vec<u16>> = homes.iter().map(|h| h.iter().copied().collect()).collect();
    for task in (0..graph.len() as u32).rev() {
        if !repeated[task as usize] {
            continue;
        }
        let readers = graph.successors(task).iter();
        let readers = readers.filter(|&&next| flow(graph, task, next) > 0);
        let mut own: Vec<u16> = readers.flat_map(|&r| nodes[r as usize].clone()).collect();
        own.sort_unstable();
        own.dedup();
        if own.is_empty() {
            own.push(stages.first(task));
        }
        nodes[task as usize] = own;
    }
    Placement::new(nodes)
}

/// Whether a task that touches no rows is cheaper to repeat than its result is to send: it reads no more than it writes,
/// and does little with it.
fn is_repeated(graph: &Graph, task: u32) -> bool {
    let accesses = graph.accesses_of(task);
    let read = accesses.iter().filter(|a| reads(a));
    let read: usize = read.map(|a| bytes_of(graph, a)).sum();
    let written = result(graph, task);
    read <= written && graph.class_of(task).cost.flops <= REPEATED_FLOPS * written as f64
}

fn reads(access: &Access) -> bool {
    access.mode.reads() && access.fresh.is_none()
}

pub(super) fn bytes_of(graph: &Graph, access: &Access) -> usize {
    let array = &graph.arrays[access.array as usize];
    let storage = &graph.storages[array.storage as usize].storage;
    access.region.len() * storage.dtype.size()
}

/// Bytes that a task writes.
fn result(graph: &Graph, task: u32) -> usize {
    let accesses = graph.accesses_of(task).iter();
    let written = accesses.filter(|a| a.mode.writes());
    written.map(|a| bytes_of(graph, a)).sum()
}

/// Bytes that a task writes and a successor of it reads.
pub(super) fn flow(graph: &Graph, task: u32, next: u32) -> usize {
    let mut bytes = 0;
    for w in graph.accesses_of(task).iter().filter(|a| a.mode.writes()) {
        let made = &graph.arrays[w.array as usize];
        for r in graph.accesses_of(next).iter().filter(|a| reads(a)) {
            let seen = &graph.arrays[r.array as usize];
            if made.storage != seen.storage {
                continue;
            }
            bytes += match made.shape == seen.shape {
                true => w.region.intersection(&r.region).map_or(0, |common| {
                    bytes_of(graph, w) / w.region.len() * common.len()
                }),
                false if runs::overlap((&made.shape, &w.region), (&seen.shape, &r.region)) => {
                    bytes_of(graph, w).min(bytes_of(graph, r))
                }
                false => 0,
            };
        }
    }
    bytes
}

/// The rows that a task touches, from 0 to 1, and whether it writes them: if it does not, those that it reads.
pub fn rows_of(graph: &Graph, task: u32) -> Option<([f64; 2], bool)> {
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
    let rows = [access.region.start()[axis], access.region.end()[axis]];
    let all = shape.dims4()[axis] as f64;
    Some((rows.map(|row| row as f64 / all), access.mode.writes()))
}

/// Bytes of persistent arrays that a task writes.
fn written(graph: &Graph, task: u32) -> usize {
    let accesses = graph.accesses_of(task).iter();
    let kept = |a: &&Access| {
        let array = &graph.arrays[a.array as usize];
        let storage = &graph.storages[array.storage as usize];
        storage.temporary.is_none() && a.mode.writes()
    };
    accesses.filter(kept).map(|a| bytes_of(graph, a)).sum()
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
