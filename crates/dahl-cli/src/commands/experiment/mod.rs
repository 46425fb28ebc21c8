//! `dahl experiment`: what a paper needs, from one file.

mod check;
mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use dahl::experiment::{Changes, Format, Session, compare, shipped};

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

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List => {
            let mut table = print::table("experiment|cells|question");
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
        Command::Status(args) => {
            print::report(&Session::open(&args.folder)?.progress());
            Ok(())
        }
        Command::Report(args) => {
            let session = Session::open(&args.folder)?;
            let page = session.report()?;
            print::report(&session.shown());
            println!("{}", page.display());
            Ok(())
        }
        Command::Compare(args) => {
            let found = compare(&args.first, &args.second, &args.measure)?;
            print::report(&found.report(&args.measure));
            Ok(())
        }
        Command::Export(args) => export(args),
        Command::Bundle(args) => {
            let session = Session::open(&args.folder)?;
            let given = args.output.clone();
            let archive = given.unwrap_or_else(|| session.archive_path());
            super::check_writable(&archive)?;
            session.bundle(&archive)?;
            println!("{}", archive.display());
            Ok(())
        }
    }
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let session = Session::open(&args.folder)?;
    let folder = args.output.as_ref().unwrap_or(&args.folder);
    for (name, text) in session.export(args.format) {
        let path = folder.join(name);
        let parent = path.parent().context("a path in a folder")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        print::write_text(&path, &text)?;
        println!("{}", path.display());
    }
    Ok(())
}
