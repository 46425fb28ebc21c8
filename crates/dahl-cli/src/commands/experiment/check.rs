//! `dahl experiment check`: what a run would be, before it is one.

use std::path::PathBuf;

use dahl::core::{Seconds, Stop};
use dahl::experiment::{Machine, cell_name};

use super::{ChangeArgs, load};

/// Arguments of `dahl experiment check`.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment: a file, or the name of a shipped one
    file: PathBuf,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Start no engine
    #[arg(long)]
    no_engines: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let changes = args.changes.changes()?;
    let experiment = changes.apply(load(&args.file)?)?;
    let cells = experiment.cells();
    println!("{}: {}", experiment.name, experiment.question);
    let design = &experiment.design;
    let runs = cells.len() as u32 * design.blocks;
    let each = design.warmup + design.window;
    let time = each.as_secs_f64() * f64::from(runs)
        + 2.0 * design.idle.as_secs_f64() * f64::from(design.blocks);
    println!(
        "{} cells, {} blocks, {runs} runs: at least {}, and what engines take to start",
        cells.len(),
        design.blocks,
        Seconds(time)
    );
    if experiment.most_blocks() > design.blocks {
        println!(
            "up to {} blocks until intervals are narrow: at most {}",
            experiment.most_blocks(),
            Seconds(time / f64::from(design.blocks) * f64::from(experiment.most_blocks()))
        );
    }
    let first: Vec<String> = experiment
        .order(0, cells.len())
        .iter()
        .take(3)
        .map(|&c| cell_name(&cells[c]))
        .collect();
    println!("first: {}", first.join("; "));
    for words in &experiment.prepare {
        println!("before: {}", words.join(" "));
    }
    let program = std::env::current_exe()?;
    let meter = changes.meter()?;
    let mut machine = Machine::new(&experiment, &args.file, &program, &meter, Stop::new());
    match machine.domains() {
        domains if domains.is_empty() => {
            println!(
                "energy: nothing measures it here; joules are modelled in tables of their own, CPU-seconds stand beside (`dahl energy --check` says why)"
            );
        }
        domains => println!("energy: {}", domains.join(", ")),
    }
    if args.no_engines {
        return Ok(());
    }
    let mut seen = Vec::new();
    let mut missing = 0;
    for cell in &cells {
        let engine = cell
            .get("engine")
            .map_or("dahl".into(), ToString::to_string);
        if seen.contains(&engine) {
            continue;
        }
        match machine.probe(cell) {
            Ok(says) => println!("engine {engine}: {says}"),
            Err(why) => {
                missing += 1;
                println!("engine {engine}: cannot run {}: {why}", cell_name(cell));
            }
        }
        seen.push(engine);
    }
    match missing {
        0 => Ok(()),
        _ => Err(super::super::Exit(3).into()),
    }
}
