//! Updating parameters, and clipping gradients where that is asked for.

use std::collections::BTreeMap;

use dahl_core::Handle;
use dahl_core::Mode::{Read, ReadWrite, Reduce, Write};
use dahl_ops::elementwise::binary::Added;
use dahl_ops::elementwise::{ADD_ASSIGN, COPY};
use dahl_ops::optim::average::{AVERAGE, Average};
use dahl_ops::optim::{CLIP, Clip, Norm, SQUARES, Squares};

use super::{Tape, tiles};

/// Elements of a parameter that one task updates, about.
const GRAIN: usize = 64 << 10;

/// Pieces along the outermost axis of a parameter that is longer than one.
fn cuts(handle: &Handle) -> Vec<[tiles::Piece; 4]> {
    let axes = tiles::whole(handle);
    let axis = (0..4).find(|&a| axes[a].1 > 1).unwrap_or(3);
    let pieces = tiles::pieces(axes[axis].1, (handle.shape.len() / GRAIN).clamp(1, 16));
    pieces
        .into_iter()
        .map(|piece| {
            let mut own = axes;
            own[axis] = piece;
            own
        })
        .collect()
}

/// Gradients that wait: those of parts of the batch for the other parts, and those that are clipped for all others.
#[derive(Default)]
pub(super) struct Sums {
    /// What parts of the batch before this one have added up to, by parameter.
    parts: BTreeMap<usize, Handle>,
    /// Complete ones, in their order.
    clipped: Vec<(usize, Handle)>,
}

impl Sums {
    /// Gradients of the parts of the batch so far.
    pub(super) fn of_parts(&self) -> impl Iterator<Item = &Handle> {
        self.parts.values()
    }
}

impl Tape<'_> {
    /// A parameter's gradient is complete for this part of the batch: adds it to those of the parts before, and behind
    /// the last part updates the parameter, or keeps the gradient until all are complete.
    pub(super) fn update(&mut self, param: usize, gradient: Handle) {
        let total = match self.sums.parts.remove(&param) {
            None => gradient,
            Some(total) => {
                for axes in cuts(&total) {
                    let [part, sum] = [&gradient, &total].map(|h| tiles::part(h, axes));
                    let (x, total) = (part.with(Read), sum.with(ReadWrite));
                    ADD_ASSIGN.submit(self.recorder(), Added { x, total }, ());
                }
                total
            }
        };
        if self.io.samples.1 < self.io.io.losses.shape.len() {
            self.sums.parts.insert(param, total);
        } else if self.step.clip_norm.is_some() {
            self.sums.clipped.push((param, total));
        } else {
            self.apply(param, &total);
        }
    }

    pub(super) fn clip_and_update(&mut self) {
        let Some(most) = self.step.clip_norm else {
            return;
        };
        let gradients = std::mem::take(&mut self.sums.clipped);
        if gradients.is_empty() {
            return;
        }
        let total = self.temporary("squares", &[1]);
        for (_, gradient) in &gradients {
            for axes in cuts(gradient) {
                let part = tiles::part(gradient, axes);
                let (gradient, total) = (part.with(Read), total.with(Reduce));
                SQUARES.submit(self.recorder(), Squares { gradient, total }, ());
            }
        }
        for (param, gradient) in &gradients {
            for axes in cuts(gradient) {
                let part = tiles::part(gradient, axes);
                let (total, gradient) = (total.with(Read), part.with(ReadWrite));
                CLIP.submit(self.recorder(), Clip { total, gradient }, Norm { most });
            }
            self.apply(*param, gradient);
        }
    }

    fn apply(&self, param: usize, gradient: &Handle) {
        let optimizer = &self.step.optimizer;
        let version = |turn| {
            let array = self.state.version(param, turn, 0);
            array.expect("trained parameters are arrays").clone()
        };
        let (newest, target) = (version(self.turn), version(self.turn + 1));
        let has_versions = self.state.params[param].len() > 1;
        let is_row = self.model.params()[param].shape.len() < 2;
        let first = usize::from(is_row && optimizer.has_rows());
        // Gradients may come as a row of something; the parameter's own shape has as many elements.
        for axes in cuts(&target) {
            let (p, g) = (tiles::part(&target, axes), part_of(gradient, &target, axes));
            if has_versions {
                // The next version begins as the newest one, in the place of one that nobody reads any more.
                let newest = tiles::part(&newest, axes);
                self.submit(&COPY, &[newest.with(Read), p.with(Write)], &[]);
            }
            let mut slots: Vec<Handle> = self.state.slots[param]
                .iter()
                .map(|s| tiles::part(s, axes))
                .collect();
            let (_, weight) = self.step.value_count();
            let average = weight.and_then(|at| Some((at, slots.pop()?)));
            let used = optimizer.values_used();
            let values = tiles::last(&self.io.io.values, (first * used, (first + 1) * used));
            let mut operands = vec![values.with(Read), g.with(Read), p.with(ReadWrite)];
            operands.extend(slots.iter().map(|s| s.with(ReadWrite)));
            let (codelet, params) = optimizer.codelet();
            self.submit(&codelet, &operands, &params);
            if let Some((at, average)) = average {
                let weight = tiles::last(&self.io.io.values, (at, at + 1));
                let operands = Average {
                    weight: weight.with(Read),
                    param: p.with(Read),
                    average: average.with(ReadWrite),
                };
                AVERAGE.submit(self.recorder(), operands, ());
            }
        }
    }
}

/// The part of a gradient that belongs to a part of its parameter. A gradient that is a row of a larger
/// array has no more than one axis that is longer than one, the last.
fn part_of(gradient: &Handle, target: &Handle, axes: [tiles::Piece; 4]) -> Handle {
    if gradient.shape.dims4() == target.shape.dims4() {
        return tiles::part(gradient, axes);
    }
    tiles::last(gradient, axes[3])
}
