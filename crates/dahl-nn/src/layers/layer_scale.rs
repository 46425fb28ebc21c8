//! A trained number for each channel, which it is multiplied by.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Reduce, Write};
use dahl_ops::channelwise::{CHANNEL_SCALE, CHANNEL_SCALE_GRAD, ChannelScale, ChannelScaleGrad};
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Extent, Fill, Layer, ModelBuilder, Named, ParamSpec, Tape, finite};
use crate::lower::tiles;

/// Layer scale (Touvron et al., 2021), as in torchvision's ConvNeXt: each channel times a number that is trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LayerScale {
    /// What the numbers are at first.
    pub init: f64,
}

impl Default for LayerScale {
    fn default() -> Self {
        LayerScale { init: 1e-6 }
    }
}

impl Named for LayerScale {
    const NAME: &'static str = "layer_scale";
}

/// The numbers, as a row: files keep them as channels × 1 × 1.
fn scale(tape: &Tape<'_>) -> Handle {
    let kept = tape.param("layer_scale");
    kept.reshape(&[kept.shape.len()]).expect("as many elements")
}

/// Each channel of `x` times its number.
fn multiply(tape: &Tape<'_>, x: &Handle, y: &Handle) {
    let scale = scale(tape);
    for n in tape.samples(x.shape.len()) {
        let [x, y] = [x, y].map(|h| tiles::samples(h, n));
        let (x, scale, y) = (x.with(Read), scale.with(Read), y.with(Write));
        CHANNEL_SCALE.submit(tape.recorder(), ChannelScale { x, scale, y }, ());
    }
}

impl Layer for LayerScale {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        finite("init", self.init)?;
        image(inputs[0])?;
        Ok(inputs[0])
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let (shape, first) = ([input.channels(), 1, 1], Fill::Constant(self.init));
        vec![ParamSpec::trained("layer_scale", &shape, first)]
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        multiply(tape, &tape.input(0), &y);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        if tape.wants_gradient(0) {
            let dx = tape.new_gradient(0);
            multiply(tape, dy, &dx);
            tape.give_gradient(0, dx);
        }
        let (x, channels) = (tape.input(0), dy.shape[1]);
        let dscale = tape.temporary("scale gradient", &[channels]);
        for n in tape.samples(x.shape.len()) {
            let [x, dy] = [&x, dy].map(|h| tiles::samples(h, n));
            let (x, dy, dscale) = (x.with(Read), dy.with(Read), dscale.with(Reduce));
            CHANNEL_SCALE_GRAD.submit(tape.recorder(), ChannelScaleGrad { x, dy, dscale }, ());
        }
        let dscale = dscale.reshape(&[channels, 1, 1]).expect("as many elements");
        tape.give_param_gradient("layer_scale", dscale);
    }
}

impl ModelBuilder {
    /// Each channel times a number that is trained, 10⁻⁶ at first; `.set("init", …)` changes that.
    #[track_caller]
    pub fn layer_scale(self) -> Self {
        self.layer(LayerScale::default())
    }
}
