//! Tiles: cutting layers' arrays into the boxes that tasks work on.
//!
//! The arithmetic of windows is that of [`dahl_ops::window`]: output position `y`, kernel position `k`
//! and padding give input position `y · stride + k · dilation − padding`.

use dahl_core::split::{By, cut};
use dahl_core::{Handle, Region};
use dahl_ops::window::Window;

use super::grain::Parts;

/// Kernel, stride, padding and dilation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Stride.
    pub stride: [usize; 2],
    /// Padding.
    pub padding: [usize; 2],
    /// Distance between neighbouring kernel positions; 1 leaves no gap.
    pub dilation: [usize; 2],
}

/// A piece of an axis.
pub type Piece = (usize, usize);

/// The pieces of an axis of length `len` in `parts` parts, as far as it goes.
pub fn pieces(len: usize, parts: usize) -> Vec<Piece> {
    cut(0, len, By::Count(parts.clamp(1, len))).expect("between 1 and the length")
}

/// The tile of a task: samples, channels, rows, columns of what it writes.
pub(crate) type Tile = [Piece; 4];

/// All tiles of an array of these extents.
pub(crate) fn grid(dims: [usize; 4], parts: Parts) -> Vec<Tile> {
    let cuts = [parts.sample, parts.channel, parts.height, parts.width];
    let cuts: [Vec<Piece>; 4] = std::array::from_fn(|axis| pieces(dims[axis], cuts[axis]));
    let mut all = Vec::new();
    for &n in &cuts[0] {
        for &c in &cuts[1] {
            for &h in &cuts[2] {
                all.extend(cuts[3].iter().map(|&w| [n, c, h, w]));
            }
        }
    }
    all
}

/// The box with these pieces along the four axes.
pub(crate) fn region(axes: [Piece; 4]) -> Region {
    Region::new(axes.map(|p| p.0), axes.map(|p| p.1)).expect("pieces are not empty")
}

/// The part of an array whose axes, right-aligned, are these.
pub(crate) fn part(handle: &Handle, axes: [Piece; 4]) -> Handle {
    handle.part(&region(axes))
}

/// The whole extent of every axis of an array.
pub(crate) fn whole(handle: &Handle) -> [Piece; 4] {
    handle.shape.dims4().map(|d| (0, d))
}

/// Samples (outermost of four axes, or rows of a matrix) `piece` of an array, all of the rest.
pub fn samples(handle: &Handle, piece: Piece) -> Handle {
    let mut axes = whole(handle);
    axes[4 - handle.shape.rank()] = piece;
    part(handle, axes)
}

/// A piece of the last axis.
pub(crate) fn last(handle: &Handle, piece: Piece) -> Handle {
    let mut axes = whole(handle);
    axes[3] = piece;
    part(handle, axes)
}

impl Geometry {
    /// Inputs from the first to the last that a window reads along `axis`, gaps included.
    pub(crate) fn span(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// Output positions along `axis` of an input of length `len`, into which a window fits.
    pub(crate) fn outputs(&self, axis: usize, len: usize) -> usize {
        (len + 2 * self.padding[axis] - self.span(axis)) / self.stride[axis] + 1
    }

    /// Input positions along `axis` that outputs `out` read, of an input of length `len`; at least one.
    pub(crate) fn read_by(&self, axis: usize, out: Piece, len: usize) -> Piece {
        let (k, s, p) = (self.span(axis), self.stride[axis], self.padding[axis]);
        let start = (out.0 * s).saturating_sub(p).min(len - 1);
        let end = ((out.1 - 1) * s + k).saturating_sub(p).min(len);
        (start, end.max(start + 1))
    }

    /// Output positions along `axis` that read any of the inputs `inp`, of an output of length `len`;
    /// at least one.
    pub(crate) fn reading(&self, axis: usize, inp: Piece, len: usize) -> Piece {
        let (k, s, p) = (self.span(axis), self.stride[axis], self.padding[axis]);
        let start = (inp.0 + p).saturating_sub(k - 1).div_ceil(s).min(len - 1);
        let end = ((inp.1 - 1 + p) / s + 1).min(len);
        (start, end.max(start + 1))
    }

    /// The window of a task whose output begins at `out` and whose input begins at `inp`.
    pub(crate) fn window(&self, out: [usize; 2], inp: [usize; 2]) -> Window {
        let shift = |a: usize| {
            inp[a] as isize + self.padding[a] as isize - (out[a] * self.stride[a]) as isize
        };
        Window {
            kernel: self.kernel,
            stride: self.stride,
            shift: [shift(0), shift(1)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_exactly_what_windows_touch() {
        for (k, s, p, d, len) in [
            (3, 1, 1, 1, 8),
            (3, 2, 1, 1, 9),
            (5, 1, 2, 1, 6),
            (2, 2, 0, 1, 7),
            (1, 2, 0, 1, 8),
            (3, 3, 0, 1, 10),
            (3, 1, 2, 2, 8),
            (2, 3, 1, 4, 11),
        ] {
            let g = Geometry {
                kernel: [k; 2],
                stride: [s; 2],
                padding: [p; 2],
                dilation: [d; 2],
            };
            let outs = (len + 2 * p - d * (k - 1) - 1) / s + 1;
            assert_eq!(outs, g.outputs(0, len));
            let touches = |y: usize, h: usize| (0..k).any(|a| y * s + a * d == h + p);
            for from in 0..outs {
                for to in from + 1..=outs {
                    let (lo, hi) = g.read_by(0, (from, to), len);
                    let want: Vec<usize> = (0..len)
                        .filter(|&h| (from..to).any(|y| touches(y, h)))
                        .collect();
                    // With gaps, the first and the last may lie in the padding.
                    let (first, end) = (want[0], want[want.len() - 1] + 1);
                    assert!(lo <= first && end <= hi, "{k} {s} {p} {d}: {from}..{to}");
                    assert!(
                        d > 1 || (lo, hi) == (first, end),
                        "{k} {s} {p}: {from}..{to}"
                    );
                }
            }
            for from in 0..len {
                for to in from + 1..=len {
                    let (lo, hi) = g.reading(0, (from, to), outs);
                    let want: Vec<usize> = (0..outs)
                        .filter(|&y| (from..to).any(|h| touches(y, h)))
                        .collect();
                    if let (Some(&a), Some(&b)) = (want.first(), want.last()) {
                        assert!(lo <= a && b < hi, "{k} {s} {p}: {from}..{to}");
                    }
                }
            }
        }
    }
}
