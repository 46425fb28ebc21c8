//! Needs: what every access of a graph asks of memories, looked up once.
//!
//! A task's operands are asked for several times while it is placed, brought, run and ended. Each need is a
//! few words, and those of a task are next to each other, where the graph would be three tables away.

use dahl_core::graph::cells::Cells;
use dahl_core::{Access, Graph};

use super::copies::Key;
use dahl_sched::policy::TaskRef;

/// What an access asks for, in one launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub key: Key,
    /// Whether it needs the values that were there.
    pub reads: bool,
    pub writes: bool,
    /// Whether every launch in flight has one of its own.
    per_launch: bool,
    /// Where its cells are named.
    named: (u32, u32),
    /// What the numbers of cells are raised by in this launch.
    raise: u32,
}

#[derive(Debug)]
pub(super) struct Needs<'a> {
    graph: &'a Graph,
    /// Those of a launch at the first place of the ring.
    first: Vec<Need>,
    /// How far keys and cells of such storages are apart from one place of the ring to the next.
    apart: (u32, u32),
    cells: Cells,
    /// For every storage, whether every launch in flight has one of its own.
    per_launch: Vec<bool>,
}

impl<'a> Needs<'a> {
    /// Of all tasks of a graph. Every launch in flight has its own of the storages that `per_launch` says.
    pub(crate) fn new(graph: &'a Graph, cells: Cells, per_launch: Vec<bool>) -> Self {
        let need = |(access, a): (usize, &Access)| {
            let storage = graph.arrays[a.array as usize].storage;
            Need {
                key: storage,
                reads: a.mode.reads() && a.fresh.is_none(),
                writes: a.mode.writes(),
                per_launch: per_launch[storage as usize],
                named: cells.range(access),
                raise: 0,
            }
        };
        Needs {
            graph,
            first: graph.accesses.iter().enumerate().map(need).collect(),
            apart: (graph.storages.len() as u32, cells.bytes.len() as u32),
            cells,
            per_launch,
        }
    }

    /// What a storage is known by in a launch at a place of the ring, and what the numbers of its cells are
    /// raised by.
    #[inline]
    pub(crate) fn in_launch(&self, storage: u32, slot: usize) -> (Key, u32) {
        match self.per_launch[storage as usize] {
            true => {
                let slot = slot as u32;
                (storage + slot * self.apart.0, slot * self.apart.1)
            }
            false => (storage, 0),
        }
    }

    /// How many a task has.
    #[inline]
    pub(crate) fn count(&self, task: TaskRef) -> usize {
        usize::from(self.graph.tasks[task.task as usize].access_count)
    }

    /// One of a task of a launch at a place of the ring.
    #[inline]
    pub(crate) fn get(&self, task: TaskRef, i: usize, slot: usize) -> Need {
        let first = self.graph.tasks[task.task as usize].first_access as usize;
        let mut need = self.first[first + i];
        if need.per_launch {
            need.key += slot as u32 * self.apart.0;
            need.raise = slot as u32 * self.apart.1;
        }
        need
    }

    /// All of a task of a launch at a place of the ring.
    #[inline]
    pub(crate) fn of(&self, task: TaskRef, slot: usize) -> impl Iterator<Item = Need> {
        (0..self.count(task)).map(move |i| self.get(task, i, slot))
    }

    /// The cells that are needed.
    #[inline]
    pub(crate) fn cells(&self, need: &Need) -> impl Iterator<Item = u32> {
        let raise = need.raise;
        let cells = self.cells.named(need.named).iter();
        cells.map(move |cell| cell + raise)
    }
}
