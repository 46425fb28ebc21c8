//! The largest value of each window.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Write};
use dahl_ops::pool::{MAX, MAX_GRAD, Max, MaxGrad};
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Pair, Pool2d, Tape};
use crate::lower::tiles;

/// `torch.nn.MaxPool2d`; what pads the image is never the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct MaxPool2d(pub Pool2d);

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
        let x = tape.input(0);
        for task in self.0.forward(tape, &y) {
            let (from, to) = (tiles::part(&x, task.read), tiles::part(&y, task.write));
            let place = places.as_ref().map(|p| tiles::part(p, task.write));
            let operands = Max {
                x: from.with(Read),
                y: to.with(Write),
                places: place.as_ref().map(|p| p.with(Write)),
            };
            MAX.submit(tape.recorder(), operands, task.windows);
        }
        places.into_iter().for_each(|p| tape.keep(p));
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let places = tape.kept(0);
        let dx = tape.new_gradient(0);
        for task in self.0.backward(tape, dy, &dx) {
            let [from, place] = [dy, &places].map(|h| tiles::part(h, task.read));
            let to = tiles::part(&dx, task.write);
            let operands = MaxGrad {
                dy: from.with(Read),
                places: place.with(Read),
                dx: to.with(Write),
            };
            MAX_GRAD.submit(tape.recorder(), operands, task.windows);
        }
        tape.give_gradient(0, dx);
    }
}

impl ModelBuilder {
    /// Max pooling with a stride equal to the kernel and no padding; `.stride` and `.padding` change that.
    #[track_caller]
    pub fn max_pool2d(self, kernel: impl Into<Pair>) -> Self {
        self.layer(MaxPool2d(Pool2d::new(kernel)))
    }
}
