//! Cells: each array cut into boxes that every task touches whole or not at all.
//!
//! Where an array is current in one memory and where in another is then a mask per cell, found without
//! geometry while tasks run. The cuts are those of all accesses along each axis. An array that would fall
//! into too many cells stays one piece: that is counted, since a partial write then makes the whole array
//! current in one place only.

use std::collections::HashMap;

use crate::graph::{Graph, runs};
use crate::hash::FastBuild;
use crate::region::Region;
use crate::shape::Shape;

/// Most cells of one array, and most cells that all its accesses together may name.
const MOST_CELLS: usize = 1 << 14;
const MOST_NAMED: usize = 1 << 22;

/// The cells of a graph's arrays, and the numbers that name them.
#[derive(Debug, Default)]
pub struct Cells {
    /// For every access, where its cells stand in `named`.
    of_access: Vec<(u32, u32)>,
    named: Vec<u32>,
    /// Bytes of every cell; those of one array next to each other.
    pub bytes: Vec<u64>,
    /// The first cell of every array, and the end of the last.
    pub start: Vec<u32>,
    /// Arrays that stayed one piece.
    pub coarse: usize,
    /// Where every array is cut.
    axes: Vec<Axes>,
}

type Axes = [Vec<usize>; 4];

impl Cells {
    /// Of all arrays of a graph.
    pub fn new(graph: &Graph) -> Cells {
        let mut cells = Cells::default();
        // The distinct accesses of every storage; most are repeated by several tasks.
        let mut place: HashMap<(u32, Region), u32, FastBuild> = HashMap::default();
        let mut distinct: Vec<Vec<(Shape, Region, u32)>> = vec![Vec::new(); graph.storages.len()];
        let mut number = Vec::with_capacity(graph.accesses.len());
        // The access of every array that was seen last: often the same again, as where arrays stay whole.
        let mut last: Vec<Option<(Region, u32)>> = vec![None; graph.arrays.len()];
        for access in &graph.accesses {
            let last = &mut last[access.array as usize];
            if let Some((_, id)) = last.filter(|(region, _)| *region == access.region) {
                number.push(id);
                continue;
            }
            let array = &graph.arrays[access.array as usize];
            let fresh = place.len() as u32;
            let id = *place.entry((access.array, access.region)).or_insert(fresh);
            if id == fresh {
                let list = &mut distinct[array.storage as usize];
                list.push((array.shape, access.region, id));
            }
            *last = Some((access.region, id));
            number.push(id);
        }
        let mut ranges = vec![(0, 0); place.len()];
        for (s, list) in distinct.iter().enumerate() {
            cells.start.push(cells.bytes.len() as u32);
            let storage = &graph.storages[s].storage;
            let size = storage.dtype.size() as u64;
            if !cells.cut(&storage.shape, size, list, &mut ranges) {
                cells.coarse += 1;
                cells.axes.push(storage.shape.dims4().map(|d| vec![0, d]));
                let only = cells.bytes.len() as u32;
                cells.bytes.push(storage.bytes() as u64);
                for (_, _, id) in list {
                    ranges[*id as usize] = (cells.named.len() as u32, 1);
                    cells.named.push(only);
                }
            }
        }
        cells.start.push(cells.bytes.len() as u32);
        cells.of_access = number.iter().map(|&id| ranges[id as usize]).collect();
        cells
    }

    /// The cells of an access, by its place in [`Graph::accesses`].
    #[inline]
    pub fn of(&self, access: usize) -> &[u32] {
        self.named(self.range(access))
    }

    /// Where the cells of an access are named.
    #[inline]
    pub fn range(&self, access: usize) -> (u32, u32) {
        self.of_access[access]
    }

    /// The cells that are named in a range.
    #[inline]
    pub fn named(&self, (start, len): (u32, u32)) -> &[u32] {
        &self.named[start as usize..][..len as usize]
    }

