//! Fully connected layers.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Reduce, Write};
use dahl_ops::linear::{
    BIAS_GRAD, BiasGrad, FORWARD, Forward, INPUT_GRAD, InputGrad, WEIGHT_GRAD, WeightGrad,
};
use serde::{Deserialize, Serialize};

use super::{Extent, Fill, Layer, ModelBuilder, Named, ParamSpec, Tape};
use crate::lower::grain::{self, Parts};
use crate::lower::tiles;

/// `torch.nn.Linear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Linear {
    /// How many numbers it gives.
    pub out_features: usize,
    /// Whether a number per output is added.
    #[serde(default = "super::yes")]
    pub bias: bool,
}

impl Named for Linear {
    const NAME: &'static str = "linear";
}

fn parts(tape: &Tape<'_>, w: &Handle) -> Parts {
    tape.parts(|| grain::linear(tape.batch(), [w.shape[1], w.shape[0]], tape.blocks()))
}

impl Layer for Linear {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        match inputs[0] {
            input @ Extent::Image(_) => Err(format!(
                "input is an image of {input}, linear reads a row of numbers: put a flatten before it"
            )),
            Extent::Flat(_) if self.out_features == 0 => {
                Err("out_features must be 1 or more".into())
            }
            Extent::Flat(_) => Extent::Flat(self.out_features).checked(),
        }
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let (out, features) = (self.out_features, input.len());
        let init = Fill::fan_in(features);
        let mut params = vec![ParamSpec::trained("weight", &[out, features], init)];
        if self.bias {
            params.push(ParamSpec::trained("bias", &[out], init));
        }
        params
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (x, y) = (tape.input(0), tape.new_output());
        let w = tape.param("weight");
        let bias = self.bias.then(|| tape.param("bias"));
        let parts = parts(tape, &w);
        for &n in &tiles::pieces(tape.batch(), parts.sample) {
            for &c in &tiles::pieces(w.shape[0], parts.channel) {
                let (from, weight) = (tiles::samples(&x, n), tiles::samples(&w, c));
                let to = tiles::last(&tiles::samples(&y, n), c);
                let b = bias.as_ref().map(|b| tiles::last(b, c));
                let operands = Forward {
                    x: from.with(Read),
                    w: weight.with(Read),
                    bias: b.as_ref().map(|b| b.with(Read)),
                    y: to.with(Write),
                };
                FORWARD.submit(tape.recorder(), operands, ());
            }
        }
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (x, w) = (tape.input(0), tape.param("weight"));
        let parts = parts(tape, &w);
        let samples = tiles::pieces(tape.batch(), parts.sample);
        if tape.wants_gradient(0) {
            let dx = tape.new_gradient(0);
            for &n in &samples {
                // Cut along the input's features: each task needs all of the output's.
                for &i in &tiles::pieces(w.shape[1], parts.channel) {
                    let (from, weight) = (tiles::samples(dy, n), tiles::last(&w, i));
                    let to = tiles::last(&tiles::samples(&dx, n), i);
                    let operands = InputGrad {
                        dy: from.with(Read),
                        w: weight.with(Read),
                        dx: to.with(Write),
                    };
                    INPUT_GRAD.submit(tape.recorder(), operands, ());
                }
            }
            tape.give_gradient(0, dx);
        }
        let dw = tape.temporary("weight gradient", w.shape.extents());
        for &n in &samples {
            for &c in &tiles::pieces(w.shape[0], parts.channel) {
                let from = tiles::last(&tiles::samples(dy, n), c);
                let (x, to) = (tiles::samples(&x, n), tiles::samples(&dw, c));
                let operands = WeightGrad {
                    dy: from.with(Read),
                    x: x.with(Read),
                    dw: to.with(Reduce),
                };
                WEIGHT_GRAD.submit(tape.recorder(), operands, ());
            }
        }
        tape.give_param_gradient("weight", dw);
        if self.bias {
            let db = tape.temporary("bias gradient", &[self.out_features]);
            for &n in &samples {
                let from = tiles::samples(dy, n);
                let (dy, db) = (from.with(Read), db.with(Reduce));
                BIAS_GRAD.submit(tape.recorder(), BiasGrad { dy, db }, ());
            }
            tape.give_param_gradient("bias", db);
        }
    }
}

impl ModelBuilder {
    /// A linear layer with a bias; `.bias(false)` leaves it out.
    #[track_caller]
    pub fn linear(self, out_features: usize) -> Self {
        self.layer(Linear {
            out_features,
            bias: true,
        })
    }
}
