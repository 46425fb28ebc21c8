//! `dahl bench step`: images per second of training steps on data that is already in memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl_core::Executor;
use dahl_core::random::Random;
use dahl_nn::init;
use dahl_nn::lower::state::{Io, State};
use dahl_nn::lower::{self, Settings};
use dahl_nn::model::Model;
use dahl_nn::optimizer::{Given, Optimizer};

use crate::commands::run_options::{RunOptions, model};
use crate::print;

/// Arguments of `dahl bench step`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    /// Images per step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    #[command(flatten)]
    run: RunOptions,
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
    dtype: dahl_core::DType,
    workers: usize,
    policy: String,
    /// Best of the measured stretches.
    images_per_second: f64,
    median_images_per_second: f64,
    step_seconds: f64,
    steps: u64,
    tasks_per_step: usize,
    temporary_bytes: u64,
    peak_rss_bytes: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let batch = args.batch as usize;
    let mut runtime = args.run.runtime(2)?;
    let optimizer = Optimizer::parse("sgd", &Given::default())?;
    let state = State::new(&model, args.run.dtype, Some(&optimizer))?;
    let io = Io::new(&model, batch, args.run.dtype)?;
    let settings = Settings {
        batch,
        dtype: args.run.dtype,
        grain: args.run.grain.clone(),
        seed: 0,
        clip: None,
    };
    let graph = lower::train(&model, &state, &io, &optimizer, &settings)?;
    prepare(&mut runtime, &model, &state, &io, &optimizer).map_err(|e| anyhow::anyhow!(e))?;

    let mut steps = |n: u64| -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..n {
            runtime.launch(&graph)?;
        }
        runtime.wait()?;
        Ok(start.elapsed().as_secs_f64() / n as f64)
    };
    // Warm up, and find how many steps make a stretch of about a tenth of the time.
    steps(2)?;
    let once = steps(3)?;
    let stretch = ((args.seconds / 12.0 / once.max(1e-9)) as u64).clamp(1, 1_000_000);
    let (mut times, mut count) = (Vec::new(), 0);
    let end = Instant::now() + Duration::from_secs_f64(args.seconds.clamp(0.01, 3600.0));
    while times.is_empty() || Instant::now() < end {
        times.push(steps(stretch)?);
        count += stretch;
    }
    times.sort_by(f64::total_cmp);
    let result = Result {
        model: model.name.clone(),
        batch: args.batch,
        dtype: args.run.dtype,
        workers: runtime.machine().units.len(),
        policy: args.run.policy.clone(),
        images_per_second: batch as f64 / times[0],
        median_images_per_second: batch as f64 / times[times.len() / 2],
        step_seconds: times[0],
        steps: count,
        tasks_per_step: graph.len(),
        temporary_bytes: graph.memory.bytes,
        peak_rss_bytes: peak_rss(),
    };
    if args.json {
        return print::json(&result);
    }
    println!(
        "{}: {:.0} images/s ({:.0} median), {} per step of {} tasks, peak memory {}",
        result.model,
        result.images_per_second,
        result.median_images_per_second,
        dahl_core::Seconds(result.step_seconds),
        result.tasks_per_step,
        dahl_core::Bytes(result.peak_rss_bytes),
    );
    Ok(())
}

/// Initial weights, random pixels and labels, a small learning rate.
fn prepare(
    exec: &mut dyn Executor,
    model: &Model,
    state: &State,
    io: &Io,
    optimizer: &Optimizer,
) -> std::result::Result<(), dahl_core::ExecError> {
    for (place, array) in state.params.iter().enumerate() {
        if let Some(array) = array {
            let (fill, random) = (init::fill(model, place), init::stream(42, place));
            exec.write(array, &mut |mut v| {
                (0..v.len()).for_each(|i| v.set(i, fill.value(&random, i)))
            })?;
        }
    }
    let random = Random::new(1, 1);
    exec.write(&io.pixels, &mut |mut v| {
        (0..v.len()).for_each(|i| v.set(i, random.uniform(i as u64)))
    })?;
    let classes = model.classes() as u64;
    exec.write(&io.labels, &mut |mut v| {
        (0..v.len()).for_each(|i| v.set(i, random.below(i as u64, classes) as f64));
    })?;
    let values = optimizer.values(1e-4, 1);
    exec.write(&io.values, &mut |mut v| {
        values.iter().enumerate().for_each(|(i, &x)| v.set(i, x))
    })
}

/// The most memory this process ever had resident, as far as the system says.
fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let kib = line
        .and_then(|l| l.split_whitespace().nth(1))
        .and_then(|v| v.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
