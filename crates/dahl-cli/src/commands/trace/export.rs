//! `dahl trace export`: a trace for other tools.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
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
        Format::Dot => dot::launch(&trace, args.step, args.limit)
            .map_err(|why| anyhow!("{}: {why}", args.file.display()))?,
        _ => 0,
    };
    print::write(&args.output, |out: &mut dyn Write| match args.format {
        Format::Perfetto => perfetto::write(&trace, out),
        Format::Paje => paje::write(&trace, out),
        Format::Csv => csv::write(&trace, out),
        Format::Dot => dot::write(&trace, launch, out),
    })
}
