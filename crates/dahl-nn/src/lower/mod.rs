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
//! | `tiles`, `grain` | how work is cut into tasks |
//! | `state` | parameters and optimiser state; what goes in and comes out of a step |

pub mod grain;
mod loss;
pub mod state;
mod tape;
pub mod tiles;
mod update;

use std::sync::Arc;

use dahl_core::{Graph, GraphError};

use crate::step::Pass;
pub use loss::{LossPart, LossTape};
use state::{Io, State};
pub use tape::Tape;

/// The graph of one pass over so many samples: the only place where a step becomes tasks.
pub(crate) fn graph(
    step: &crate::Step,
    pass: Pass,
    batch: usize,
    state: &State,
    io: &Io,
) -> Result<Arc<Graph>, GraphError> {
    let mut tape = Tape::new(step, pass, batch, state, io);
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
    tape.recorder.finish()
}
