//! `dahl bench step`: images per second of training steps on data that is already in memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl::core::trace::Trace;
use dahl::core::{Bytes, Seconds, UnitKind};
use dahl::energy::Energy;
use dahl::tune::{Followed, MeasuredRun, StepBench, ThisMachine, mean_without_outliers};

use crate::commands::follow;
use crate::commands::run_args::{Run, RunArgs};
use crate::commands::step_args::{StepArgs, model};
use crate::{interrupt, print};

/// Isolated steps that are compared with a plan.
const ISOLATED: usize = 9;

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

#[derive(serde::Serialize)]
struct Result {
    model: String,
    batch: u32,
    dtype: dahl::core::DType,
    /// How many units.
    workers: usize,
    units: Vec<String>,
    policy: String,
    engine: String,
    memory: String,
    /// Best of the timing windows.
    images_per_second: f64,
    median_images_per_second: f64,
    step_seconds: f64,
    steps: u64,
    tasks_per_step: usize,
    temporary_bytes: u64,
    peak_rss_bytes: u64,
    /// Of all measured steps; missing where nothing measures or models them.
    joules_per_step: Option<f64>,
    joules_source: String,
    /// Of a pipeline's steps, each by itself: how much longer devices are at one than the busiest computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bubble: Option<f64>,
}

/// What was measured.
struct Measured {
    /// Seconds per step of each timing window, the shortest first.
    windows: Vec<f64>,
    steps: u64,
    isolated: Option<Trace>,
    energy: Energy,
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
    let measured = measure(args, &run, &mut bench)?;
    let trace = run.finish(&mut bench.runtime, |_| ());
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
    let result = Result::of(args, &run, &bench, &measured);
    if args.json {
        let mut line = serde_json::to_value(&result)?;
        if let Some(followed) = &followed {
            line["plan"] = serde_json::to_value(followed)?;
        }
        return print::json(&line);
    }
    println!(
        "{}, {}: {:.0} images/s ({:.0} median), {} per step of {} tasks, peak memory {}",
        result.model,
        bench.units(),
        result.images_per_second,
        result.median_images_per_second,
        Seconds(result.step_seconds),
        result.tasks_per_step,
        Bytes(result.peak_rss_bytes),
    );
    if let (Some(plan), Some(followed)) = (&run.plan, &followed) {
        follow::show(followed, &plan.file);
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

/// Warms up and measures, in windows of about a tenth of the time.
fn measure(args: &Args, run: &Run, bench: &mut StepBench) -> anyhow::Result<Measured> {
    bench.steps(2)?;
    let once = bench.steps(3)?;
    let window = ((args.seconds / 12.0 / once.max(1e-9)) as u64).clamp(1, 1_000_000);
    let mut isolated = None;
    if run.plan.is_some() || run.run.pipeline().is_some() {
        // As warm as they are in a run.
        bench.steps(window)?;
        bench.runtime.take_trace();
        for _ in 0..ISOLATED {
            bench.steps(1)?;
        }
        isolated = bench.runtime.take_trace();
    }
    let (mut windows, mut steps) = (Vec::new(), 0);
    let gpus = run.run.gpu_watts(None);
    let sampler = dahl::energy::Options {
        cards: run.run.has_gpus(),
        gpus: gpus.map(|watts| (watts, bench.runtime.busy_clock(UnitKind::GPU))),
        ..dahl::energy::Options::default()
    }
    .start();
    let end = Instant::now() + Duration::from_secs_f64(args.seconds.clamp(0.01, 3600.0));
    while windows.is_empty() || Instant::now() < end {
        windows.push(bench.steps(window)?);
        steps += window;
    }
    windows.sort_by(f64::total_cmp);
    Ok(Measured {
        windows,
        steps,
        isolated,
        energy: sampler.finish().energy,
    })
}

impl Result {
    fn of(args: &Args, run: &Run, bench: &StepBench, measured: &Measured) -> Result {
        let (windows, units) = (&measured.windows, &bench.runtime.machine().units);
        let images = f64::from(args.step.graph.batch);
        let joules = measured.energy.joules();
        Result {
            model: run.step.model.name.clone(),
            batch: args.step.graph.batch,
            dtype: run.step.dtype,
            workers: units.len(),
            units: units.iter().map(|u| u.name.clone()).collect(),
            policy: run.run.policy().to_string(),
            engine: run.run.engine().to_string(),
            memory: run.run.temporaries().to_string(),
            images_per_second: images / windows[0],
            median_images_per_second: images / windows[windows.len() / 2],
            step_seconds: windows[0],
            steps: measured.steps,
            tasks_per_step: bench.graph().len(),
            temporary_bytes: bench.graph().memory.bytes,
            peak_rss_bytes: print::peak_resident(),
            joules_per_step: joules.map(|j| j.0 / measured.steps as f64),
            joules_source: measured.energy.source(),
            bubble: (run.run.pipeline())
                .and_then(|staging| staging.bubble(measured.isolated.as_ref()?)),
        }
    }
}
