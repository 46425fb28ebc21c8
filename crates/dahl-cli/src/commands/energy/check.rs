//! `dahl energy --check`: what can be read here.
//!
//! A counter that can be read and does not move measures nothing: so each is read twice.

use std::time::Duration;

use dahl::energy::Options;
use serde_json::json;

use crate::print;

/// Long enough for every counter to move, on an idle machine, too.
const LONG_ENOUGH: Duration = Duration::from_millis(400);

/// Runs the command.
pub fn run(options: &Options, as_json: bool) -> anyhow::Result<()> {
    let sampler = options.start();
    std::thread::sleep(LONG_ENOUGH);
    let report = sampler.finish();
    let rows = report.readable();
    let source = report.energy.source();
    if as_json {
        return print::json(&json!({
            "joules_source": source,
            "measured": report.energy.is_measured(),
            "sources": rows,
        }));
    }
    let mut table = print::table("source|domain|readable|what|how to allow it");
    for r in &rows {
        let readable = if r.readable { "yes" } else { "no" };
        table.add_row([r.meter, &r.domain, readable, &r.state, &r.remedy]);
    }
    println!("{table}\n\nA run here is {source}.");
    Ok(())
}
