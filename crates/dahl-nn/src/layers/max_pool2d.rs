//! The largest value of each window.

use dahl_core::Handle;
use dahl_ops::codelets::pool;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Pair, Pool2d, Tape};

/// `torch.nn.MaxPool2d`; what pads the image is never the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaxPool2d(pub Pool2d);

impl Named for MaxPool2d {
    const NAME: &'static str = "max_pool2d";
}

impl Layer for MaxPool2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        self.0.extent(inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        let places = tape.is_training().then(|| tape.like_output("places"));
        self.0.forward(tape, &pool::MAX, &y, places.as_ref());
        places.into_iter().for_each(|p| tape.keep(p));
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let places = tape.kept(0);
        self.0.backward(tape, &pool::MAX_GRAD, dy, Some(&places));
    }
}

impl ModelBuilder {
    /// Max pooling with a stride equal to the kernel and no padding; `.stride` and `.padding` change that.
    #[track_caller]
    pub fn max_pool2d(self, kernel: impl Into<Pair>) -> Self {
        self.layer(MaxPool2d(Pool2d::new(kernel)))
    }
}
