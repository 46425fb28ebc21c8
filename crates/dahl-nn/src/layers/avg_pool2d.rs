//! The mean of each window.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Write};
use dahl_ops::pool::{AVERAGE, AVERAGE_GRAD};
use dahl_ops::window::{Planes, PlanesGrad};
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Pair, Pool2d, Tape};
use crate::lower::tiles;

/// `torch.nn.AvgPool2d`, padding counted as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AvgPool2d(pub Pool2d);

impl Named for AvgPool2d {
    const NAME: &'static str = "avg_pool2d";
}

impl Layer for AvgPool2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        self.0.extent(inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        let x = tape.input(0);
        for task in self.0.forward(tape, &y) {
            let (from, to) = (tiles::part(&x, task.read), tiles::part(&y, task.write));
            let (x, y) = (from.with(Read), to.with(Write));
            AVERAGE.submit(tape.recorder(), Planes { x, y }, task.windows);
        }
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let dx = tape.new_gradient(0);
        for task in self.0.backward(tape, dy, &dx) {
            let (from, to) = (tiles::part(dy, task.read), tiles::part(&dx, task.write));
            let (dy, dx) = (from.with(Read), to.with(Write));
            AVERAGE_GRAD.submit(tape.recorder(), PlanesGrad { dy, dx }, task.windows);
        }
        tape.give_gradient(0, dx);
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
