//! What it reads, one after another.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Write};
use dahl_ops::elementwise;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape};
use crate::lower::tiles::{self, Piece};

/// `torch.cat(inputs, 1)`: channels of images one after another, or numbers of rows; for skip connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Concat;

impl Named for Concat {
    const NAME: &'static str = "concat";
}

/// The axis of channels, or of a row's numbers, and the pieces of it that belong to arrays one after another.
fn places(parts: &[Handle]) -> (usize, Vec<Piece>) {
    let axis = match parts.first().map(|p| p.shape.rank()) {
        Some(4) => 1,
        _ => 3,
    };
    let mut end = 0;
    let pieces = parts.iter().map(|p| {
        let first = end;
        end += p.shape.dims4()[axis];
        (first, end)
    });
    (axis, pieces.collect())
}

/// Copies between a part and its place in the whole, some samples at a time.
fn copy(tape: &Tape<'_>, part: &Handle, whole: &Handle, axis: usize, place: Piece, out: bool) {
    let mut axes = tiles::whole(whole);
    axes[axis] = place;
    let inside = tiles::part(whole, axes);
    for n in tape.samples(part.shape.len()) {
        let [part, inside] = [part, &inside].map(|h| tiles::samples(h, n));
        let operands = match out {
            true => [part.with(Read), inside.with(Write)],
            false => [inside.with(Read), part.with(Write)],
        };
        tape.submit(&elementwise::COPY, &operands, &[]);
    }
}

impl Layer for Concat {
    fn reads_many(&self) -> bool {
        true
    }

    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        if inputs.len() < 2 {
            return Err("reads one value, concat needs two or more: list them in `from`".into());
        }
        let mut total = inputs[0];
        for input in &inputs[1..] {
            total = match (total, *input) {
                (Extent::Image([a, h, w]), Extent::Image([b, y, x])) if [h, w] == [y, x] => {
                    Extent::Image([a.saturating_add(b), h, w])
                }
                (Extent::Flat(a), Extent::Flat(b)) => Extent::Flat(a.saturating_add(b)),
                _ => {
                    return Err(format!(
                        "inputs are {} and {input}: images must have the same height and width, and rows go with rows",
                        inputs[0]
                    ));
                }
            };
        }
        Ok(total)
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        let inputs: Vec<Handle> = (0..tape.input_count()).map(|i| tape.input(i)).collect();
        let (axis, places) = places(&inputs);
        for (x, place) in inputs.iter().zip(places) {
            copy(tape, x, &y, axis, place, true);
        }
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let inputs: Vec<Handle> = (0..tape.input_count()).map(|i| tape.input(i)).collect();
        let (axis, places) = places(&inputs);
        for (i, place) in places.into_iter().enumerate() {
            if tape.wants_gradient(i) {
                let dx = tape.new_gradient(i);
                copy(tape, &dx, dy, axis, place, false);
                tape.give_gradient(i, dx);
            }
        }
    }
}

impl ModelBuilder {
    /// Two or more layers one after another, by their names.
    #[track_caller]
    pub fn concat<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.layer(Concat)
            .reads(names.into_iter().map(Into::into).collect())
    }
}
