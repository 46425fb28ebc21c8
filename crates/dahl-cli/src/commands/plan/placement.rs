//! `dahl plan placement`: solves placement problems in the format of the dnn-partitioning project.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use dahl::core::file::read_text;
use dahl::plan::placement::{DeviceKind, Placement, PlacementProblem, solve};

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
    let text = read_text(&args.file).with_context(|| format!("cannot read {name}"))?;
    let problem = PlacementProblem::from_json(&text).with_context(|| name.clone())?;
    let mut go_on = || start.elapsed() < args.time_limit;
    let answer = solve(&problem, &mut go_on).with_context(|| name)?;
    if args.json {
        return print::json(&answer);
    }
    report(&problem, &answer, start.elapsed());
    Ok(())
}

fn report(problem: &PlacementProblem, answer: &Placement, taken: Duration) {
    let mut table = print::table(&[
        "device",
        "kind",
        "nodes",
        "load",
        "compute",
        "communication",
        "size",
    ]);
    for (number, device) in answer.devices.iter().enumerate() {
        let kind = match device.kind {
            DeviceKind::Accelerator => "accelerator",
            DeviceKind::Cpu => "cpu",
        };
        table.add_row([
            number.to_string(),
            kind.to_string(),
            device.nodes.len().to_string(),
            format!("{:.4}", device.load),
            format!("{:.4}", device.compute),
            format!("{:.4}", device.communication),
            device.size.to_string(),
        ]);
    }
    print::align_right(&mut table, 2..=6);
    println!("{table}");
    println!(
        "{} nodes on {} of {} devices (accelerators: {}, CPUs: {}), in the order of the chain",
        problem.nodes.len(),
        answer.devices.len(),
        problem.accelerators + problem.cpus,
        problem.accelerators,
        problem.cpus
    );
    let seconds = taken.as_secs_f64();
    if answer.is_optimal() {
        println!(
            "largest load {:.6}, proven optimal in {seconds:.3} s",
            answer.max_load
        );
    } else {
        println!(
            "largest load {:.6}, lower bound {:.6} (gap {:.2} %) after {seconds:.1} s",
            answer.max_load,
            answer.lower_bound,
            100.0 * (answer.max_load - answer.lower_bound) / answer.max_load
        );
    }
}
