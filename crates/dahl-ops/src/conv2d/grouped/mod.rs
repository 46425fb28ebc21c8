//! Convolution in groups of channels and with gaps between the kernel's positions.
//!
//! ```text
//!     y[n,o,i,j] = bias[o] + Σ_{c,a,b} w[o,c,a,b] · x[n, first(o) + c, i·stride + a·dilation − shift, …]
//! ```
//!
//! Channels are cut into `groups` of equal size; an output channel sees the input channels of its group
//! only, so the filter is O×(C/groups)×KH×KW. As many groups as channels is a depthwise convolution:
//! `direct` and `grad` prepare planes without edges (`planes`) and keep sums in registers (`rows`), or turn narrow planes
//! so that vectors are full of channels (`blocked`); `per_group` hands groups of many channels to the matrix product. An ordinary convolution is not computed here.

mod blocked;
pub(crate) mod direct;
pub(crate) mod grad;
pub mod op;
pub(crate) mod per_group;
mod planes;
pub(crate) mod reference;
mod rows;
#[cfg(test)]
mod tests;

use crate::window::Window;

/// A window with gaps, and groups of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Kernel, stride and shift.
    pub window: Window,
    /// Distance between neighbouring kernel positions along height and width; 1 leaves no gap.
    pub dilation: [usize; 2],
    /// How many groups.
    pub groups: usize,
}

impl Grouping {
    /// The input position for output `y` and kernel `k` along `axis`, if it lies in `0..len`.
    #[inline(always)]
    pub fn input(&self, axis: usize, y: usize, k: usize, len: usize) -> Option<usize> {
        let w = &self.window;
        let h = (y * w.stride[axis] + k * self.dilation[axis]) as isize - w.shift[axis];
        (h >= 0 && (h as usize) < len).then_some(h as usize)
    }

    /// What is wrong with these channels of input and output and these extents of a filter.
    pub fn check(&self, channels: usize, filters: usize, w: [usize; 4]) -> Result<(), String> {
        let (g, [kh, kw]) = (self.groups, self.window.kernel);
        if g == 0 || self.dilation.contains(&0) {
            return Err(format!(
                "groups {g} and dilation {:?} must not be zero",
                self.dilation
            ));
        }
        for (what, n) in [("input", channels), ("output", filters)] {
            if !n.is_multiple_of(g) {
                return Err(format!(
                    "the {what}'s {n} channels cannot be cut into {g} groups"
                ));
            }
        }
        let want = [filters, channels / g, kh, kw];
        if w == want {
            return Ok(());
        }
        let shown = |d: [usize; 4]| d.map(|d| d.to_string()).join("×");
        Err(format!(
            "filter has shape {}, {channels} channels in {g} groups expect {}",
            shown(w),
            shown(want)
        ))
    }

    #[track_caller]
    fn assert(&self, x: [usize; 4], y: [usize; 4], w: [usize; 4]) {
        assert_eq!(x[0], y[0], "grouped conv2d: samples");
        if let Err(message) = self.check(x[1], y[1], w) {
            panic!("grouped conv2d: {message}");
        }
    }
}
