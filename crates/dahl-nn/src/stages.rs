//! Which operation of a pipeline a task belongs to: its stage, its micro-batch, and whether it goes forward or back.
//!
//! A stage is a range of layers; a task belongs to the stage of its layer, and to the micro-batch whose samples it touches.
//! Backward tasks that gradients of earlier layers wait for are told from those that only weights wait for: what writes
//! samples, or flows into what does, is on the way. So are the two halves of a backward pass that Zero Bubble schedules
//! apart. All of this is read off a lowered graph; nothing is decided here, and nothing executed.

use std::collections::HashMap;

use dahl_core::Graph;
use dahl_core::graph::partition::rows_of;

use crate::layers::fusion::groups;
use crate::step::Step;

/// What a task does for its stage and micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Computes the output.
    Forward,
    /// Computes the gradient of the input, or what that needs; the loss, too.
    InputGradient,
    /// Computes the gradient of weights, merges or updates.
    WeightGradient,
}

/// The operation that a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskOperation {
    /// Which stage, from 0.
    pub stage: u16,
    /// Which micro-batch, from 0; none of a task that several wait for or come from: a transformed filter, a merge, an
    /// update, statistics over the batch.
    pub micro_batch: Option<u16>,
    /// What it does there.
    pub pass: Pass,
}

/// The layers at which a pipeline may be cut: the first ones of those that run as one.
pub fn places_to_cut(step: &Step) -> Vec<usize> {
    groups(&step.model).iter().map(|g| g.layer).collect()
}

/// The operation of every task of a step's graph, where `firsts` are the first layers of the stages; the first one is 0. Graphs
/// of evaluation have operations, too, all of them forward.
pub fn operations(step: &Step, graph: &Graph, firsts: &[usize]) -> Vec<TaskOperation> {
    let last = firsts.len().saturating_sub(1);
    let stage = |layer: usize| firsts.partition_point(|&f| f <= layer).saturating_sub(1);
    let mut sections: HashMap<String, (usize, Pass)> = HashMap::new();
    for group in groups(&step.model) {
        let back = format!("{} backward", group.label);
        sections.insert(back, (stage(group.layer), Pass::InputGradient));
        sections.insert(group.label, (stage(group.layer), Pass::Forward));
    }
    sections.insert("loss".into(), (last, Pass::InputGradient));
    sections.insert("scores".into(), (last, Pass::Forward));
    let of_section: Vec<Option<(usize, Pass)>> = graph
        .sections
        .iter()
        .map(|name| sections.get(name).copied())
        .collect();
    let on_the_way = on_the_way(graph);
    // The stage that last wrote a storage: clipping and what else has no layer belongs to that.
    let mut owner = vec![None; graph.storages.len()];
    let mut all = Vec::with_capacity(graph.len());
    for task in 0..graph.len() as u32 {
        let known = of_section[graph.tasks[task as usize].section as usize];
        let accesses = || graph.accesses_of(task).iter();
        let storage = |array: u32| graph.arrays[array as usize].storage as usize;
        let stage = known.map(|(stage, _)| stage).or_else(|| {
            let written = accesses().filter(|a| a.mode.writes()).map(|a| a.array);
            let mut all = written.chain(accesses().map(|a| a.array));
            all.find_map(|array| owner[storage(array)])
        });
        let stage = stage.unwrap_or(last);
        for access in accesses().filter(|a| a.mode.writes()) {
            owner[storage(access.array)] = Some(stage);
        }
        let pass = match known {
            Some((_, Pass::Forward)) => Pass::Forward,
            Some(_) if on_the_way[task as usize] => Pass::InputGradient,
            _ => Pass::WeightGradient,
        };
        all.push(TaskOperation {
            stage: stage as u16,
            micro_batch: micro_batch(graph, task, step.micro_batches),
            pass,
        });
    }
    all
}

/// The micro-batch whose samples a task touches, if they are those of one.
fn micro_batch(graph: &Graph, task: u32, micro_batches: usize) -> Option<u16> {
    let ([from, to], _) = rows_of(graph, task)?;
    let m = micro_batches as f64;
    let (from, to) = (from * m, to * m);
    let number = (from + 1e-9).floor();
    (to <= number + 1.0 + 1e-9).then_some(number as u16)
}

/// Whether a task writes samples, or something that flows into a task which does.
fn on_the_way(graph: &Graph) -> Vec<bool> {
    let storage = |array: u32| graph.arrays[array as usize].storage;
    let mut all = vec![false; graph.len()];
    for task in (0..graph.len() as u32).rev() {
        let accesses = graph.accesses_of(task).iter();
        let written = accesses.filter(|a| a.mode.writes());
        let written: Vec<u32> = written.map(|a| storage(a.array)).collect();
        let samples = |&s: &u32| graph.storages[s as usize].by_rows;
        let reads = |next: u32| {
            let mut accesses = graph.accesses_of(next).iter();
            accesses.any(|a| a.mode.reads() && written.contains(&storage(a.array)))
        };
        let mut next = graph.successors(task).iter();
        all[task as usize] =
            written.iter().any(samples) || next.any(|&n| all[n as usize] && reads(n));
    }
    all
}
