//! Splits: cutting an array into boxes along any of its axes.
//!
//! A split is a description; it makes regions and touches nothing. The same array may be cut in as
//! many ways as there are tasks.

use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};

/// How one axis is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// Into this many parts whose lengths differ by at most one, the longer ones first.
    Count(usize),
    /// Into parts of this length, the last one shorter where it does not divide the axis.
    Size(usize),
}

/// Why an array cannot be cut this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The axis does not exist.
    #[error("cannot split axis {axis} of an array of shape {shape}: it has {} axes", shape.rank())]
    NoSuchAxis {
        /// The axis.
        axis: usize,
        /// The array's shape.
        shape: Shape,
    },
    /// The same axis is cut twice.
    #[error("axis {0} is split twice; split the parts instead")]
    Twice(usize),
    /// No parts, or more than elements.
    #[error("cannot split axis {axis} of length {len} into {parts} parts: use 1 to {len}")]
    Parts {
        /// The axis.
        axis: usize,
        /// Its length.
        len: usize,
        /// How many parts were asked for.
        parts: usize,
    },
    /// Parts of length zero.
    #[error("cannot split axis {0} into parts of length zero")]
    ZeroSize(usize),
    /// A halo makes parts overlap, and overlapping parts cannot be written.
    #[error("parts with a halo overlap: they can be read, not written")]
    HaloForWriting,
}

/// A way to cut an array.
///
/// ```
/// use dahl_core::split::{By, Split};
/// use dahl_core::Shape;
///
/// let shape = Shape::new(&[4, 10])?;
/// let parts = Split::new().axis(0, By::Count(2)).axis(1, By::Size(4)).regions(&shape)?;
/// assert_eq!(parts.len(), 2 * 3);
/// assert_eq!(parts[5].to_string(), "[2..4, 8..10]");
///
/// let rows = Split::new().axis(0, By::Size(1)).halo(0, 1, 1).regions(&shape)?;
/// assert_eq!(rows[0].to_string(), "[0..2, 0..10]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    cuts: Vec<(usize, By)>,
    halos: Vec<(usize, usize, usize)>,
}

impl Split {
    /// A split that leaves the array whole.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts an axis (counted from the outermost). Parts are ordered by the axes in the array's order,
    /// whatever the order of the calls.
    pub fn axis(mut self, axis: usize, by: By) -> Self {
        self.cuts.push((axis, by));
        self
    }

    /// Lets every part reach `before` and `after` indices further along an axis, as far as the array
    /// goes. Only for reading.
    pub fn halo(mut self, axis: usize, before: usize, after: usize) -> Self {
        self.halos.push((axis, before, after));
        self
    }

    /// Whether parts may overlap.
    pub(crate) fn has_halo(&self) -> bool {
        self.halos.iter().any(|&(_, b, a)| b + a > 0)
    }

    /// The parts, in row-major order of the grid they form.
    pub fn regions(&self, shape: &Shape) -> Result<Vec<Region>, SplitError> {
        let place = |axis: usize| {
            if axis >= shape.rank() {
                return Err(SplitError::NoSuchAxis {
                    axis,
                    shape: *shape,
                });
            }
            Ok(MAX_RANK - shape.rank() + axis)
        };
        let dims = shape.dims4();
        let mut cuts: [Vec<(usize, usize)>; MAX_RANK] = dims.map(|d| vec![(0, d)]);
        let mut seen = [false; MAX_RANK];
        for &(axis, by) in &self.cuts {
            let a = place(axis)?;
            if std::mem::replace(&mut seen[a], true) {
                return Err(SplitError::Twice(axis));
            }
            cuts[a] = cut(axis, dims[a], by)?;
        }
        for &(axis, before, after) in &self.halos {
            let a = place(axis)?;
            for (start, end) in &mut cuts[a] {
                *start = start.saturating_sub(before);
                *end = end.saturating_add(after).min(dims[a]);
            }
        }
        let mut regions = Vec::with_capacity(cuts.iter().map(Vec::len).product());
        for &a in &cuts[0] {
            for &b in &cuts[1] {
                for &c in &cuts[2] {
                    for &d in &cuts[3] {
                        let region = Region::new([a.0, b.0, c.0, d.0], [a.1, b.1, c.1, d.1]);
                        regions.push(region.expect("no part is empty"));
                    }
                }
            }
        }
        Ok(regions)
    }
}

/// The pieces `start..end` of an axis of length `len`.
pub fn cut(axis: usize, len: usize, by: By) -> Result<Vec<(usize, usize)>, SplitError> {
    match by {
        By::Count(parts) if parts == 0 || parts > len => {
            Err(SplitError::Parts { axis, len, parts })
        }
        By::Size(0) => Err(SplitError::ZeroSize(axis)),
        By::Count(parts) => {
            let (short, longer) = (len / parts, len % parts);
            let start = |i: usize| i * short + i.min(longer);
            Ok((0..parts).map(|i| (start(i), start(i + 1))).collect())
        }
        By::Size(size) => Ok((0..len.div_ceil(size))
            .map(|i| (i * size, len.min((i + 1) * size)))
            .collect()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_without_halo_tile_the_array(
            extents in proptest::collection::vec(1usize..9, 1..=4), by_count: bool, n in 1usize..9,
        ) {
            let shape = Shape::new(&extents).unwrap();
            let mut split = Split::new();
            for (axis, &len) in extents.iter().enumerate() {
                split = split.axis(axis, if by_count { By::Count(n.min(len)) } else { By::Size(n) });
            }
            let parts = split.regions(&shape).unwrap();
            prop_assert_eq!(parts.iter().map(Region::len).sum::<usize>(), shape.len());
            for (i, a) in parts.iter().enumerate() {
                prop_assert!(Region::whole(&shape).contains(a));
                prop_assert!(parts[i + 1..].iter().all(|b| !a.overlaps(b)));
            }
        }
    }

    #[test]
    fn uneven_parts() {
        assert_eq!(cut(0, 10, By::Count(3)).unwrap(), [(0, 4), (4, 7), (7, 10)]);
        assert_eq!(cut(0, 10, By::Size(4)).unwrap(), [(0, 4), (4, 8), (8, 10)]);
    }

    #[test]
    fn impossible_splits_are_errors() {
        let shape = Shape::new(&[4, 4]).unwrap();
        let of = |s: Split| s.regions(&shape).unwrap_err().to_string();
        assert_eq!(
            of(Split::new().axis(2, By::Count(1))),
            "cannot split axis 2 of an array of shape 4×4: it has 2 axes"
        );
        assert!(of(Split::new().axis(0, By::Count(5))).contains("use 1 to 4"));
        assert!(of(Split::new().axis(0, By::Count(0))).contains("into 0 parts"));
        assert!(of(Split::new().axis(1, By::Size(0))).contains("length zero"));
        assert!(of(Split::new().axis(0, By::Size(1)).axis(0, By::Size(2))).contains("twice"));
    }
}
