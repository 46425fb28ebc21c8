//! Zeros at random while training.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Write};
use dahl_ops::dropout::{self, DROPOUT, Dropped};
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape};
use crate::lower::tiles;

/// `torch.nn.Dropout`: while training, sets values to zero and scales the others up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Dropout {
    /// The probability of a zero.
    pub p: f64,
}

impl Default for Dropout {
    fn default() -> Self {
        Dropout { p: 0.5 }
    }
}

impl Named for Dropout {
    const NAME: &'static str = "dropout";
}

impl Dropout {
    /// Forward and backward alike: the random numbers are those of the element, the layer and the step.
    fn tasks(&self, tape: &Tape<'_>, from: &Handle, to: &Handle) {
        let params = dropout::Dropout {
            probability: self.p,
            seed: tape.seed(),
            layer: tape.layer() as u32,
        };
        let step = tape.step_number();
        for n in tape.samples(to.shape.len()) {
            let [a, b] = [from, to].map(|h| tiles::samples(h, n));
            let operands = Dropped {
                x: a.with(Read),
                step: step.with(Read),
                y: b.with(Write),
            };
            DROPOUT.submit(tape.recorder(), operands, params.clone());
        }
    }
}

impl Layer for Dropout {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let p = self.p;
        match (0.0..=1.0).contains(&p) {
            true => Ok(inputs[0]),
            false => Err(format!("p is {p}; a probability lies between 0 and 1")),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        if !tape.is_training() {
            return tape.input_as_output();
        }
        let y = tape.new_output();
        self.tasks(tape, &tape.input(0), &y);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let dx = tape.new_gradient(0);
        self.tasks(tape, dy, &dx);
        tape.give_gradient(0, dx);
    }
}

impl ModelBuilder {
    /// Dropout with probability `p`.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Self {
        self.layer(Dropout { p })
    }
}
