//! Sets of elements of one array, as disjoint boxes.

use crate::region::Region;

/// A set of elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionSet {
    boxes: Vec<Region>,
}

impl RegionSet {
    /// The elements of one box.
    pub fn of(region: Region) -> Self {
        RegionSet {
            boxes: vec![region],
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// Disjoint boxes that make up the set.
    pub fn boxes(&self) -> &[Region] {
        &self.boxes
    }

    /// Takes a box out.
    pub fn remove(&mut self, region: &Region) {
        for i in (0..self.boxes.len()).rev() {
            if self.boxes[i].overlaps(region) {
                let old = self.boxes.swap_remove(i);
                old.subtract(region, |piece| self.boxes.push(piece));
            }
        }
    }

    /// Puts a box in.
    pub fn add(&mut self, region: &Region) {
        if self.boxes.iter().any(|b| b.contains(region)) {
            return;
        }
        self.remove(region);
        self.boxes.push(*region);
    }

    /// Calls `piece` with disjoint boxes of those elements of `region` that are not in the set.
    pub fn missing(&self, region: &Region, mut piece: impl FnMut(Region)) {
        let mut rest = RegionSet::of(*region);
        for b in &self.boxes {
            rest.remove(b);
        }
        rest.boxes.into_iter().for_each(&mut piece);
    }

    /// Calls `piece` with disjoint boxes of those elements of `region` that are in the set.
    pub fn common(&self, region: &Region, piece: impl FnMut(Region)) {
        self.boxes
            .iter()
            .filter_map(|b| b.intersection(region))
            .for_each(piece);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval() -> impl Strategy<Value = (usize, usize, usize, usize)> {
        (0usize..6, 1usize..6, 0usize..6, 1usize..6)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(ops in proptest::collection::vec((any::<bool>(), interval()), 0..12), q in interval()) {
            let region = |(a, n, b, m): (usize, usize, usize, usize)| {
                Region::new([0, 0, a, b], [1, 1, a + n, b + m]).unwrap()
            };
            let cells = |r: &Region| {
                let (s, e) = (r.start(), r.end());
                (s[2]..e[2]).flat_map(move |i| (s[3]..e[3]).map(move |j| (i, j))).collect::<Vec<_>>()
            };
            let (mut set, mut want) = (RegionSet::default(), std::collections::BTreeSet::new());
            for (add, at) in ops {
                let r = region(at);
                if add {
                    set.add(&r);
                    want.extend(cells(&r));
                } else {
                    set.remove(&r);
                    cells(&r).iter().for_each(|c| { want.remove(c); });
                }
            }
            let got: Vec<_> = set.boxes().iter().flat_map(cells).collect();
            prop_assert_eq!(got.len(), want.len(), "boxes overlap");
            prop_assert!(got.iter().all(|c| want.contains(c)));
            let (mut missing, mut common) = (Vec::new(), Vec::new());
            let q = region(q);
            set.missing(&q, |p| missing.extend(cells(&p)));
            set.common(&q, |p| common.extend(cells(&p)));
            prop_assert_eq!(missing.len() + common.len(), q.len());
            prop_assert!(missing.iter().all(|c| !want.contains(c)));
            prop_assert!(common.iter().all(|c| want.contains(c)));
        }
    }
}
