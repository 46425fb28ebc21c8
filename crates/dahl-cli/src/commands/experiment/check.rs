//! `dahl experiment check`: what a run would be, before it is one.

use std::path::PathBuf;

use dahl::core::Stop;
use dahl::experiment::{Experiment, Machine, cell_name};

use super::ChangeArgs;
use crate::print;

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
    let experiment = changes.apply(Experiment::find(&args.file)?)?;
    print::report(&experiment.outline());
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
    let mut seen = std::collections::HashSet::new();
    let mut missing = 0;
    for cell in experiment.probes() {
        let engine = cell
            .get("engine")
            .map_or("dahl".into(), ToString::to_string);
        match machine.probe(&cell) {
            Ok(says) if seen.insert((engine.clone(), says.clone())) => {
                println!("engine {engine}: {says}");
            }
            Ok(_) => {}
            Err(why) => {
                missing += 1;
                println!("engine {engine}: cannot run {}: {why}", cell_name(&cell));
            }
        }
    }
    match missing {
        0 => Ok(()),
        _ => {
            if !experiment.prepare.is_empty() {
                println!(
                    "a run first does what stands after \"before\", and check does not: that may be what is missing"
                );
            }
            Err(super::super::Exit(3).into())
        }
    }
}
