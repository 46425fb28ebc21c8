//! Regions under different shapes of the same storage.
//!
//! A box under one shape is, in memory, a set of *runs* of consecutive elements; a run is, under
//! another shape, a few boxes. Going through runs translates exactly, which is how flattening an array
//! costs neither a copy nor a barrier.

use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};

/// Calls `run` with the intervals `start..end` of elements that a region covers, in order.
pub fn runs(shape: &Shape, region: &Region, mut run: impl FnMut(usize, usize)) {
    let (dims, strides) = (shape.dims4(), shape.strides4());
    let (start, end) = (region.start(), region.end());
    // The innermost axis that is not covered whole: from there on elements are consecutive.
    let mut axis = MAX_RANK - 1;
    while axis > 0 && start[axis] == 0 && end[axis] == dims[axis] {
        axis -= 1;
    }
    let length = (end[axis] - start[axis]) * strides[axis];
    let outer = |a: usize| {
        if a < axis {
            start[a]..end[a]
        } else {
            start[a]..start[a] + 1
        }
    };
    for i in outer(0) {
        for j in outer(1) {
            for k in outer(2) {
                for l in outer(3) {
                    let at = [i, j, k, l];
                    let first: usize = (0..=axis).map(|a| at[a] * strides[a]).sum();
                    run(first, first + length);
                }
            }
        }
    }
}

/// Calls `piece` with disjoint boxes that cover exactly the elements `lo..hi` (at most seven).
pub fn boxes(shape: &Shape, lo: usize, hi: usize, piece: &mut impl FnMut(Region)) {
    descend(shape, lo, hi, 0, [0; MAX_RANK], piece);
}

fn descend(
    shape: &Shape,
    lo: usize,
    hi: usize,
    axis: usize,
    mut prefix: [usize; MAX_RANK],
    piece: &mut impl FnMut(Region),
) {
    if lo >= hi {
        return;
    }
    let dims = shape.dims4();
    let stride = shape.strides4()[axis];
    let emit = |from: usize, to: usize, piece: &mut dyn FnMut(Region)| {
        let (mut start, mut end) = ([0; MAX_RANK], dims);
        for a in 0..axis {
            (start[a], end[a]) = (prefix[a], prefix[a] + 1);
        }
        (start[axis], end[axis]) = (from, to);
        piece(Region::new(start, end).expect("not empty"));
    };
    // Whole slices along this axis first, then the partial ones at both ends.
    let (first_whole, end_whole) = (lo.div_ceil(stride), hi / stride);
    if first_whole < end_whole {
        emit(first_whole, end_whole, piece);
    }
    let parts = if lo / stride == (hi - 1) / stride && first_whole >= end_whole {
        [(lo, hi), (0, 0)]
    } else {
        [(lo, first_whole * stride), (end_whole * stride, hi)]
    };
    for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
        prefix[axis] = from / stride;
        let base = prefix[axis] * stride;
        descend(shape, from - base, to - base, axis + 1, prefix, piece);
    }
}

/// Whether two regions of one storage, each under its own shape, share an element.
pub(crate) fn overlap(a: (&Shape, &Region), b: (&Shape, &Region)) -> bool {
    if a.0 == b.0 {
        return a.1.overlaps(b.1);
    }
    let mut found = false;
    runs(a.0, a.1, |lo, hi| {
        boxes(b.0, lo, hi, &mut |piece| found |= piece.overlaps(b.1))
    });
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn elements(shape: &Shape, r: &Region) -> BTreeSet<usize> {
        let (s, e, st) = (r.start(), r.end(), shape.strides4());
        let mut out = BTreeSet::new();
        for i in s[0]..e[0] {
            for j in s[1]..e[1] {
                for k in s[2]..e[2] {
                    out.extend((s[3]..e[3]).map(|l| i * st[0] + j * st[1] + k * st[2] + l));
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn translation_is_exact(
            from in 0usize..4, to in 0usize..4,
            cut in proptest::array::uniform4((0.0f64..1.0, 0.0f64..1.0)),
        ) {
            let shapes = [[2, 3, 4, 5], [1, 1, 6, 20], [1, 1, 1, 120], [1, 8, 3, 5]]
                .map(|d| Shape::new(&d).unwrap());
            let (from, to) = (shapes[from], shapes[to]);
            let d = from.dims4();
            let start: [usize; 4] = std::array::from_fn(|a| (cut[a].0 * d[a] as f64) as usize);
            let end: [usize; 4] = std::array::from_fn(|a| {
                start[a] + 1 + (cut[a].1 * (d[a] - start[a] - 1) as f64) as usize
            });
            let region = Region::new(start, end).unwrap();
            let mut got = Vec::new();
            runs(&from, &region, |lo, hi| boxes(&to, lo, hi, &mut |p| got.push(p)));
            let count: usize = got.iter().map(Region::len).sum();
            let union: BTreeSet<usize> = got.iter().flat_map(|p| elements(&to, p)).collect();
            prop_assert_eq!(count, union.len(), "pieces overlap");
            prop_assert_eq!(union, elements(&from, &region));
        }
    }
}
