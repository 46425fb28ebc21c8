//! From the order of operations to that of tasks: one order of all of them, and ranks for the groups that follow it.
//!
//! Every task gets the place of its operation. What belongs to no micro-batch goes with the first operation that waits for it
//! (a transformed filter), or with the last that it waits for (a merge, an update). Tasks are then taken one after another,
//! of those whose predecessors have been taken always the one with the earliest place: an order in which everybody comes
//! after what it needs, whatever the graph. If operations need each other in a circle, as where statistics go over the whole batch, it
//! goes back and forth between them. A group's ranks count how often its operation changes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use dahl_core::Graph;
use dahl_nn::stages::{Pass, TaskOperation};
use dahl_plan::pipeline::{Operation, PipelineSchedule};
use dahl_sched::policy::Order;

/// The place of each operation among all, by when it begins.
pub(super) type Places = HashMap<(Operation, usize, usize), u32>;

/// What planners call an operation.
pub(super) fn operation(pass: Pass) -> Operation {
    match pass {
        Pass::Forward => Operation::Forward,
        Pass::InputGradient => Operation::InputGradient,
        Pass::WeightGradient => Operation::WeightGradient,
    }
}

pub(super) fn places(schedule: &PipelineSchedule) -> Places {
    let rows = schedule.orders.iter().zip(&schedule.begins);
    let mut all: Vec<_> = rows
        .flat_map(|(slots, begins)| slots.iter().zip(begins))
        .collect();
    // Stable: what begins at the same time on one device stays in its order.
    all.sort_by(|a, b| a.1.total_cmp(b.1));
    let key = |i: usize| {
        let slot = all[i].0;
        (slot.operation, slot.stage, slot.micro_batch)
    };
    (0..all.len()).map(|i| (key(i), i as u32)).collect()
}

/// Samples of the batch of a graph.
pub(super) fn samples(graph: &Graph) -> Option<usize> {
    let rows = graph.storages.iter().filter(|s| s.by_rows);
    let kept = rows.filter(|s| s.temporary.is_none());
    kept.map(|s| s.storage.shape.extents()[0]).max()
}

/// Whether a graph has a backward pass.
pub(super) fn goes_back(graph: &Graph) -> bool {
    graph.sections.iter().any(|s| s.ends_with(" backward"))
}

/// The layer whose forward pass looks at several micro-batches at once, if there is one.
pub(super) fn serial(
    graph: &Graph,
    operations: &[TaskOperation],
    micro_batches: usize,
) -> Option<String> {
    if micro_batches < 2 {
        return None;
    }
    // How many micro-batches flow into what belongs to none.
    let mut first = vec![None; graph.len()];
    for task in 0..graph.len() as u32 {
        let own = operations[task as usize];
        let from = own.micro_batch.or(first[task as usize]);
        for &next in graph.successors(task) {
            let then = operations[next as usize];
            let is_joint = |o: TaskOperation| o.pass == Pass::Forward && o.micro_batch.is_none();
            if own.pass != Pass::Forward || !is_joint(then) || !flows(graph, task, next) {
                continue;
            }
            match (first[next as usize], from) {
                (Some(a), Some(b)) if a != b => {
                    let section = graph.tasks[next as usize].section;
                    return Some(graph.sections[section as usize].clone());
                }
                (None, from) => first[next as usize] = from,
                _ => {}
            }
        }
    }
    None
}

/// Whether a task hands a temporary to another. What outlives a step, such as running statistics, makes nobody wait for long.
fn flows(graph: &Graph, task: u32, next: u32) -> bool {
    let storage = |array: u32| graph.arrays[array as usize].storage;
    let written = graph.accesses_of(task).iter().filter(|a| a.mode.writes());
    let mut written = written.map(|a| storage(a.array));
    let reads = |s: u32| {
        let mut accesses = graph.accesses_of(next).iter();
        accesses.any(|a| a.mode.reads() && storage(a.array) == s)
    };
    written.any(|s| graph.storages[s as usize].temporary.is_some() && reads(s))
}

/// The order of a graph of so many equal steps, one after another, each of so many micro-batches, where `group` says which
/// group computes a stage.
pub(super) fn order(
    graph: &Graph,
    (operations, steps): (&[TaskOperation], usize),
    (places, parts): (&Places, usize),
    group: impl Fn(u16) -> u16,
) -> Order {
    let keys = keys(graph, (operations, steps), places);
    let group: Vec<u16> = operations.iter().map(|o| group(o.stage)).collect();
    let groups = group.iter().max().map_or(0, |&g| usize::from(g) + 1);
    let mut at: Vec<(Option<u32>, u32)> = vec![(None, 0); groups];
    let (mut rank, mut place) = (vec![0; graph.len()], vec![0; graph.len()]);
    for (number, task) in (0..).zip(linear(graph, &keys)) {
        place[task as usize] = number;
        let key = keys[task as usize];
        let (last, count) = &mut at[usize::from(group[task as usize])];
        if *last != Some(key) {
            (*last, *count) = (Some(key), *count + 1);
        }
        rank[task as usize] = *count;
    }
    Order {
        group,
        rank,
        place,
        parts,
    }
}

/// The place of every task's operation; those of a later step come behind all of an earlier one.
fn keys(
    graph: &Graph,
    (operations, steps): (&[TaskOperation], usize),
    places: &Places,
) -> Vec<u32> {
    let each = graph.len().div_ceil(steps.max(1));
    let place = |(task, o): (usize, &TaskOperation)| {
        let (stage, batch) = (usize::from(o.stage), usize::from(o.micro_batch?));
        let own = places.get(&(operation(o.pass), stage, batch));
        // Where the two gradients are one operation.
        let joint = || places.get(&(Operation::InputGradient, stage, batch));
        let before = task / each * places.len();
        own.or_else(joint).map(|p| p + before as u32)
    };
    let mut keys: Vec<Option<u32>> = operations.iter().enumerate().map(place).collect();
    for task in (0..graph.len()).rev() {
        if keys[task].is_none() && operations[task].pass != Pass::WeightGradient {
            let next = graph.successors(task as u32).iter();
            keys[task] = next.filter_map(|&n| keys[n as usize]).min();
        }
    }
    // What is left goes with the last of what it waits for.
    let mut waits = vec![0; graph.len()];
    for task in 0..graph.len() {
        let key = keys[task].unwrap_or(waits[task]);
        keys[task] = Some(key);
        for &next in graph.successors(task as u32) {
            waits[next as usize] = key.max(waits[next as usize]);
        }
    }
    keys.into_iter().map(Option::unwrap_or_default).collect()
}

/// All tasks, each after those it waits for, else by their keys and in program order.
fn linear(graph: &Graph, keys: &[u32]) -> Vec<u32> {
    let mut waits = graph.in_degree.clone();
    let entry = |task: u32| Reverse((keys[task as usize], task));
    let mut ready: BinaryHeap<_> = graph.roots.iter().map(|&t| entry(t)).collect();
    let mut all = Vec::with_capacity(graph.len());
    while let Some(Reverse((_, task))) = ready.pop() {
        all.push(task);
        for &next in graph.successors(task) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(entry(next));
            }
        }
    }
    all
}
