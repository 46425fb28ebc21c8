//! `dahl plan frontier`: time against energy of a pipeline whose computations can be slowed down.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use dahl::core::Seconds;
use dahl::plan::pipeline::{OptionTable, energy_frontier};

use crate::commands::{number, read};
use crate::print;

/// Arguments of `dahl plan frontier`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds and joules of every stage at every frequency: CSV with stage, instruction (forward or backward),
    /// frequency, time and energy
    #[arg(long, value_name = "F.csv")]
    profile: PathBuf,
    /// Micro-batches of an iteration, which ends with a flush
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    micro_batches: u32,
    /// What a unit draws while it waits
    #[arg(long, value_name = "W", default_value_t = 0.0, value_parser = watts)]
    waiting_watts: f64,
    /// How many times between the fastest and the thriftiest to plan for
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    points: u16,
    /// Draw the frontier and its lower bound into this file
    #[arg(long, value_name = "F.svg")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn watts(text: &str) -> Result<f64, String> {
    number(text, 0.0..=f64::MAX, "not a number of watts: 0 or more")
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let name = args.profile.display().to_string();
    let table = OptionTable::from_csv(&read(&args.profile)?).with_context(|| name.clone())?;
    let micro_batches = args.micro_batches as usize;
    let points = usize::from(args.points);
    let found = energy_frontier(&table, micro_batches, args.waiting_watts, points);
    let frontier = found.with_context(|| name.clone())?;
    if let Some(path) = &args.svg {
        print::write_text(path, &dahl::energy_chart(&name, &frontier).svg())?;
    }
    if args.json {
        return print::json(&frontier);
    }
    println!("{}", print::laid_out(&frontier.table()));
    println!(
        "{} points of an iteration of {micro_batches} micro-batches, 1F1B, from the fastest possible to the thriftiest; {}",
        frontier.points.len(),
        Seconds(start.elapsed().as_secs_f64())
    );
    Ok(())
}
