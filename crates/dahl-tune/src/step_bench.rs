//! Training steps on random data that is already in memory: what they take, without loading anything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::exec::Executor;
use dahl_core::trace::Trace;
use dahl_core::{Graph, Seconds, UnitKind};
use dahl_energy::{Clock, Energy};
use dahl_nn::Step;
use dahl_nn::step::Lowered;
use dahl_runtime::{Runtime, Schedule};

use crate::error::TuneError;
use crate::run::ResolvedRun;
use crate::units::units_text;
use crate::windows::Windows;

/// Tasks per unit that are recorded where a plan is followed and nothing else is asked for.
const COMPARED: usize = 1 << 16;

/// Isolated steps that are compared with a plan.
const ISOLATED: usize = 9;

/// What steps took.
pub struct StepTimes {
    /// Seconds per step of each timing window, the shortest first.
    pub windows: Vec<f64>,
    /// Steps of all windows.
    pub steps: u64,
    /// Steps each by itself, where a plan or a pipeline is followed.
    pub isolated: Option<Trace>,
    /// CPU time of this process during all windows, all its threads together; none where the system does not tell.
    pub cpu: Option<Seconds>,
    /// What all windows used.
    pub energy: Energy,
}

/// A step ready to be run again and again.
pub struct StepBench {
    /// Who runs it.
    pub runtime: Runtime,
    /// One for each version of the weights.
    lowered: Vec<Lowered>,
    /// Steps so far.
    launched: usize,
}

impl StepBench {
    /// Lowers the step for the units of a run and starts a runtime. A plan that is followed must fit.
    pub fn new(step: &Step, run: &ResolvedRun) -> Result<StepBench, TuneError> {
        StepBench::with(step, run, None)
    }

    /// In the order of a schedule for the step's graph, where one is given.
    pub(crate) fn with(
        step: &Step,
        run: &ResolvedRun,
        order: Option<Schedule>,
    ) -> Result<StepBench, TuneError> {
        let lowered = step.lower_turns()?;
        let (mut builder, _) = run.builder(step.dtype)?;
        builder = builder.in_flight(lowered[0].in_flight());
        if let Some(order) = order {
            builder = builder.schedule(order);
        }
        if let Some(follow) = run.follow() {
            follow.check(&lowered[0].graph)?;
            if !run.records() {
                // What ran where is compared with the plan, whether or not a trace is wanted.
                builder = builder.trace(COMPARED);
            }
        }
        if run.pipeline().is_some() && !run.records() {
            // For the bubble of a step by itself.
            builder = builder.trace(COMPARED);
        }
        let mut runtime = builder.build()?;
        for lowered in &lowered {
            step.rehearse(&mut runtime, lowered)
                .map_err(TuneError::Execution)?;
        }
        Ok(StepBench {
            runtime,
            lowered,
            launched: 0,
        })
    }

    /// The graph of a step.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.lowered[0].graph
    }

    /// The units, for people: `2 workers and gpu:0 (its name)`.
    pub fn units(&self) -> String {
        units_text(self.runtime.machine())
    }

    /// Seconds per step, over so many of them.
    pub fn steps(&mut self, n: u64) -> Result<f64, TuneError> {
        let start = Instant::now();
        for _ in 0..n {
            let turn = self.launched % self.lowered.len();
            self.runtime.launch(&self.lowered[turn].graph)?;
            self.launched += 1;
        }
        self.runtime.wait()?;
        Ok(start.elapsed().as_secs_f64() / n as f64)
    }

    /// Warms up and measures for so many seconds, in windows of about a tenth of them.
    pub fn measure(&mut self, run: &ResolvedRun, seconds: f64) -> Result<StepTimes, TuneError> {
        self.steps(2)?;
        let once = self.steps(3)?;
        let window = ((seconds / 12.0 / once.max(1e-9)) as u64).clamp(1, 1_000_000);
        let mut isolated = None;
        if run.follow().is_some() || run.pipeline().is_some() {
            // As warm as they are in a run.
            self.steps(window)?;
            self.runtime.take_trace();
            for _ in 0..ISOLATED {
                self.steps(1)?;
            }
            isolated = self.runtime.take_trace();
        }
        let (mut windows, mut steps) = (Vec::new(), 0);
        let gpus = run.gpu_watts(None);
        let sampler = dahl_energy::Options {
            cards: run.has_gpus(),
            gpus: gpus.map(|watts| (watts, self.runtime.busy_clock(UnitKind::GPU))),
            ..dahl_energy::Options::default()
        }
        .start();
        let before = Clock::Process.busy().ok();
        let end = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.01, 3600.0));
        while windows.is_empty() || Instant::now() < end {
            windows.push(self.steps(window)?);
            steps += window;
        }
        let after = Clock::Process.busy().ok();
        windows.sort_by(f64::total_cmp);
        Ok(StepTimes {
            windows,
            steps,
            isolated,
            cpu: before
                .zip(after)
                .map(|(before, after)| Seconds(after.0 - before.0)),
            energy: sampler.finish().energy,
        })
    }

    /// The mean loss of the last step.
    pub fn loss(&mut self) -> Result<f64, TuneError> {
        let mut mean = 0.0;
        let turn = self.launched.saturating_sub(1) % self.lowered.len();
        let losses = &self.lowered[turn].io.losses;
        Executor::read(&mut self.runtime, losses, &mut |v| {
            mean = v.sum() / v.len() as f64;
        })
        .map_err(TuneError::Execution)?;
        Ok(mean)
    }

    /// A timing window of so many steps, with what was recorded.
    pub(crate) fn window(&mut self, windows: &mut Windows, steps: u64) -> Result<(), TuneError> {
        let seconds = self.steps(steps)?;
        windows.add(seconds, self.runtime.take_trace());
        Ok(())
    }

    /// A timing window of which only the time is kept: what was recorded is thrown away unseen.
    pub(crate) fn timed_window(
        &mut self,
        windows: &mut Windows,
        steps: u64,
    ) -> Result<(), TuneError> {
        let seconds = self.steps(steps)?;
        self.runtime.take_trace();
        windows.add(seconds, None);
        Ok(())
    }
}
