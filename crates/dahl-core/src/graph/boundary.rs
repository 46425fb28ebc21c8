//! The boundary of a graph: how its launches depend on other launches.
//!
//! Of every persistent storage a graph knows its *inlets* (accesses to elements that no earlier task
//! of the graph wrote) and its *outlets* (the last writer of every element and the readers since). The
//! tasks of a later launch that must wait for an earlier one are found by comparing the later graph's
//! inlets with the earlier one's outlets. That needs no element of history at run time, and for a pair
//! of graphs it is done once.

use crate::region::Region;
use crate::shape::Shape;

use super::deps::{Edge, Tracker};
use super::{Graph, runs};

/// Inlets and outlets of every storage.
#[derive(Clone, Debug, Default)]
pub struct Boundary {
    storages: Vec<Side>,
}

#[derive(Clone, Debug, Default)]
struct Side {
    inlets: Vec<(Shape, Edge)>,
    outlets: Vec<Edge>,
    outlet_shape: Option<Shape>,
    overwritten: bool,
}

impl Boundary {
    pub(super) fn add_storage(&mut self) {
        self.storages.push(Side::default());
    }

    pub(super) fn open(&mut self, storage: u32, shape: Shape, edge: Edge) {
        self.storages[storage as usize].inlets.push((shape, edge));
    }

    pub(super) fn close(&mut self, storage: u32, tracker: &Tracker, whole: Shape) {
        let (shape, outlets) = tracker.last(storage as usize);
        let side = &mut self.storages[storage as usize];
        let written: usize = outlets
            .iter()
            .filter(|e| e.writes)
            .map(|e| e.region.len())
            .sum();
        side.overwritten = written == whole.len();
        (side.outlet_shape, side.outlets) = (Some(shape), outlets);
    }

    /// Whether a launch leaves no element of a storage as it was, so that later launches depend on
    /// earlier ones only through it.
    pub fn overwrites(&self, storage: u32) -> bool {
        self.storages[storage as usize].overwritten
    }

    /// All inlets, by storage, each with the shape it is seen under.
    pub(crate) fn all_inlets(&self) -> impl Iterator<Item = (u32, Shape, Edge)> + '_ {
        (0..).zip(&self.storages).flat_map(|(s, side)| {
            let inlets = side.inlets.iter();
            inlets.map(move |&(shape, edge)| (s, shape, edge))
        })
    }

    /// All outlets, as [`Boundary::all_inlets`].
    pub(crate) fn all_outlets(&self) -> impl Iterator<Item = (u32, Shape, Edge)> + '_ {
        (0..).zip(&self.storages).flat_map(|(s, side)| {
            let (shape, outlets) = (side.outlet_shape, side.outlets.iter());
            outlets.filter_map(move |&edge| Some((s, shape?, edge)))
        })
    }

    /// Tasks that other launches may have to wait for.
    pub fn outlets(&self, storage: u32) -> impl Iterator<Item = u32> + '_ {
        self.storages[storage as usize]
            .outlets
            .iter()
            .map(|e| e.task)
    }

    /// Calls `user` with the tasks after which a part of a storage is as this graph leaves it: its last
    /// writers, and, for somebody who wants to write, its readers too. Some may come more than once.
    pub fn last_users(
        &self,
        storage: u32,
        shape: &Shape,
        region: &Region,
        to_write: bool,
        user: impl FnMut(u32),
    ) {
        let side = &self.storages[storage as usize];
        let Some(outlet_shape) = &side.outlet_shape else {
            return;
        };
        side.outlets
            .iter()
            .filter(|e| e.writes || to_write)
            .filter(|e| runs::overlap((outlet_shape, &e.region), (shape, region)))
            .map(|e| e.task)
            .for_each(user);
    }
}

/// Pairs of a task of a launch of `earlier` and a task of a later launch of `later` that must wait for
/// it, because of the storage numbered `from` in one and `to` in the other.
pub fn edges_between(earlier: &Graph, from: u32, later: &Graph, to: u32) -> Vec<(u32, u32)> {
    let (out, inn) = (
        &earlier.boundary.storages[from as usize],
        &later.boundary.storages[to as usize],
    );
    let Some(out_shape) = &out.outlet_shape else {
        return Vec::new();
    };
    meetings(
        out.outlets.iter().map(|e| (out_shape, e)),
        inn.inlets.iter().map(|(shape, e)| (shape, e)),
    )
}

/// Pairs of a task with an outlet and a task with an inlet that must wait for it, of one storage.
pub(crate) fn meetings<'a>(
    outlets: impl Iterator<Item = (&'a Shape, &'a Edge)>,
    inlets: impl Iterator<Item = (&'a Shape, &'a Edge)> + Clone,
) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for (out_shape, o) in outlets {
        for (shape, i) in inlets.clone() {
            if (o.writes || i.writes) && runs::overlap((out_shape, &o.region), (shape, &i.region)) {
                edges.push((o.task, i.task));
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}
