//! The positive part.

use dahl_core::Handle;
use dahl_ops::elementwise;
use serde::{Deserialize, Serialize};

use super::{Layer, ModelBuilder, Named, Tape};

/// `torch.nn.ReLU`: the larger of 0 and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relu;

impl Named for Relu {
    const NAME: &'static str = "relu";
}

impl Layer for Relu {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&elementwise::RELU, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        tape.map_gradient(&elementwise::RELU_GRAD, &[dy, &tape.output()], &[]);
    }
}

impl ModelBuilder {
    /// The larger of 0 and the value.
    #[track_caller]
    pub fn relu(self) -> Self {
        self.layer(Relu)
    }
}
