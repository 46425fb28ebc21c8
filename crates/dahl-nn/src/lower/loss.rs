//! What stands behind the last layer: a loss, as a [`crate::losses::Criterion`] sees it while it is lowered, or
//! the scores of a prediction.

use std::sync::Arc;

use dahl_core::Mode::{Read, Write};
use dahl_core::graph::Operand;
use dahl_core::{Codelet, Handle, Param, Recorder};
use dahl_ops::elementwise;

use super::{Tape, tiles};

/// Where a loss submits its tasks.
pub struct LossTape<'a> {
    tape: &'a Tape<'a>,
    output: Handle,
    gradient: Option<Handle>,
}

/// Some samples of the batch, for one task of a loss.
pub struct LossPart {
    /// What the model gives: samples × numbers.
    pub output: Handle,
    /// What was wanted: a class number per sample, or as many numbers as the model gives.
    pub targets: Handle,
    /// To be written: the loss of each sample.
    pub losses: Handle,
    /// To be written where targets are classes: how many predictions are right; a single number.
    pub correct: Handle,
    /// To be written in training: the gradient of the mean loss with respect to the output.
    pub gradient: Option<Handle>,
}

impl LossTape<'_> {
    /// Samples of the step, whose mean the loss is. They may be computed in parts, of which this is one.
    pub fn batch(&self) -> usize {
        self.tape.io.io.losses.shape.len()
    }

    /// The targets of all samples of the step, in as many pieces as this part of it has tasks.
    pub fn all_targets(&self) -> Vec<Handle> {
        let (all, tasks) = (&self.tape.io.io.targets, self.tape.io.correct.shape.len());
        let pieces = tiles::pieces(self.batch(), tasks).into_iter();
        pieces.map(|n| tiles::samples(all, n)).collect()
    }

    /// The parts that the batch is cut into; together they are all of it.
    pub fn parts(&self) -> Vec<LossPart> {
        let io = self.tape.io;
        let pieces = tiles::pieces(self.tape.batch(), io.correct.shape.len());
        let part = |(i, &n): (usize, &tiles::Piece)| LossPart {
            output: tiles::samples(&self.output, n),
            targets: tiles::samples(&io.targets, n),
            losses: tiles::last(&io.losses, n),
            correct: tiles::last(&io.correct, (i, i + 1)),
            gradient: self.gradient.as_ref().map(|d| tiles::samples(d, n)),
        };
        pieces.iter().enumerate().map(part).collect()
    }

    /// An array that lives for the step.
    pub fn temporary(&self, name: &str, extents: &[usize]) -> Handle {
        self.tape.temporary(name, extents)
    }

    /// Constant `i` of [`crate::losses::Criterion::constants`].
    pub fn constant(&self, i: usize) -> Handle {
        self.tape.io.io.constants[i].clone()
    }

    /// Where operations record their tasks.
    pub fn recorder(&self) -> &Recorder {
        self.tape.recorder()
    }

    /// Appends a task.
    pub fn submit(&self, codelet: &Arc<Codelet>, operands: &[Operand<'_>], params: &[Param]) {
        self.tape.submit(codelet, operands, params);
    }
}

impl Tape<'_> {
    /// The loss behind the last layer, and in training its gradient.
    pub(super) fn loss(&mut self, loss: &crate::losses::Loss) {
        self.recorder.section("loss");
        let (output, gradient) = self.end();
        loss.lower(&mut LossTape {
            tape: self,
            output,
            gradient: gradient.clone(),
        });
        self.give_last_gradient(gradient);
    }

    /// Instead of a loss: copies the model's output to where the caller reads it, since it may be a view of
    /// another array.
    pub(super) fn scores(&mut self) {
        let Some(scores) = &self.io.io.scores else {
            return;
        };
        self.recorder.section("scores");
        let (output, _) = self.end();
        // As images, if the model gives such, and then those of this part.
        let mut extents = output.shape.extents().to_vec();
        extents[0] = scores.shape[0];
        let scores = scores
            .reshape(&extents)
            .expect("as many as the model gives");
        let scores = tiles::samples(&scores, self.io.samples);
        for n in tiles::pieces(self.batch(), self.io.correct.shape.len()) {
            let [from, to] = [&output, &scores].map(|h| tiles::samples(h, n));
            self.submit(&elementwise::COPY, &[from.with(Read), to.with(Write)], &[]);
        }
    }
}
