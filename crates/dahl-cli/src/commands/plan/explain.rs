//! `dahl plan explain`: a plan in words.

use std::path::PathBuf;

use anyhow::Context;
use dahl::core::file::read_text;
use dahl::plan::PlanFile;
use dahl::plan::explain::{UnitSummary, sentences, unit_summaries};

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
    let text = read_text(&args.file).with_context(|| format!("cannot read {name}"))?;
    let plan = PlanFile::from_json(&text).with_context(|| name)?;
    if args.json {
        return print::json(
            &serde_json::json!({ "words": sentences(&plan), "units": unit_summaries(&plan) }),
        );
    }
    show(&plan);
    Ok(())
}

/// Prints a plan for people.
pub fn show(plan: &PlanFile) {
    let mut table = print::table(&["units", "used", "tasks", "busy", "states", "mostly"]);
    for d in unit_summaries(plan) {
        table.add_row([
            d.units.clone(),
            format!("{} of {}", d.used, d.count),
            d.tasks.to_string(),
            format!("{:.1} %", 100.0 * d.busy),
            states(&d),
            shares(&d.mostly),
        ]);
    }
    print::align_right(&mut table, 1..=3);
    println!("{table}\n");
    let mut memories = print::table(&["memory", "peak", "capacity"]);
    for p in &plan.peaks {
        let capacity = p.capacity.map_or("unlimited".into(), |c| c.to_string());
        memories.add_row([p.memory.clone(), p.bytes.to_string(), capacity]);
    }
    print::align_right(&mut memories, 1..=2);
    println!("{memories}\n");
    for sentence in sentences(plan) {
        println!("{sentence}");
    }
}

fn states(does: &UnitSummary) -> String {
    let all: Vec<(String, f64)> = does
        .states
        .iter()
        .map(|&(s, p)| {
            (
                if s == 0 {
                    "usual".into()
                } else {
                    format!("state {s}")
                },
                p,
            )
        })
        .collect();
    shares(&all)
}

fn shares(list: &[(String, f64)]) -> String {
    let one = |(name, part): &(String, f64)| format!("{name} {:.0} %", 100.0 * part);
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}
