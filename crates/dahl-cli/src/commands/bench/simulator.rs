//! `dahl bench simulator`: how well the simulator predicts this machine.
//!
//! A model is run in several ways at once, in short stretches that take turns: every way both with a
//! recording, from which the performance model learns as in `dahl calibrate`, and without one, which is
//! what is measured. The speed of a shared machine changes from one second to the next; so both see the
//! same weather. Then every way is simulated from what was learnt, and compared.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl_core::trace::Trace;
use dahl_core::{Machine, Seconds, UnitId};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_sched::model::PerfModel;
use dahl_sched::sim::{Noise, Options, Times};

use crate::commands::calibrate::record;
use crate::commands::measure::{Measure, in_flight};
use crate::commands::rhythm::{self, Rhythm};
use crate::commands::run_options::{RunOptions, model};
use crate::commands::simulate::steady;
use crate::commands::units::Units;
use crate::print;

/// Seconds of a stretch.
const STRETCH: f64 = 0.02;

/// Two ways whose measured times differ by less than this part are not ranked: noise would decide.
const TIE: f64 = 0.03;

/// Arguments of `dahl bench simulator`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    #[arg(default_value = "small-cnn")]
    model: PathBuf,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Numbers of CPU workers to try [default: one, and one per core]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    workers: Vec<u16>,
    /// The same, as other commands have it: cpu:N
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    units: Option<Units>,
    /// Policies to try
    #[arg(long, value_delimiter = ',', default_value = "ws,dmda")]
    policies: Vec<String>,
    /// How layers are cut into tasks; may be given several times, and the order of all ways is compared
    #[arg(long = "grain", default_value = "auto")]
    grains: Vec<Grain>,
    /// How long each way is measured
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// A way to run a model's steps.
struct Way {
    workers: u16,
    policy: String,
    grain: Grain,
    recorded: Measure,
    plain: Measure,
    /// Steps of a stretch.
    steps: u64,
    traces: Vec<Trace>,
    /// Seconds per step, of every stretch.
    measured: Vec<f64>,
}

#[derive(serde::Serialize)]
struct Row {
    workers: u16,
    policy: String,
    grain: String,
    tasks_per_step: usize,
    stretches: usize,
    measured_seconds: Seconds,
    predicted_seconds: Seconds,
    /// Predicted over measured, less one.
    error: f64,
}

#[derive(serde::Serialize)]
struct Report {
    model: String,
    batch: u32,
    ways: Vec<Row>,
    mean_error: f64,
    worst_error: f64,
    /// Pairs of ways that are in the same order, of those that differ.
    ordered: [usize; 2],
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let mut workers = args.workers.clone();
    if let Some(units) = &args.units {
        anyhow::ensure!(
            !units.has_gpus(),
            "this compares predictions for CPU workers alone; for GPUs, run `dahl calibrate --units …`, then \
             compare `dahl simulate` with `dahl bench step --units …`"
        );
        workers = vec![units.machine().units.len() as u16];
    }
    if workers.is_empty() {
        let cores = dahl_runtime::discover::host().cores.len().max(1);
        workers = vec![1, cores as u16];
        workers.dedup();
    }
    let mut ways = Vec::new();
    for grain in &args.grains {
        for &workers in &workers {
            for policy in &args.policies {
                ways.push(Way::new(
                    &model,
                    args.batch as usize,
                    workers,
                    policy,
                    grain,
                )?);
            }
        }
    }
    let seconds = args.seconds.clamp(0.1, 3600.0) * ways.len() as f64;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut round = 0;
    while round < 4 || Instant::now() < end {
        for way in &mut ways {
            way.turn(round)?;
        }
        round += 1;
    }
    let report = Report::new(&model, args.batch, &ways)?;
    if args.json {
        return print::json(&report);
    }
    report.show();
    Ok(())
}

impl Way {
    fn new(
        model: &Model,
        batch: usize,
        workers: u16,
        policy: &str,
        grain: &Grain,
    ) -> anyhow::Result<Way> {
        let measure = |record: bool| {
            let run = RunOptions {
                profile: None,
                ..RunOptions::measuring(Units::cpus(Some(workers)), policy, grain, record)
            };
            Measure::new(model, batch, &run, grain)
        };
        let (mut recorded, mut plain) = (measure(true)?, measure(false)?);
        // The first steps touch memory for the first time: they do not count.
        let once = recorded.steps(3)?.min(plain.steps(3)?);
        recorded.runtime.take_trace();
        Ok(Way {
            workers,
            policy: policy.into(),
            grain: grain.clone(),
            recorded,
            plain,
            steps: ((STRETCH / once.max(1e-9)) as u64).clamp(1, 100_000),
            traces: Vec::new(),
            measured: Vec::new(),
        })
    }

