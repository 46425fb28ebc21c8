//! Regions: boxes inside an array, and the arithmetic of boxes.
//!
//! A task touches regions, and everything that must know whether two tasks get in each other's way
//! (dependencies, copies in several memories) asks it of regions. All boxes are four-dimensional and
//! right-aligned, as [`Shape`] is. A region does not know its array: comparing regions of two
//! different arrays is the caller's mistake.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::shape::{MAX_RANK, Shape};

/// A non-empty box: where it starts and how far it extends, along each of four axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Region {
    start: [u32; MAX_RANK],
    end: [u32; MAX_RANK],
}

impl Region {
    /// The whole of an array of this shape.
    ///
    /// # Panics
    /// If an axis is longer than `u32::MAX`; arenas refuse such arrays.
    pub fn whole(shape: &Shape) -> Self {
        let end = shape
            .dims4()
            .map(|d| u32::try_from(d).expect("axis longer than u32::MAX"));
        Region {
            start: [0; MAX_RANK],
            end,
        }
    }

    /// The box `start..end` in four right-aligned dimensions, or `None` if it is empty.
    pub fn new(start: [usize; MAX_RANK], end: [usize; MAX_RANK]) -> Option<Self> {
        let narrow = |v: [usize; MAX_RANK]| -> Option<[u32; MAX_RANK]> {
            let mut out = [0; MAX_RANK];
            for (o, x) in out.iter_mut().zip(v) {
                *o = u32::try_from(x).ok()?;
            }
            Some(out)
        };
        let (start, end) = (narrow(start)?, narrow(end)?);
        (0..MAX_RANK)
            .all(|a| start[a] < end[a])
            .then_some(Region { start, end })
    }

    /// First index along each axis.
    pub fn start(&self) -> [usize; MAX_RANK] {
        self.start.map(|x| x as usize)
    }

    /// One past the last index along each axis.
    pub fn end(&self) -> [usize; MAX_RANK] {
        self.end.map(|x| x as usize)
    }

    /// Number of indices along each axis.
    pub fn dims4(&self) -> [usize; MAX_RANK] {
        std::array::from_fn(|a| (self.end[a] - self.start[a]) as usize)
    }

    /// Number of elements; never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.dims4().iter().product()
    }

    /// Whether the two boxes share an element.
    #[inline]
    pub fn overlaps(&self, other: &Region) -> bool {
        (0..MAX_RANK).all(|a| self.start[a] < other.end[a] && other.start[a] < self.end[a])
    }

    /// Whether every element of `other` lies in this box.
    #[inline]
    pub fn contains(&self, other: &Region) -> bool {
        (0..MAX_RANK).all(|a| self.start[a] <= other.start[a] && other.end[a] <= self.end[a])
    }

    /// The elements both boxes have.
    pub(crate) fn intersection(&self, other: &Region) -> Option<Region> {
        let mut r = *self;
        for a in 0..MAX_RANK {
            r.start[a] = self.start[a].max(other.start[a]);
            r.end[a] = self.end[a].min(other.end[a]);
            if r.start[a] >= r.end[a] {
                return None;
            }
        }
        Some(r)
    }

    /// Calls `piece` with disjoint boxes that together are this box without `other` (at most eight).
    pub(crate) fn subtract(&self, other: &Region, mut piece: impl FnMut(Region)) {
        let Some(cut) = self.intersection(other) else {
            piece(*self);
            return;
        };
        // Peel one axis after the other: what lies before and after the cut along this axis, with
        // the axes already peeled narrowed to the cut.
        let mut rest = *self;
        for a in 0..MAX_RANK {
            if rest.start[a] < cut.start[a] {
                let mut before = rest;
                before.end[a] = cut.start[a];
                piece(before);
            }
            if cut.end[a] < rest.end[a] {
                let mut after = rest;
                after.start[a] = cut.end[a];
                piece(after);
            }
            rest.start[a] = cut.start[a];
            rest.end[a] = cut.end[a];
        }
    }

    /// This box moved from coordinates inside `frame` to those of the array `frame` lies in.
    pub(crate) fn inside(&self, frame: &Region) -> Region {
        let mut r = *self;
        for a in 0..MAX_RANK {
            r.start[a] += frame.start[a];
            r.end[a] += frame.start[a];
        }
        debug_assert!(frame.contains(&r), "{r:?} leaves {frame:?}");
        r
    }
}

/// `[0..2, 3..7]`: leading axes `0..1` are left out, the last is always shown.
impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = (0..MAX_RANK - 1)
            .find(|&a| (self.start[a], self.end[a]) != (0, 1))
            .unwrap_or(MAX_RANK - 1);
        f.write_str("[")?;
        for a in first..MAX_RANK {
            if a > first {
                f.write_str(", ")?;
            }
            write!(f, "{}..{}", self.start[a], self.end[a])?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small_box() -> impl Strategy<Value = Region> {
        proptest::array::uniform4((0usize..4, 1usize..4)).prop_map(|axes| {
            let start = axes.map(|(s, _)| s);
            let end = axes.map(|(s, n)| s + n);
            Region::new(start, end).unwrap()
        })
    }

    fn points(r: &Region) -> std::collections::HashSet<[usize; 4]> {
        let (s, e) = (r.start(), r.end());
        let mut out = std::collections::HashSet::new();
        for a in s[0]..e[0] {
            for b in s[1]..e[1] {
                for c in s[2]..e[2] {
                    for d in s[3]..e[3] {
                        out.insert([a, b, c, d]);
                    }
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn boxes_behave_as_sets_of_points(a in small_box(), b in small_box()) {
            let (pa, pb) = (points(&a), points(&b));
            prop_assert_eq!(a.len(), pa.len());
            prop_assert_eq!(a.overlaps(&b), !pa.is_disjoint(&pb));
            prop_assert_eq!(a.contains(&b), pb.is_subset(&pa));
            let both = a.intersection(&b).map(|r| points(&r)).unwrap_or_default();
            prop_assert_eq!(both, pa.intersection(&pb).copied().collect());
            let mut left = std::collections::HashSet::new();
            let mut count = 0;
            a.subtract(&b, |p| { count += p.len(); left.extend(points(&p)); });
            prop_assert_eq!(count, left.len(), "pieces overlap");
            prop_assert_eq!(left, pa.difference(&pb).copied().collect());
        }
    }

    #[test]
    fn empty_and_oversized_boxes_do_not_exist() {
        assert!(Region::new([0, 0, 0, 2], [1, 1, 1, 2]).is_none());
        assert!(Region::new([0; 4], [1, 1, 1, 1 << 40]).is_none());
        assert_eq!(
            Region::new([0, 0, 1, 2], [1, 1, 3, 7]).unwrap().to_string(),
            "[1..3, 2..7]"
        );
    }
}
