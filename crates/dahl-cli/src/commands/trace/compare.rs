//! `dahl trace compare`: why one run was slower than another.

use std::path::PathBuf;

use dahl::trace::{Summary, compare};

use super::load;
use crate::print;

/// Arguments of `dahl trace compare`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace to compare with
    old: PathBuf,
    /// The other one
    new: PathBuf,
    /// Rows of the table
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (old, new) = (load(&args.old)?, load(&args.new)?);
    let report = compare(&Summary::of(&old), &Summary::of(&new));
    print::answer(args.json, &report, || report.report(args.top))
}
