//! `dahl memory`: whether a training step fits, before anything runs.

use std::path::PathBuf;

use dahl::core::{ArenaError, Bytes};
use dahl::nn::Step;
use dahl::nn::step::StepError;
use dahl::tune::{Footprint, StageMemory, ThisMachine, Units};

use super::step_args::{StepArgs, model};
use crate::print;

/// Arguments of `dahl memory`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 it fits; 1 failed, or it does not fit; 2 wrong arguments.")]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    #[command(flatten)]
    step: StepArgs,
    /// The units it would run on, such as cpu:2,gpu:0 [default: all CPU cores]
    #[arg(long)]
    units: Option<Units>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let this = ThisMachine::look();
    let step = args.step.step(model(Some(&args.model))?, &this, true)?;
    let footprint = match Footprint::of(&step) {
        Err(StepError::Memory(why @ ArenaError::OutOfMemory { .. })) => {
            return not_even_begun(args, &step, &why);
        }
        footprint => footprint?,
    };
    let mut rows = vec![(
        "host".to_owned(),
        footprint.on_host(),
        this.host().memory_available.map(Bytes),
    )];
    if let Some(units) = args.units.as_ref().filter(|u| u.has_gpus()) {
        let machine = this.describe(Some(units))?.machine;
        let devices = machine.memories.iter().skip(1);
        rows.extend(devices.map(|m| (m.name.clone(), footprint.on_device(), m.capacity)));
    }
    let fits =
        |(_, needed, there): &(String, Bytes, Option<Bytes>)| there.is_none_or(|t| needed.0 <= t.0);
    let all = rows.iter().all(fits);
    let f = &footprint;
    let stages = match args.step.staging(&step)? {
        Some(staging) => Some(staging.memory()?),
        None => None,
    };
    if args.json {
        let rows = rows.iter().map(|row| {
            serde_json::json!({ "memory": row.0, "needed": row.1.0, "available": row.2.map(|b| b.0), "fits": fits(row) })
        });
        let mut answer = serde_json::json!({
            "model": step.model.name, "batch": step.batch, "weights": f.weights.0, "optimizer": f.optimizer.0,
            "temporaries": f.temporaries.0, "in_flight": f.in_flight, "io": f.io.0, "batches": f.batches.0,
            "memories": rows.collect::<Vec<_>>(), "fits": all,
        });
        if let Some(stages) = &stages {
            answer["stages"] = serde_json::to_value(stages)?;
        }
        print::json(&answer)?;
    } else {
        println!(
            "{}, batch {}: {} parameters",
            step.model.name, step.batch, f.parameters
        );
        let line = |what: &str, text: String| println!("  {what:<11} {text}");
        line("weights", f.weights.to_string());
        line(
            "optimizer",
            format!("{} ({})", f.optimizer, step.optimizer.name()),
        );
        line(
            "temporaries",
            format!("{} × {} in flight", f.temporaries, f.in_flight),
        );
        line(
            "inputs",
            format!("{} and {} of batches ahead", f.io, f.batches),
        );
        for row in &rows {
            let there = row
                .2
                .map_or("its size is not known".into(), |t| format!("{t} available"));
            let verdict = if fits(row) { "fits" } else { "does not fit" };
            line(&row.0, format!("{} needed, {there}: {verdict}", row.1));
        }
        if let Some(stages) = &stages {
            show(stages);
        }
    }
    if all {
        return Ok(());
    }
    if !args.json {
        println!(
            "make --batch smaller (--accumulate K then gives the same step in K parts); a device without room also runs tasks on the host, slowly"
        );
    }
    Err(super::Exit(1).into())
}

/// What each device of a pipeline would hold.
fn show(stages: &[StageMemory]) {
    let mut table = print::table(&["device", "layers", "weights and inputs", "temporaries"]);
    for (device, stage) in stages.iter().enumerate() {
        let layers: Vec<String> = (stage.layers.iter())
            .map(|[first, last]| format!("{first}–{last}"))
            .collect();
        table.add_row([
            device.to_string(),
            layers.join(", "),
            stage.lasting.to_string(),
            stage.temporaries.to_string(),
        ]);
    }
    print::align_right(&mut table, 2..=3);
    println!("{table}");
}

/// The system refuses the arrays of a step: they are more than it has.
fn not_even_begun(args: &Args, step: &Step, why: &ArenaError) -> anyhow::Result<()> {
    let (model, batch) = (&step.model.name, step.batch);
    match args.json {
        true => {
            let answer = serde_json::json!({ "model": model, "batch": batch, "fits": false, "why": why.to_string() });
            print::json(&answer)?;
        }
        false => println!("{model}, batch {batch}: does not fit: {why}; make --batch smaller"),
    }
    Err(super::Exit(1).into())
}
