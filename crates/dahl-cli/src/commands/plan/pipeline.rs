//! `dahl plan pipeline`: cuts a network into stages for the units of a cluster.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use dahl::core::Seconds;
use dahl::nn::Step;
use dahl::plan::pipeline::{PipelineOptions, PipelinePlan, Platform, Profile, partition};
use dahl::tune::{
    MachineModel, ThisMachine, TimesFrom, load_machine, profile_layers, training_options,
};
use serde::Serialize;

use crate::commands::read;
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
    #[arg(long, value_name = "N", requires = "bandwidth", value_parser = clap::value_parser!(u32).range(1..=4096))]
    nodes: Option<u32>,
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
    print::report(&plan.report(&profile, &platform, &options));
    let options = step.and_then(|step| training_options(&step, &profile, &plan, &options));
    if let Some((options, units)) = options {
        println!("to train so: {options}, with nodes in the order {units}");
    }
    println!("searched for {}", Seconds(search_seconds));
    Ok(())
}

fn problem(args: &Args) -> anyhow::Result<(Profile, Platform, Option<Step>)> {
    let name = args.network.display().to_string();
    let is_profile = args.network.extension().is_some_and(|e| e == "txt");
    let equal =
        |nodes: u32| Platform::equal(nodes as usize, args.bandwidth.unwrap_or(0.0), args.memory);
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
    let profile = Profile::from_text(&read(&args.network)?).with_context(|| name)?;
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
