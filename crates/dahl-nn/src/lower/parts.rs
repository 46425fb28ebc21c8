//! Parts of a batch, one behind the other: what makes a step of several parts take the memory of one.
//!
//! Temporaries share bytes only where the graph's edges order their users, and nothing of one part depends on another but
//! the sums of gradients. So all parts read their samples from one array, and a part is copied there when everything of the
//! part before has ended: a mark that depends on all its results is written beside the samples, and erased first.

use dahl_core::Mode::{Read, Reduce, Write};
use dahl_core::{Handle, Recorder};
use dahl_ops::elementwise::COPY;
use dahl_ops::elementwise::unary::{Copied, FILL, Filled, Value};
use dahl_ops::optim::{SQUARES, Squares};

use super::state::IoPart;
use super::tiles;
use crate::Step;

/// The array that parts take turns with.
pub(super) struct Turns {
    /// As many samples as the largest part, and one more, of which the first element is the mark.
    held: Handle,
}

impl Turns {
    /// None for a batch that is not cut.
    pub(super) fn new(step: &Step, parts: &[IoPart<'_>], recorder: &Recorder) -> Option<Turns> {
        let largest = parts.iter().map(|p| p.samples.1 - p.samples.0).max()?;
        let [c, h, w] = step.model.input;
        (parts.len() > 1).then(|| Turns {
            held: recorder.temporary_handle(
                "part of the batch",
                &[largest + 1, c, h, w],
                step.dtype,
            ),
        })
    }

    /// Brings a part's samples, when the part before has ended.
    pub(super) fn begin(&self, part: &mut IoPart<'_>, recorder: &Recorder) {
        recorder.section("part");
        if part.samples.0 > 0 {
            let (x, value) = (self.held.with(Write), 0.0);
            FILL.submit(recorder, Filled { x }, Value { value });
        }
        let to = tiles::samples(&self.held, (0, part.samples.1 - part.samples.0));
        let (x, y) = (part.inputs.with(Read), to.with(Write));
        COPY.submit(recorder, Copied { x, y }, ());
        part.inputs = to;
    }

    /// Writes the mark from all that a part gives.
    pub(super) fn end<'a>(&self, results: impl Iterator<Item = &'a Handle>, recorder: &Recorder) {
        let dtype = self.held.dtype();
        let ended = recorder.temporary_handle("end of a part", &[1], dtype);
        for result in results {
            let (gradient, total) = (result.with(Read), ended.with(Reduce));
            SQUARES.submit(recorder, Squares { gradient, total }, ());
        }
        let last = self.held.shape[0] - 1;
        let mark = tiles::part(&self.held, [(last, last + 1), (0, 1), (0, 1), (0, 1)]);
        let (x, y) = (ended.with(Read), mark.with(Write));
        COPY.submit(recorder, Copied { x, y }, ());
    }
}
