//! Batch normalisation, by itself or with the positive part behind it; over the whole batch, or over groups of samples.
//!
//! With groups, the layer computes what it would compute if each group were a batch by itself, one after another: statistics
//! are those of a group, and running ones move with every group. What a group is says the model, never a machine: so
//! micro-batches of as many samples need not wait for each other, and the bits do not depend on how many there are.

use dahl_core::Handle;
use dahl_core::Mode::{Read, ReadWrite, Reduce, Write};
use dahl_ops::batch_norm::{self, FINISH, INPUT_GRAD, MOMENTS, NORMALISE, RUNNING, SUMS};
use dahl_ops::elementwise::{ADD, Binary};
use serde::{Deserialize, Serialize};

use super::window::image;
use super::{Extent, Fill, Layer, ModelBuilder, Named, ParamSpec, Role, Tape};
use crate::lower::tiles::{self, Piece};

/// What is added to the variance, and how fast running statistics move: PyTorch's.
const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

/// `torch.nn.BatchNorm2d`: each channel brought to mean 0 and variance 1 over the batch, then scaled and
/// shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchNorm2d {
    /// Samples that statistics are taken over; all of the batch unless set. The last group has what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_group: Option<usize>,
}

impl Named for BatchNorm2d {
    const NAME: &'static str = "batch_norm2d";
}

impl Layer for BatchNorm2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        match self.norm_group {
            Some(0) => Err("norm_group is 0; it must be a number of samples, 1 or more".into()),
            _ => image(inputs[0]).map(Extent::Image),
        }
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
        if input.len() > input.channels() {
            return Ok(());
        }
        let mut groups = groups(self.norm_group, batch).into_iter();
        match (groups.any(|(a, b)| b - a == 1), self.norm_group) {
            (false, _) => Ok(()),
            (true, None) => Err(
                "a batch of one sample has one value per channel, training needs two; \
                 choose a batch size that leaves no single sample over"
                    .into(),
            ),
            (true, Some(n)) => Err(format!(
                "a group of one sample has one value per channel, training needs two; choose a norm_group above 1 and a \
                 batch size that leaves no single sample over (they are {n} and {batch})"
            )),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        self.forward_with(tape, None)
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        self.backward_with(tape, dy, None);
    }
}

/// The groups of a batch.
fn groups(norm_group: Option<usize>, batch: usize) -> Vec<Piece> {
    let size = norm_group.unwrap_or(batch).clamp(1, batch);
    let begins = (0..batch).step_by(size);
    begins.map(|a| (a, (a + size).min(batch))).collect()
}

/// What of pieces of the batch lies in a group.
fn within(pieces: &[Piece], group: Piece) -> Vec<Piece> {
    let common = |p: &Piece| (p.0.max(group.0), p.1.min(group.1));
    let all = pieces.iter().map(common);
    all.filter(|p| p.0 < p.1).collect()
}

/// The layer behind that takes the positive part, up to a cap if there is one.
#[derive(Clone, Copy)]
pub(super) struct Rectifier {
    pub cap: Option<f64>,
}

impl BatchNorm2d {
    /// With a rectifier behind it, if there is one.
    pub(super) fn forward_with(&self, tape: &mut Tape<'_>, by: Option<Rectifier>) -> Handle {
        let (x, y) = (tape.input(0), tape.new_output());
        let [scale, shift, mean, var] =
            ["weight", "bias", "running_mean", "running_var"].map(|name| tape.param(name));
        let channels = x.shape[1];
        let groups = match tape.is_training() {
            true => groups(self.norm_group, tape.batch()),
            false => vec![(0, tape.batch())],
        };
        let all = tape.temporary("statistics", &[2 * groups.len(), channels]);
        let pieces = tape.samples(x.shape.len());
        for (g, &group) in groups.iter().enumerate() {
            let stats = tiles::samples(&all, (2 * g, 2 * g + 2));
            let pieces = within(&pieces, group);
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
                let params = batch_norm::Normalised {
                    relu: by.is_some(),
                    cap: by.and_then(|by| by.cap),
                };
                NORMALISE.submit(tape.recorder(), operands, params);
            }
        }
        tape.keep(all);
        y
    }

    /// With a rectifier behind it, if there is one.
    pub(super) fn backward_with(&self, tape: &mut Tape<'_>, dy: &Handle, by: Option<Rectifier>) {
        let cap = by.and_then(|by| by.cap);
        let (x, y, all) = (tape.input(0), tape.output(), tape.kept(0));
        let scale = tape.param("weight");
        let channels = x.shape[1];
        let pieces = tape.samples(x.shape.len());
        let dx = tape.wants_gradient(0).then(|| tape.new_gradient(0));
        let mut total: Option<Handle> = None;
        for (g, &group) in groups(self.norm_group, tape.batch()).iter().enumerate() {
            let stats = tiles::samples(&all, (2 * g, 2 * g + 2));
            let pieces = within(&pieces, group);
            let sums = tape.temporary("sums", &[2, channels]);
            for &n in &pieces {
                let [a, b, c] = [&x, dy, &y].map(|h| tiles::samples(h, n));
                let operands = batch_norm::Sums {
                    x: a.with(Read),
                    dy: b.with(Read),
                    statistics: stats.with(Read),
                    sums: sums.with(Reduce),
                    y: by.map(|_| c.with(Read)),
                };
                SUMS.submit(tape.recorder(), operands, batch_norm::Capped { cap });
            }
            if let Some(dx) = &dx {
                let count = x.shape.len() / channels / tape.batch() * (group.1 - group.0);
                for &n in &pieces {
                    let [a, b, c, d] = [&x, dy, &y, dx].map(|h| tiles::samples(h, n));
                    let operands = batch_norm::InputGrad {
                        x: a.with(Read),
                        dy: b.with(Read),
                        statistics: stats.with(Read),
                        sums: sums.with(Read),
                        scale: scale.with(Read),
                        dx: d.with(Write),
                        y: by.map(|_| c.with(Read)),
                    };
                    let params = batch_norm::PerChannel { count, cap };
                    INPUT_GRAD.submit(tape.recorder(), operands, params);
                }
            }
            total = Some(match total {
                None => sums,
                Some(before) => {
                    let sum = tape.temporary("sums of groups", &[2, channels]);
                    let operands = Binary {
                        a: before.with(Read),
                        b: sums.with(Read),
                        c: Some(sum.with(Write)),
                    };
                    ADD.submit(tape.recorder(), operands, ());
                    sum
                }
            });
        }
        if let Some(dx) = dx {
            tape.give_gradient(0, dx);
        }
        let total = total.expect("a batch has a group");
        let row = |i: usize| tiles::samples(&total, (i, i + 1));
        tape.give_param_gradient("bias", row(0));
        tape.give_param_gradient("weight", row(1));
    }
}

impl ModelBuilder {
    /// Batch normalisation.
    #[track_caller]
    pub fn batch_norm2d(self) -> Self {
        self.layer(BatchNorm2d::default())
    }
}
