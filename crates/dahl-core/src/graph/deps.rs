//! Dependencies: which earlier tasks a task must wait for, derived from what both touch.
//!
//! For every array the tracker keeps *fragments* (boxes whose elements share a history) with the task that wrote them last and the
//! tasks that have read them since. The edges are those that a tracker per element would find, none missed and
//! none extra:
//!
//! - a read waits for the last writer;
//! - a write waits for the readers since the last write, or for the last writer if there are none.

use serde::{Deserialize, Serialize};

use crate::region::Region;
use crate::shape::Shape;

use super::fragments::{Cut, Fragments};

/// No task.
pub(crate) const NONE: u32 = u32::MAX;

/// What happened to the elements of a fragment.
#[derive(Clone, Copy, Debug)]
struct History {
    writer: u32,
    /// Head of a list in [`Tracker::readers`]; lists share their tails, so cutting a fragment is free.
    readers: u32,
}

/// What an access meets: the end of a graph's history for some elements, or its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The task.
    pub task: u32,
    /// The elements.
    pub region: Region,
    /// Whether the task writes them.
    pub writes: bool,
}

/// Derives edges from accesses in program order.
#[derive(Debug, Default)]
pub struct Tracker {
    arrays: Vec<Fragments<History>>,
    readers: Vec<(u32, u32)>,
    /// For every task the last successor an edge was made to, so that none is made twice.
    marks: Vec<u32>,
    cut: Cut<History>,
}

impl Tracker {
    /// Starts tracking an array of this shape; arrays are numbered in the order of these calls.
    pub(crate) fn add_array(&mut self, shape: Shape) {
        let untouched = History {
            writer: NONE,
            readers: NONE,
        };
        self.arrays.push(Fragments::new(shape, untouched));
    }

    /// Task `task` touches `region` of `array`, seen under `shape`. Calls `edge` with every task it
    /// must wait for, once per task, and `fresh` with the parts that no task has written before.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn access(
        &mut self,
        array: usize,
        shape: &Shape,
        region: &Region,
        writes: bool,
        task: u32,
        mut edge: impl FnMut(u32),
        mut fresh: impl FnMut(Region),
    ) {
        let (readers, marks) = (&mut self.readers, &mut self.marks);
        if marks.len() <= task as usize {
            marks.resize((task as usize + 1).next_power_of_two(), NONE);
        }
        let mut wait_for = |from: u32| {
            if from != task && marks[from as usize] != task {
                marks[from as usize] = task;
                edge(from);
            }
        };
        let written = History {
            writer: task,
            readers: NONE,
        };
        let meet = |h: &History, part: Region| {
            if h.writer == NONE {
                fresh(part);
            }
            if !writes {
                if h.writer != NONE {
                    wait_for(h.writer);
                }
                readers.push((task, h.readers));
                return History {
                    writer: h.writer,
                    readers: readers.len() as u32 - 1,
                };
            }
            if h.readers == NONE && h.writer != NONE {
                wait_for(h.writer);
            }
            let mut next = h.readers;
            while next != NONE {
                let (reader, rest) = readers[next as usize];
                wait_for(reader);
                next = rest;
            }
            written
        };
        self.arrays[array].see_as(shape);
        self.arrays[array].change(region, writes.then_some(written), &mut self.cut, meet);
    }

    /// Whether no task has written any element of a region.
    pub(crate) fn is_unwritten(&mut self, array: usize, shape: &Shape, region: &Region) -> bool {
        self.arrays[array].see_as(shape);
        let mut met = self.arrays[array]
            .iter()
            .filter(|(r, _)| r.overlaps(region));
        met.all(|(_, h)| h.writer == NONE)
    }

    /// The tasks that a later access to `array` would meet, and the shape their regions are under.
    pub(crate) fn last(&self, array: usize) -> (Shape, Vec<Edge>) {
        let tracked = &self.arrays[array];
        let mut out = Vec::new();
        for &(region, history) in tracked.iter() {
            if history.writer != NONE {
                out.push(Edge {
                    task: history.writer,
                    region,
                    writes: true,
                });
            }
            let mut next = history.readers;
            while next != NONE {
                let (task, rest) = self.readers[next as usize];
                out.push(Edge {
                    task,
                    region,
                    writes: false,
                });
                next = rest;
            }
        }
        (*tracked.shape(), out)
    }
}
