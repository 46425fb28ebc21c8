//! A graph whose tasks follow an order more closely than they must: with more edges, and temporaries cut by rows.
//!
//! Temporaries share bytes where edges order their users. A program that knows in which order parts of a batch are
//! computed says so by edges; and where no task touches two parts of an array, each part is a temporary of its own, so
//! that one of a part that has ended makes room for the next. Tasks keep their numbers, classes and regions: what is computed
//! is the same.

use std::sync::Arc;

use crate::access::Access;
use crate::array::{Home, Storage};
use crate::shape::{MAX_RANK, Shape};

use super::memory::{MemoryPlan, backwards};
use super::partition::interval;
use super::{Graph, GraphArray, GraphStorage, next_id};

impl Graph {
    /// The same tasks with these edges, too. Temporaries are cut into `parts` by their first axis, where no task touches two
    /// parts. None if the edges lead in a circle with those that there are.
    pub fn sequenced(&self, parts: usize, edges: &[(u32, u32)]) -> Option<Arc<Graph>> {
        let mut cut = Cut {
            storages: self.storages.clone(),
            arrays: self.arrays.clone(),
            accesses: self.accesses.clone(),
        };
        if parts > 1 {
            cut.all(self, parts);
        }
        let temporaries = cut.storages.iter_mut().filter(|s| s.temporary.is_some());
        for (number, storage) in (0..).zip(temporaries) {
            storage.temporary = Some(number);
        }
        let mut all: Vec<(u32, u32)> = self.edges().chain(edges.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let (in_degree, successor_start, successors) = adjacency(self.len(), &all);
        let mut boundary = self.boundary.clone();
        (self.storages.len()..cut.storages.len()).for_each(|_| boundary.add_storage());
        let roots = (0..self.len() as u32).filter(|&t| in_degree[t as usize] == 0);
        let mut graph = Graph {
            id: next_id(),
            codelets: self.codelets.clone(),
            classes: self.classes.clone(),
            tasks: self.tasks.clone(),
            accesses: cut.accesses,
            arrays: cut.arrays,
            storages: cut.storages,
            sections: self.sections.clone(),
            roots: roots.collect(),
            in_degree,
            successor_start,
            successors,
            memory: MemoryPlan::default(),
            boundary,
            messages: self.messages.clone(),
            // What runs in an order is not chosen by what is due.
            due: Vec::new(),
        };
        if backwards(&graph).len() < graph.len() {
            return None;
        }
        graph.memory = MemoryPlan::pack(&graph);
        Some(Arc::new(graph))
    }
}

/// By task, how many it waits for, and who waits for it, of edges that are sorted.
pub(super) fn adjacency(tasks: usize, edges: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut in_degree = vec![0u32; tasks];
    let mut start = vec![0u32; tasks + 1];
    for &(from, to) in edges {
        start[from as usize + 1] += 1;
        in_degree[to as usize] += 1;
    }
    for i in 0..tasks {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut successors = vec![0u32; edges.len()];
    for &(from, to) in edges {
        successors[next[from as usize] as usize] = to;
        next[from as usize] += 1;
    }
    (in_degree, start, successors)
}

/// The storage of a part, and the array of each shape that it is seen under.
type Made = (u32, Vec<(Shape, u32)>);

/// The tables of a graph while storages are cut.
struct Cut {
    storages: Vec<GraphStorage>,
    arrays: Vec<GraphArray>,
    accesses: Vec<Access>,
}

impl Cut {
    fn all(&mut self, graph: &Graph, parts: usize) {
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); graph.storages.len()];
        for (i, access) in graph.accesses.iter().enumerate() {
            let storage = graph.arrays[access.array as usize].storage;
            if graph.storages[storage as usize].temporary.is_some() {
                uses[storage as usize].push(i);
            }
        }
        for (storage, uses) in uses.iter().enumerate() {
            let own = &graph.storages[storage].storage;
            if let Some(rows) = rows_of_part(graph, own, uses, parts) {
                self.one(graph, storage, uses, (parts, rows));
            }
        }
    }

    /// Cuts one storage: its place is that of the first part that is touched, the others come behind all. Each has the
    /// whole's shape and memory for its own rows alone, as what a task computes may follow from where in the array it works.
    fn one(
        &mut self,
        graph: &Graph,
        storage: usize,
        uses: &[usize],
        (parts, rows): (usize, usize),
    ) {
        let whole = graph.storages[storage].clone();
        let mut places: Vec<Option<Made>> = vec![None; parts];
        let mut is_first = true;
        for &i in uses {
            let access = graph.accesses[i];
            let seen = graph.arrays[access.array as usize].shape;
            let part = access.region.start()[MAX_RANK - seen.rank()] / rows;
            let (number, arrays) = places[part].get_or_insert_with(|| {
                let made = GraphStorage {
                    storage: another(&whole.storage),
                    span: (usize::MAX, 0),
                    ..whole.clone()
                };
                let number = match std::mem::take(&mut is_first) {
                    true => {
                        self.storages[storage] = made;
                        storage as u32
                    }
                    false => {
                        self.storages.push(made);
                        self.storages.len() as u32 - 1
                    }
                };
                (number, Vec::new())
            });
            let known = arrays.iter().find(|a| a.0 == seen).map(|a| a.1);
            let array = known.unwrap_or_else(|| {
                self.arrays.push(GraphArray {
                    storage: *number,
                    shape: seen,
                });
                let array = self.arrays.len() as u32 - 1;
                arrays.push((seen, array));
                array
            });
            let span = &mut self.storages[*number as usize].span;
            let (from, to) = interval(&seen, &access.region);
            *span = (span.0.min(from), span.1.max(to));
            self.accesses[i] = Access { array, ..access };
        }
    }
}

/// How many rows a part of a storage has, if it can be cut: every access lies in one part.
fn rows_of_part(graph: &Graph, whole: &Storage, uses: &[usize], parts: usize) -> Option<usize> {
    let rows = *whole.shape.extents().first()?;
    if uses.is_empty() || !rows.is_multiple_of(parts) {
        return None;
    }
    let each = rows / parts;
    let fits = |&i: &usize| {
        let access = &graph.accesses[i];
        let seen = graph.arrays[access.array as usize].shape;
        if seen.extents().first() != Some(&rows) {
            return false;
        }
        let axis = MAX_RANK - seen.rank();
        let (start, end) = (access.region.start()[axis], access.region.end()[axis]);
        end <= (start / each + 1) * each
    };
    uses.iter().all(fits).then_some(each)
}

fn another(whole: &Storage) -> Arc<Storage> {
    let recorder = match whole.home {
        Home::Temporary { recorder } => recorder,
        Home::Arena(_) => 0,
    };
    let home = Home::Temporary { recorder };
    Storage::new(whole.name.clone(), whole.shape, whole.dtype, home)
}
