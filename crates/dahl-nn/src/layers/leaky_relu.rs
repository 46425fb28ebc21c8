//! The positive part, and a small part of the negative one.

use dahl_core::{Handle, Param};
use dahl_ops::activation;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape, finite};

/// `torch.nn.LeakyReLU`: the value, or a small part of it where it is negative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LeakyRelu {
    /// What negative values are multiplied by.
    pub negative_slope: f64,
}

impl Default for LeakyRelu {
    fn default() -> Self {
        LeakyRelu {
            negative_slope: 0.01,
        }
    }
}

impl Named for LeakyRelu {
    const NAME: &'static str = "leaky_relu";
}

impl Layer for LeakyRelu {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        finite("negative_slope", self.negative_slope).map(|_| inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(
            &activation::LEAKY_RELU,
            &[Param::Float(self.negative_slope)],
        )
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let from = [dy, &tape.input(0)];
        tape.map_gradient(
            &activation::LEAKY_RELU_GRAD,
            &from,
            &[Param::Float(self.negative_slope)],
        );
    }
}

impl ModelBuilder {
    /// The value where it is positive, else `negative_slope` times it; PyTorch's default is 0.01.
    #[track_caller]
    pub fn leaky_relu(self, negative_slope: f64) -> Self {
        self.layer(LeakyRelu { negative_slope })
    }
}
