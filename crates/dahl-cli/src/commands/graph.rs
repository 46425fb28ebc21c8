//! `dahl graph`: draws the graph of a recorded program.

use std::path::PathBuf;

use anyhow::{Context, bail};
use dahl::core::Program;

use super::read;

/// Arguments of `dahl graph`.
#[derive(clap::Args)]
pub struct Args {
    /// A program as JSON: `{"arrays": [...], "tasks": [...]}`, or what `--format json` prints; `-` reads
    /// standard input. `examples/graph.json` in the repository is one
    file: PathBuf,
    /// How to print it; DOT becomes a picture with `dot -Tsvg`
    #[arg(long, value_enum, default_value = "dot")]
    format: Format,
    /// Refuse to draw more tasks than this
    #[arg(long, default_value_t = 2000)]
    limit: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Dot,
    Json,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.file.display();
    let text = match args.file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()).context("standard input")?,
        false => read(&args.file)?,
    };
    let graph = parse(&text)
        .with_context(|| name.to_string())?
        .record()
        .with_context(|| name.to_string())?;
    match args.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&graph.to_json())?),
        Format::Dot if graph.len() > args.limit => {
            bail!(
                "{} tasks would make no readable drawing; raise --limit (now {}) to get it",
                graph.len(),
                args.limit
            )
        }
        Format::Dot => print!("{}", graph.to_dot()),
    }
    Ok(())
}

/// A program, plain or wrapped as `--format json` prints it.
fn parse(text: &str) -> anyhow::Result<Program> {
    let value: serde_json::Value = serde_json::from_str(text).context("not JSON")?;
    let program = value.get("program").cloned().unwrap_or(value);
    serde_json::from_value(program).context("not a program")
}
