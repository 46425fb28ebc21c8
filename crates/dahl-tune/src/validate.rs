//! How well the simulator predicts this machine.
//!
//! A step is run in several configurations that take turns, one timing window each: of every configuration some
//! windows from whose recording the performance model learns, as in calibration, and some that are measured, whose
//! recording is thrown away unseen. The speed of a shared machine changes from one second to the next; so both see
//! the same machine conditions. And both are steps of the same runtime, recording or not: two runtimes have their
//! arrays in other places of the memory, and differ by a few percent for good. Then every configuration is simulated
//! from what was learnt, and compared.

use std::time::{Duration, Instant};

use dahl_core::Seconds;
use dahl_core::report::{Report, Table};
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_nn::step::in_flight;
use dahl_plan::PlanFile;
use dahl_sched::model::PerfModel;
use dahl_sim::Options;
use serde::Serialize;

use crate::calibrate::record;
use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::overheads::{Observation, RunOverheads};
use crate::run::ResolvedRun;
use crate::simulate::{as_run, deciding, noise, with_transfers};
use crate::step_bench::StepBench;
use crate::windows::{Windows, steps_per_window};

/// Windows that every configuration has of each kind, however long they take: fewer say nothing about a shared
/// machine.
const LEAST: usize = 16;

/// Tasks that are simulated for a prediction: enough for what varies to even out, and a moment's work.
const SIMULATED: u64 = 1_000_000;

/// Two configurations whose measured times differ by less than this part are not ranked: noise would decide.
const TIE: f64 = 0.03;

/// A configuration: measured, and predicted from what other windows of it showed.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Units.
    pub workers: usize,
    /// Who decided: a policy, or `plan`.
    pub policy: String,
    /// How layers were cut.
    #[serde(serialize_with = "in_full")]
    pub grain: Grain,
    /// Tasks of a step.
    pub tasks_per_step: usize,
    /// Windows that were measured.
    pub windows: usize,
    /// Seconds of a step.
    pub measured_seconds: Seconds,
    /// The same, predicted.
    pub predicted_seconds: Seconds,
    /// Predicted over measured, less one.
    pub error: f64,
    /// One standard error of that, by how windows differ.
    pub uncertainty: f64,
    /// What the plan that was followed expects of a step of a run.
    pub plan_seconds: Option<Seconds>,
    /// The error of the plan's expectation.
    pub plan_error: Option<f64>,
}

/// Grains as they are given.
fn in_full<S: serde::Serializer>(grain: &Grain, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(grain)
}

/// Predictions beside measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Validation {
    /// One for each configuration.
    pub runs: Vec<Measurement>,
    /// Mean of the absolute errors.
    pub mean_error: f64,
    /// The largest of them.
    pub worst_error: f64,
    /// Pairs that are in the same order, of those that differ.
    pub ordered: [usize; 2],
}

impl Validation {
    /// The same for people.
    pub fn report(&self) -> Report {
        let mut out = Report::default();
        let planned = self.runs.iter().any(|r| r.plan_seconds.is_some());
        let by_plan = if planned { "|>by plan" } else { "" };
        let heads = "workers|policy|grain|>tasks|>measured|>predicted|>error|>±";
        let mut table = Table::new(&format!("{heads}{by_plan}"));
        let columns = table.heads.len();
        for run in &self.runs {
            let cells = [
                run.workers.to_string(),
                run.policy.clone(),
                run.grain.in_short(),
                run.tasks_per_step.to_string(),
                run.measured_seconds.to_string(),
                run.predicted_seconds.to_string(),
                format!("{:+.1} %", 100.0 * run.error),
                format!("{:.1} %", 100.0 * run.uncertainty),
                run.plan_error
                    .map_or(String::new(), |e| format!("{:+.1} %", 100.0 * e)),
            ];
            table.row(cells.into_iter().take(columns));
        }
        out.paragraph(table);
        let [right, pairs] = self.ordered;
        out.line(format!(
            "mean error {:.1} %, worst {:.1} %; {right} of {pairs} pairs in the same order \
             (ties below {:.0} % left out)",
            100.0 * self.mean_error,
            100.0 * self.worst_error,
            100.0 * TIE
        ));
        out
    }
}

/// Runs steps in these configurations for so many seconds each, in windows of this length, and compares.
pub fn validate(
    runs: &[(Step, ResolvedRun)],
    seconds: f64,
    window: f64,
) -> Result<Validation, TuneError> {
    let all = runs
        .iter()
        .map(|(step, run)| Config::new(step, run, window));
    let mut all = all.collect::<Result<Vec<Config<'_>>, _>>()?;
    let seconds = seconds.clamp(0.1, 3600.0) * all.len() as f64;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut round = 0;
    while round < LEAST || Instant::now() < end {
        for run in &mut all {
            run.turn(round)?;
        }
        round += 1;
    }
    let mut known = PerfModel::new();
    let seen: Vec<Observation> = all.iter().filter_map(|w| w.learn(&mut known)).collect();
    let overheads = seen.iter().map(|s| s.with_model(&known));
    let overheads = overheads.collect::<Result<Vec<RunOverheads>, _>>()?;
    let row = |run: &Config<'_>| {
        let predicted = run.predicted(&known, &overheads)?;
        Ok(run.row(predicted))
    };
    let runs = all.iter().map(row).collect::<Result<Vec<_>, TuneError>>()?;
    let errors = || runs.iter().map(|r: &Measurement| r.error.abs());
    Ok(Validation {
        mean_error: errors().sum::<f64>() / runs.len().max(1) as f64,
        worst_error: errors().fold(0.0, f64::max),
        ordered: ordered(&runs),
        runs,
    })
}

