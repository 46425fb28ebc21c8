//! `dahl energy`: what any program uses, and what can be measured here.
//!
//! The program keeps its input and output; the report goes to standard error, and the exit code is the
//! program's.

mod check;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use dahl::energy::{Options, ProgramRun, WallMeter, WattsModel, export, run_program};
use dahl::tune::{core_watts, load_machine};

use super::number;
use crate::print;

/// Arguments of `dahl energy`.
#[derive(clap::Args)]
pub struct Args {
    /// The program and its arguments
    #[arg(
        last = true,
        required_unless_present = "check",
        conflicts_with = "check"
    )]
    command: Vec<OsString>,
    /// Say for every source what can be read here, what not, why, and how to allow it
    #[arg(long, conflicts_with_all = ["csv", "prometheus", "carbon"])]
    check: bool,
    /// Report as one line of JSON: the last line of standard error, with --check standard output
    #[arg(long)]
    json: bool,
    /// Write every sample to this file, in Alumet's columns
    #[arg(long, value_name = "F.csv")]
    csv: Option<PathBuf>,
    /// Write the totals to this file, in Prometheus's text format
    #[arg(long, value_name = "F.prom")]
    prometheus: Option<PathBuf>,
    /// Grams of CO₂ equivalents per kilowatt-hour of your grid; adds the run's grams to the report
    #[arg(long, value_name = "G_PER_KWH", value_parser = grams)]
    carbon: Option<f64>,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = interval)]
    interval: Duration,
    /// Take watts for the model from this machine file, where nothing can be measured
    #[arg(long, value_name = "F")]
    machine: Option<PathBuf>,
    /// A folder in the place of /sys
    #[arg(long, value_name = "ROOT", default_value = "/sys")]
    sysfs: PathBuf,
    #[command(flatten)]
    wall: MeterArgs,
}

/// Meters at the wall.
#[derive(clap::Args, Clone, Debug)]
pub struct MeterArgs {
    /// A meter at the wall: file:PATH or http://HOST/PATH, with #KEY:UNIT where needed; may be given several times
    #[arg(long = "meter", value_name = "METER")]
    meters: Vec<WallMeter>,
}

impl MeterArgs {
    /// The meters, each of which answers.
    pub fn attach(&self) -> anyhow::Result<Vec<WallMeter>> {
        for meter in &self.meters {
            let asked = meter.check();
            asked.map_err(|why| anyhow::anyhow!("--meter {meter} gives no reading: {why}"))?;
        }
        Ok(self.meters.clone())
    }
}

/// Runs the command. Ends the process itself where the program's exit code is not 0.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.sysfs.is_dir() {
        bail!(
            "--sysfs {}: there is no such folder; it stands in the place of /sys",
            args.sysfs.display()
        );
    }
    let machine = args.machine.as_deref().map(load_machine).transpose()?;
    let cores = machine.as_ref().map(core_watts).transpose()?;
    let options = Options {
        sysfs: args.sysfs.clone(),
        interval: args.interval,
        model: Some(cores.unwrap_or_else(WattsModel::of_this_machine)),
        wall: args.wall.attach()?,
        ..Options::default()
    };
    if args.check {
        return check::run(&options, args.json);
    }
    for path in [&args.csv, &args.prometheus].into_iter().flatten() {
        super::check_writable(path)?;
    }
    let run = run_program(&options, &args.command).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(error.exit_code());
    });
    // If standard error is closed, there is nobody to tell, and the program's exit code still counts.
    let text = match args.json {
        true => format!("{}\n", run.to_json(args.carbon)),
        false => print::report_text(&run.text(args.carbon)),
    };
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    let written = write(&run, args);
    if run.code != 0 {
        if let Err(error) = written {
            eprintln!("error: {error:#}");
        }
        std::process::exit(run.code);
    }
    written
}

fn write(run: &ProgramRun, args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.csv {
        let text = export::csv(&run.report, run.began);
        print::write_text(path, &text)?;
    }
    if let Some(path) = &args.prometheus {
        let text = export::prometheus(&run.report, args.carbon, run.code);
        print::write_text(path, &text)?;
    }
    Ok(())
}

fn grams(text: &str) -> Result<f64, String> {
    let or = "grams per kilowatt-hour are a number from 0 to 1000000, such as 56 or 380.5";
    number(text, 0.0..=1e6, or)
}

fn interval(text: &str) -> Result<Duration, String> {
    let or = "an interval is a number of seconds from 0.001 to 60, such as 0.1";
    number(text, 0.001..=60.0, or).map(Duration::from_secs_f64)
}
