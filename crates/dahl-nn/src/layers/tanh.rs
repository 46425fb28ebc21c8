//! The hyperbolic tangent.

use dahl_core::Handle;
use dahl_ops::activation;
use serde::{Deserialize, Serialize};

use super::{Layer, ModelBuilder, Named, Tape};

/// `torch.nn.Tanh`: the hyperbolic tangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tanh;

impl Named for Tanh {
    const NAME: &'static str = "tanh";
}

impl Layer for Tanh {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&activation::TANH, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let from = [dy, &tape.output()];
        tape.map_gradient(&activation::TANH_GRAD, &from, &[]);
    }
}

impl ModelBuilder {
    /// The hyperbolic tangent.
    #[track_caller]
    pub fn tanh(self) -> Self {
        self.layer(Tanh)
    }
}
