//! What recording a trace costs, by alternating steps with and without.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::TuneError;
use crate::step_bench::StepBench;

/// Nanoseconds per task without and with a trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceCost {
    /// Tasks of a step.
    pub tasks_per_step: usize,
    /// Windows that were compared.
    pub pairs: usize,
    /// Without: the median.
    pub without_ns_per_task: f64,
    /// With.
    pub with_ns_per_task: f64,
    /// Median of the ratios of neighbouring windows, less one.
    pub overhead: f64,
    /// A quarter of the ratios lies below the first and above the second.
    pub quartiles: [f64; 2],
}

/// Compares the same step without and with a trace for so many seconds.
pub fn trace_cost(
    [plain, traced]: [&mut StepBench; 2],
    seconds: f64,
) -> Result<TraceCost, TuneError> {
    let once = plain.steps(20)?.max(traced.steps(20)?);
    // Windows so short that a disturbance rarely meets only one of a pair.
    let steps = ((0.01 / once.max(1e-9)) as u64).clamp(1, 100_000);
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let end = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.1, 3600.0));
    while ratios.len() < 10 || Instant::now() < end {
        // The second finds other things in the caches: take turns.
        let (a, b) = match ratios.len() % 2 {
            0 => {
                let a = plain.steps(steps)?;
                (a, traced.steps(steps)?)
            }
            _ => {
                let b = traced.steps(steps)?;
                (plain.steps(steps)?, b)
            }
        };
        without.push(a);
        with.push(b);
        ratios.push(b / a);
    }
    let tasks = plain.graph().len();
    let middle = |values: &mut Vec<f64>, part: usize| {
        values.sort_by(f64::total_cmp);
        values[(values.len() * part / 4).min(values.len() - 1)]
    };
    Ok(TraceCost {
        tasks_per_step: tasks,
        pairs: ratios.len(),
        without_ns_per_task: middle(&mut without, 2) * 1e9 / tasks as f64,
        with_ns_per_task: middle(&mut with, 2) * 1e9 / tasks as f64,
        overhead: middle(&mut ratios, 2) - 1.0,
        quartiles: [middle(&mut ratios, 1) - 1.0, middle(&mut ratios, 3) - 1.0],
    })
}
