//! `dahl simulate`: predicts training steps on a machine that need not be here.

use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::{Bytes, DType, Graph, Joules, Machine, Seconds, UnitId, UnitKind};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_nn::step::{Kernels, Lowered, in_flight};
use dahl_runtime::perf_store;
use dahl_sched::model::PerfModel;
use dahl_sched::policy::{self, Fixed, Policy};
use dahl_sim::{Interruptions, Noise, Options, Prediction, TimeSource, Times, simulate};

pub(super) use super::measure::StepOptions;
use super::run_options::{about, model};
use super::{follow, machine, measure, profile, rhythm};
use crate::print;

/// Arguments of `dahl simulate`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    /// The machine: a `machine.toml` or a SimGrid platform; `dahl machine --describe` writes one
    #[arg(long, value_name = "F")]
    machine: PathBuf,
    /// Images per step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Who decides which unit runs which task: eager, ws, dm, dmda or dmdas
    #[arg(long, default_value = "ws")]
    policy: String,
    /// Follow a plan that `dahl plan … -o F` wrote for this model, batch and machine
    #[arg(long, value_name = "F", conflicts_with_all = ["policy", "grain"])]
    plan: Option<PathBuf>,
    /// How layers are cut into tasks: auto, or parts of each dimension such as sample=8,channel=2
    #[arg(long, default_value = "auto")]
    grain: Grain,
    /// Numbers to compute with: f32 or f64
    #[arg(long, default_value = "f32")]
    dtype: DType,
    #[command(flatten)]
    step: StepOptions,
    /// Steps in a row
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: u32,
    /// Steps in flight at a time [default: two, or one if their temporaries are large]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: Option<u32>,
    /// Let durations vary: the standard deviation of their logarithm, or `measured` for what was seen of
    /// the first unit
    #[arg(long, value_name = "SIGMA|measured", value_parser = noise)]
    noise: Option<Varying>,
    /// Of the varying durations
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Measured durations: a performance model's file, or `none` to go by cost and rated speeds [default:
    /// this machine's, if the machine file was described here]
    #[arg(long, value_name = "F|none")]
    times: Option<PathBuf>,
    /// Give units only what they have implementations for; otherwise those without are assumed to have
    /// one that reaches their rated speed
    #[arg(long)]
    strict: bool,
    /// Write what ran where and when into this file, for `dahl trace`
    #[arg(long, value_name = "F")]
    trace: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// How much durations vary.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Varying {
    By(f64),
    Measured,
}

