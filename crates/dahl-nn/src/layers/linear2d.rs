//! A linear layer over the channels of each pixel.

use dahl_core::Handle;
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Conv2d, Extent, Fill, Layer, ModelBuilder, Named, ParamSpec, Tape};

/// `torch.nn.Linear` over the channels of each pixel, as it works on images whose channels are the last axis: a 1×1
/// convolution whose weight is a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Linear2d {
    /// Channels of what it gives.
    pub out_features: usize,
    /// Whether a number per channel is added.
    #[serde(default = "super::yes")]
    pub bias: bool,
}

impl Named for Linear2d {
    const NAME: &'static str = "linear2d";
}

impl Linear2d {
    fn conv(&self) -> Conv2d {
        Conv2d {
            bias: self.bias,
            ..Conv2d::new(self.out_features, 1)
        }
    }
}

impl Layer for Linear2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let [_, h, w] = image(inputs[0])?;
        match self.out_features {
            0 => Err("out_features must be 1 or more".into()),
            out => Extent::Image([out, h, w]).checked(),
        }
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let (out, channels) = (self.out_features, input.channels());
        let init = Fill::fan_in(channels);
        let mut params = vec![ParamSpec::trained("weight", &[out, channels], init)];
        if self.bias {
            params.push(ParamSpec::trained("bias", &[out], init));
        }
        params
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        self.conv().forward_with(tape, false)
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        self.conv().backward_with(tape, dy, false);
    }
}

impl ModelBuilder {
    /// A linear layer over the channels of each pixel, with a bias; `.bias(false)` leaves it out.
    #[track_caller]
    pub fn linear2d(self, out_features: usize) -> Self {
        self.layer(Linear2d {
            out_features,
            bias: true,
        })
    }
}
