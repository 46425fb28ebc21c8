//! Layer norm over the channels of each pixel.

use dahl_core::Handle;
use dahl_ops::norm::channel::{CHANNEL_NORM, CHANNEL_NORM_AFFINE_GRAD, CHANNEL_NORM_INPUT_GRAD};
use dahl_ops::norm::layer::Epsilon;
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Extent, Layer, ModelBuilder, Named, ParamSpec, Tape, norm};

/// torchvision's `LayerNorm2d`: the channels of each pixel brought to mean 0 and variance 1, then each channel scaled
/// and shifted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LayerNorm2d {
    /// What is added to the variance.
    pub eps: f64,
}

impl Default for LayerNorm2d {
    fn default() -> Self {
        LayerNorm2d { eps: norm::EPSILON }
    }
}

impl Named for LayerNorm2d {
    const NAME: &'static str = "layer_norm2d";
}

impl Layer for LayerNorm2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        norm::check_epsilon(self.eps)?;
        image(inputs[0])?;
        Ok(inputs[0])
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        norm::params(&[input.channels()], [true; 2])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (x, y) = (tape.input(0), tape.new_output());
        let [n, _, h, w] = x.shape.dims4();
        let statistics = tape.temporary("statistics", &[n, 2, h, w]);
        let affine = norm::affine(tape, &[x.shape[1]], [true; 2]);
        let epsilon = Epsilon { epsilon: self.eps };
        norm::forward(tape, (&CHANNEL_NORM, epsilon), [&x, &y], statistics, affine);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let ops = (&CHANNEL_NORM_INPUT_GRAD, &CHANNEL_NORM_AFFINE_GRAD, ());
        norm::backward(tape, ops, dy, Handle::clone, [true; 2]);
    }
}

impl ModelBuilder {
    /// Layer norm over the channels of each pixel; `.set("eps", …)` changes what is added to the variance.
    #[track_caller]
    pub fn layer_norm2d(self) -> Self {
        self.layer(LayerNorm2d::default())
    }
}
