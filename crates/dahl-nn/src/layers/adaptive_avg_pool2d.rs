//! The mean of each channel.

use dahl_core::Handle;
use dahl_ops::pool;
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Extent, Layer, ModelBuilder, Named, Tape};

/// `torch.nn.AdaptiveAvgPool2d(1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdaptiveAvgPool2d;

impl Named for AdaptiveAvgPool2d {
    const NAME: &'static str = "adaptive_avg_pool2d";
}

impl Layer for AdaptiveAvgPool2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        image(inputs[0]).map(|[c, ..]| Extent::Image([c, 1, 1]))
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&pool::GLOBAL, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        tape.map_gradient(&pool::GLOBAL_GRAD, &[dy], &[]);
    }
}

impl ModelBuilder {
    /// The mean of each channel.
    #[track_caller]
    pub fn adaptive_avg_pool2d(self) -> Self {
        self.layer(AdaptiveAvgPool2d)
    }
}
