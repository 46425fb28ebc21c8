//! `dahl diff`: how far two sets of weights are apart.

use std::path::PathBuf;

use dahl::nn::weights::{self, TensorDiff};

use crate::print;

/// Arguments of `dahl diff`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 no tensor differs by more than --ulps; 1 failed, or one does; 2 wrong arguments."
)]
pub struct Args {
    /// Weights: a file, or the folder of a checkpoint
    a: PathBuf,
    /// Others
    b: PathBuf,
    /// Units in the last place up to which values count as the same
    #[arg(long, default_value_t = 0)]
    ulps: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let [a, b] = [weights::read(&args.a)?, weights::read(&args.b)?];
    let all = weights::diff(&a, &b);
    let differing: Vec<&TensorDiff> = all.iter().filter(|d| d.is_beyond(args.ulps)).collect();
    let rows: Vec<_> = differing.iter().map(|d| d.to_json()).collect();
    let answer = serde_json::json!({ "tensors": all.len(), "different": rows });
    print::answer(args.json, &answer, || {
        weights::diff_report(all.len(), &differing)
    })?;
    match differing.is_empty() {
        true => Ok(()),
        false => Err(super::Exit(1).into()),
    }
}
