//! `dahl plan placement`: solves placement problems in the format of the dnn-partitioning project.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use dahl::plan::placement::{PlacementProblem, solve};

use crate::commands::read;
use crate::print;

/// Arguments of `dahl plan placement`.
#[derive(clap::Args)]
pub struct Args {
    /// The problem as JSON: maxFPGAs, maxCPUs, maxSizePerFPGA, nodes, edges
    file: PathBuf,
    /// Seconds after which the best placement so far is the answer
    #[arg(long, value_name = "S", default_value = "120", value_parser = seconds)]
    time_limit: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let name = args.file.display().to_string();
    let problem = PlacementProblem::from_json(&read(&args.file)?).with_context(|| name.clone())?;
    let mut go_on = || start.elapsed() < args.time_limit;
    let answer = solve(&problem, &mut go_on).with_context(|| name)?;
    print::answer(args.json, &answer, || {
        answer.report(&problem, start.elapsed())
    })
}
