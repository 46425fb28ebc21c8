//! Launches of one graph in a row: who still waits for how many.
//!
//! As in the runtime, a launch waits for earlier ones task by task, where its inlets meet their outlets,
//! and only as many launches are in flight as the ring has places. Everything is in a few flat tables
//! that are made once: nothing is allocated while tasks run.

use dahl_core::Graph;
use dahl_core::graph::boundary::edges_between;

use dahl_sched::edges::Edges;
use dahl_sched::policy::TaskRef;

/// Marks a task that has ended.
const ENDED: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Launches<'g> {
    graph: &'g Graph,
    steps: usize,
    ring: usize,
    /// For every place in the ring and task, how many it waits for.
    pending: Vec<u32>,
    /// For every place in the ring, tasks that have not ended.
    left: Vec<usize>,
    /// Launches begun so far, and the place of the next one in the ring.
    begun: usize,
    place: usize,
    /// To the next launch.
    near: Edges,
    /// To launches after the next: what the next one does not overwrite.
    far: Edges,
}

impl<'g> Launches<'g> {
    /// `steps` launches of a graph, at most `ring` of them at a time.
    pub(crate) fn new(graph: &'g Graph, steps: usize, ring: usize) -> Self {
        let ring = ring.clamp(1, steps.max(1));
        let (mut near, mut far) = (Vec::new(), Vec::new());
        if ring > 1 {
            for (i, s) in graph.storages.iter().enumerate() {
                if s.temporary.is_none() {
                    let edges = edges_between(graph, i as u32, graph, i as u32);
                    if !graph.boundary.overwrites(i as u32) {
                        far.extend(&edges);
                    }
                    near.extend(edges);
                }
            }
        }
        Launches {
            graph,
            steps,
            ring,
            pending: vec![ENDED; graph.len() * ring],
            left: vec![0; ring],
            begun: 0,
            place: 0,
            near: Edges::new(graph.len(), near),
            far: Edges::new(graph.len(), far),
        }
    }

    /// The place in the ring of the next launch or of one in flight: counted back from the next one's, since this is asked
    /// several times for each task and a division takes as long as all the rest of it.
    #[inline]
    pub(crate) fn slot(&self, launch: usize) -> usize {
        let back = self.begun - launch;
        debug_assert!(back <= self.ring, "neither the next nor in flight");
        match self.place.checked_sub(back) {
            Some(slot) => slot,
            None => self.place + self.ring - back,
        }
    }

    /// Launches that can be in flight.
    pub(crate) fn ring(&self) -> usize {
        self.ring
    }

    /// Whether another launch is wanted and has a place.
    pub(crate) fn may_begin(&self) -> bool {
        self.begun < self.steps && self.left[self.place] == 0
    }

    /// Whether all launches have begun and ended.
    pub(crate) fn is_done(&self) -> bool {
        self.begun == self.steps && self.left.iter().all(|&l| l == 0)
    }

    /// Begins the next launch and collects the tasks that wait for nobody.
    pub(crate) fn begin(&mut self, ready: &mut Vec<TaskRef>) -> usize {
        let (launch, n) = (self.begun, self.graph.len());
        let slot = self.place;
        let base = slot * n;
        self.pending[base..base + n].copy_from_slice(&self.graph.in_degree);
        self.left[slot] = n;
        self.begun += 1;
        self.place = if slot + 1 == self.ring { 0 } else { slot + 1 };
        for distance in 1..self.ring.min(launch + 1) {
            let before = self.slot(launch - distance);
            if self.left[before] == 0 {
                continue;
            }
            let edges = if distance == 1 { &self.near } else { &self.far };
            for task in 0..n {
                if self.pending[before * n + task] != ENDED {
                    for &to in edges.of(task as u32) {
                        self.pending[base + to as usize] += 1;
                    }
                }
            }
        }
        let roots = self.graph.roots.iter();
        let free = roots.filter(|&&t| self.pending[base + t as usize] == 0);
        ready.extend(free.map(|&task| TaskRef { launch, task }));
        launch
    }

    /// A task has ended: collects those that waited for it alone. True if its launch has ended with it.
    pub(crate) fn end(&mut self, task: TaskRef, ready: &mut Vec<TaskRef>) -> bool {
        let n = self.graph.len();
        let slot = self.slot(task.launch);
        let base = slot * n;
        debug_assert_eq!(self.pending[base + task.task as usize], 0);
        self.pending[base + task.task as usize] = ENDED;
        for &to in self.graph.successors(task.task) {
            let pending = &mut self.pending[base + to as usize];
            *pending -= 1;
            if *pending == 0 {
                ready.push(TaskRef {
                    launch: task.launch,
                    task: to,
                });
            }
        }
        for distance in 1..self.ring {
            let launch = task.launch + distance;
            if launch >= self.begun {
                break;
            }
            let base = self.slot(launch) * n;
            let edges = if distance == 1 { &self.near } else { &self.far };
            for &to in edges.of(task.task) {
                let pending = &mut self.pending[base + to as usize];
                *pending -= 1;
                if *pending == 0 {
                    ready.push(TaskRef { launch, task: to });
                }
            }
        }
        self.left[slot] -= 1;
        self.left[slot] == 0
    }

    /// A task that waits for one that never ends, for the error that says so: the first that is ready and
    /// has not run, else the first that has not.
    pub(crate) fn waiting(&self) -> Option<TaskRef> {
        let n = self.graph.len();
        let all = || {
            (self.begun.saturating_sub(self.ring)..self.begun).flat_map(move |launch| {
                let base = self.slot(launch) * n;
                (0..n).map(move |t| {
                    let task = t as u32;
                    (TaskRef { launch, task }, self.pending[base + t])
                })
            })
        };
        let ready = all().find(|(_, p)| *p == 0);
        ready
            .or_else(|| all().find(|(_, p)| *p != ENDED))
            .map(|f| f.0)
    }
}
