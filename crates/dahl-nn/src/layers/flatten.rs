//! An image as a row of numbers, channel by channel. No task: the array is seen under another shape.

use dahl_core::Handle;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape};

/// `torch.nn.Flatten`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flatten;

impl Named for Flatten {
    const NAME: &'static str = "flatten";
}

impl Layer for Flatten {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        Ok(Extent::Flat(inputs[0].len()))
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        tape.input_as_output()
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        tape.give_gradient(0, dy.clone());
    }
}

impl ModelBuilder {
    /// An image as a row of numbers.
    #[track_caller]
    pub fn flatten(self) -> Self {
        self.layer(Flatten)
    }
}
