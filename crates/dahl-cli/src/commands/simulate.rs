//! `dahl simulate`: predicts training steps on a machine that need not be here.

use std::path::PathBuf;

use dahl::core::trace::Trace;
use dahl::core::{Bytes, DType, Joules, Seconds, UnitKind, several};
use dahl::nn::Step;
use dahl::sim::TimeSource;
use dahl::tune::{
    self, ClusterConfig, NoiseFrom, Prediction, SimulateOptions, Staging, StepPlan, ThisMachine,
};

use super::machine::MachineArgs;
use super::run_args::about;
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
    if cluster {
        let shares = args.shares.as_deref().map(ClusterConfig::parse_shares);
        let shares = shares
            .transpose()
            .map_err(|e| anyhow::anyhow!("--shares: {e}"))?;
        let shares = shares.flatten();
        let forecast = tune::simulate_cluster(&step, &machine, shares.as_deref(), &options)?;
        return super::simulate_cluster::report(args, &step, &forecast, pipeline.as_deref());
    }
    let prediction = tune::simulate(&step, &machine, &options)?;
    if args.trace.is_some() {
        let named = (&*prediction.machine.name, &*prediction.policy);
        args.save(&step, named, prediction.trace())?;
    }
    if let Some(path) = &args.export {
        let text = serde_json::to_string(&prediction.replay())?;
        print::write(path, |out| out.write_all(text.as_bytes()))?;
    }
    let mut report = Report::new(args, &step, &prediction);
    report.bubble = pipeline
        .as_ref()
        .and_then(|p| p.bubble(&prediction.trace()));
    if args.json {
        return print::json(&report);
    }
    report.show();
    if let (Some(staging), Some(bubble)) = (&pipeline, report.bubble) {
        show_pipeline(staging, bubble);
    }
    Ok(())
}

impl Args {
    fn steps(&self, cluster: bool) -> u32 {
        self.steps
            .unwrap_or(if cluster { CLUSTER_STEPS } else { 1 })
    }

    /// Whether the answer is one line of JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Writes a trace, if it was asked for; of which machine, and who decided.
    pub fn save(
        &self,
        step: &Step,
        (machine, policy): (&str, &str),
        mut trace: Trace,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.trace else {
            return Ok(());
        };
        let facts = [
            ("model", step.model.name.clone()),
            ("machine", machine.into()),
            ("policy", policy.into()),
            ("dtype", step.dtype.to_string()),
        ];
        about(&mut trace, facts);
        Ok(dahl::trace::save(&trace, path)?)
    }
}

/// Steps of a cluster: the first ones differ, since nothing is on its way before them.
const CLUSTER_STEPS: u32 = 12;

#[derive(serde::Serialize)]
struct Report {
    model: String,
    machine: String,
    batch: u32,
    dtype: DType,
    grain: String,
    policy: String,
    steps: u32,
    tasks_per_step: usize,
    makespan_seconds: Seconds,
    step_seconds: Seconds,
    images_per_second: f64,
    energy: Energy,
    /// Tasks by where their durations come from.
    durations: std::collections::BTreeMap<&'static str, u64>,
    units: Vec<UnitRow>,
    links: Vec<LinkRow>,
    memories: Vec<MemoryRow>,
    /// Arrays whose parts were too many to follow one by one.
    coarse_arrays: usize,
    /// Whether the first step, in which weights are brought to where the plan has them, is part of the figures.
    brings_weights: bool,
    /// Of a pipeline with a flush: how much longer devices are at a step than the busiest computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bubble: Option<f64>,
}

/// A line on a simulated pipeline.
pub fn show_pipeline(staging: &Staging, bubble: f64) {
    println!(
        "pipeline: {}; bubble {:.1} %",
        staging.summary(),
        100.0 * bubble
    );
}

#[derive(serde::Serialize)]
struct Energy {
    source: &'static str,
    joules: Joules,
    joules_per_image: f64,
    base_joules: Joules,
    unit_joules: Joules,
    transfer_joules: Joules,
    mean_watts: f64,
    /// What the machine file has no figure for, and the sums leave out.
    without_figures: Vec<String>,
}

#[derive(serde::Serialize)]
struct UnitRow {
    unit: String,
    kind: UnitKind,
    tasks: u64,
    busy_seconds: Seconds,
    waited_seconds: Seconds,
    joules: Joules,
}

#[derive(serde::Serialize)]
struct LinkRow {
    from: String,
    to: String,
    transfers: u64,
    bytes: Bytes,
    busy_seconds: Seconds,
    joules: Joules,
}

#[derive(serde::Serialize)]
struct MemoryRow {
    memory: String,
    capacity_bytes: Option<Bytes>,
    peak_bytes: Bytes,
    evictions: u64,
}

