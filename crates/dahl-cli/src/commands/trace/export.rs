//! `dahl trace export`: a trace for other tools.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use dahl::core::trace::Trace;
use dahl::trace::Index;
use dahl::trace::export::{csv, dot, paje, perfetto};

use super::load;
use crate::print;

/// Arguments of `dahl trace export`.
#[derive(clap::Args)]
pub struct Args {
    /// A file that `--trace` wrote
    file: PathBuf,
    /// The format
    #[arg(long, value_enum)]
    format: Format,
    /// Where to write; `-` is standard output
    #[arg(short, long)]
    output: PathBuf,
    /// For DOT: the step to draw; if left out, the first of which the most tasks are in the trace
    #[arg(long)]
    step: Option<u64>,
    /// For DOT: refuse to draw more tasks than this
    #[arg(long, default_value_t = 2000)]
    limit: usize,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    /// For ui.perfetto.dev
    Perfetto,
    /// For ViTE, and for pj_dump of PajeNG
    Paje,
    /// One line a task and a transfer
    Csv,
    /// The tasks of one step as a graph, for Graphviz
    Dot,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.step.is_some() && args.format != Format::Dot {
        bail!("--step chooses what DOT draws; the other formats hold all steps");
    }
    let trace = load(&args.file)?;
    let launch = match args.format {
        Format::Dot => launch(args, &trace)?,
        _ => 0,
    };
    print::write(&args.output, |out: &mut dyn Write| match args.format {
        Format::Perfetto => perfetto::write(&trace, out),
        Format::Paje => paje::write(&trace, out),
        Format::Csv => csv::write(&trace, out),
        Format::Dot => dot::write(&trace, launch, out),
    })
}

/// The launch to draw.
fn launch(args: &Args, trace: &Trace) -> anyhow::Result<u32> {
    let index = Index::of(trace);
    let name = args.file.display();
    let Some(fullest) = dot::fullest_launch(trace, &index) else {
        bail!("{name} has no tasks, so there is nothing to draw");
    };
    let launch = match args.step {
        None => fullest,
        Some(step) => match trace.launches.iter().position(|l| l.step == step) {
            Some(launch) => launch as u32,
            None => bail!(
                "{name} has no step {step}: its steps are {} to {}",
                trace.launches.iter().map(|l| l.step).min().unwrap_or(0),
                trace.launches.iter().map(|l| l.step).max().unwrap_or(0)
            ),
        },
    };
    let tasks = index.of_launch(launch).len();
    if tasks > args.limit {
        bail!(
            "{tasks} tasks would make no readable drawing; raise --limit (now {}) to get it",
            args.limit
        );
    }
    Ok(launch)
}
