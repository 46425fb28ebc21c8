//! Fragments: disjoint boxes that cover an array, each with a fact that holds for all its elements.
//!
//! Accesses cut fragments exactly at their own borders, so a fact is kept as precisely as one per element
//! would be. A change that makes a whole region alike makes it one fragment again: the number of fragments
//! follows how the array is split now, not its history. What the facts mean is the owner's business: who
//! touched the elements last ([`super::deps`]), or which nodes hold them ([`super::partition`]).

use std::collections::HashMap;

use crate::hash::FastBuild;
use crate::region::Region;
use crate::shape::Shape;

use super::runs;

/// Above this many fragments, exact matches go through a table instead of a scan.
const INDEX_FROM: usize = 12;

/// The fragments of one array.
#[derive(Clone, Debug)]
pub(super) struct Fragments<F> {
    shape: Shape,
    list: Vec<(Region, F)>,
    index: HashMap<Region, u32, FastBuild>,
}

/// Fragments while they are being cut: the region, the old fact and the new one. Kept by the owner, so that nothing
/// is allocated for every cut; empty between calls.
pub(super) type Cut<F> = Vec<(Region, F, (Region, F))>;

impl<F: Copy> Fragments<F> {
    /// One fragment: the whole array.
    pub(super) fn new(shape: Shape, fact: F) -> Self {
        Fragments {
            shape,
            list: vec![(Region::whole(&shape), fact)],
            index: HashMap::default(),
        }
    }

    /// The shape that regions are under.
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// All fragments, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Region, F)> {
        self.list.iter()
    }

    /// Sees the array under another shape from now on.
    pub(super) fn see_as(&mut self, shape: &Shape) {
        if self.shape == *shape {
            return;
        }
        let old = std::mem::replace(&mut self.shape, *shape);
        let list = std::mem::take(&mut self.list);
        self.index.clear();
        for (region, fact) in list {
            runs::runs(&old, &region, |lo, hi| {
                runs::boxes(shape, lo, hi, &mut |piece| self.push(piece, fact));
            });
        }
    }

    /// Calls `meet` with the parts of `region` and the fact of each, and keeps the facts that it returns. If `alike` is
    /// given, the region is one fragment with that fact afterwards instead.
    #[inline]
    pub(super) fn change(
        &mut self,
        region: &Region,
        alike: Option<F>,
        cut: &mut Cut<F>,
        mut meet: impl FnMut(&F, Region) -> F,
    ) {
        if let Some(i) = self.find(region) {
            let met = meet(&self.list[i].1, *region);
            self.list[i].1 = alike.unwrap_or(met);
            return;
        }
        // Backwards, so that `swap_remove` moves only fragments already looked at.
        for i in (0..self.list.len()).rev() {
            let (whole, fact) = self.list[i];
            let Some(part) = whole.intersection(region) else {
                continue;
            };
            let met = meet(&fact, part);
            if alike.is_none() && part == whole {
                self.list[i].1 = met;
                continue;
            }
            self.swap_remove(i);
            cut.push((whole, fact, (part, met)));
        }
        for (whole, fact, (part, met)) in cut.drain(..) {
            whole.subtract(region, |rest| self.push(rest, fact));
            if alike.is_none() {
                self.push(part, met);
            }
        }
        if let Some(fact) = alike {
            self.push(*region, fact);
        }
    }

    fn push(&mut self, region: Region, fact: F) {
        if self.list.len() == INDEX_FROM {
            let places = self.list.iter().zip(0..).map(|((r, _), i)| (*r, i));
            self.index.extend(places);
        }
        if self.list.len() >= INDEX_FROM {
            self.index.insert(region, self.list.len() as u32);
        }
        self.list.push((region, fact));
    }

    fn swap_remove(&mut self, i: usize) {
        let (gone, _) = self.list.swap_remove(i);
        if self.list.len() <= INDEX_FROM {
            self.index.clear();
        } else {
            self.index.remove(&gone);
            if let Some((moved, _)) = self.list.get(i) {
                self.index.insert(*moved, i as u32);
            }
        }
    }

    fn find(&self, region: &Region) -> Option<usize> {
        if self.list.len() > INDEX_FROM {
            return self.index.get(region).map(|&i| i as usize);
        }
        self.list.iter().position(|(r, _)| r == region)
    }
}
