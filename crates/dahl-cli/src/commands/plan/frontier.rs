//! `dahl plan frontier`: time against energy of a pipeline whose computations can be slowed down.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use dahl::core::{Joules, Seconds, Watts};
use dahl::experiment::{Chart, Curve};
use dahl::plan::pipeline::{EnergyPoint, OptionTable, energy_frontier};

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
    match text.parse::<f64>() {
        Ok(watts) if watts.is_finite() && watts >= 0.0 => Ok(watts),
        _ => Err("not a number of watts: 0 or more".into()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let name = args.profile.display().to_string();
    let text =
        std::fs::read_to_string(&args.profile).with_context(|| format!("cannot read {name}"))?;
    let table = OptionTable::from_csv(&text).with_context(|| name.clone())?;
    let micro_batches = args.micro_batches as usize;
    let points = usize::from(args.points);
    let found = energy_frontier(&table, micro_batches, args.waiting_watts, points);
    let frontier = found.with_context(|| name.clone())?;
    if let Some(path) = &args.svg {
        let curve = |name: &str, of: fn(&EnergyPoint) -> f64| Curve {
            name: name.into(),
            joined: true,
            points: frontier.points.iter().map(|p| (p.seconds, of(p))).collect(),
        };
        let chart = Chart {
            title: name,
            x: "time of an iteration, s".into(),
            y: "energy, J".into(),
            log: false,
            curves: vec![
                curve("frontier", |p| p.joules),
                curve("no less than", |p| p.lower_bound),
            ],
        };
        print::write(path, |out| out.write_all(chart.svg().as_bytes()))?;
    }
    if args.json {
        return print::json(&frontier);
    }
    let mut rows = print::table(&["time", "energy", "no less than", "gap", "mean power"]);
    for point in &frontier.points {
        let gap = 100.0 * (point.joules / point.lower_bound - 1.0);
        rows.add_row([
            format!("{:.6} s", point.seconds),
            Joules(point.joules).to_string(),
            Joules(point.lower_bound).to_string(),
            format!("{gap:.3} %"),
            Watts(point.joules / point.seconds.max(f64::MIN_POSITIVE)).to_string(),
        ]);
    }
    print::align_right(&mut rows, 0..=4);
    println!("{rows}");
    println!(
        "{} points of an iteration of {micro_batches} micro-batches, 1F1B, from the fastest possible to the thriftiest; {}",
        frontier.points.len(),
        Seconds(start.elapsed().as_secs_f64())
    );
    Ok(())
}
