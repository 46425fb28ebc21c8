//! Steps that were measured, in figures.

use dahl_core::{Bytes, DType, Seconds};
use dahl_experiment::peak_resident;
use dahl_nn::Step;
use dahl_tune::{ResolvedRun, StepBench, StepTimes};
use serde::Serialize;

/// What a [`StepBench`] has measured. As JSON it is a line of `dahl bench step --json`.
#[derive(Clone, Debug, Serialize)]
pub struct StepFigures {
    /// The model's name.
    pub model: String,
    /// Samples that are computed together; a step that accumulates computes several such batches.
    pub batch: usize,
    /// Element type.
    pub dtype: DType,
    /// How many units.
    pub workers: usize,
    /// Their names.
    pub units: Vec<String>,
    /// Who decided which unit runs what.
    pub policy: String,
    /// Who ran tasks.
    pub engine: String,
    /// Where temporaries lay.
    pub memory: String,
    /// Best of the timing windows.
    pub images_per_second: f64,
    /// Their median.
    pub median_images_per_second: f64,
    /// Of a step, in the best window.
    pub step_seconds: f64,
    /// Steps of all windows.
    pub steps: u64,
    /// CPU time of a measured step, all threads together: without starting, warming up and judging.
    pub cpu_seconds_per_step: Option<f64>,
    /// How tasks were cut.
    pub grain: String,
    /// Tasks of a step.
    pub tasks_per_step: usize,
    /// The graph's fingerprint: equal graphs are cut alike and compute alike.
    pub graph: String,
    /// Temporaries of a step, packed.
    pub temporary_bytes: u64,
    /// The most that this process has held.
    pub peak_rss_bytes: u64,
    /// Of all measured steps; missing where nothing measures or models them.
    pub joules_per_step: Option<f64>,
    /// Where the joules come from.
    pub joules_source: String,
    /// Of a pipeline's steps, each by itself: how much longer devices are at one than the busiest computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bubble: Option<f64>,
}

impl StepFigures {
    /// Of a step that ran so and took so long.
    pub fn of(step: &Step, run: &ResolvedRun, bench: &StepBench, times: &StepTimes) -> StepFigures {
        let (windows, units) = (&times.windows, &bench.runtime.machine().units);
        let (images, steps) = (step.batch as f64, times.steps as f64);
        let isolated = || times.isolated.clone();
        StepFigures {
            model: step.model.name.clone(),
            batch: step.batch / step.accumulate,
            dtype: step.dtype,
            workers: units.len(),
            units: units.iter().map(|u| u.name.clone()).collect(),
            policy: run.policy().to_string(),
            engine: run.engine().to_string(),
            memory: run.temporaries().to_string(),
            images_per_second: images / windows[0],
            median_images_per_second: images / windows[windows.len() / 2],
            step_seconds: windows[0],
            steps: times.steps,
            cpu_seconds_per_step: times.cpu.map(|cpu| cpu.0 / steps),
            grain: step.grain.to_string(),
            tasks_per_step: bench.graph().len(),
            graph: format!("{:016x}", bench.graph().fingerprint()),
            temporary_bytes: bench.graph().memory.bytes,
            peak_rss_bytes: peak_resident(),
            joules_per_step: times.energy.joules().map(|j| j.0 / steps),
            joules_source: times.energy.source(),
            bubble: run.pipeline().and_then(|p| p.bubble(isolated()?)),
        }
    }

    /// In one line, on these units.
    pub fn line(&self, units: &str) -> String {
        format!(
            "{}, {units}: {:.0} images/s ({:.0} median), {} per step of {} tasks, peak memory {}",
            self.model,
            self.images_per_second,
            self.median_images_per_second,
            Seconds(self.step_seconds),
            self.tasks_per_step,
            Bytes(self.peak_rss_bytes),
        )
    }
}