    /// A stretch of either kind. Whoever comes second finds other things in the caches: they take turns.
    fn turn(&mut self, round: usize) -> anyhow::Result<()> {
        if round.is_multiple_of(2) {
            self.measured.push(self.plain.steps(self.steps)?);
        }
        self.recorded.steps(self.steps)?;
        self.traces.extend(self.recorded.runtime.take_trace());
        if !round.is_multiple_of(2) {
            self.measured.push(self.plain.steps(self.steps)?);
        }
        Ok(())
    }

    fn machine(&self) -> Machine {
        Machine::cpus(self.workers.into())
    }

    /// The mean of the stretches but for those that took twice as long as most: histories leave such
    /// tasks out, too.
    fn seconds(&self) -> f64 {
        let mut all = self.measured.clone();
        all.sort_by(f64::total_cmp);
        let most = 2.0 * all[all.len() / 2];
        all.retain(|&s| s <= most);
        all.iter().sum::<f64>() / all.len() as f64
    }

    /// Seconds of a step in the middle of a run, as the measured ones are, with durations that vary as
    /// they did: two tasks that are waited for take as long as the longer one.
    fn predicted(&self, known: &PerfModel, rhythms: &[Rhythm]) -> anyhow::Result<f64> {
        let (graph, mut machine) = (&*self.plain.graph, self.machine());
        let times = Times::estimate(graph, &machine, Some(known), false)?;
        rhythm::apply(&mut machine, rhythms, &self.policy, graph, &times);
        let sigma = times.spread(graph, UnitId(0));
        let options = Options {
            in_flight: in_flight(graph),
            launcher: Some(UnitId(0)),
            noise: Some(Noise { seed: 0, sigma }),
            ..Options::default()
        };
        // Enough steps for what varies to even out, but not more than a moment's work.
        let steps = (1_000_000 / graph.len().max(1)).clamp(12, 240);
        let between = [steps / 3, steps];
        steady(graph, &machine, &times, &self.policy, &options, between)
    }
}

impl Report {
    fn new(model: &Model, batch: u32, ways: &[Way]) -> anyhow::Result<Report> {
        let (mut known, mut rhythms) = (PerfModel::new(), Vec::new());
        for way in ways {
            let (graph, machine) = (&way.recorded.graph, way.machine());
            record(graph, &way.traces, &machine, |key, cost, seconds| {
                known.record(key, cost, seconds);
            });
            let what = way.grain.to_string();
            rhythms.extend(Rhythm::of(what, &way.policy, &machine, &way.traces));
        }
        let row = |way: &Way| -> anyhow::Result<Row> {
            let (real, told) = (way.seconds(), way.predicted(&known, &rhythms)?);
            Ok(Row {
                workers: way.workers,
                policy: way.policy.clone(),
                grain: way.grain.to_string(),
                tasks_per_step: way.plain.graph.len(),
                stretches: way.measured.len(),
                measured_seconds: Seconds(real),
                predicted_seconds: Seconds(told),
                error: told / real - 1.0,
            })
        };
        let rows: Vec<Row> = ways.iter().map(row).collect::<anyhow::Result<_>>()?;
        let mut ordered = [0, 0];
        for (i, a) in rows.iter().enumerate() {
            for b in &rows[i + 1..] {
                let (real, told) = (
                    a.measured_seconds.0 / b.measured_seconds.0,
                    a.predicted_seconds.0 / b.predicted_seconds.0,
                );
                if (real - 1.0).abs() > TIE {
                    ordered[0] += usize::from((real > 1.0) == (told > 1.0));
                    ordered[1] += 1;
                }
            }
        }
        let sizes = || rows.iter().map(|r| r.error.abs());
        Ok(Report {
            model: model.name.clone(),
            batch,
            mean_error: sizes().sum::<f64>() / rows.len().max(1) as f64,
            worst_error: sizes().fold(0.0, f64::max),
            ways: rows,
            ordered,
        })
    }

    fn show(&self) {
        println!("{}, batch {}\n", self.model, self.batch);
        let head = [
            "workers",
            "policy",
            "grain",
            "tasks",
            "measured",
            "predicted",
            "error",
        ];
        let mut table = print::table(&head);
        for row in &self.ways {
            table.add_row([
                row.workers.to_string(),
                row.policy.clone(),
                row.grain.clone(),
                row.tasks_per_step.to_string(),
                row.measured_seconds.to_string(),
                row.predicted_seconds.to_string(),
                format!("{:+.1} %", 100.0 * row.error),
            ]);
        }
        print::align_right(&mut table, 3..=6);
        println!("{table}\n");
        let [right, pairs] = self.ordered;
        println!(
            "mean error {:.1} %, worst {:.1} %; {right} of {pairs} pairs in the same order (ties below {:.0} % left out)",
            100.0 * self.mean_error,
            100.0 * self.worst_error,
            100.0 * TIE
        );
    }
}
