//! `dahl bench step`: images per second of training steps on data that is already in memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl_core::UnitKind;

use crate::commands::follow::{Measured, Outcome};
use crate::commands::measure::Measure;
use crate::commands::run_options::{RunOptions, model, units_text};
use crate::commands::stretches;
use crate::print;

/// Steps by themselves that are compared with a plan.
const ALONE: usize = 9;

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
    /// How many units.
    workers: usize,
    units: Vec<String>,
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
    let grain = args.run.grain(&model, batch)?;
    let mut bench = Measure::new(&model, batch, &args.run, &grain)?;
    // Warm up, and find how many steps make a stretch of about a tenth of the time.
    bench.steps(2)?;
    let once = bench.steps(3)?;
    let stretch = ((args.seconds / 12.0 / once.max(1e-9)) as u64).clamp(1, 1_000_000);
    let plan = args.run.plan(&model, batch)?;
    let mut alone = None;
    if plan.is_some() {
        // As warm as they are in a run.
        bench.steps(stretch)?;
        bench.runtime.take_trace();
        for _ in 0..ALONE {
            bench.steps(1)?;
        }
        alone = bench.runtime.take_trace();
    }
    let (mut times, mut count) = (Vec::new(), 0);
    let options = dahl_energy::Options {
        gpus: args
            .run
            .gpu_watts(None)?
            .map(|watts| (watts, bench.runtime.busy_clock(UnitKind::GPU))),
        ..dahl_energy::Options::default()
    };
    let sampler = options.start();
    let end = Instant::now() + Duration::from_secs_f64(args.seconds.clamp(0.01, 3600.0));
    while times.is_empty() || Instant::now() < end {
        times.push(bench.steps(stretch)?);
        count += stretch;
    }
    let energy = sampler.finish().energy;
    let run = args.run.following(plan.as_ref())?;
    times.sort_by(f64::total_cmp);
    let result = Result {
        model: model.name.clone(),
        batch: args.batch,
        dtype: args.run.dtype,
        workers: bench.runtime.machine().units.len(),
        units: bench
            .runtime
            .machine()
            .units
            .iter()
            .map(|u| u.name.clone())
            .collect(),
        policy: run.policy().to_string(),
        images_per_second: batch as f64 / times[0],
        median_images_per_second: batch as f64 / times[times.len() / 2],
        step_seconds: times[0],
        steps: count,
        tasks_per_step: bench.graph.len(),
        temporary_bytes: bench.graph.memory.bytes,
        peak_rss_bytes: print::peak_resident(),
    };
    let graph = bench.graph.clone();
    let mut followed = None;
    run.finish(&mut bench.runtime, &model.name, |row| {
        followed = plan.as_ref().map(|plan| {
            let measured = Measured {
                // The measured stretches fill the buffers many times over: these are their last steps.
                row,
                // A prediction is of what steps take together, not of the best.
                seconds: Some(usual(&times)),
                alone: alone.as_ref(),
                energy: &energy,
            };
            Outcome::of(plan, &graph, &measured)
        });
    })?;
    let followed = followed.transpose()?;
    if args.json {
        let mut line = serde_json::to_value(&result)?;
        line["joules_per_step"] = serde_json::json!(
            energy
                .joules()
                .map(|j| j.0 * result.step_seconds / energy.elapsed.0.max(1e-9))
        );
        line["joules_source"] = serde_json::json!(energy.source());
        if let Some(followed) = &followed {
            line["plan"] = serde_json::to_value(followed)?;
        }
        return print::json(&line);
    }
    println!(
        "{}, {}: {:.0} images/s ({:.0} median), {} per step of {} tasks, peak memory {}",
        result.model,
        units_text(&bench.runtime),
        result.images_per_second,
        result.median_images_per_second,
        dahl_core::Seconds(result.step_seconds),
        result.tasks_per_step,
        dahl_core::Bytes(result.peak_rss_bytes),
    );
    if let (Some(plan), Some(followed)) = (&plan, &followed) {
        followed.show(plan);
    }
    Ok(())
}

/// The mean of stretches, but for those that took twice as long as most: of sorted ones.
fn usual(times: &[f64]) -> f64 {
    let most = stretches::MOST * times[times.len() / 2];
    let usual: Vec<f64> = times.iter().copied().filter(|&t| t <= most).collect();
    usual.iter().sum::<f64>() / usual.len() as f64
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_disturbed_stretch_is_left_out() {
        assert_eq!(super::usual(&[1.0, 2.0, 3.0, 7.0]), 2.0);
        assert_eq!(super::usual(&[1.0, 2.0, 3.0, 6.0]), 3.0);
        assert_eq!(super::usual(&[1.0, 1.0, 7.0]), 1.0);
    }
}
