//! Finding the run of a task.
//!
//! Runs are sorted by launch and task. A table with a place for every task of every launch would be
//! faster, but of a long run of which only the end was kept it would be mostly empty.

use std::ops::Range;

use dahl_core::trace::{TaskId, Trace};

/// The runs of a trace by task. Belongs to the trace it was made of, as long as that does not change.
#[derive(Clone, Debug)]
pub struct Index {
    /// Numbers of runs, by launch and task.
    order: Vec<u32>,
    /// Where the runs of each launch begin, and the end.
    starts: Vec<u32>,
}

impl Index {
    /// Sorts the runs of a trace that [`crate::check`] accepts.
    pub fn of(trace: &Trace) -> Index {
        let mut starts = vec![0u32; trace.launches.len() + 1];
        for t in &trace.tasks {
            starts[t.id.launch as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; trace.tasks.len()];
        for (i, t) in trace.tasks.iter().enumerate() {
            let place = &mut next[t.id.launch as usize];
            order[*place as usize] = i as u32;
            *place += 1;
        }
        for range in starts.windows(2) {
            order[range[0] as usize..range[1] as usize]
                .sort_unstable_by_key(|&i| trace.tasks[i as usize].id.task);
        }
        Index { order, starts }
    }

    /// Numbers of all runs, by launch and task: an order in which dependencies lead forwards.
    pub(crate) fn by_task(&self) -> &[u32] {
        &self.order
    }

    /// Numbers of a launch's runs, by task.
    pub fn of_launch(&self, launch: u32) -> &[u32] {
        &self.order[self.range(launch)]
    }

    fn range(&self, launch: u32) -> Range<usize> {
        let l = launch as usize;
        self.starts[l] as usize..self.starts[l + 1] as usize
    }

    /// The number of the run of a task, or `None` where the trace has none: it never ran, its event was
    /// given up, or `id` is nobody.
    pub(crate) fn find(&self, trace: &Trace, id: TaskId) -> Option<u32> {
        if id.launch as usize + 1 >= self.starts.len() {
            return None;
        }
        let runs = self.of_launch(id.launch);
        let task = |&i: &u32| trace.tasks[i as usize].id.task;
        // Nearly always every task of a launch has run.
        match runs.get(id.task as usize) {
            Some(i) if task(i) == id.task => Some(*i),
            _ => runs
                .binary_search_by_key(&id.task, task)
                .ok()
                .map(|at| runs[at]),
        }
    }

    /// All dependencies between two tasks that ran, as numbers of runs: the graphs' edges, from
    /// launch to launch the task that released the other, and from node to node those that a message joins.
    pub fn edges(&self, trace: &Trace) -> Vec<(u32, u32)> {
        let mut edges = crate::network::joined(trace, self);
        for &r in &self.order {
            let run = &trace.tasks[r as usize];
            let launch = run.id.launch;
            if run.released_by.launch != launch
                && let Some(by) = self.find(trace, run.released_by)
            {
                edges.push((by, r));
            }
            for &task in trace.graph_of(launch).successors_of(run.id.task) {
                if let Some(s) = self.find(trace, TaskId { launch, task }) {
                    edges.push((r, s));
                }
            }
        }
        edges
    }
}
