//! The positive part.

use dahl_core::Handle;
use dahl_ops::codelets::elementwise;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape};

/// `torch.nn.ReLU`: the larger of 0 and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relu;

impl Named for Relu {
    const NAME: &'static str = "relu";
}

impl Layer for Relu {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        Ok(inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        tape.map(&elementwise::RELU, &[&tape.input(0)], &y, &[]);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let dx = tape.new_gradient(0);
        tape.map(&elementwise::RELU_GRAD, &[dy, &tape.output()], &dx, &[]);
        tape.give_gradient(0, dx);
    }
}

impl ModelBuilder {
    /// The larger of 0 and the value.
    #[track_caller]
    pub fn relu(self) -> Self {
        self.layer(Relu)
    }
}
