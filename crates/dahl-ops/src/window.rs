//! Windows: how output positions of a convolution or pooling map to input positions.
//!
//! A task may compute only a tile of the output, and it sees only the part of the input that this
//! tile needs. Along one axis, with output position `y` and kernel position `k`, both counted inside
//! the views a task holds, the input position is
//!
//! ```text
//!     h = y · stride + k − shift
//! ```
//!
//! and a position outside the input view lies in the padding. For whole arrays `shift` is the padding;
//! for a tile whose output view starts at `y0` and whose input view starts at `h0` it is
//! `h0 + padding − y0 · stride`. The same equation read backwards serves input gradients.

use crate::declare::{Shaped, operands};

operands! {
    /// Operands of what makes planes of planes, each of a sample and a channel: pooling, resampling.
    Planes {
        x: one [Read] 4 "the input: samples × channels × height × width",
        y: one [Write] 4 "the output: as many samples and channels, of a height and width of its own",
    }
}

operands! {
    /// Operands of the gradients of what [`Planes`] has.
    PlanesGrad {
        dy: one [Read] 4 "the gradient by the output",
        dx: one [Write] 4 "the gradient by the input",
    }
}

/// Refuses an output that has other samples or channels than its input.
pub(crate) fn expect_channels(x: &Shaped, y: &Shaped) -> Result<(), String> {
    let ([n, c, ..], [.., h, w]) = (x.dims(), y.dims());
    y.expect([n, c, h, w])
}

/// Kernel, stride and shift along height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Stride along height and width.
    pub stride: [usize; 2],
    /// What to subtract, see the module's equation.
    pub shift: [isize; 2],
}

impl Window {
    /// The input position for output `y` and kernel `k` along `axis`, if it lies in `0..len`.
    #[inline]
    pub fn input(&self, axis: usize, y: usize, k: usize, len: usize) -> Option<usize> {
        let h = (y * self.stride[axis] + k) as isize - self.shift[axis];
        (h >= 0 && (h as usize) < len).then_some(h as usize)
    }

    /// The range of kernel positions whose input for output `y` along `axis` lies in `0..len`.
    #[inline]
    pub(crate) fn taps(&self, axis: usize, y: usize, len: usize) -> std::ops::Range<usize> {
        let first = (y * self.stride[axis]) as isize - self.shift[axis];
        let lo = (-first).clamp(0, self.kernel[axis] as isize) as usize;
        let hi = (len as isize - first).clamp(lo as isize, self.kernel[axis] as isize) as usize;
        lo..hi
    }

    /// Refuses a window that no convolution or pooling has.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.kernel.contains(&0) || self.stride.contains(&0) {
            let (k, s) = (self.kernel, self.stride);
            return Err(format!("kernel {k:?} and stride {s:?} must not be zero"));
        }
        Ok(())
    }

    /// Height and width of what a whole input of this height and width becomes; none if it is too small.
    pub(crate) fn outputs(&self, input: [usize; 2]) -> Option<[usize; 2]> {
        let along = |axis: usize| {
            let padded = input[axis].checked_add_signed(2 * self.shift[axis])?;
            let room = padded.checked_sub(self.kernel[axis])?;
            room.checked_div(self.stride[axis]).map(|steps| steps + 1)
        };
        Some([along(0)?, along(1)?])
    }

    /// The same, or 1×1 where a mistake will be recorded.
    pub(crate) fn plane(&self, input: [usize; 2]) -> [usize; 2] {
        self.outputs(input).unwrap_or([1, 1])
    }

    /// Refuses a whole output that the window does not make of a whole input.
    pub(crate) fn expect_plane(&self, x: &Shaped, y: &Shaped) -> Result<(), String> {
        let ([.., h, w], [.., to_h, to_w]) = (x.dims(), y.dims());
        let [k, s, p] = [
            format!("{}×{}", self.kernel[0], self.kernel[1]),
            format!("{}×{}", self.stride[0], self.stride[1]),
            format!("{}×{}", self.shift[0], self.shift[1]),
        ];
        match self.outputs([h, w]) {
            Some(planes) if planes == [to_h, to_w] => Ok(()),
            Some([h, w]) => Err(format!(
                "{} has shape {}, expected planes of {h}×{w} for {} {}, kernel {k}, stride {s} and \
                 padding {p}",
                y.name, y.shape, x.name, x.shape
            )),
            None => Err(format!(
                "kernel {k} with stride {s} does not fit {} of shape {} with padding {p}",
                x.name, x.shape
            )),
        }
    }
}
