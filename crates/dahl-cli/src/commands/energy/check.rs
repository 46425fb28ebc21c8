//! `dahl energy --check`: what can be read here.
//!
//! A counter that can be read and does not move measures nothing: so each is read twice.

use std::time::Duration;

use dahl::energy::{DomainEnergy, Finding, Options, Report, Scope};
use serde_json::json;

use crate::print;

/// Long enough for every counter to move, on an idle machine, too.
const LONG_ENOUGH: Duration = Duration::from_millis(400);

/// What is said of a domain or source.
struct Row {
    meter: &'static str,
    what: String,
    readable: bool,
    state: String,
    remedy: String,
}

/// Runs the command.
pub fn run(options: &Options, as_json: bool) -> anyhow::Result<()> {
    let sampler = options.start();
    std::thread::sleep(LONG_ENOUGH);
    let report = sampler.finish();
    let rows: Vec<Row> = report.findings.iter().map(|f| row(f, &report)).collect();
    let source = report.energy.source();
    if as_json {
        let sources: Vec<_> = rows
            .iter()
            .map(|r| {
                json!({
                    "meter": r.meter,
                    "domain": r.what,
                    "readable": r.readable,
                    "state": r.state,
                    "remedy": r.remedy,
                })
            })
            .collect();
        return print::json(&json!({
            "joules_source": source,
            "measured": report.energy.is_measured(),
            "sources": sources,
        }));
    }
    let mut table = print::table(&["source", "domain", "readable", "what", "how to allow it"]);
    for r in &rows {
        let readable = if r.readable { "yes" } else { "no" };
        table.add_row([r.meter, &r.what, readable, &r.state, &r.remedy]);
    }
    println!("{table}\n\nA run here is {source}.");
    Ok(())
}

fn row(finding: &Finding, report: &Report) -> Row {
    let is_it = |d: &&DomainEnergy| d.meter == finding.meter && d.domain == finding.what;
    let domain = report.domains.iter().find(is_it);
    let trouble = finding
        .trouble
        .as_ref()
        .or_else(|| domain.and_then(|d| d.trouble.as_ref()));
    let state = match (trouble, domain) {
        (Some(why), _) => why.text.clone(),
        (None, Some(d)) => [finding.note.as_str(), relation(d)]
            .into_iter()
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join("; "),
        (None, None) => finding.note.clone(),
    };
    Row {
        meter: finding.meter,
        what: finding.what.clone(),
        readable: trouble.is_none(),
        state,
        remedy: trouble.and_then(|t| t.remedy.clone()).unwrap_or_default(),
    }
}

/// How a domain stands to the total.
fn relation(d: &DomainEnergy) -> &'static str {
    match (&d.scope, d.counted) {
        (_, true) => "in the total",
        (Scope::Inside(_) | Scope::Chip, false) => "part of the package",
        (Scope::Platform, false) => "less than its parts, so not used",
        (_, false) => "part of the platform or of what the wall gives",
    }
}
