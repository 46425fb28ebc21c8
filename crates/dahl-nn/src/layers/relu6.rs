//! The positive part up to six.

use dahl_core::Handle;
use dahl_ops::elementwise;
use serde::{Deserialize, Serialize};

use super::{Layer, ModelBuilder, Named, Tape};

/// `torch.nn.ReLU6`: the value, but at least 0 and at most 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relu6;

impl Named for Relu6 {
    const NAME: &'static str = "relu6";
}

impl Layer for Relu6 {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.map_output(&elementwise::RELU6, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        tape.map_gradient(&elementwise::RELU6_GRAD, &[dy, &tape.output()], &[]);
    }
}

impl ModelBuilder {
    /// The value, but at least 0 and at most 6.
    #[track_caller]
    pub fn relu6(self) -> Self {
        self.layer(Relu6)
    }
}
