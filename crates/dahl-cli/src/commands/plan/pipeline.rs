//! `dahl plan pipeline`: cuts a network into stages for the units of a cluster.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use dahl::core::{Bytes, Seconds};
use dahl::nn::Step;
use dahl::plan::pipeline::{PipelineOptions, PipelinePlan, Platform, Profile, partition};
use dahl::tune::{MachineModel, ThisMachine, TimesFrom, cut_of, load_machine, profile_layers};
use serde::Serialize;

use crate::commands::step_args::{GraphArgs, model};
use crate::print;

/// Arguments of `dahl plan pipeline`.
#[derive(clap::Args)]
pub struct Args {
    /// PipeDream's profile of a network (graph.txt), or a model: its file, or the name of a shipped one
    #[arg(value_name = "PROFILE|MODEL")]
    network: PathBuf,
    /// The machine: units, speeds, memories and links. The profile's times are those of its fastest unit
    #[arg(long, value_name = "F", conflicts_with_all = ["nodes", "bandwidth"], required_unless_present = "nodes")]
    machine: Option<PathBuf>,
    /// So many equal machines; a model's layers are timed on this computer
    #[arg(long, value_name = "N", requires = "bandwidth")]
    nodes: Option<usize>,
    /// Bytes per second between any two of them
    #[arg(long, value_name = "B", requires = "nodes", value_parser = above_zero)]
    bandwidth: Option<f64>,
    /// Bytes that each unit can hold, such as 16e9 or 16GB [default: what the machine file says]
    #[arg(long, value_name = "M", value_parser = bytes)]
    memory: Option<f64>,
    /// Cut each batch into so many micro-batches and wait for all of them before the next [default: batches follow
    /// each other without a pause, and each in flight keeps its version of the weights]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    micro_batches: Option<u32>,
    /// No replicas: each stage on one unit
    #[arg(long)]
    straight: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    graph: GraphArgs,
}

pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number")?;
    match number > 0.0 && number.is_finite() {
        true => Ok(number),
        false => Err("it must be above 0".into()),
    }
}

fn bytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(_) => above_zero(text),
        Err(_) => Ok(dahl::tune::size(text).map_err(|e| e.to_string())?.0 as f64),
    }
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    plan: &'a PipelinePlan,
    search_seconds: f64,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (profile, platform, step) = problem(args)?;
    let start = Instant::now();
    let options = PipelineOptions {
        micro_batches: args.micro_batches.map(|m| m as usize),
        most_replicas: args.straight.then_some(1),
        in_order: false,
    };
    let name = || args.network.display().to_string();
    let plan = partition(&profile, &platform, &options).with_context(name)?;
    let search_seconds = start.elapsed().as_secs_f64();
    if args.json {
        let plan = &plan;
        return print::json(&Line {
            plan,
            search_seconds,
        });
    }
    report(&profile, &platform, &plan, &options);
    if let Some(step) = &step {
        how_to_train(step, &profile, &plan, &options);
    }
    println!("searched for {}", Seconds(search_seconds));
    Ok(())
}

/// The options that train in these stages, where every stage is a range of layers.
fn how_to_train(step: &Step, profile: &Profile, plan: &PipelinePlan, options: &PipelineOptions) {
    let Some(cut) = cut_of(step, profile, plan).filter(|c| !c.is_empty()) else {
        return;
    };
    let text = |numbers: Vec<usize>, between: &str| -> String {
        let all: Vec<String> = numbers.iter().map(usize::to_string).collect();
        all.join(between)
    };
    let stages = plan.stages.len();
    let replicas: Vec<usize> = plan.stages.iter().map(|s| s.replicas).collect();
    let replicas = match replicas.iter().all(|&r| r == 1) {
        true => String::new(),
        false => format!(" --replicas {}", text(replicas, ":")),
    };
    let kind = match options.micro_batches {
        Some(m) => format!("{stages}:1f1b --micro-batches {m}"),
        None => format!("{stages}:pipedream"),
    };
    let units: Vec<&str> = (plan.stages.iter())
        .flat_map(|s| s.units.iter().map(String::as_str))
        .collect();
    println!(
        "to train so: --pipeline {kind} --cut {}{replicas}, with nodes in the order {}",
        text(cut, ","),
        units.join(", ")
    );
}

