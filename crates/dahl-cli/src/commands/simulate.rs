//! `dahl simulate`: predicts training steps on a machine that need not be here.

use std::path::PathBuf;

use dahl::core::trace::Trace;
use dahl::nn::Step;
use dahl::tune::{
    self, ClusterConfig, NoiseFrom, SimulateOptions, StepPlan, ThisMachine, say_what_made,
};

use super::machine::MachineArgs;
use super::step_args::{StepArgs, model};
use crate::print;

/// Arguments of `dahl simulate`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    step: StepArgs,
    /// Who decides which unit runs which task: eager, ws, dm, dmda or dmdas
    #[arg(long, default_value = "ws")]
    policy: String,
    /// Follow a plan that `dahl plan … -o F` wrote for this step and machine
    #[arg(long, value_name = "F", conflicts_with_all = ["policy", "grain"])]
    plan: Option<PathBuf>,
    /// Each node's part of the batch, as in 3:1, where the machine has several [default: by speed]
    #[arg(long, value_name = "A:B:…", conflicts_with_all = ["plan", "as_one"])]
    shares: Option<String>,
    /// Let one policy decide for the units of all nodes, as for one computer with several memories; plans are made so
    #[arg(long)]
    as_one: bool,
    /// Steps in a row [default: 1, of a cluster 12]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: Option<u32>,
    /// Steps in flight at a time [default: two, or one if their temporaries are large]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: Option<u32>,
    /// Let durations vary: the standard deviation of their logarithm, or `measured` for what was seen of
    /// the first unit
    #[arg(long, value_name = "SIGMA|measured", value_parser = noise)]
    noise: Option<NoiseFrom>,
    /// Of the varying durations
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    noise_seed: u64,
    /// Write what ran where and when into this file, for `dahl trace`
    #[arg(long, value_name = "F")]
    trace: Option<PathBuf>,
    /// Write every task and transfer into this file, for SimGrid to perform again (bench/simgrid/replay.py)
    #[arg(long, value_name = "F")]
    export: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn noise(text: &str) -> Result<NoiseFrom, String> {
    match text.parse() {
        Ok(sigma) => Ok(NoiseFrom::Sigma(sigma)),
        Err(_) if text == "measured" => Ok(NoiseFrom::Measured),
        Err(_) => Err("give a number such as 0.1, or `measured`".into()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.step.graph.refuse_tuned()?;
    let this = ThisMachine::look();
    let model = model(Some(&args.model))?;
    let machine = args.machine.load(&this)?;
    for path in args.trace.iter().chain(&args.export) {
        super::check_writable(path)?;
    }
    let here = this.is(&machine.machine);
    let step = args.step.step_on(model, &this, here, Some(&machine))?;
    let plan = args.plan.as_deref().map(StepPlan::load).transpose()?;
    let step = match &plan {
        Some(plan) => {
            plan.check_machine(&machine.machine.name)?;
            plan.adopt(step)?
        }
        None => step,
    };
    let pipeline = args.step.staging(&step)?;
    anyhow::ensure!(
        pipeline.is_none() || plan.is_none(),
        "--pipeline decides which unit runs which task: leave out --plan"
    );
    let cluster = machine.machine.nodes.len() > 1 && plan.is_none() && !args.as_one;
    if let (Some(_), false) = (&args.shares, cluster) {
        anyhow::bail!("--shares: {} is one computer", machine.machine.name);
    }
    let options = SimulateOptions {
        policy: args.policy.clone(),
        plan: plan.as_ref().map(|p| &p.file),
        pipeline: pipeline.as_ref(),
        steps: args.steps(cluster) as usize,
        in_flight: args.in_flight.map(|n| n as usize),
        noise: args.noise,
        noise_seed: args.noise_seed,
        record: args.trace.is_some() || args.export.is_some() || pipeline.is_some(),
    };
    if cluster && args.export.is_some() {
        anyhow::bail!(
            "--export: nodes that decide for themselves cannot be replayed: add --as-one or --plan F"
        );
    }
    let marked = |mut trace: Trace| {
        if let Some(staging) = &pipeline {
            staging.mark(&mut trace);
        }
        trace
    };
    if cluster {
        let shares = args.shares.as_deref().map(ClusterConfig::parse_shares);
        let shares = shares
            .transpose()
            .map_err(|e| anyhow::anyhow!("--shares: {e}"))?;
        let shares = shares.flatten();
        let forecast = tune::simulate_cluster(&step, &machine, shares.as_deref(), &options)?;
        args.save(&step, (&forecast.machine.name, &forecast.policy), || {
            marked(forecast.trace())
        })?;
        let report = forecast.report(&step, pipeline.as_deref());
        return print::answer(args.json, &report, || report.text());
    }
    let prediction = tune::simulate(&step, &machine, &options)?;
    args.save(
        &step,
        (&prediction.machine.name, &prediction.policy),
        || marked(prediction.trace()),
    )?;
    if let Some(path) = &args.export {
        let text = serde_json::to_string(&prediction.replay())?;
        print::write_text(path, &text)?;
    }
    let report = prediction.report(&step, pipeline.as_deref());
    print::answer(args.json, &report, || report.text())
}

impl Args {
    fn steps(&self, cluster: bool) -> u32 {
        self.steps
            .unwrap_or(if cluster { CLUSTER_STEPS } else { 1 })
    }

    /// Writes a trace, if it was asked for; of which machine, and who decided.
    fn save(
        &self,
        step: &Step,
        (machine, policy): (&str, &str),
        trace: impl FnOnce() -> Trace,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.trace else {
            return Ok(());
        };
        let mut trace = trace();
        let facts = [
            ("model", step.model.name.clone()),
            ("machine", machine.into()),
            ("policy", policy.into()),
            ("dtype", step.dtype.to_string()),
        ];
        say_what_made(&mut trace, facts);
        Ok(dahl::trace::save(&trace, path)?)
    }
}

/// Steps of a cluster: the first ones differ, since nothing is on its way before them.
const CLUSTER_STEPS: u32 = 12;
