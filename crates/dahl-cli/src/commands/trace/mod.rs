//! `dahl trace`: looks at what `--trace` recorded.

mod compare;
mod export;
mod summary;
mod view;

use std::path::Path;

use anyhow::Context;
use dahl::core::trace::Trace;

/// What to do with a trace.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Where the time went, which unit waited and why, what bounds the run
    Summary(summary::Args),
    /// Why one run was slower than another: what changed, the largest first
    Compare(compare::Args),
    /// Convert for other tools: Perfetto, ViTE and pj_dump (Paje), spreadsheets, Graphviz
    Export(export::Args),
    /// Make a page for the browser: what every unit did over time, to zoom and search
    View(view::Args),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Summary(args) => summary::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Export(args) => export::run(args),
        Command::View(args) => view::run(args),
    }
}

/// Reads a trace; an error names the file.
fn load(file: &Path) -> anyhow::Result<Trace> {
    dahl::trace::load(file).with_context(|| format!("cannot read the trace {}", file.display()))
}
