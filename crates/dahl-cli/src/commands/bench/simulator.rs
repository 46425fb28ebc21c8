//! `dahl bench simulator`: how well the simulator predicts this machine.

use std::path::PathBuf;
use std::sync::Arc;

use dahl::nn::Step;
use dahl::nn::lower::grain::Grain;
use dahl::nn::step::Kernels;
use dahl::tune::{self, Engine, ResolvedRun, RunConfig, StepPlan, ThisMachine, Units, Validation};

use crate::commands::run_args::measuring;
use crate::commands::step_args::model;
use crate::print;

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
    /// How layers are cut into tasks; may be given several times, and the order of all configurations is compared
    #[arg(long = "grain", default_value = "auto")]
    grains: Vec<Grain>,
    /// Follow this plan instead of a policy, and compare with what it says too; may be given several times
    #[arg(long = "plan", value_name = "F", conflicts_with_all = ["workers", "units", "policies", "grains"])]
    plans: Vec<PathBuf>,
    /// How long each configuration is measured; 16 timing windows in any case
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of a timing window: in short ones all configurations see the same machine conditions, in long
    /// ones caches keep what a configuration needs, as they do in a run
    #[arg(long, default_value_t = tune::WINDOW_SECONDS)]
    window: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Report {
    model: String,
    batch: u32,
    #[serde(flatten)]
    validation: Validation,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let this = ThisMachine::look();
    let kernels = this
        .profile()?
        .map_or(Kernels::Static, |p| p.choices.into());
    let step = Step::new(model(Some(&args.model))?)
        .batch(args.batch as usize)
        .kernels(kernels);
    let runs = match args.plans.is_empty() {
        true => configurations(args, &step, &this)?,
        false => planned(args, &step, &this)?,
    };
    let report = Report {
        model: step.model.name.clone(),
        batch: args.batch,
        validation: tune::validate(&runs, args.seconds, args.window)?,
    };
    if args.json {
        return print::json(&report);
    }
    println!("{}, batch {}\n", report.model, report.batch);
    print::report(&report.validation.report());
    Ok(())
}

/// Every grain with every number of workers under every policy.
fn configurations(
    args: &Args,
    step: &Step,
    this: &ThisMachine,
) -> anyhow::Result<Vec<(Step, ResolvedRun)>> {
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
        workers = vec![1, this.cores() as u16];
        workers.dedup();
    }
    let mut runs = Vec::new();
    for grain in &args.grains {
        for &workers in &workers {
            for policy in &args.policies {
                let run = measuring(
                    this,
                    Units::cpus(Some(workers)),
                    (Engine::Dahl, policy),
                    None,
                )?;
                runs.push((step.clone().grain(grain.clone()), run));
            }
        }
    }
    Ok(runs)
}

/// Every plan, followed.
fn planned(
    args: &Args,
    step: &Step,
    this: &ThisMachine,
) -> anyhow::Result<Vec<(Step, ResolvedRun)>> {
    let mut runs = Vec::new();
    for path in &args.plans {
        let plan = StepPlan::load(path)?;
        // Model and batch must be the plan's; nothing else can be given here.
        let step = plan.adopt(Step {
            model: step.model.clone(),
            batch: step.batch,
            ..plan.step.clone()
        })?;
        let config = RunConfig {
            follow: Some(Arc::new(plan)),
            ..RunConfig::default()
        };
        runs.push((step, config.resolve(this)?));
    }
    Ok(runs)
}
