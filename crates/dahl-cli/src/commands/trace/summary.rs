//! `dahl trace summary`: a trace in figures.

use std::path::PathBuf;

use dahl::trace::Summary;

use super::load;
use crate::print;

/// Arguments of `dahl trace summary`.
#[derive(clap::Args)]
pub struct Args {
    /// A file that `--trace` wrote
    file: PathBuf,
    /// Rows of each table: codelets, layers, gaps, tasks of the critical path
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Print JSON: all codelets, layers and steps, times in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let trace = load(&args.file)?;
    let summary = Summary::with_top(&trace, args.top);
    print::answer(args.json, &summary, || summary.report(args.top))
}
