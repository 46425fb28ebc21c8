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
    pub fn taps(&self, axis: usize, y: usize, len: usize) -> std::ops::Range<usize> {
        let first = (y * self.stride[axis]) as isize - self.shift[axis];
        let lo = (-first).clamp(0, self.kernel[axis] as isize) as usize;
        let hi = (len as isize - first).clamp(lo as isize, self.kernel[axis] as isize) as usize;
        lo..hi
    }
}