/// Pairs in the same order, and pairs.
fn ordered(rows: &[Measurement]) -> [usize; 2] {
    let mut found = [0, 0];
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let real = a.measured_seconds.0 / b.measured_seconds.0;
            let predicted = a.predicted_seconds.0 / b.predicted_seconds.0;
            if (real - 1.0).abs() > TIE {
                found[0] += usize::from((real > 1.0) == (predicted > 1.0));
                found[1] += 1;
            }
        }
    }
    found
}

/// A configuration under way.
struct Config<'a> {
    step: &'a Step,
    run: &'a ResolvedRun,
    bench: StepBench,
    /// Steps of a window.
    steps: u64,
    learnt: Windows,
    measured: Windows,
}

impl<'a> Config<'a> {
    fn new(step: &'a Step, run: &'a ResolvedRun, window: f64) -> Result<Config<'a>, TuneError> {
        let mut bench = StepBench::new(step, &run.recording(Some(1 << 18)))?;
        // The first steps touch memory for the first time: they do not count.
        bench.steps(3)?;
        let once = bench.steps(3)?;
        bench.runtime.take_trace();
        Ok(Config {
            step,
            run,
            bench,
            steps: steps_per_window(once, window.clamp(1e-3, 10.0)),
            learnt: Windows::default(),
            measured: Windows::default(),
        })
    }

    /// A window of either kind. The second finds other things in the caches: they take turns.
    fn turn(&mut self, round: usize) -> Result<(), TuneError> {
        if round.is_multiple_of(2) {
            self.bench.timed_window(&mut self.measured, self.steps)?;
        }
        self.bench.window(&mut self.learnt, self.steps)?;
        if !round.is_multiple_of(2) {
            self.bench.timed_window(&mut self.measured, self.steps)?;
        }
        Ok(())
    }

    fn plan(&self) -> Option<&PlanFile> {
        self.run.follow().map(|plan| &plan.file)
    }

    /// Records what the recordings show, and returns what the performance model has no place for.
    fn learn(&self, known: &mut PerfModel) -> Option<Observation> {
        let (graph, machine) = (self.bench.graph(), self.bench.runtime.machine());
        let traces = self.learnt.traces();
        let names = |unit: &dahl_core::Unit| machine.timed_as(unit);
        record(graph, &traces, machine, names, |key, cost, seconds| {
            known.record(key, cost, seconds);
        });
        let what = self.step.grain.to_string();
        Observation::of(what, self.run.policy(), machine, graph, &traces)
    }

    /// Seconds of a step, predicted: of windows as they are measured, which begin and end with nothing to do,
    /// with durations that vary as they did: two tasks that are waited for take as long as the longer one.
    fn predicted(&self, known: &PerfModel, overheads: &[RunOverheads]) -> Result<f64, TuneError> {
        let (graph, policy) = (&**self.bench.graph(), self.run.policy());
        let machine = self.bench.runtime.machine().clone();
        let model = MachineModel::measured(machine, known.clone(), overheads.to_vec());
        let d = model.durations(graph, policy)?;
        let run = Options {
            steps: self.steps as usize,
            in_flight: in_flight(graph),
            // The same inputs serve every step.
            new_inputs_each_step: false,
            ..with_transfers(self.plan(), graph, &d.machine, as_run(graph, &d.machine))?
        };
        let window = graph.len() as u64 * self.steps;
        let repeats = (SIMULATED / window.max(1)).clamp(4, 100);
        let mut total = 0.0;
        for seed in 0..repeats {
            let run = Options {
                noise: Some(noise(d.adds, &d.times, graph, seed)),
                ..run.clone()
            };
            let policy = deciding(self.plan(), policy, graph, &d.machine, true)?;
            let outcome = dahl_sim::simulate(graph, &d.machine, &d.times, &*policy, &run)?;
            total += outcome.makespan.0;
        }
        Ok(total / (repeats * self.steps) as f64)
    }

    fn row(&self, predicted: f64) -> Measurement {
        let measured = self.measured.seconds();
        let expected = self.plan().and_then(|plan| plan.expected.as_ref());
        let plan_seconds = expected.map(|e| e.seconds);
        Measurement {
            workers: self.bench.runtime.machine().units.len(),
            policy: self.run.policy().into(),
            grain: self.step.grain.clone(),
            tasks_per_step: self.bench.graph().len(),
            windows: self.measured.len(),
            measured_seconds: Seconds(measured),
            predicted_seconds: Seconds(predicted),
            error: predicted / measured - 1.0,
            // One standard error of the ratio of two means.
            uncertainty: self.measured.error().hypot(self.learnt.error()),
            plan_seconds,
            plan_error: plan_seconds.map(|s| s.0 / measured - 1.0),
        }
    }
}
