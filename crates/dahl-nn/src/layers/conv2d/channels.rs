//! Which channels of input and output go together: all with all, or group by group.
//!
//! Tasks take whole groups: a part of a group would need a part of the filters' channels as well.

use dahl_core::Handle;
use dahl_ops::conv2d::grouped::op::{GroupedGradParams, GroupedParams};
use dahl_ops::window::Window;

use super::Conv2d;
use super::tasks::{channels_of, filters};
use crate::lower::grain::Parts;
use crate::lower::tiles::{self, Piece, Tile};

impl Conv2d {
    /// The tiles of an input or output of these extents, cut between groups.
    pub(super) fn grid(&self, dims: [usize; 4], parts: Parts) -> Vec<Tile> {
        if self.groups == 1 {
            return tiles::grid(dims, parts);
        }
        let [n, channels, h, w] = dims;
        let size = channels / self.groups;
        let tiles = tiles::grid([n, self.groups, h, w], parts).into_iter();
        tiles
            .map(|[n, c, h, w]| [n, (c.0 * size, c.1 * size), h, w])
            .collect()
    }

    /// Of `others` channels on the other side, those that channels `c` of `all` on this side meet.
    pub(super) fn across(&self, c: Piece, all: usize, others: usize) -> Piece {
        let meet = |at: usize| at * self.groups / all * (others / self.groups);
        match self.groups {
            1 => (0, others),
            _ => (meet(c.0), meet(c.1)),
        }
    }

    /// The part of the filters that input channels `c` meet, of `all`.
    pub(super) fn filters_reading(&self, w: &Handle, c: Piece, all: usize) -> Handle {
        match self.groups {
            1 => channels_of(w, c),
            _ => filters(w, self.across(c, all, self.out_channels)),
        }
    }

    /// Parameters of a grouped task whose filters are these outputs.
    pub(super) fn grouped(&self, window: Window, outputs: Piece, relu: bool) -> GroupedParams {
        let groups = match self.groups {
            1 => 1,
            _ => (outputs.1 - outputs.0) * self.groups / self.out_channels,
        };
        GroupedParams {
            window,
            dilation: self.dilation.0,
            groups,
            relu,
        }
    }

    /// The same of a gradient.
    pub(super) fn grouped_grad(&self, window: Window, outputs: Piece) -> GroupedGradParams {
        let GroupedParams {
            dilation, groups, ..
        } = self.grouped(window, outputs, false);
        GroupedGradParams {
            window,
            dilation,
            groups,
        }
    }
}
