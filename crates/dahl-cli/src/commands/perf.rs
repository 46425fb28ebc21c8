//! `dahl perf`: how long each codelet takes, by implementation, unit and shape, against what this machine
//! can do; which implementation is chosen, and why.

use anyhow::Context;
use dahl::core::Seconds;
use dahl::sched::model::PerfModel;
use dahl::tune::{PerfRow, Profile, ThisMachine, perf_rows, variations};

use crate::print;

/// Arguments of `dahl perf`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// One codelet, shape by shape [default: all, summed up]
    codelet: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Draw the durations of the codelet into this file
    #[arg(long, value_name = "F.svg", requires = "codelet")]
    svg: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Forget all durations and the profile of this machine
    Reset,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(Command::Reset) = args.command {
        return reset();
    }
    let this = ThisMachine::look();
    let (model, warning) = dahl::runtime::perf_store::load(&this.times_path()?)?;
    if let Some(warning) = warning {
        print::warning(&warning.to_string());
    }
    let profile = this.profile()?;
    let mut rows = perf_rows(&model, profile.as_ref());
    if let Some(name) = &args.codelet {
        let all: std::collections::BTreeSet<String> =
            rows.iter().map(|r| r.codelet.clone()).collect();
        rows.retain(|r| r.codelet == *name);
        if rows.is_empty() && !all.is_empty() {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            anyhow::bail!(
                "no durations of a codelet {name}; there are: {}",
                all.join(", ")
            );
        }
    }
    if let (Some(path), Some(codelet)) = (&args.svg, &args.codelet) {
        let picture = dahl::durations_chart(codelet, &rows).svg();
        print::write(path, |out| out.write_all(picture.as_bytes()))?;
    }
    if args.json {
        return print::json(&rows);
    }
    if rows.is_empty() {
        println!("nothing has been timed here yet: run `dahl calibrate`");
        return Ok(());
    }
    match &args.codelet {
        None => overview(&rows),
        Some(_) => shapes(&model, &rows, profile.as_ref()),
    }
    Ok(())
}

fn reset() -> anyhow::Result<()> {
    let this = ThisMachine::look();
    for path in [this.times_path()?, this.profile_path()?] {
        match std::fs::remove_file(&path) {
            Ok(()) => println!("removed {}", path.display()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("cannot remove {}", path.display())),
        }
    }
    Ok(())
}

/// Adjacent rows of the same codelet, implementation and unit.
fn groups(rows: &[PerfRow]) -> impl Iterator<Item = &[PerfRow]> {
    rows.chunk_by(|a, b| {
        (&a.codelet, &a.implementation, &a.unit) == (&b.codelet, &b.implementation, &b.unit)
    })
}

fn overview(rows: &[PerfRow]) {
    let heads = [
        "by", "on", "timed", "median", "spread", "GFLOP/s", "GB/s", "of best",
    ];
    let row = |group: &[PerfRow]| {
        // The shape with the most work speaks for the others.
        let most = |r: &&PerfRow| r.flops + r.bytes;
        let large = group.iter().max_by(|a, b| most(a).total_cmp(&most(b)))?;
        let spread = group.iter().map(|r| r.spread).fold(0.0, f64::max);
        Some(vec![
            large.implementation.clone(),
            large.unit.clone(),
            group.iter().map(|r| r.count).sum::<u64>().to_string(),
            Seconds(large.median).to_string(),
            format!("{:.0} %", 100.0 * spread),
            format!("{:.1}", large.gflops()),
            format!("{:.1}", large.gbytes()),
            of_best(large),
        ])
    };
    let codelets = rows.chunk_by(|a, b| a.codelet == b.codelet);
    let sections: Vec<print::Section> = codelets
        .map(|c| (c[0].codelet.clone(), groups(c).filter_map(row).collect()))
        .collect();
    print::sections(&heads, 2..=7, &sections);
    print::folded(
        "Median, speeds and share of the machine's best are of the largest shape; spread is the widest. \
         `cached`: faster than its data could come from memory. `dahl perf CODELET` shows its shapes.",
        0,
    );
}

fn fitted(model: &PerfModel, row: &PerfRow) -> String {
    let law = model.law(&row.key);
    law.map_or(String::new(), |law| law.to_string())
}

/// The share of what the machine can do; more than all of it is data that were still in a cache.
fn of_best(row: &PerfRow) -> String {
    match row.of_roof {
        None => "?".into(),
        Some(p) if p > 1.0 => "cached".into(),
        Some(p) => format!("{:.0} %", 100.0 * p),
    }
}

fn shapes(model: &PerfModel, rows: &[PerfRow], profile: Option<&Profile>) {
    let heads = [
        "by", "on", "timed", "mean", "median", "spread", "GFLOP/s", "GB/s", "of best",
    ];
    let cells = |row: &PerfRow| {
        vec![
            row.implementation.clone(),
            row.unit.clone(),
            row.count.to_string(),
            Seconds(row.mean).to_string(),
            Seconds(row.median).to_string(),
            format!("{:.1} %", 100.0 * row.spread),
            format!("{:.1}", row.gflops()),
            format!("{:.1}", row.gbytes()),
            of_best(row),
        ]
    };
    let mut sections: Vec<print::Section> = Vec::new();
    for row in rows {
        let place = sections
            .iter()
            .position(|(shapes, _)| *shapes == row.shapes);
        let place = place.unwrap_or_else(|| {
            sections.push((row.shapes.clone(), Vec::new()));
            sections.len() - 1
        });
        sections[place].1.push(cells(row));
    }
    for (shapes, _) in &mut sections {
        let chosen = rows.iter().filter(|r| r.shapes == *shapes);
        if let Some((by, why)) = chosen
            .filter_map(|r| Some((&r.implementation, r.chosen.as_ref()?)))
            .next()
        {
            *shapes += &format!(": {by} is {why}");
        }
    }
    print::sections(&heads, 2..=8, &sections);
    for line in variations(rows) {
        print::folded(&line, 2);
    }
    for group in groups(rows) {
        let law = fitted(model, &group[0]);
        if !law.is_empty() {
            let (by, on) = (&group[0].implementation, &group[0].unit);
            print::folded(&format!("{by} on {on}: {law}"), 2);
        }
    }
    if profile.is_none() {
        println!("what this machine can do at best is unknown: run `dahl calibrate`");
    }
    let points: Vec<(f64, f64, usize)> = groups(rows)
        .enumerate()
        .flat_map(|(i, g)| g.iter().map(move |r| (r.flops.max(r.bytes), r.median, i)))
        .collect();
    let names: Vec<String> = groups(rows)
        .map(|g| format!("{} on {}", g[0].implementation, g[0].unit))
        .collect();
    if let Some(picture) = dahl::tune::draw_durations(&points, &names) {
        println!("\n{picture}");
    }
}
