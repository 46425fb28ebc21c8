//! The logistic function.

use dahl_core::Handle;
use dahl_ops::activation;
use serde::{Deserialize, Serialize};

use super::{Layer, ModelBuilder, Named, Tape};

/// `torch.nn.Sigmoid`: `1 / (1 + e⁻ˣ)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sigmoid;

impl Named for Sigmoid {
    const NAME: &'static str = "sigmoid";
}

impl Layer for Sigmoid {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&activation::SIGMOID, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let from = [dy, &tape.output()];
        tape.map_gradient(&activation::SIGMOID_GRAD, &from, &[]);
    }
}

impl ModelBuilder {
    /// `1 / (1 + e⁻ˣ)`.
    #[track_caller]
    pub fn sigmoid(self) -> Self {
        self.layer(Sigmoid)
    }
}
