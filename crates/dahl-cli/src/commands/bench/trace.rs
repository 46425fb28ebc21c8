//! `dahl bench trace`: what recording a trace costs, by alternating steps with and without.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl::nn::Step;
use dahl::nn::lower::grain::{Grain, Parts};
use dahl::tune::{Engine, StepBench, ThisMachine, Units};

use crate::commands::run_args::measuring;
use crate::commands::step_args::model;
use crate::print;

/// Arguments of `dahl bench trace`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    #[arg(default_value = "small-cnn")]
    model: PathBuf,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// CPU workers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    /// Units that execute tasks, such as cpu:2,gpu:0
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    units: Option<Units>,
    /// How layers are cut into tasks [default: one sample per task, the finest]
    #[arg(long)]
    grain: Option<Grain>,
    /// Tasks that a trace keeps per unit
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    trace_events: usize,
    /// How long to measure
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Report {
    model: String,
    batch: u32,
    /// Units, whatever their kind.
    workers: usize,
    tasks_per_step: usize,
    pairs: usize,
    without_ns_per_task: f64,
    with_ns_per_task: f64,
    /// Median of the ratios of neighbouring windows, less one.
    overhead: f64,
    /// A quarter of the ratios lies below the first and above the second.
    quartiles: [f64; 2],
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let batch = args.batch as usize;
    let grain = args.grain.clone().unwrap_or(Grain::Fixed(Parts {
        sample: batch,
        ..Parts::ONE
    }));
    let given = args.units.clone();
    let units = given.unwrap_or_else(|| Units::cpus(Some(args.workers)));
    let this = ThisMachine::look();
    let step = Step::new(model).batch(batch).grain(grain);
    let bench = |record: Option<usize>| -> anyhow::Result<StepBench> {
        let run = measuring(&this, units.clone(), (Engine::Dahl, "ws"), record)?;
        Ok(StepBench::new(&step, &run)?)
    };
    let (mut plain, mut traced) = (bench(None)?, bench(Some(args.trace_events))?);
    let once = plain.steps(20)?.max(traced.steps(20)?);
    // Windows so short that a disturbance rarely meets only one of a pair.
    let steps = ((0.01 / once.max(1e-9)) as u64).clamp(1, 100_000);
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let end = Instant::now() + Duration::from_secs_f64(args.seconds.clamp(0.1, 3600.0));
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
    let report = Report {
        model: step.model.name.clone(),
        batch: args.batch,
        workers: plain.runtime.machine().units.len(),
        tasks_per_step: tasks,
        pairs: ratios.len(),
        without_ns_per_task: middle(&mut without, 2) * 1e9 / tasks as f64,
        with_ns_per_task: middle(&mut with, 2) * 1e9 / tasks as f64,
        overhead: middle(&mut ratios, 2) - 1.0,
        quartiles: [middle(&mut ratios, 1) - 1.0, middle(&mut ratios, 3) - 1.0],
    };
    if args.json {
        return print::json(&report);
    }
    println!(
        "{}, {} tasks per step: {:.0} ns per task, {:.0} ns with a trace: {:+.2} % (quartiles {:+.2} %, {:+.2} %; {} pairs)",
        report.model,
        tasks,
        report.without_ns_per_task,
        report.with_ns_per_task,
        100.0 * report.overhead,
        100.0 * report.quartiles[0],
        100.0 * report.quartiles[1],
        report.pairs,
    );
    Ok(())
}
