//! Tasks numbered so that those which wait come after those they wait for.
//!
//! Programs number tasks in an order in which that holds. A graph that follows another order, as those of pipelines do, keeps
//! the numbers, and some of its edges lead back; readers of traces rely on them leading forward.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dahl_core::trace::{NOBODY, TaskId, Trace, TraceGraph};

/// Numbers the tasks of graphs whose edges lead back anew, wherever they are named. Others stay as they are.
pub fn renumber(trace: &mut Trace) {
    let numbers: Vec<Option<Vec<u32>>> = trace.graphs.iter().map(numbers).collect();
    if numbers.iter().all(Option::is_none) {
        return;
    }
    for (graph, numbers) in trace.graphs.iter_mut().zip(&numbers) {
        if let Some(numbers) = numbers {
            reorder(graph, numbers);
        }
    }
    let launches = &trace.launches;
    let change = |id: &mut TaskId| {
        let launch = launches.get(id.launch as usize);
        let of = launch.and_then(|l| numbers.get(l.graph as usize)?.as_ref());
        if let (Some(numbers), true) = (of, id.task != NOBODY) {
            id.task = numbers[id.task as usize];
        }
    };
    for run in &mut trace.tasks {
        change(&mut run.id);
        change(&mut run.released_by);
    }
    trace
        .transfers
        .iter_mut()
        .for_each(|t| change(&mut t.for_task));
    trace.messages.iter_mut().for_each(|m| change(&mut m.id));
    trace.sort();
}

/// The new number of every task, where an edge leads back: of those that wait for nobody any more always the first is next.
/// None where all lead forward, or in a circle, which is for checks to find.
fn numbers(graph: &TraceGraph) -> Option<Vec<u32>> {
    let count = graph.tasks.len();
    let all =
        || (0..count as u32).flat_map(|t| graph.successors_of(t).iter().map(move |&s| (t, s)));
    if graph.successor_start.len() != count + 1 || all().all(|(from, to)| from < to) {
        return None;
    }
    let mut waits = vec![0u32; count];
    all().for_each(|(_, to)| waits[to as usize] += 1);
    let ready = (0..count as u32).filter(|&t| waits[t as usize] == 0);
    let mut ready: BinaryHeap<Reverse<u32>> = ready.map(Reverse).collect();
    let (mut numbers, mut next) = (vec![0; count], 0);
    while let Some(Reverse(task)) = ready.pop() {
        numbers[task as usize] = next;
        next += 1;
        for &after in graph.successors_of(task) {
            waits[after as usize] -= 1;
            if waits[after as usize] == 0 {
                ready.push(Reverse(after));
            }
        }
    }
    (next as usize == count).then_some(numbers)
}

/// Gives the tasks of a graph these numbers.
fn reorder(graph: &mut TraceGraph, numbers: &[u32]) {
    let mut old = vec![0; numbers.len()];
    for (task, &number) in (0..).zip(numbers) {
        old[number as usize] = task;
    }
    let (mut tasks, mut accesses) = (Vec::new(), Vec::new());
    let (mut starts, mut successors) = (vec![0], Vec::new());
    for &task in &old {
        let mut next: Vec<u32> = graph.successors_of(task).to_vec();
        next.iter_mut().for_each(|s| *s = numbers[*s as usize]);
        next.sort_unstable();
        successors.extend(next);
        starts.push(successors.len() as u32);
        let mut own = graph.tasks[task as usize];
        own.first_access = accesses.len() as u32;
        accesses.extend_from_slice(graph.accesses_of(task));
        tasks.push(own);
    }
    (graph.tasks, graph.accesses) = (tasks, accesses);
    (graph.successor_start, graph.successors) = (starts, successors);
    for end in graph.inlets.iter_mut().chain(&mut graph.outlets) {
        end.edge.task = numbers[end.edge.task as usize];
    }
    for message in &mut graph.messages {
        message.task = numbers[message.task as usize];
    }
    graph.messages.sort_unstable_by_key(|m| m.task);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Summary, check, synthetic};

    #[test]
    fn what_is_numbered_backwards_is_as_good_as_before() {
        for seed in 1..4 {
            let before = synthetic(600, 3, seed);
            let mut trace = before.clone();
            renumber(&mut trace);
            assert_eq!(trace, before, "what leads forward stays as it is");
            // Every task gets the number that is as far from the end.
            for graph in &mut trace.graphs {
                let count = graph.tasks.len() as u32;
                reorder(graph, &(0..count).rev().collect::<Vec<u32>>());
            }
            let counts: Vec<u32> = (0..trace.launches.len() as u32)
                .map(|l| trace.graph_of(l).tasks.len() as u32)
                .collect();
            let turn = |id: &mut TaskId| {
                if id.task != NOBODY {
                    id.task = counts[id.launch as usize] - 1 - id.task;
                }
            };
            for run in &mut trace.tasks {
                turn(&mut run.id);
                turn(&mut run.released_by);
            }
            trace
                .transfers
                .iter_mut()
                .for_each(|t| turn(&mut t.for_task));
            trace.messages.iter_mut().for_each(|m| turn(&mut m.id));
            assert!(check(&trace).is_err(), "nothing leads back");
            renumber(&mut trace);
            check(&trace).unwrap();
            let path = |t: &Trace| Summary::of(t).critical_path.length_ns;
            assert_eq!(path(&trace), path(&before));
        }
    }
}
