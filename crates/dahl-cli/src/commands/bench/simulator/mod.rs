//! `dahl bench simulator`: how well the simulator predicts this machine.
//!
//! A model is run in several ways at once, in short stretches that take turns: of every way some from whose
//! recording the performance model learns, as in `dahl calibrate`, and some that are measured, whose recording
//! is thrown away unseen. The speed of a shared machine changes from one second to the next; so both see the
//! same weather. And both are steps of the same runtime, recording or not: two of them have their arrays in
//! other places of the memory, and differ by a few percent for good. Then every way is simulated from what was
//! learnt, and compared.

mod report;
mod way;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl_nn::lower::grain::Grain;

use crate::commands::run_options::model;
use crate::commands::stretches::STRETCH;
use crate::commands::units::Units;
use crate::print;

use report::Report;
use way::Way;

/// Stretches that every way has of each kind, however long they take: fewer tell nothing about a shared machine.
const LEAST: usize = 16;

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
    /// Follow this plan instead of a policy, and compare with what it says too; may be given several times
    #[arg(long = "plan", value_name = "F", conflicts_with_all = ["workers", "units", "policies", "grains"])]
    plans: Vec<PathBuf>,
    /// How long each way is measured; 16 stretches in any case
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of a stretch: in short ones all ways see the same weather, in long ones caches keep what a way
    /// needs, as they do in a run
    #[arg(long, default_value_t = STRETCH)]
    stretch: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let batch = args.batch as usize;
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
    for path in &args.plans {
        ways.push(Way::planned(&model, batch, path)?);
    }
    for grain in args.grains.iter().filter(|_| args.plans.is_empty()) {
        for &workers in &workers {
            for policy in &args.policies {
                ways.push(Way::new(&model, batch, workers, policy, grain)?);
            }
        }
    }
    for way in &mut ways {
        way.in_stretches_of(args.stretch.clamp(1e-3, 10.0));
    }
    let seconds = args.seconds.clamp(0.1, 3600.0) * ways.len() as f64;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut round = 0;
    while round < LEAST || Instant::now() < end {
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
