//! Convolutions: the keys, the rule for extents, and the parameters. Tasks are beside it: `tasks` has the
//! plain and Winograd's codelets, `pooled` the kernel that takes the positive part and pools as well.

pub(super) mod pooled;
mod tasks;

use dahl_core::Handle;
use serde::{Deserialize, Serialize};

use super::window::{image, none, windows};
use super::{Extent, Fill, Layer, ModelBuilder, Named, Pair, ParamSpec, Tape};
use crate::lower::tiles::Geometry;

/// `torch.nn.Conv2d`: a cross-correlation of an image with a set of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conv2d {
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
    /// Whether a number per filter is added.
    #[serde(default = "super::yes")]
    pub bias: bool,
}

fn one() -> Pair {
    Pair([1, 1])
}

impl Named for Conv2d {
    const NAME: &'static str = "conv2d";
}

impl Conv2d {
    /// With stride 1, no padding and a bias.
    pub fn new(out_channels: usize, kernel: impl Into<Pair>) -> Self {
        Conv2d {
            out_channels,
            kernel: kernel.into(),
            stride: one(),
            padding: none(),
            bias: true,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            kernel: self.kernel.0,
            stride: self.stride.0,
            padding: self.padding.0,
        }
    }
}

impl Layer for Conv2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let [_, h, w] = image(inputs[0])?;
        if self.out_channels == 0 {
            return Err("out_channels must be 1 or more".into());
        }
        let [h, w] = windows([h, w], &self.geometry())?;
        Extent::Image([self.out_channels, h, w]).checked()
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let (out, [h, w]) = (self.out_channels, self.kernel.0);
        let channels = input.channels();
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
    /// A convolution with stride 1, no padding and a bias; `.stride`, `.padding` and `.bias` change that.
    #[track_caller]
    pub fn conv2d(self, out_channels: usize, kernel: impl Into<Pair>) -> Self {
        self.layer(Conv2d::new(out_channels, kernel))
    }
}
