//! The exponential linear unit.

use dahl_core::{Handle, Param};
use dahl_ops::activation;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape, finite};

/// `torch.nn.ELU`: the value, or `alpha · (eˣ − 1)` where it is negative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Elu {
    /// Minus the result far below zero.
    pub alpha: f64,
}

impl Default for Elu {
    fn default() -> Self {
        Elu { alpha: 1.0 }
    }
}

impl Named for Elu {
    const NAME: &'static str = "elu";
}

impl Layer for Elu {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        finite("alpha", self.alpha).map(|_| inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&activation::ELU, &[Param::Float(self.alpha)])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let from = [dy, &tape.input(0)];
        tape.map_gradient(&activation::ELU_GRAD, &from, &[Param::Float(self.alpha)]);
    }
}

impl ModelBuilder {
    /// The value where it is positive, else `alpha · (eˣ − 1)`; PyTorch's default is 1.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Self {
        self.layer(Elu { alpha })
    }
}
