//! What a pass of [`super`] goes over: a grid of positions, the taps that each one sees, and the blocks
//! and runs it is cut into. Arithmetic only.

use std::ops::Range;

use crate::conv2d::product::Layout;
use crate::simd::lanes::CHUNK;
use crate::window::Window;

/// Elements of an unfolded block that should stay near the core.
const BLOCK: usize = 1 << 16;
/// Positions that are unfolded or written at a time, inside one row.
pub(super) const RUN: usize = 32;

/// Kernel positions along both axes, and where in the source image grid position `i` finds them: tap
/// `m` at `i · step + first ± m`.
#[derive(Clone, Copy)]
pub(super) struct Taps {
    pub count: [usize; 2],
    pub step: [usize; 2],
    pub first: [isize; 2],
    pub backwards: bool,
    /// The tap's place in the kernel: `start + m · stride`.
    pub start: [usize; 2],
    pub stride: [usize; 2],
}

impl Taps {
    pub(super) fn forward(win: &Window) -> Self {
        Taps {
            count: win.kernel,
            step: win.stride,
            first: win.shift.map(|s| -s),
            backwards: false,
            start: [0, 0],
            stride: [1, 1],
        }
    }

    /// For the input pixels `i · stride + phase`: `y · stride + k = i · stride + phase + shift`.
    pub(super) fn of_phase(win: &Window, phase: [usize; 2]) -> Self {
        let mut taps = Taps {
            backwards: true,
            step: [1, 1],
            stride: win.stride,
            ..Taps::forward(win)
        };
        for (a, phase) in phase.into_iter().enumerate() {
            let (at, stride) = (phase as isize + win.shift[a], win.stride[a] as isize);
            taps.start[a] = at.rem_euclid(stride) as usize;
            taps.first[a] = at.div_euclid(stride);
            taps.count[a] = win.kernel[a]
                .saturating_sub(taps.start[a])
                .div_ceil(win.stride[a]);
        }
        taps
    }

    pub(super) fn len(&self) -> usize {
        self.count[0] * self.count[1]
    }

    /// Source position of tap `m` for grid position `i`.
    pub(super) fn at(&self, axis: usize, i: usize, m: usize) -> isize {
        let m = if self.backwards {
            -(m as isize)
        } else {
            m as isize
        };
        (i * self.step[axis]) as isize + self.first[axis] + m
    }

    /// Pixels that a run of `len` positions sees along the width.
    pub(super) fn width(&self, len: usize) -> usize {
        (len - 1) * self.step[1] + self.count[1]
    }
}

/// One pass over a grid of positions, and the extents of what it needs.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub taps: Taps,
    /// Rows and columns of the grid.
    pub grid: [usize; 2],
    /// Positions of all samples, and of a block.
    pub total: usize,
    pub block: usize,
    /// Channels of the image that is unfolded, and of the other one.
    pub sources: usize,
    pub results: usize,
}

impl Pass {
    pub(super) fn new(
        taps: Taps,
        samples: usize,
        grid: [usize; 2],
        sources: usize,
        results: usize,
    ) -> Self {
        let total = samples * grid[0] * grid[1];
        let depth = taps.len() * sources.next_multiple_of(CHUNK);
        let block = (BLOCK / depth.max(1))
            .clamp(48, 480)
            .next_multiple_of(24)
            .min(total);
        Pass {
            taps,
            grid,
            total,
            block,
            sources,
            results,
        }
    }

    /// For the forward pass and the filter gradient, from the extents of input and output.
    pub(super) fn forward(x: [usize; 4], y: [usize; 4], win: &Window) -> Self {
        Pass::new(Taps::forward(win), y[0], [y[2], y[3]], x[1], y[1])
    }

    /// For the input gradient of the pixels of a phase, if there are any.
    pub(super) fn of_phase(
        dx: [usize; 4],
        dy: [usize; 4],
        win: &Window,
        phase: [usize; 2],
    ) -> Option<Self> {
        let grid = [0, 1].map(|a| dx[2 + a].saturating_sub(phase[a]).div_ceil(win.stride[a]));
        let taps = Taps::of_phase(win, phase);
        (grid[0] > 0 && grid[1] > 0).then(|| Pass::new(taps, dx[0], grid, dy[1], dx[1]))
    }

    /// Sums run over taps and chunks of channels.
    pub(super) fn depth(&self) -> usize {
        self.taps.len() * self.sources.next_multiple_of(CHUNK)
    }

    pub(super) fn unfolded(&self) -> Layout {
        Layout::new(self.depth(), self.block)
    }

    pub(super) fn product(&self) -> Layout {
        Layout::new(self.results, self.block)
    }

    pub(super) fn filter(&self) -> Layout {
        Layout::new(self.results, self.depth())
    }

    pub(super) fn buffer(&self) -> usize {
        self.taps.width(RUN) * CHUNK
    }

    pub(super) fn scratch_len(&self) -> usize {
        let [a, b, c] = [self.unfolded(), self.product(), self.filter()].map(|l| l.len(1));
        CHUNK + self.buffer() + a + b + c
    }

    /// Splits the caller's scratch, from the next cache line on, into strip buffer, unfolded block,
    /// product and filter.
    pub(super) fn split<'s, T>(&self, scratch: &'s mut [T]) -> [&'s mut [T]; 4] {
        let skip = scratch.as_ptr().align_offset(64).min(CHUNK);
        let (buffer, rest) = scratch[skip..].split_at_mut(self.buffer());
        let (unfolded, rest) = rest.split_at_mut(self.unfolded().len(1));
        let (product, rest) = rest.split_at_mut(self.product().len(1));
        [buffer, unfolded, product, &mut rest[..self.filter().len(1)]]
    }

    pub(super) fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.total)
            .step_by(self.block)
            .map(move |p| p..(p + self.block).min(self.total))
    }

    /// Cuts a range of positions into runs: `f(sample, row, columns, place in range)`.
    #[inline(always)]
    pub(super) fn runs(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(usize, usize, Range<usize>, usize),
    ) {
        let ([height, width], mut p) = (self.grid, range.start);
        while p < range.end {
            let (n, i, j) = (p / (height * width), p / width % height, p % width);
            let end = width.min(j + RUN).min(j + range.end - p);
            f(n, i, j..end, p - range.start);
            p += end - j;
        }
    }
}
