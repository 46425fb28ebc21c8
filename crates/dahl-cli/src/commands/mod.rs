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
mod step_args;
pub mod trace;
pub mod train;

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A whole number for options that cannot be 0.
pub fn at_least_one(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&n| n > 0);
    number.ok_or_else(|| "it must be a whole number, 1 or more".into())
}

/// A number for options that have a range.
pub fn number(text: &str, range: RangeInclusive<f64>, or: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| or.into())
}

/// Seconds as an option has them.
pub fn seconds(text: &str) -> Result<f64, String> {
    number(
        text,
        0.1..=1e6,
        "use a number of seconds from 0.1 to a million",
    )
}

/// The text of a file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    dahl::core::file::read_text(path).with_context(|| format!("cannot read {}", path.display()))
}

/// One of the names of a table, for an option.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    table: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(table.iter().map(|entry| entry.0));
    names.map(|name| {
        table
            .iter()
            .find(|entry| entry.0 == name)
            .expect("one of them")
            .1
    })
}

/// Words of a command without options that have a value, and without others.
pub fn words_without(words: &[String], with_value: &[&str], alone: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let name = word.split('=').next().unwrap_or_default();
        if with_value.contains(&name) {
            if !word.contains('=') {
                rest.next();
            }
        } else if !alone.contains(&name) {
            out.push(word.clone());
        }
    }
    out
}

/// Refuses a path in a folder that does not exist or cannot be written, and standard output, which cannot be replaced.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
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
