//! What a graph means, run in any order that its edges allow: values element by element, temporaries where the
//! memory plan puts them.

use std::sync::{Arc, LazyLock};

use dahl_core::{Access, Codelet, Graph, Handle, Mode, Region, Shape, UnitKind};
use dahl_test_support::program::{Dice, Program, apply};

/// Changes each element of operand 1 by the one at the same place of operand 0; nothing but [`Values`] executes it.
pub static UPDATE: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    let codelet = Codelet::new("update").elementwise();
    Arc::new(codelet.implement("reference", UnitKind::CPU, |_| Ok(())))
});

/// Places of a region's elements in an array of this shape.
pub fn elements(shape: &Shape, region: &Region) -> Vec<usize> {
    let strides = shape.strides4();
    let (s, e) = (region.start(), region.end());
    let mut out = Vec::new();
    for i in s[0]..e[0] {
        for j in s[1]..e[1] {
            for k in s[2]..e[2] {
                let row = i * strides[0] + j * strides[1] + k * strides[2];
                out.extend((s[3]..e[3]).map(|l| row + l));
            }
        }
    }
    out
}

/// An order of the tasks that the edges allow, by chance.
pub fn order(graph: &Graph, dice: &mut Dice) -> Vec<u32> {
    let mut waits = graph.in_degree.clone();
    let mut ready: Vec<u32> = (0..graph.len() as u32)
        .filter(|&t| waits[t as usize] == 0)
        .collect();
    let mut order = Vec::new();
    while !ready.is_empty() {
        let task = ready.swap_remove(dice.below(ready.len()));
        order.push(task);
        for &next in graph.successors(task) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    assert_eq!(order.len(), graph.len(), "the edges are a circle");
    order
}

/// Memory of a run: arrays of the program, and the block that all temporaries lie in.
pub struct Values<'g> {
    graph: &'g Graph,
    /// By storage; empty for temporaries.
    pub arrays: Vec<Vec<f64>>,
    block: Vec<f64>,
}

impl<'g> Values<'g> {
    /// A run of a graph on these values of a program's arrays.
    pub fn new(graph: &'g Graph, handles: &[Handle], initial: &[Vec<f64>]) -> Self {
        let mut arrays = vec![Vec::new(); graph.storages.len()];
        for (handle, values) in handles.iter().zip(initial) {
            if let Some(at) = place(graph, handle) {
                arrays[at].clone_from(values);
            }
        }
        Values {
            graph,
            arrays,
            // Rubbish that would be seen.
            block: vec![f64::NAN; graph.memory.bytes as usize / 8],
        }
    }

    /// Gives the arrays back.
    pub fn leave(mut self, handles: &[Handle], result: &mut [Vec<f64>]) {
        for (handle, end) in handles.iter().zip(result) {
            if let Some(at) = place(self.graph, handle) {
                *end = std::mem::take(&mut self.arrays[at]);
            }
        }
    }

    /// The values of a task's operand, in order.
    pub fn operand(&mut self, task: u32, operand: usize) -> Vec<f64> {
        let access = self.graph.accesses_of(task)[operand];
        let shape = &self.graph.arrays[access.array as usize].shape;
        let places = elements(shape, &access.region);
        places.iter().map(|&e| *self.at(&access, e)).collect()
    }

    /// Sets the values of a task's operand.
    pub fn set_operand(&mut self, task: u32, operand: usize, values: &[f64]) {
        let access = self.graph.accesses_of(task)[operand];
        let shape = &self.graph.arrays[access.array as usize].shape;
        for (e, &value) in elements(shape, &access.region).into_iter().zip(values) {
            *self.at(&access, e) = value;
        }
    }

    /// An element of what an access touches.
    fn at(&mut self, access: &Access, element: usize) -> &mut f64 {
        let storage = self.graph.arrays[access.array as usize].storage as usize;
        match self.graph.storages[storage].temporary {
            Some(t) => {
                let skipped = self.graph.storages[storage].skipped_bytes();
                let place = self.graph.memory.offsets[t as usize] as usize + element * 8;
                &mut self.block[(place - skipped) / 8]
            }
            None => &mut self.arrays[storage][element],
        }
    }

    /// Runs a task.
    pub fn run(&mut self, task: u32) {
        let graph = self.graph;
        if graph.codelet_of(task).name == "pack" {
            let values = self.operand(task, 0);
            return self.set_operand(task, 1, &values);
        }
        let accesses: Vec<(&Access, Vec<usize>)> = graph
            .accesses_of(task)
            .iter()
            .map(|a| {
                (
                    a,
                    elements(&graph.arrays[a.array as usize].shape, &a.region),
                )
            })
            .collect();
        for (access, places) in &accesses {
            if let Some(merge) = access.fresh {
                places
                    .iter()
                    .for_each(|&e| *self.at(access, e) = merge.identity());
            }
        }
        if graph.codelet_of(task).name == "merge" {
            let (target, rest) = accesses.split_first().expect("a target");
            for (part, from) in rest {
                for (&to, &from) in target.1.iter().zip(from) {
                    let more = *self.at(part, from);
                    *self.at(target.0, to) += more;
                }
            }
            return;
        }
        if graph.codelet_of(task).name == "update" {
            for (&from, &to) in accesses[0].1.iter().zip(&accesses[1].1) {
                let by = *self.at(accesses[0].0, from);
                let value = self.at(accesses[1].0, to);
                *value = (*value * 3.0 + by) % 1009.0;
            }
            return;
        }
        let call = &graph.class_of(task).call;
        let dahl_core::Param::Int(salt) = call.params[0] else {
            panic!("the salt of a step is a whole number");
        };
        let mut sum = salt as f64;
        for (access, places) in accesses.iter().filter(|a| a.0.mode == Mode::Read) {
            sum += places.iter().map(|&e| *self.at(access, e)).sum::<f64>();
        }
        for (i, (access, places)) in accesses.iter().enumerate() {
            // What the step asked for: a reduction into an accumulator is an update of it by now.
            let mode = call.operands[i].1;
            for &e in places.iter().filter(|_| mode.writes()) {
                let value = self.at(access, e);
                *value = apply(mode, *value, sum);
            }
        }
    }
}

/// The arrays' values after running a program's graph in this order.
pub fn interpret(
    program: &Program,
    (graph, handles): (&Graph, &[Handle]),
    order: &[u32],
) -> Vec<Vec<f64>> {
    let mut result = program.initial();
    let mut values = Values::new(graph, handles, &result);
    order.iter().for_each(|&task| values.run(task));
    values.leave(handles, &mut result);
    result
}

/// Where a graph has an array: it has the storages that it uses, in the order in which it came across them.
fn place(graph: &Graph, handle: &Handle) -> Option<usize> {
    let mut all = graph.storages.iter();
    all.position(|s| Arc::ptr_eq(&s.storage, &handle.storage))
}

/// For every task, which tasks it leads to.
pub fn reach(graph: &Graph) -> Vec<Vec<bool>> {
    let mut reach = vec![vec![false; graph.len()]; graph.len()];
    for task in (0..graph.len()).rev() {
        let successors = graph.successors(task as u32);
        let leads_to = |next: usize| {
            let through = |s: &u32| reach[*s as usize][next];
            successors.contains(&(next as u32)) || successors.iter().any(through)
        };
        reach[task] = (0..graph.len()).map(leads_to).collect();
    }
    reach
}