fn noise(text: &str) -> Result<Varying, String> {
    match text.parse() {
        Ok(sigma) => Ok(Varying::By(sigma)),
        Err(_) if text == "measured" => Ok(Varying::Measured),
        Err(_) => Err("give a number such as 0.1, or `measured`".into()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let machine = machine::load(&args.machine)?;
    if let Some(path) = &args.trace {
        super::check_writable(path)?;
    }
    let batch = args.batch as usize;
    let read = |path| follow::read(path, &model, batch, args.dtype, &machine.name);
    let plan = args.plan.as_deref().map(read).transpose()?;
    let grain = match &plan {
        Some(plan) => follow::grain(plan)?,
        None => args.grain.clone(),
    };
    let step = lowered(&model, batch, args.dtype, &grain, &machine, &args.step)?;
    let graph = &*step.graph;
    let known = measured(args.times.as_deref(), machine::is_here(&machine))?;
    let mut times = Times::estimate(graph, &machine, known.as_ref(), !args.strict)?;
    let varies = times.spread(graph, UnitId(0));
    let policy_name = plan.as_ref().map_or(args.policy.as_str(), |_| "plan");
    let own = args.times.is_none() && machine::is_here(&machine);
    let (paced, adds) = paced(own, &machine, &mut times, policy_name, graph)?;
    let policy: Box<dyn Policy> = match &plan {
        Some(plan) => {
            if let Some(difference) = plan.refusal(graph, &machine) {
                anyhow::bail!("the plan does not fit: {difference}");
            }
            Box::new(Fixed::new(graph.len(), plan.orders())?)
        }
        None => policy::by_name(&args.policy, &machine)?,
    };
    let usual = as_run(graph, &machine);
    let options = Options {
        steps: args.steps as usize,
        in_flight: args.in_flight.map_or(usual.in_flight, |n| n as usize),
        noise: args.noise.map(|varying| match (varying, adds) {
            (Varying::Measured, Some(adds)) => adds.varies.noise(args.seed),
            (varying, _) => Noise {
                seed: args.seed,
                sigma: match varying {
                    Varying::By(sigma) => sigma,
                    Varying::Measured => varies,
                },
                unit_sigma: 0.0,
                interruptions: Interruptions::default(),
            },
        }),
        states: plan.as_ref().map_or(Vec::new(), |p| p.states()),
        transfers: match &plan {
            Some(plan) => Some(Arc::new(plan.checked_transfers(graph)?)),
            None => None,
        },
        record: args.trace.is_some(),
        ..usual
    };
    let outcome = simulate(graph, &paced, &times, &*policy, &options)?;
    if let Some(path) = &args.trace {
        let mut trace = outcome.to_trace(graph, &machine);
        let facts = [
            ("model", model.name.clone()),
            ("machine", machine.name.clone()),
            ("policy", policy.name().to_string()),
            ("dtype", args.dtype.to_string()),
        ];
        about(&mut trace, facts);
        dahl_trace::save(&trace, path)?;
    }
    let report = Report::new(args, &model, &machine, &grain, graph, &outcome);
    if args.json {
        return print::json(&report);
    }
    report.show();
    Ok(())
}

/// One training step of a model, as it would be lowered for a machine.
pub(super) fn lowered(
    model: &Model,
    batch: usize,
    dtype: DType,
    grain: &Grain,
    machine: &Machine,
    step: &StepOptions,
) -> anyhow::Result<Lowered> {
    // What would be chosen there is known only if there is here.
    let chosen = match machine::is_here(machine) {
        true => profile::here()?,
        false => None,
    };
    let kernels = chosen.map_or(Kernels::Static, |p| p.choices.into());
    Ok(measure::described(model, batch, dtype, grain, kernels, step)?.lower()?)
}

/// How the runtime would run a graph's steps on a machine: its first worker is the thread that launches.
pub(super) fn as_run(graph: &Graph, machine: &Machine) -> Options {
    let first = &machine.units[0];
    let works = first.kind == UnitKind::CPU && first.memory == dahl_core::MemoryId::HOST;
    Options {
        in_flight: in_flight(graph),
        launcher: works.then_some(UnitId(0)),
        new_inputs_each_step: true,
        ..Options::default()
    }
}

/// Seconds of a step in the middle of a run under a policy: between the ends of two numbers of steps.
pub(super) fn steady(
    graph: &Graph,
    machine: &Machine,
    times: &Times,
    policy: &dyn Fn() -> anyhow::Result<Box<dyn Policy>>,
    options: &Options,
    [few, more]: [usize; 2],
) -> anyhow::Result<f64> {
    let total = |steps| -> anyhow::Result<f64> {
        let options = Options {
            steps,
            ..options.clone()
        };
        let outcome = simulate(graph, machine, times, &*policy()?, &options)?;
        Ok(outcome.makespan.0)
    };
    Ok((total(more)? - total(few)?) / (more - few) as f64)
}

/// The machine and its times with what a run under this policy adds, and what that is, if durations are those
/// of this machine and it was calibrated.
pub(super) fn paced(
    own: bool,
    machine: &Machine,
    times: &mut Times,
    policy: &str,
    graph: &Graph,
) -> anyhow::Result<(Machine, Option<rhythm::Expected>)> {
    let (mut paced, mut adds) = (machine.clone(), None);
    if own && let Some(profile) = profile::here()? {
        adds = rhythm::apply(&mut paced, times, &profile.rhythms, policy, graph);
    }
    Ok((paced, adds))
}

/// What was measured of the machine's units; `here` if the machine is this one.
pub(super) fn measured(
    times: Option<&std::path::Path>,
    here: bool,
) -> anyhow::Result<Option<PerfModel>> {
    let path = match times {
        Some(path) if path.as_os_str() == "none" => return Ok(None),
        Some(path) if !path.exists() => {
            anyhow::bail!("--times {}: there is no such file", path.display())
        }
        Some(path) => path.to_path_buf(),
        None if here => match profile::model_path() {
            Ok(path) => path,
            // Without a folder nothing was ever kept.
            Err(_) => return Ok(None),
        },
        None => return Ok(None),
    };
    let (model, warning) = perf_store::load(&path)?;
    if let Some(warning) = warning {
        eprintln!("warning: {warning}");
    }
    Ok(Some(model))
}

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
    fn new(
        args: &Args,
        model: &Model,
        machine: &Machine,
        grain: &Grain,
        graph: &Graph,
        out: &Prediction,
    ) -> Report {
        let images = f64::from(args.batch) * f64::from(args.steps);
        let makespan = out.makespan.0;
        let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
        let memory = |m: dahl_core::MemoryId| machine.memories[usize::from(m.0)].name.clone();
        let joules = out.joules();
        Report {
            model: model.name.clone(),
            machine: machine.name.clone(),
            batch: args.batch,
            dtype: args.dtype,
            grain: grain.to_string(),
            policy: match args.plan {
                Some(_) => "plan".into(),
                None => args.policy.clone(),
            },
            steps: args.steps,
            tasks_per_step: graph.len(),
            makespan_seconds: out.makespan,
            step_seconds: Seconds(makespan / f64::from(args.steps)),
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
        }
    }

    fn show(&self) {
        println!(
            "{} on {}, batch {}, {}, {}: {} per step of {} tasks, {:.0} images/s\n",
            self.model,
            self.machine,
            self.batch,
            self.dtype,
            self.policy,
            self.step_seconds,
            self.tasks_per_step,
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
            "{} steps in {}: {} ({:.1} W), of which base {}, units {}, transfers {}; {}",
            self.steps,
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
        if self.coarse_arrays > 0 {
            println!(
                "{} arrays have too many parts to follow one by one; their transfers are rough",
                self.coarse_arrays
            );
        }
    }
}
