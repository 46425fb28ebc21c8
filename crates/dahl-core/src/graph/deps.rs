//! Dependencies: which earlier tasks a task must wait for, derived from what both touch.
//!
//! For every array the tracker keeps *fragments*: disjoint boxes that cover it, each with the task
//! that wrote it last and the tasks that have read it since. All elements of a fragment have the same
//! history, because accesses cut fragments exactly at their own borders; so the edges are those that
//! a tracker per element would find, none missed and none extra:
//!
//! - a read waits for the last writer;
//! - a write waits for the readers since the last write, or for the last writer if there are none.
//!
//! A write makes its region one fragment again, so the number of fragments follows the current way
//! the array is split, not the history.

use std::collections::HashMap;

use crate::hash::FastBuild;
use crate::region::Region;
use crate::shape::Shape;

use super::runs;

/// No task.
pub const NONE: u32 = u32::MAX;

/// Above this many fragments, exact matches go through a table instead of a scan.
const INDEX_FROM: usize = 12;

#[derive(Clone, Copy, Debug)]
struct Fragment {
    region: Region,
    writer: u32,
    /// Head of a list in [`Tracker::readers`]; lists share their tails, so cutting a fragment is free.
    readers: u32,
}

#[derive(Debug)]
struct Tracked {
    shape: Shape,
    fragments: Vec<Fragment>,
    index: HashMap<Region, u32, FastBuild>,
}

impl Tracked {
    fn push(&mut self, fragment: Fragment) {
        if self.fragments.len() == INDEX_FROM {
            let places = self.fragments.iter().zip(0..).map(|(f, i)| (f.region, i));
            self.index.extend(places);
        }
        if self.fragments.len() >= INDEX_FROM {
            self.index
                .insert(fragment.region, self.fragments.len() as u32);
        }
        self.fragments.push(fragment);
    }

    fn swap_remove(&mut self, i: usize) -> Fragment {
        let gone = self.fragments.swap_remove(i);
        if self.fragments.len() <= INDEX_FROM {
            self.index.clear();
        } else {
            self.index.remove(&gone.region);
            if let Some(moved) = self.fragments.get(i) {
                self.index.insert(moved.region, i as u32);
            }
        }
        gone
    }

    fn find(&self, region: &Region) -> Option<usize> {
        if self.fragments.len() > INDEX_FROM {
            return self.index.get(region).map(|&i| i as usize);
        }
        self.fragments.iter().position(|f| f.region == *region)
    }
}

/// What an access meets: the end of a graph's history for some elements, or its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    arrays: Vec<Tracked>,
    readers: Vec<(u32, u32)>,
    /// For every task the last successor an edge was made to, so that none is made twice.
    marks: Vec<u32>,
    /// Fragments being cut, empty between calls.
    cut: Vec<(Fragment, Fragment)>,
}

impl Tracker {
    /// Starts tracking an array of this shape; arrays are numbered in the order of these calls.
    pub fn add_array(&mut self, shape: Shape) {
        let whole = Fragment {
            region: Region::whole(&shape),
            writer: NONE,
            readers: NONE,
        };
        self.arrays.push(Tracked {
            shape,
            fragments: vec![whole],
            index: HashMap::default(),
        });
    }

    /// Task `task` touches `region` of `array`, seen under `shape`. Calls `edge` with every task it
    /// must wait for, once per task, and `fresh` with the parts that no task has written before.
    #[allow(clippy::too_many_arguments)]
    pub fn access(
        &mut self,
        array: usize,
        shape: &Shape,
        region: &Region,
        writes: bool,
        task: u32,
        mut edge: impl FnMut(u32),
        mut fresh: impl FnMut(Region),
    ) {
        if self.arrays[array].shape != *shape {
            self.relabel(array, shape);
        }
        let (readers, marks, cut) = (&mut self.readers, &mut self.marks, &mut self.cut);
        if marks.len() <= task as usize {
            marks.resize((task as usize + 1).next_power_of_two(), NONE);
        }
        let mut wait_for = |from: u32| {
            if from != task && marks[from as usize] != task {
                marks[from as usize] = task;
                edge(from);
            }
        };
        // Meets one fragment's history and returns its new one.
        let mut meet = |f: &Fragment, part: Region| -> Fragment {
            if f.writer == NONE {
                fresh(part);
            }
            if !writes {
                if f.writer != NONE {
                    wait_for(f.writer);
                }
                readers.push((task, f.readers));
                return Fragment {
                    region: part,
                    writer: f.writer,
                    readers: readers.len() as u32 - 1,
                };
            }
            if f.readers == NONE && f.writer != NONE {
                wait_for(f.writer);
            }
            let mut next = f.readers;
            while next != NONE {
                let (reader, rest) = readers[next as usize];
                wait_for(reader);
                next = rest;
            }
            Fragment {
                region: part,
                writer: task,
                readers: NONE,
            }
        };
        let tracked = &mut self.arrays[array];
        if let Some(i) = tracked.find(region) {
            tracked.fragments[i] = meet(&tracked.fragments[i], *region);
            return;
        }
        // Backwards, so that `swap_remove` moves only fragments already looked at.
        for i in (0..tracked.fragments.len()).rev() {
            let f = tracked.fragments[i];
            let Some(part) = f.region.intersection(region) else {
                continue;
            };
            let met = meet(&f, part);
            if !writes && part == f.region {
                tracked.fragments[i] = met;
                continue;
            }
            tracked.swap_remove(i);
            cut.push((f, met));
        }
        for (f, met) in cut.drain(..) {
            // What lies outside keeps its history; what was written becomes one fragment below.
            f.region
                .subtract(region, |rest| tracked.push(Fragment { region: rest, ..f }));
            if !writes {
                tracked.push(met);
            }
        }
        if writes {
            tracked.push(Fragment {
                region: *region,
                writer: task,
                readers: NONE,
            });
        }
    }

    /// Whether no task has written any element of a region.
    pub fn is_unwritten(&mut self, array: usize, shape: &Shape, region: &Region) -> bool {
        if self.arrays[array].shape != *shape {
            self.relabel(array, shape);
        }
        let mut met = self.arrays[array]
            .fragments
            .iter()
            .filter(|f| f.region.overlaps(region));
        met.all(|f| f.writer == NONE)
    }

    /// Sees the array under another shape from now on.
    fn relabel(&mut self, array: usize, shape: &Shape) {
        let old = &self.arrays[array];
        let mut new = Tracked {
            shape: *shape,
            fragments: Vec::new(),
            index: HashMap::default(),
        };
        for f in &old.fragments {
            runs::runs(&old.shape, &f.region, |lo, hi| {
                runs::boxes(shape, lo, hi, &mut |region| {
                    new.push(Fragment { region, ..*f })
                });
            });
        }
        self.arrays[array] = new;
    }

    /// The tasks that a later access to `array` would meet, and the shape their regions are under.
    pub fn last(&self, array: usize) -> (Shape, Vec<Edge>) {
        let tracked = &self.arrays[array];
        let mut out = Vec::new();
        for f in &tracked.fragments {
            if f.writer != NONE {
                out.push(Edge {
                    task: f.writer,
                    region: f.region,
                    writes: true,
                });
            }
            let mut next = f.readers;
            while next != NONE {
                let (task, rest) = self.readers[next as usize];
                out.push(Edge {
                    task,
                    region: f.region,
                    writes: false,
                });
                next = rest;
            }
        }
        (tracked.shape, out)
    }
}