fn problem(args: &Args) -> anyhow::Result<(Profile, Platform, Option<Step>)> {
    let name = args.network.display().to_string();
    let is_profile = args.network.extension().is_some_and(|e| e == "txt");
    let equal = |nodes: usize| Platform::equal(nodes, args.bandwidth.unwrap_or(0.0), args.memory);
    if !is_profile && (is_model(&args.network) || !args.network.exists()) {
        let this = ThisMachine::look();
        let machine = match &args.machine {
            Some(path) => load_machine(path)?,
            None => this.describe(None)?.machine,
        };
        let here = this.is(&machine);
        let step = args.graph.step(model(Some(&args.network))?, &this, here)?;
        args.graph.refuse_tuned()?;
        let (machine, damaged) = MachineModel::new(machine, &TimesFrom::Here, &this)?;
        if let Some(damaged) = damaged {
            print::warning(&damaged.to_string());
        }
        let made = profile_layers(&step, &machine, args.memory);
        let (profile, platform) = match &args.machine {
            Some(_) => made?,
            None => made.context("run `dahl calibrate` first, or name a machine with --machine")?,
        };
        let platform = args.nodes.map_or(Ok(platform), equal)?;
        return Ok((profile, platform, Some(step)));
    }
    let text =
        std::fs::read_to_string(&args.network).with_context(|| format!("cannot read {name}"))?;
    let profile = Profile::from_text(&text).with_context(|| name)?;
    let platform = match (&args.machine, args.nodes) {
        (Some(path), _) => {
            let place = || path.display().to_string();
            Platform::of(&load_machine(path)?, args.memory).with_context(place)?
        }
        (None, nodes) => equal(nodes.unwrap_or(1))?,
    };
    Ok((profile, platform, None))
}

/// Whether a path is that of a model's file.
fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

fn report(profile: &Profile, platform: &Platform, plan: &PipelinePlan, options: &PipelineOptions) {
    let mut table = print::table(&[
        "stage", "layers", "from", "to", "replicas", "units", "time", "in", "out", "memory",
    ]);
    let shown = |seconds: f64| Seconds(seconds).to_string();
    for (number, stage) in plan.stages.iter().enumerate() {
        let units = match &stage.units[..] {
            [one] => one.clone(),
            [first, .., last] => format!("{first} … {last}"),
            [] => String::new(),
        };
        table.add_row([
            number.to_string(),
            stage.layers.to_string(),
            stage.first.clone(),
            stage.last.clone(),
            stage.replicas.to_string(),
            units,
            shown(stage.seconds),
            shown(stage.transfers[0]),
            shown(stage.transfers[1]),
            Bytes(stage.memory_bytes as u64).to_string(),
        ]);
    }
    print::align_right(&mut table, 6..=9);
    println!("{table}");
    let used: usize = plan.stages.iter().map(|s| s.replicas).sum();
    println!(
        "{} layers on {used} of {} units: {} per batch, lower bound {} (gap {:.2} %)",
        profile.layers.len(),
        platform.units.len(),
        shown(plan.seconds),
        shown(plan.lower_bound),
        100.0 * plan.gap()
    );
    match options.micro_batches {
        Some(m) => println!("{m} micro-batches, then a flush: one version of the weights"),
        None => println!("no flush: every batch in flight has its version of the weights"),
    }
    if plan.joined {
        println!("there are too many ways to cut the branches: some were joined");
    }
    for (name, most) in [("straight", 1), ("on one unit", 0)] {
        let mut platform = platform.clone();
        if most == 0 {
            let fastest = |a: &usize, b: &usize| {
                let speed = |u: &usize| platform.units[*u].speed;
                speed(a).total_cmp(&speed(b))
            };
            let best = (0..platform.units.len()).max_by(fastest).unwrap_or(0);
            platform.units = vec![platform.units[best].clone()];
        }
        let options = PipelineOptions {
            most_replicas: Some(1),
            ..*options
        };
        let text = match partition(profile, &platform, &options) {
            Ok(other) => format!("{} per batch", shown(other.seconds)),
            Err(_) => "does not fit".into(),
        };
        println!("{name}: {text}");
    }
}
