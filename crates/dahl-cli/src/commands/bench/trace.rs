//! `dahl bench trace`: what recording a trace costs, by alternating steps with and without.

use std::path::PathBuf;

use dahl::nn::Step;
use dahl::nn::lower::grain::{Grain, Parts};
use dahl::tune::{Engine, StepBench, ThisMachine, TraceCost, Units};

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
    #[serde(flatten)]
    cost: TraceCost,
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
    let cost = dahl::tune::trace_cost([&mut plain, &mut traced], args.seconds)?;
    let report = Report {
        model: step.model.name.clone(),
        batch: args.batch,
        workers: plain.runtime.machine().units.len(),
        cost,
    };
    if args.json {
        return print::json(&report);
    }
    let cost = &report.cost;
    println!(
        "{}, {} tasks per step: {:.0} ns per task, {:.0} ns with a trace: {:+.2} % (quartiles {:+.2} %, {:+.2} %; {} pairs)",
        report.model,
        cost.tasks_per_step,
        cost.without_ns_per_task,
        cost.with_ns_per_task,
        100.0 * cost.overhead,
        100.0 * cost.quartiles[0],
        100.0 * cost.quartiles[1],
        cost.pairs,
    );
    Ok(())
}
