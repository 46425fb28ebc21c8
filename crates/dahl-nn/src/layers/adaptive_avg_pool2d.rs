//! The mean of each channel, or of pieces of it.

use dahl_core::Handle;
use dahl_ops::pool;
use serde::{Deserialize, Serialize};

use super::conv2d::is_one;
use super::window::{image, one};
use super::{Extent, Layer, ModelBuilder, Named, Pair, Tape};

/// `torch.nn.AdaptiveAvgPool2d`: means of as many pieces of each channel as the output has pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AdaptiveAvgPool2d {
    /// The height and width that images get.
    #[serde(skip_serializing_if = "is_one")]
    pub output_size: Pair,
}

impl Default for AdaptiveAvgPool2d {
    fn default() -> Self {
        AdaptiveAvgPool2d { output_size: one() }
    }
}

impl Named for AdaptiveAvgPool2d {
    const NAME: &'static str = "adaptive_avg_pool2d";
}

impl Layer for AdaptiveAvgPool2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let ([c, ..], [h, w]) = (image(inputs[0])?, self.output_size.0);
        match [h, w].contains(&0) {
            true => Err(format!(
                "output_size is {}, must be 1 or more",
                self.output_size
            )),
            false => Extent::Image([c, h, w]).checked(),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&pool::GLOBAL, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        tape.map_gradient(&pool::GLOBAL_GRAD, &[dy], &[]);
    }
}

impl ModelBuilder {
    /// The mean of each channel; `.set("output_size", …)` takes means of pieces.
    #[track_caller]
    pub fn adaptive_avg_pool2d(self) -> Self {
        self.layer(AdaptiveAvgPool2d::default())
    }
}
