//! The sigmoid-weighted value, also called swish.

use dahl_core::Handle;
use dahl_ops::activation;
use serde::{Deserialize, Serialize};

use super::{Layer, ModelBuilder, Named, Tape};

/// `torch.nn.SiLU`: `x · sigmoid(x)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Silu;

impl Named for Silu {
    const NAME: &'static str = "silu";
}

impl Layer for Silu {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&activation::SILU, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let from = [dy, &tape.input(0)];
        tape.map_gradient(&activation::SILU_GRAD, &from, &[]);
    }
}

impl ModelBuilder {
    /// `x · sigmoid(x)`.
    #[track_caller]
    pub fn silu(self) -> Self {
        self.layer(Silu)
    }
}
