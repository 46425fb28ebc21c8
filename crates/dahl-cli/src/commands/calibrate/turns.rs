//! Ways to run a model's steps that take turns, stretch by stretch.
//!
//! A machine is faster now and slower then. What is compared, such as the same tasks under two policies, must have
//! seen the same of that, so each way has a stretch in turn until all have had their time.

use dahl_core::trace::Trace;

use crate::commands::measure::Measure;
use crate::commands::stretches::{self, STRETCH, Stretches};

/// Most tasks of a way: what is recorded must fit into memory.
const TASKS: u64 = 1 << 17;

/// One of the ways.
pub struct Turns {
    pub measure: Measure,
    pub stretches: Stretches,
    /// The first steps, before turns began.
    pub before: Option<Trace>,
    /// Steps of a stretch.
    each: u64,
    /// Stretches to come.
    left: u64,
}

impl Turns {
    /// For so many seconds.
    pub fn new(mut measure: Measure, seconds: f64) -> anyhow::Result<Turns> {
        // The first steps touch memory for the first time: they do not count.
        let once = measure.steps(3)?;
        let before = measure.runtime.take_trace();
        let most = TASKS / measure.graph.len().max(1) as u64;
        let steps = ((seconds / once.max(1e-9)) as u64).clamp(6, most.max(6));
        let each = stretches::steps(once, STRETCH).min(steps);
        Ok(Turns {
            measure,
            stretches: Stretches::default(),
            before,
            each,
            left: steps.div_ceil(each),
        })
    }

    /// Lets all of them have all their turns.
    pub fn take(all: &mut [Turns]) -> anyhow::Result<()> {
        while all.iter().any(|way| way.left > 0) {
            for way in all.iter_mut().filter(|way| way.left > 0) {
                way.stretches.run(&mut way.measure, way.each)?;
                way.left -= 1;
            }
        }
        Ok(())
    }
}
