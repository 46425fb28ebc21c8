//! Batch normalisation, by itself or with the positive part behind it.

use dahl_core::Handle;
use dahl_core::Mode::{Read, ReadWrite, Reduce, Write};
use dahl_ops::batch_norm::{self, FINISH, INPUT_GRAD, MOMENTS, NORMALISE, RUNNING, SUMS};
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Extent, Fill, Layer, ModelBuilder, Named, ParamSpec, Role, Tape};
use crate::lower::tiles;

/// What is added to the variance, and how fast running statistics move: PyTorch's.
const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

/// `torch.nn.BatchNorm2d`: each channel brought to mean 0 and variance 1 over the batch, then scaled and
/// shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchNorm2d;

impl Named for BatchNorm2d {
    const NAME: &'static str = "batch_norm2d";
}

impl Layer for BatchNorm2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        image(inputs[0]).map(Extent::Image)
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let channels = [input.channels()];
        let (zeros, ones) = (Fill::Constant(0.0), Fill::Constant(1.0));
        vec![
            ParamSpec::trained("weight", &channels, ones),
            ParamSpec::trained("bias", &channels, zeros),
            ParamSpec::buffer("running_mean", &channels, zeros),
            ParamSpec::buffer("running_var", &channels, ones),
            ParamSpec {
                role: Role::Counter,
                ..ParamSpec::buffer("num_batches_tracked", &[], zeros)
            },
        ]
    }

    fn check_batch(&self, input: Extent, batch: usize) -> Result<(), String> {
        match batch * input.len() == input.channels() {
            true => Err(
                "a batch of one sample has one value per channel, training needs two; \
                 choose a batch size that leaves no single sample over"
                    .into(),
            ),
            false => Ok(()),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        forward(tape, false)
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        backward(tape, dy, false);
    }
}

/// With the positive part behind it where `relu` is set.
pub(super) fn forward(tape: &mut Tape<'_>, relu: bool) -> Handle {
    let (x, y) = (tape.input(0), tape.new_output());
    let [scale, shift, mean, var] =
        ["weight", "bias", "running_mean", "running_var"].map(|name| tape.param(name));
    let channels = x.shape[1];
    let stats = tape.temporary("statistics", &[2, channels]);
    let pieces = tape.samples(x.shape.len());
    if tape.is_training() {
        let moments = tape.temporary("moments", &[pieces.len(), 3, channels]);
        for (i, &n) in pieces.iter().enumerate() {
            let from = tiles::samples(&x, n);
            let to = tiles::part(&moments, [(0, 1), (i, i + 1), (0, 3), (0, channels)]);
            let (x, moments) = (from.with(Read), to.with(Write));
            MOMENTS.submit(tape.recorder(), batch_norm::Moments { x, moments }, ());
        }
        let total = tape.temporary("total moments", &[3, channels]);
        let operands = batch_norm::Finish {
            moments: moments.with(Read),
            total: total.with(Write),
            statistics: stats.with(Write),
            running_mean: mean.with(ReadWrite),
            running_var: var.with(ReadWrite),
        };
        let kept = batch_norm::Kept {
            epsilon: EPSILON,
            momentum: MOMENTUM,
        };
        FINISH.submit(tape.recorder(), operands, kept);
    } else {
        let operands = batch_norm::Running {
            running_mean: mean.with(Read),
            running_var: var.with(Read),
            statistics: stats.with(Write),
        };
        let epsilon = EPSILON;
        RUNNING.submit(tape.recorder(), operands, batch_norm::Epsilon { epsilon });
    }
    for &n in &pieces {
        let [from, to] = [&x, &y].map(|h| tiles::samples(h, n));
        let operands = batch_norm::Normalise {
            x: from.with(Read),
            statistics: stats.with(Read),
            scale: scale.with(Read),
            shift: shift.with(Read),
            y: to.with(Write),
        };
        NORMALISE.submit(tape.recorder(), operands, batch_norm::Normalised { relu });
    }
    tape.keep(stats);
    y
}

/// With the positive part behind it where `relu` is set.
pub(super) fn backward(tape: &mut Tape<'_>, dy: &Handle, relu: bool) {
    let (x, y, stats) = (tape.input(0), tape.output(), tape.kept(0));
    let scale = tape.param("weight");
    let channels = x.shape[1];
    let sums = tape.temporary("sums", &[2, channels]);
    let pieces = tape.samples(x.shape.len());
    for &n in &pieces {
        let [a, b, c] = [&x, dy, &y].map(|h| tiles::samples(h, n));
        let operands = batch_norm::Sums {
            x: a.with(Read),
            dy: b.with(Read),
            statistics: stats.with(Read),
            sums: sums.with(Reduce),
            y: relu.then(|| c.with(Read)),
        };
        SUMS.submit(tape.recorder(), operands, ());
    }
    if tape.wants_gradient(0) {
        let dx = tape.new_gradient(0);
        let count = x.shape.len() / channels;
        for &n in &pieces {
            let [a, b, c, d] = [&x, dy, &y, &dx].map(|h| tiles::samples(h, n));
            let operands = batch_norm::InputGrad {
                x: a.with(Read),
                dy: b.with(Read),
                statistics: stats.with(Read),
                sums: sums.with(Read),
                scale: scale.with(Read),
                dx: d.with(Write),
                y: relu.then(|| c.with(Read)),
            };
            INPUT_GRAD.submit(tape.recorder(), operands, batch_norm::PerChannel { count });
        }
        tape.give_gradient(0, dx);
    }
    let row = |i: usize| tiles::samples(&sums, (i, i + 1));
    tape.give_param_gradient("bias", row(0));
    tape.give_param_gradient("weight", row(1));
}

impl ModelBuilder {
    /// Batch normalisation.
    #[track_caller]
    pub fn batch_norm2d(self) -> Self {
        self.layer(BatchNorm2d)
    }
}