    /// Cuts one array; false, and nothing changed, if there would be too many cells.
    fn cut(
        &mut self,
        shape: &Shape,
        size: u64,
        list: &[(Shape, Region, u32)],
        ranges: &mut [(u32, u32)],
    ) -> bool {
        let dims = shape.dims4();
        let mut boxes: Vec<Vec<Region>> = Vec::with_capacity(list.len());
        let mut axes: Axes = dims.map(|d| vec![0, d]);
        for (seen, region, _) in list {
            let mut own = Vec::new();
            translate(shape, seen, region, &mut own);
            if own.len() > MOST_CELLS {
                return false;
            }
            for b in &own {
                for (axis, cuts) in axes.iter_mut().enumerate() {
                    cuts.extend([b.start()[axis], b.end()[axis]]);
                }
            }
            if axes.iter().any(|a| a.len() > 4 * MOST_CELLS) {
                axes.iter_mut().for_each(tidy);
                if count(&axes) > MOST_CELLS {
                    return false;
                }
            }
            boxes.push(own);
        }
        axes.iter_mut().for_each(tidy);
        let total = count(&axes);
        let spans: Vec<Vec<[(usize, usize); 4]>> = boxes
            .iter()
            .map(|own| own.iter().map(|b| span(&axes, b)).collect())
            .collect();
        let covered = |s: &[(usize, usize); 4]| s.iter().map(|(a, b)| b - a).product::<usize>();
        let named: usize = spans.iter().flatten().map(covered).sum();
        if total > MOST_CELLS || named > MOST_NAMED {
            return false;
        }
        let first = self.bytes.len() as u32;
        let length = |axis: usize, i: usize| (axes[axis][i + 1] - axes[axis][i]) as u64;
        let steps = axes.each_ref().map(|a| a.len() - 1);
        each(
            [(0, steps[0]), (0, steps[1]), (0, steps[2]), (0, steps[3])],
            |at| {
                let elements: u64 = (0..4).map(|axis| length(axis, at[axis])).product();
                self.bytes.push(elements * size);
            },
        );
        for ((_, _, id), own) in list.iter().zip(&spans) {
            let begin = self.named.len() as u32;
            for s in own {
                each(*s, |at| {
                    let cell = (0..4).fold(0, |sum, axis| sum * steps[axis] + at[axis]);
                    self.named.push(first + cell as u32);
                });
            }
            ranges[*id as usize] = (begin, self.named.len() as u32 - begin);
        }
        self.axes.push(axes);
        true
    }

    /// The box of a cell of an array.
    pub fn region(&self, array: usize, cell: u32) -> Option<Region> {
        let axes = self.axes.get(array)?;
        let mut rest = (cell - self.start[array]) as usize;
        let (mut start, mut end) = ([0; 4], [0; 4]);
        for axis in (0..4).rev() {
            let steps = axes[axis].len() - 1;
            let at = rest % steps;
            rest /= steps;
            (start[axis], end[axis]) = (axes[axis][at], axes[axis][at + 1]);
        }
        Region::new(start, end)
    }

    /// The cells of an array that lie in a box.
    pub fn inside(&self, array: usize, region: &Region, mut cell: impl FnMut(u32)) {
        let axes = &self.axes[array];
        let whole = |axis: usize| {
            let from = axes[axis].partition_point(|&c| c < region.start()[axis]);
            let to = axes[axis].partition_point(|&c| c <= region.end()[axis]);
            (from, to.saturating_sub(1))
        };
        let steps = axes.each_ref().map(|a| a.len() - 1);
        each(std::array::from_fn(whole), |at| {
            let place = (0..4).fold(0, |sum, axis| sum * steps[axis] + at[axis]);
            cell(self.start[array] + place as u32);
        });
    }
}

/// A region seen under `seen` as boxes under the array's own shape.
fn translate(own: &Shape, seen: &Shape, region: &Region, out: &mut Vec<Region>) {
    if own == seen {
        out.push(*region);
        return;
    }
    runs::runs(seen, region, |lo, hi| {
        if out.len() <= MOST_CELLS {
            runs::boxes(own, lo, hi, &mut |piece| out.push(piece));
        }
    });
}

fn tidy(cuts: &mut Vec<usize>) {
    cuts.sort_unstable();
    cuts.dedup();
}

fn count(axes: &Axes) -> usize {
    axes.iter().map(|a| a.len() - 1).product()
}

/// The cells of a box along each axis. Its borders are among the cuts.
fn span(axes: &Axes, b: &Region) -> [(usize, usize); 4] {
    let (start, end) = (b.start(), b.end());
    std::array::from_fn(|axis| {
        let at = |x: usize| axes[axis].partition_point(|&c| c < x);
        (at(start[axis]), at(end[axis]))
    })
}

fn each(spans: [(usize, usize); 4], mut cell: impl FnMut([usize; 4])) {
    for i in spans[0].0..spans[0].1 {
        for j in spans[1].0..spans[1].1 {
            for k in spans[2].0..spans[2].1 {
                for l in spans[3].0..spans[3].1 {
                    cell([i, j, k, l]);
                }
            }
        }
    }
}
