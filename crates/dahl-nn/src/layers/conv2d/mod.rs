//! Convolutions: the keys, the rule for extents, and the parameters. Tasks are beside it: `tasks` has the
//! plain, grouped and Winograd's codelets, `pooled` the kernel that takes the positive part and pools as well.

mod channels;
pub(super) mod pooled;
pub(super) mod tasks;

use dahl_core::Handle;
use serde::{Deserialize, Serialize};

use super::window::{image, none, one, some, windows};
use super::{Extent, Fill, Layer, ModelBuilder, Named, Pair, ParamSpec, Tape, divides};
use crate::lower::tiles::Geometry;

/// `torch.nn.Conv2d`: a cross-correlation of an image with a set of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conv2d {
    /// How many filters.
    pub out_channels: usize,
    /// Height and width of a filter.
    pub kernel: Pair,
    /// Step between windows.
    #[serde(default = "one")]
    pub stride: Pair,
    /// Zeros around the image, on each side.
    #[serde(default = "none")]
    pub padding: Pair,
    /// Distance between neighbouring positions of a filter; 1 leaves no gap.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub dilation: Pair,
    /// Into how many groups the channels are cut; a filter sees those of its group. As many groups as channels
    /// is a depthwise convolution.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub groups: usize,
    /// Whether a number per filter is added.
    #[serde(default = "super::yes")]
    pub bias: bool,
}

pub(super) fn is_one(pair: &Pair) -> bool {
    *pair == one()
}

pub(super) fn single() -> usize {
    1
}

pub(super) fn is_single(groups: &usize) -> bool {
    *groups == 1
}

impl Named for Conv2d {
    const NAME: &'static str = "conv2d";
}

impl Conv2d {
    /// With stride 1, no padding, no gaps, one group and a bias.
    pub(crate) fn new(out_channels: usize, kernel: impl Into<Pair>) -> Self {
        Conv2d {
            out_channels,
            kernel: kernel.into(),
            stride: one(),
            padding: none(),
            dilation: one(),
            groups: 1,
            bias: true,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            kernel: self.kernel.0,
            stride: self.stride.0,
            padding: self.padding.0,
            dilation: self.dilation.0,
        }
    }

    /// Whether kernels without groups and gaps compute it.
    pub(super) fn is_plain(&self) -> bool {
        self.groups == 1 && self.dilation == one()
    }
}

impl Layer for Conv2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let [channels, h, w] = image(inputs[0])?;
        some(&[("out_channels", self.out_channels), ("groups", self.groups)])?;
        divides("groups", self.groups, "the input's", channels)?;
        divides("groups", self.groups, "the output's", self.out_channels)?;
        let [h, w] = windows([h, w], &self.geometry())?;
        Extent::Image([self.out_channels, h, w]).checked()
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let (out, [h, w]) = (self.out_channels, self.kernel.0);
        let channels = input.channels() / self.groups;
        let init = Fill::fan_in(channels * h * w);
        let mut params = vec![ParamSpec::trained("weight", &[out, channels, h, w], init)];
        if self.bias {
            params.push(ParamSpec::trained("bias", &[out], init));
        }
        params
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        self.forward_with(tape, false)
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        self.backward_with(tape, dy, false);
    }
}

impl ModelBuilder {
    /// A convolution with stride 1, no padding, no gaps, one group and a bias; `.stride`, `.padding`, `.dilation`,
    /// `.groups` and `.bias` change that.
    #[track_caller]
    pub fn conv2d(self, out_channels: usize, kernel: impl Into<Pair>) -> Self {
        self.layer(Conv2d::new(out_channels, kernel))
    }
}
