//! Layer norm over the channels of each pixel.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Reduce, Write};
use dahl_ops::norm::channel::{
    CHANNEL_NORM, CHANNEL_NORM_AFFINE_GRAD, CHANNEL_NORM_INPUT_GRAD, ChannelNorm,
    ChannelNormAffineGrad, ChannelNormInputGrad,
};
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
        let [scale, shift] = ["weight", "bias"].map(|name| tape.param(name));
        for ([x, y], statistics) in norm::pieces(tape, [&x, &y], &statistics) {
            let operands = ChannelNorm {
                x: x.with(Read),
                scale: scale.with(Read),
                shift: shift.with(Read),
                y: y.with(Write),
                statistics: statistics.with(Write),
            };
            let epsilon = self.eps;
            CHANNEL_NORM.submit(tape.recorder(), operands, Epsilon { epsilon });
        }
        tape.keep(statistics);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (x, statistics, scale) = (tape.input(0), tape.kept(0), tape.param("weight"));
        if tape.wants_gradient(0) {
            let dx = tape.new_gradient(0);
            for ([x, dy, dx], statistics) in norm::pieces(tape, [&x, dy, &dx], &statistics) {
                let operands = ChannelNormInputGrad {
                    x: x.with(Read),
                    dy: dy.with(Read),
                    statistics: statistics.with(Read),
                    scale: scale.with(Read),
                    dx: dx.with(Write),
                };
                CHANNEL_NORM_INPUT_GRAD.submit(tape.recorder(), operands, ());
            }
            tape.give_gradient(0, dx);
        }
        let gradients = ["scale gradient", "shift gradient"]
            .map(|name| tape.temporary(name, scale.shape.extents()));
        for ([x, dy], statistics) in norm::pieces(tape, [&x, dy], &statistics) {
            let [dscale, dshift] = &gradients;
            let operands = ChannelNormAffineGrad {
                x: x.with(Read),
                dy: dy.with(Read),
                statistics: statistics.with(Read),
                dscale: dscale.with(Reduce),
                dshift: dshift.with(Reduce),
            };
            CHANNEL_NORM_AFFINE_GRAD.submit(tape.recorder(), operands, ());
        }
        norm::give(tape, gradients, [true; 2]);
    }
}

impl ModelBuilder {
    /// Layer norm over the channels of each pixel; `.set("eps", …)` changes what is added to the variance.
    #[track_caller]
    pub fn layer_norm2d(self) -> Self {
        self.layer(LayerNorm2d::default())
    }
}
