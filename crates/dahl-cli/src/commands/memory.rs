//! `dahl memory`: whether a training step fits, before anything runs.

use std::path::PathBuf;

use dahl::core::ArenaError;
use dahl::nn::Step;
use dahl::nn::step::StepError;
use dahl::tune::{Fit, Footprint, ThisMachine, Units};

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
    let staging = args.step.staging(&step)?;
    let units = args.units.as_ref().filter(|units| units.has_gpus());
    let fit = Fit::of(&step, footprint, &this, units, staging.as_ref())?;
    print::answer(args.json, &fit.to_json(), || fit.report())?;
    if fit.fits() {
        return Ok(());
    }
    if !args.json {
        println!(
            "make --batch smaller (--accumulate K then gives the same step in K parts); a device without room also runs tasks on the host, slowly"
        );
    }
    Err(super::Exit(1).into())
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
