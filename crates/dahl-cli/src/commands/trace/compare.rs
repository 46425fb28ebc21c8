//! `dahl trace compare`: why one run was slower than another.

use std::path::PathBuf;

use dahl::core::Seconds;
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
    if args.json {
        return print::json(&report);
    }
    let [a, b] = report.step_seconds;
    println!(
        "{} per step before, {} now: {:+.1} % ({} and {} steps)\n",
        Seconds(a),
        Seconds(b),
        100.0 * (b / a.max(1e-12) - 1.0),
        report.steps[0],
        report.steps[1]
    );
    let heads = [
        "units' time per step",
        "before",
        "now",
        "difference",
        "one task, median",
    ];
    let mut table = print::table(&heads);
    for row in report.rows.iter().take(args.top) {
        let sign = if row.new < row.old { "-" } else { "+" };
        let one = row
            .medians
            .map(|[a, b]| format!("{} → {}", Seconds(a), Seconds(b)));
        table.add_row([
            row.what.clone(),
            Seconds(row.old).to_string(),
            Seconds(row.new).to_string(),
            format!("{sign}{}", Seconds((row.new - row.old).abs())),
            one.unwrap_or_default(),
        ]);
    }
    print::align_right(&mut table, 1..=4);
    println!("{table}");
    Ok(())
}
