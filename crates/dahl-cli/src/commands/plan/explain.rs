//! `dahl plan explain`: a plan in words.

use std::path::PathBuf;

use anyhow::Context;
use dahl::plan::PlanFile;
use dahl::plan::explain::{report, sentences, unit_summaries};

use crate::commands::read;
use crate::print;

/// Arguments of `dahl plan explain`.
#[derive(clap::Args)]
pub struct Args {
    /// A plan that `dahl plan … -o F` wrote
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.file.display().to_string();
    let plan = PlanFile::from_json(&read(&args.file)?).with_context(|| name)?;
    let words = serde_json::json!({ "words": sentences(&plan), "units": unit_summaries(&plan) });
    print::answer(args.json, &words, || report(&plan))
}