impl Report {
    fn new(args: &Args, step: &Step, prediction: &Prediction) -> Report {
        let (machine, out) = (&prediction.machine, &prediction.outcome);
        let batch = args.step.graph.batch;
        let steps = prediction.steps as u32;
        let images = f64::from(batch) * f64::from(steps);
        let makespan = out.makespan.0;
        let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
        let memory = |m: dahl::core::MemoryId| machine.memories[usize::from(m.0)].name.clone();
        let joules = out.joules();
        Report {
            model: step.model.name.clone(),
            machine: machine.name.clone(),
            batch,
            dtype: step.dtype,
            grain: step.grain.to_string(),
            policy: prediction.policy.clone(),
            steps,
            tasks_per_step: prediction.tasks_per_step,
            makespan_seconds: out.makespan,
            step_seconds: prediction.step_seconds(),
            images_per_second: per(images, makespan),
            energy: Energy {
                source: "modelled (machine file)",
                joules,
                joules_per_image: joules.0 / images,
                base_joules: out.base,
                unit_joules: out.units.iter().map(|u| u.joules).sum(),
                transfer_joules: out.links.iter().map(|l| l.joules).sum(),
                mean_watts: per(joules.0, makespan),
                without_figures: machine.without_power(),
            },
            durations: TimeSource::ALL
                .iter()
                .map(|&k| (k.name(), out.known[k as usize]))
                .collect(),
            units: machine
                .units
                .iter()
                .zip(&out.units)
                .map(|(unit, used)| UnitRow {
                    unit: unit.name.clone(),
                    kind: unit.kind,
                    tasks: used.tasks,
                    busy_seconds: used.busy,
                    waited_seconds: used.waited,
                    joules: used.joules,
                })
                .collect(),
            links: machine
                .links
                .iter()
                .zip(&out.links)
                .map(|(link, used)| LinkRow {
                    from: memory(link.from),
                    to: memory(link.to),
                    transfers: used.transfers,
                    bytes: used.bytes,
                    busy_seconds: used.busy,
                    joules: used.joules,
                })
                .collect(),
            memories: machine
                .memories
                .iter()
                .zip(&out.memories)
                .map(|(memory, used)| MemoryRow {
                    memory: memory.name.clone(),
                    capacity_bytes: memory.capacity,
                    peak_bytes: used.peak,
                    evictions: used.evictions,
                })
                .collect(),
            coarse_arrays: out.coarse,
            brings_weights: args.plan.is_some() && out.links.iter().any(|l| l.transfers > 0),
            bubble: None,
        }
    }

    fn show(&self) {
        println!(
            "{} on {}, batch {}, {}, {}: {} per step of {}, {:.0} images/s\n",
            self.model,
            self.machine,
            self.batch,
            self.dtype,
            self.policy,
            self.step_seconds,
            several(self.tasks_per_step, "task"),
            self.images_per_second
        );
        let share = |part: Seconds| match self.makespan_seconds.0 > 0.0 {
            true => format!("{:.1} %", 100.0 * part.0 / self.makespan_seconds.0),
            false => "0.0 %".into(),
        };
        let mut units = print::table(&["unit", "tasks", "busy", "waited for data", "energy"]);
        for u in &self.units {
            units.add_row([
                u.unit.clone(),
                u.tasks.to_string(),
                share(u.busy_seconds),
                share(u.waited_seconds),
                u.joules.to_string(),
            ]);
        }
        print::align_right(&mut units, 1..=4);
        println!("{units}\n");
        if !self.links.is_empty() {
            let mut links = print::table(&["link", "transfers", "bytes", "busy", "energy"]);
            for l in &self.links {
                links.add_row([
                    format!("{} to {}", l.from, l.to),
                    l.transfers.to_string(),
                    l.bytes.to_string(),
                    share(l.busy_seconds),
                    l.joules.to_string(),
                ]);
            }
            print::align_right(&mut links, 1..=4);
            println!("{links}\n");
        }
        let mut memories = print::table(&["memory", "peak", "capacity", "evictions"]);
        for m in &self.memories {
            let capacity = m
                .capacity_bytes
                .map_or("unlimited".into(), |c| c.to_string());
            memories.add_row([
                m.memory.clone(),
                m.peak_bytes.to_string(),
                capacity,
                m.evictions.to_string(),
            ]);
        }
        print::align_right(&mut memories, 1..=3);
        println!("{memories}\n");
        let e = &self.energy;
        println!(
            "{} in {}: {} ({:.1} W), of which base {}, units {}, transfers {}; {}",
            several(self.steps, "step"),
            self.makespan_seconds,
            e.joules,
            e.mean_watts,
            e.base_joules,
            e.unit_joules,
            e.transfer_joules,
            e.source
        );
        if !e.without_figures.is_empty() {
            let n = e.without_figures.len();
            let first = &e.without_figures[0];
            println!(
                "without figures, and left out of the energy: {first} and {} more",
                n - 1
            );
        }
        let durations: Vec<String> = TimeSource::ALL
            .iter()
            .map(|k| {
                format!(
                    "{} {}",
                    self.durations.get(k.name()).unwrap_or(&0),
                    k.name()
                )
            })
            .collect();
        println!("durations of tasks: {}", durations.join(", "));
        if self.brings_weights {
            println!(
                "the first step brings the weights to where the plan has them, which a plan's own figures leave out: \
                 more --steps count it less"
            );
        }
        if self.coarse_arrays > 0 {
            println!(
                "{} arrays have too many parts to follow one by one; their transfers are rough",
                self.coarse_arrays
            );
        }
    }
}
