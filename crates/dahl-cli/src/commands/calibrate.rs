//! `dahl calibrate`: measures this machine, and the codelets of models on it.

use std::path::PathBuf;

use dahl::core::{Bytes, several};
use dahl::nn::Step;
use dahl::tune::{self, CalibrateOptions, Progress, ThisMachine, Units};
use indicatif::{ProgressBar, ProgressStyle};

use super::step_args::{StepArgs, model};
use crate::{interrupt, print};

/// Arguments of `dahl calibrate`.
#[derive(clap::Args)]
#[command(mut_arg("batch", |a| a.default_value("64")))]
pub struct Args {
    /// A model whose codelets to time, a file or the name of a shipped one; may be given several times
    /// [default: small-cnn, lenet5, vgg-small]
    #[arg(long = "model", value_name = "M")]
    models: Vec<PathBuf>,
    #[command(flatten)]
    step: StepArgs,
    /// Most CPU workers to measure with [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Units to measure, such as cpu:2,gpu:0; as for `dahl train`. GPUs are measured only if named
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    units: Option<Units>,
    /// Most memory to take of each GPU, such as 2GiB [default: three quarters of what it has]
    #[arg(long, value_name = "SIZE", value_parser = tune::size)]
    gpu_memory: Option<Bytes>,
    /// How long each variant is measured
    #[arg(long, default_value_t = 0.4, value_name = "S")]
    seconds: f64,
    /// Measure again what is known already
    #[arg(long)]
    again: bool,
    /// Measure at every frequency that the cores can be set to, too: seconds and watts of codelets, and what changing takes.
    /// Clocks are put back however it ends
    #[arg(long)]
    states: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.step.graph.refuse_tuned()?;
    let this = ThisMachine::look();
    let named: Vec<PathBuf> = match args.models.is_empty() {
        true => ["small-cnn", "lenet5", "vgg-small"]
            .map(PathBuf::from)
            .into(),
        false => args.models.clone(),
    };
    let step = |m: &PathBuf| args.step.step(model(Some(m))?, &this, false);
    let steps = named
        .iter()
        .map(step)
        .collect::<anyhow::Result<Vec<Step>>>()?;
    let given = args.units.clone();
    let options = CalibrateOptions {
        steps,
        units: given.unwrap_or_else(|| Units::cpus(args.workers)),
        gpu_memory: args.gpu_memory,
        seconds: args.seconds,
        again: args.again,
        states: args.states,
        stop: interrupt::stop(),
    };
    let bar = progress();
    let mut tell = |progress| match progress {
        Progress::Parts(parts) => bar.set_length(parts),
        Progress::Now(what) => bar.set_message(what),
        Progress::Done(parts) => {
            interrupt::keep();
            bar.inc(parts);
        }
        Progress::Warning(text) => bar.suspend(|| print::warning(&text)),
    };
    let done = tune::calibrate(&options, &this, &mut tell)?;
    bar.finish_and_clear();
    let (complete, stopped) = (done.steps, done.stopped);
    let report = done.report();
    print::answer(args.json, &report, || report.text())?;
    if !stopped {
        return Ok(());
    }
    eprintln!(
        "stopped by {}: {complete} of {} calibrated, and all durations measured so far are kept; the same \
         command measures the rest",
        interrupt::name(),
        several(named.len(), "model")
    );
    Err(super::stopped())
}

fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("calibrating [{bar:30.cyan/blue}] {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(1).with_style(style.progress_chars("━╸─"))
}
