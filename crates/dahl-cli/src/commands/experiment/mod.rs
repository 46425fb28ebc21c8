//! `dahl experiment`: what a paper needs, from one file.

mod check;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dahl::core::Seconds;
use dahl::experiment::{Changes, Experiment, Format, Session, compare, shipped};

use crate::commands::energy::MeterArgs;
use crate::print;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// The experiments that ship, with the question each answers
    List,
    /// Cells, order, time it will take, and what cannot be measured here
    Check(check::Args),
    /// Run an experiment, or go on with one that was stopped
    Run(run::Args),
    /// How far a session is
    Status(Folder),
    /// Tables, figures and page again from the raw rows; nothing is measured
    Report(Folder),
    /// Two sessions (machines, commits): ratios with intervals
    Compare(CompareArgs),
    /// Raw rows and summary in other formats
    Export(ExportArgs),
    /// One archive: raw rows, environment, file, figures, how to repeat
    Bundle(BundleArgs),
}

/// A session.
#[derive(clap::Args)]
pub struct Folder {
    /// The folder of a session
    folder: PathBuf,
}

/// Arguments of `dahl experiment compare`.
#[derive(clap::Args)]
pub struct CompareArgs {
    /// The folder of a session
    first: PathBuf,
    /// The folder of another
    second: PathBuf,
    /// What to compare
    #[arg(long, default_value = "images_per_second")]
    measure: String,
}

/// Arguments of `dahl experiment export`.
#[derive(clap::Args)]
pub struct ExportArgs {
    /// The folder of a session
    folder: PathBuf,
    /// csv, json, latex, pgfplots or markdown
    #[arg(long)]
    format: Format,
    /// Write into this folder [default: the session's]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Arguments of `dahl experiment bundle`.
#[derive(clap::Args)]
pub struct BundleArgs {
    /// The folder of a session
    folder: PathBuf,
    /// The archive [default: the folder's name with .tar.gz]
    #[arg(short, long, value_name = "F.tar.gz")]
    output: Option<PathBuf>,
}

/// What makes an experiment smaller.
#[derive(clap::Args, Clone, Debug)]
pub struct ChangeArgs {
    /// Only these levels of a factor, as in threads=1,2; may be given several times
    #[arg(long, value_name = "FACTOR=LEVELS", value_parser = levels)]
    only: Vec<(String, Vec<String>)>,
    /// So many blocks, and no more
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
    /// Divide windows, warm-up and idle time by this, for a trial
    #[arg(long, value_name = "N")]
    shorter: Option<f64>,
    /// Count disturbed runs, for a trial on a machine that others use
    #[arg(long)]
    noisy: bool,
    /// Cores that others may use before a run counts as disturbed [default: the experiment's, 0.05]
    #[arg(long, value_name = "CORES")]
    others: Option<f64>,
    #[command(flatten)]
    wall: MeterArgs,
}

/// `threads=1,2`. Levels with commas are not cut: `units=cpu,gpu` must be told from two levels by the file.
fn levels(text: &str) -> Result<(String, Vec<String>), String> {
    let (factor, levels) = text
        .split_once('=')
        .ok_or("write FACTOR=LEVEL or FACTOR=LEVEL,LEVEL")?;
    Ok((factor.into(), levels.split(',').map(String::from).collect()))
}

impl ChangeArgs {
    fn changes(&self) -> anyhow::Result<Changes> {
        let mut only = BTreeMap::<String, Vec<String>>::new();
        for (factor, levels) in &self.only {
            only.entry(factor.clone())
                .or_default()
                .extend(levels.clone());
        }
        let meters = self.wall.attach()?;
        Ok(Changes {
            only,
            blocks: self.blocks,
            shorter: self.shorter,
            noisy: self.noisy,
            others: self.others,
            meters: meters.iter().map(ToString::to_string).collect(),
        })
    }
}

/// The experiment of a file, or of a shipped name where there is no such file.
fn load(path: &Path) -> anyhow::Result<Experiment> {
    let name = path.to_str().unwrap_or_default();
    if !path.exists()
        && let Some(found) = shipped().into_iter().find(|e| e.name == name)
    {
        return Ok(found);
    }
    Ok(Experiment::load(path)?)
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List => {
            let mut table = print::table(&["experiment", "cells", "question"]);
            for e in shipped() {
                table.add_row([
                    e.name.clone(),
                    e.cells().len().to_string(),
                    e.question.clone(),
                ]);
            }
            println!("{table}");
            Ok(())
        }
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
        Command::Status(args) => status(&Session::open(&args.folder)?),
        Command::Report(args) => {
            let session = Session::open(&args.folder)?;
            let page = session.report()?;
            show(&session);
            println!("{}", page.display());
            Ok(())
        }
        Command::Compare(args) => comparison(args),
        Command::Export(args) => export(args),
        Command::Bundle(args) => {
            let session = Session::open(&args.folder)?;
            let archive = args.output.clone().unwrap_or_else(|| {
                let whole = args
                    .folder
                    .canonicalize()
                    .unwrap_or_else(|_| args.folder.clone());
                PathBuf::from(format!("{}.tar.gz", whole.display()))
            });
            super::check_writable(&archive)?;
            session.bundle(&archive)?;
            println!("{}", archive.display());
            Ok(())
        }
    }
}

/// Tables and courses of a session.
fn show(session: &Session) {
    for table in session.tables() {
        let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
        let mut shown = print::table(&heads);
        for row in table.rows {
            shown.add_row(row);
        }
        println!("{}\n{shown}", table.title);
        for note in table.notes {
            println!("{note}");
        }
        println!();
    }
    for line in session.sparklines() {
        println!("{line}");
    }
    println!();
}

fn status(session: &Session) -> anyhow::Result<()> {
    let s = session.status();
    println!(
        "{}: {} of {} runs done, {} disturbed, {} failed",
        session.experiment.name, s.done, s.planned, s.disturbed, s.failed
    );
    match s.done < s.planned {
        true => println!(
            "about {} left; go on with: dahl experiment run --resume {}",
            Seconds(s.left),
            session.folder.display()
        ),
        false => println!("complete"),
    }
    Ok(())
}

fn comparison(args: &CompareArgs) -> anyhow::Result<()> {
    let found = compare(&args.first, &args.second, &args.measure)?;
    let mut table = print::table(&["cell", "first", "second", "second / first", "intervals"]);
    for c in &found.cells {
        let overlap = if c.overlap() { "overlap" } else { "apart" };
        let [first, second] = c.medians();
        table.add_row([c.cell.clone(), first, second, c.text(), overlap.into()]);
    }
    println!("{table}");
    let overlapping = found.cells.iter().filter(|c| c.overlap()).count();
    let all = found.cells.len();
    println!(
        "{}: intervals overlap in {overlapping} of {all} cells ({:.1} %)",
        args.measure,
        100.0 * overlapping as f64 / all as f64
    );
    for (name, first, second) in &found.differences {
        println!("{name}: {first} | {second}");
    }
    Ok(())
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let session = Session::open(&args.folder)?;
    let folder = args.output.as_ref().unwrap_or(&args.folder);
    for (name, text) in session.export(args.format) {
        let path = folder.join(name);
        let parent = path.parent().context("a path in a folder")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        print::write(&path, |out| out.write_all(text.as_bytes()))?;
        println!("{}", path.display());
    }
    Ok(())
}
