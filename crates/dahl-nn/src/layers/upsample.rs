//! Images made larger: the nearest pixel, or a mean of the four around.

use dahl_core::{Handle, Param};
use dahl_ops::declare::ParamSet;
use dahl_ops::upsample::{Resampling, UPSAMPLE, UPSAMPLE_GRAD};
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Extent, Layer, ModelBuilder, Named, Pair, Tape};

/// `torch.nn.Upsample`: images of another height and width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Upsample {
    /// How many times as high and wide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_factor: Option<Pair>,
    /// Or the height and width that images get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Pair>,
    /// How pixels are made.
    pub mode: Mode,
    /// Whether first and last pixels of input and output coincide; bilinear only.
    pub align_corners: bool,
}

/// How [`Upsample`] makes pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// As the nearest one.
    #[default]
    Nearest,
    /// A mean of the four around, by their distance.
    Bilinear,
}

impl Named for Upsample {
    const NAME: &'static str = "upsample";
}

impl Upsample {
    fn params(&self) -> Vec<Param> {
        let how = Resampling {
            bilinear: self.mode == Mode::Bilinear,
            align_corners: self.align_corners,
        };
        how.list()
    }
}

impl Layer for Upsample {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let [c, h, w] = image(inputs[0])?;
        if self.align_corners && self.mode != Mode::Bilinear {
            return Err("align_corners goes with mode = \"bilinear\" only".into());
        }
        let [h, w] = match (self.scale_factor, self.size) {
            (Some(Pair([a, b])), None) => [h.saturating_mul(a), w.saturating_mul(b)],
            (None, Some(Pair(size))) => size,
            _ => return Err("give either scale_factor or size".into()),
        };
        if [h, w].contains(&0) {
            return Err(format!(
                "gives images of {}: give numbers of 1 or more",
                Pair([h, w])
            ));
        }
        Extent::Image([c, h, w]).checked()
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&UPSAMPLE, &self.params())
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        tape.map_gradient(&UPSAMPLE_GRAD, &[dy], &self.params());
    }
}

impl ModelBuilder {
    /// Images so many times as high and wide, pixels as the nearest one; `.set("mode", "bilinear")` and
    /// `.set("align_corners", true)` change that.
    #[track_caller]
    pub fn upsample(self, scale_factor: impl Into<Pair>) -> Self {
        self.layer(Upsample {
            scale_factor: Some(scale_factor.into()),
            ..Upsample::default()
        })
    }
}
