//! The mean of each window.

use dahl_core::Handle;
use dahl_ops::codelets::pool;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Pair, Pool2d, Tape};

/// `torch.nn.AvgPool2d`, padding counted as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AvgPool2d(pub Pool2d);

impl Named for AvgPool2d {
    const NAME: &'static str = "avg_pool2d";
}

impl Layer for AvgPool2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        self.0.extent(inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        self.0.forward(tape, &pool::AVERAGE, &y, None);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        self.0.backward(tape, &pool::AVERAGE_GRAD, dy, None);
    }
}

impl ModelBuilder {
    /// Average pooling with a stride equal to the kernel and no padding; `.stride` and `.padding` change
    /// that.
    #[track_caller]
    pub fn avg_pool2d(self, kernel: impl Into<Pair>) -> Self {
        self.layer(AvgPool2d(Pool2d::new(kernel)))
    }
}
