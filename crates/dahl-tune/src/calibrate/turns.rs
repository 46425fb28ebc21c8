//! Runs of a step that take turns, one timing window each.
//!
//! A machine is faster now and slower then. What is compared, such as the same tasks under two policies, must have
//! seen the same machine conditions, so each run has a window in turn until all have had their time.

use dahl_core::Stop;
use dahl_core::trace::Trace;

use crate::error::TuneError;
use crate::step_bench::StepBench;
use crate::windows::{WINDOW_SECONDS, Windows, steps_per_window};

/// Most tasks of a run: what is recorded must fit into memory.
const TASKS: u64 = 1 << 17;

/// One of the runs.
pub(super) struct Turns {
    pub bench: StepBench,
    pub windows: Windows,
    /// The first steps, before turns began.
    pub before: Option<Trace>,
    /// Steps of a window.
    each: u64,
    /// Windows to come.
    left: u64,
}

impl Turns {
    /// For so many seconds.
    pub(super) fn new(mut bench: StepBench, seconds: f64) -> Result<Turns, TuneError> {
        // The first steps touch memory for the first time: they do not count.
        let once = bench.steps(3)?;
        let before = bench.runtime.take_trace();
        let most = TASKS / bench.graph().len().max(1) as u64;
        let steps = ((seconds / once.max(1e-9)) as u64).clamp(6, most.max(6));
        let each = steps_per_window(once, WINDOW_SECONDS).min(steps);
        Ok(Turns {
            bench,
            windows: Windows::default(),
            before,
            each,
            left: steps.div_ceil(each),
        })
    }

    /// Lets all of them have all their turns, unless a request to stop comes first; whether it did not.
    pub(super) fn take(all: &mut [Turns], stop: &Stop) -> Result<bool, TuneError> {
        while all.iter().any(|run| run.left > 0) {
            for run in all.iter_mut().filter(|run| run.left > 0) {
                if stop.is_requested() {
                    return Ok(false);
                }
                run.bench.window(&mut run.windows, run.each)?;
                run.left -= 1;
            }
        }
        Ok(true)
    }
}
