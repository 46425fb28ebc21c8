//! `dahl bench step`: images per second of training steps on data that is already in memory.

use std::path::PathBuf;

use dahl::StepFigures;
use dahl::tune::{Followed, MeasuredRun, StepBench, ThisMachine, mean_without_outliers};

use crate::commands::run_args::RunArgs;
use crate::commands::step_args::{StepArgs, model};
use crate::{interrupt, print};

/// Arguments of `dahl bench step`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    #[command(flatten)]
    step: StepArgs,
    #[command(flatten)]
    run: RunArgs,
    /// How long to measure
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let this = ThisMachine::look();
    let step = args.step.step(model(Some(&args.model))?, &this, true)?;
    let pipeline = args.step.staging(&step)?;
    let run = args
        .run
        .prepare(this, step, &args.step.graph, pipeline, None)?;
    let mut bench = StepBench::new(&run.step, &run.run)?;
    interrupt::cancels(bench.runtime.canceller());
    let measured = bench.measure(&run.run, args.seconds)?;
    let (tell, runtime) = (&mut print::warnings, &mut bench.runtime);
    let trace = run.run.finish(&run.step, runtime, tell, |_| ());
    run.save(trace.as_ref())?;
    let followed = match (&run.plan, &trace) {
        (Some(plan), Some(trace)) => {
            let measured = MeasuredRun {
                // The measured windows fill the buffers many times over: these are their last steps.
                pipelined: trace,
                // A prediction is of what steps take together, not of the best.
                seconds: Some(mean_without_outliers(&measured.windows)),
                isolated: measured.isolated.as_ref(),
                energy: &measured.energy,
            };
            Some(Followed::of(plan, bench.graph(), &measured, &run.this)?)
        }
        _ => None,
    };
    let result = StepFigures::of(&run.step, &run.run, &bench, &measured);
    if args.json {
        let mut line = serde_json::to_value(&result)?;
        if let Some(followed) = &followed {
            line["plan"] = serde_json::to_value(followed)?;
        }
        return print::json(&line);
    }
    println!("{}", result.line(&bench.units()));
    if let (Some(plan), Some(followed)) = (&run.plan, &followed) {
        print::report(&followed.report(&plan.file));
    }
    if let (Some(staging), Some(measured)) = (run.run.pipeline(), result.bubble) {
        println!(
            "pipeline: {}; bubble {:.1} % in a step alone, {:.1} % by the schedule",
            staging.summary(),
            100.0 * measured,
            100.0 * staging.schedule().bubble
        );
    }
    Ok(())
}
