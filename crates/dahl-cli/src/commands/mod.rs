//! The commands, one file each, and what several of them share.

pub mod bench;
pub mod calibrate;
pub mod check;
pub mod cluster;
pub mod data;
mod data_args;
pub mod diff;
pub mod energy;
pub mod eval;
pub mod experiment;
mod follow;
pub mod graph;
mod image_args;
mod inference;
pub mod machine;
pub mod memory;
pub mod models;
pub mod ops;
pub mod perf;
pub mod plan;
pub mod predict;
mod run_args;
pub mod simulate;
mod simulate_cluster;
mod step_args;
pub mod trace;
pub mod train;

use anyhow::Context;

/// A whole number for options that cannot be 0.
pub fn at_least_one(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&n| n > 0);
    number.ok_or_else(|| "it must be a whole number, 1 or more".into())
}

/// Refuses a path in a folder that does not exist or cannot be written, and standard output, which cannot be replaced.
pub fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    if crate::print::is_stdout(path) {
        anyhow::bail!(
            "- is standard output; what is replaced whole or not at all needs a file: name one"
        );
    }
    dahl::core::file::check_writable(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The end of a command that has said everything: only its exit code is left.
#[derive(Debug)]
pub struct Exit(pub u8);

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// The end of work that a signal cut short, here or on another node, once that has been said.
pub fn stopped() -> anyhow::Error {
    Exit(crate::interrupt::exit_code().unwrap_or(130)).into()
}
