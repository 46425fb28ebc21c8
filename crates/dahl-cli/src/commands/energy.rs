//! `dahl energy`: what any program uses, and what can be measured here.
//!
//! The program keeps its input and output; the report goes to standard error, and the exit code is the
//! program's.

mod check;
mod child;
mod export;
mod summary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use dahl::core::Seconds;
use dahl::energy::{Clock, Options, Report, WattsModel};
use dahl::tune::{core_watts, load_machine};

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
}

/// What is known of a program that ended.
struct Run<'a> {
    command: &'a [OsString],
    code: i32,
    cpu: Option<Seconds>,
    began: SystemTime,
    report: Report,
    carbon: Option<f64>,
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
    let mut options = Options {
        sysfs: args.sysfs.clone(),
        interval: args.interval,
        model: Some(cores.unwrap_or_else(WattsModel::of_this_machine)),
        ..Options::default()
    };
    if args.check {
        return check::run(&options, args.json);
    }
    for path in [&args.csv, &args.prometheus].into_iter().flatten() {
        can_be_written(path)?;
    }
    options.clock = Clock::Children;
    options.epoch = Some(Instant::now());
    let began = SystemTime::now();
    let sampler = options.start();
    let code = match child::run(&args.command) {
        Ok(code) => code,
        Err((code, error)) => {
            eprintln!("error: {error:#}");
            std::process::exit(code);
        }
    };
    let run = Run {
        command: &args.command,
        code,
        cpu: Clock::Children.busy().ok(),
        report: sampler.finish(),
        began,
        carbon: args.carbon,
    };
    summary::print(&run, args.json)?;
    let written = write(&run, args);
    if code != 0 {
        if let Err(error) = written {
            eprintln!("error: {error:#}");
        }
        std::process::exit(code);
    }
    written
}

fn write(run: &Run, args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.csv {
        export::replace(path, &export::csv(run))?;
    }
    if let Some(path) = &args.prometheus {
        export::replace(path, &export::prometheus(run))?;
    }
    Ok(())
}

/// Said before the program runs for hours.
fn can_be_written(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if path.is_dir() || path.file_name().is_none() {
        bail!("{} is a folder: name a file to write to", path.display());
    }
    let meta = std::fs::metadata(folder);
    let meta = meta.with_context(|| {
        let folder = folder.display();
        format!("cannot write {}: create {folder} first", path.display())
    })?;
    if !meta.is_dir() {
        bail!(
            "cannot write {}: {} is not a folder",
            path.display(),
            folder.display()
        );
    }
    Ok(())
}

fn grams(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(grams) if (0.0..=1e6).contains(&grams) => Ok(grams),
        _ => Err(
            "grams per kilowatt-hour are a number from 0 to 1000000, such as 56 or 380.5".into(),
        ),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("an interval is a number of seconds from 0.001 to 60, such as 0.1".into()),
    }
}
