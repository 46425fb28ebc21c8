//! Lowering: from a step to the graph of its tasks, for training, evaluation or prediction.
//!
//! Layers that belong together are *fused* into groups first; then every group submits its forward
//! tasks, the loss its own, and in reverse order every group its backward tasks; each parameter is
//! updated as soon as its gradient is complete. What is computed depends on the [`crate::Step`], the
//! [`Pass`] and the number of samples, and on nothing else.
//!
//! | file | what |
//! |---|---|
//! | `tape` | a step while it is being lowered: what layers see |
//! | `loss`, `update` | losses and optimisers |
//! | `parts` | parts of a batch, one behind the other |
//! | `tiles`, `grain` | how work is cut into tasks |
//! | `state` | parameters and optimiser state; what goes in and comes out of a step |

pub mod grain;
mod loss;
mod parts;
pub mod state;
mod tape;
pub mod tiles;
mod update;

use std::sync::Arc;

use dahl_core::{Graph, GraphError, Recorder};

use crate::step::Pass;
pub use loss::{LossPart, LossTape};
use parts::Turns;
use state::{Io, State};
pub use tape::Tape;
use update::Sums;

/// The graph of one pass over the samples of `io`.
pub(crate) fn graph(
    step: &crate::Step,
    pass: Pass,
    state: (&State, usize),
    io: &Io,
) -> Result<Arc<Graph>, GraphError> {
    record(step, pass, state, io, recorder(step))?.finish()
}

/// The graph of training steps that follow each other, each with arrays of its own for the host, as many as weights have versions.
pub(crate) fn row(step: &crate::Step, state: &State, all: &[Io]) -> Result<Arc<Graph>, GraphError> {
    let mut tasks = recorder(step);
    for (turn, io) in all.iter().enumerate() {
        tasks = record(step, Pass::Train, (state, turn), io, tasks)?;
    }
    tasks.finish()
}

fn recorder(step: &crate::Step) -> Recorder {
    match step.kernels.chooser() {
        Some(chooser) => Recorder::new().with_chooser(chooser),
        None => Recorder::new(),
    }
}

/// The only place where a step becomes tasks. A batch in parts is one graph: each part forward and backward, and an update
/// behind the last.
fn record(
    step: &crate::Step,
    pass: Pass,
    state: (&State, usize),
    io: &Io,
    mut recorder: Recorder,
) -> Result<Recorder, GraphError> {
    for array in [&io.inputs, &io.targets, &io.losses]
        .into_iter()
        .chain(&io.scores)
    {
        recorder.by_rows(array);
    }
    let mut sums = Sums::default();
    let mut parts = io.parts(step, pass);
    let turns = Turns::new(step, &parts, &recorder);
    let last = parts.len().saturating_sub(1);
    for (i, part) in parts.iter_mut().enumerate() {
        if let Some(turns) = &turns {
            turns.begin(part, &recorder);
        }
        let mut tape = Tape::new(step, pass, state, part, (recorder, sums));
        if pass == Pass::Train {
            tape.check_batch()?;
        }
        tape.forward();
        match pass {
            Pass::Predict => tape.scores(),
            Pass::Evaluate => tape.loss(&step.loss),
            Pass::Train => {
                tape.loss(&step.loss);
                tape.backward();
            }
        }
        (recorder, sums) = (tape.recorder, tape.sums);
        if let Some(turns) = turns.as_ref().filter(|_| i < last) {
            let given = match pass {
                Pass::Predict => part.scores().into_iter().collect(),
                _ => vec![part.losses.clone()],
            };
            turns.end(given.iter().chain(sums.of_parts()), &recorder);
        }
    }
    Ok(recorder)
}
