//! `dahl calibrate`: measures this machine, and the codelets of models on it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dahl::core::{Bytes, Seconds, several};
use dahl::nn::Step;
use dahl::tune::{
    self, CalibrateOptions, Calibration, Progress, Speeds, StateFigures, ThisMachine, Units,
};
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

#[derive(serde::Serialize)]
struct Report {
    profile: PathBuf,
    model: PathBuf,
    alone: Speeds,
    together: Speeds,
    cores: usize,
    /// GPUs that were measured.
    gpus: BTreeMap<String, Speeds>,
    runs: usize,
    timed: u64,
    choices: usize,
    /// Choices that differ from what static costs say.
    changed: usize,
    /// Frequency states of the cores, the highest first.
    states: Vec<StateFigures>,
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
    let mut tell = |told| match told {
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
    let report = Report::of(done);
    match args.json {
        true => print::json(&report)?,
        false => report.show(),
    }
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

impl Report {
    fn of(done: Calibration) -> Report {
        Report {
            profile: done.profile_path,
            model: done.times_path,
            alone: done.profile.alone,
            together: done.profile.together,
            cores: done.workers,
            gpus: done.profile.gpus,
            runs: done.runs,
            timed: done.timed,
            choices: done.profile.choices.len(),
            changed: done.changed,
            states: done.profile.states,
        }
    }

    fn show(&self) {
        let mut table =
            print::table(&["one core", "alone", &format!("with {} working", self.cores)]);
        let (a, t) = (&self.alone, &self.together);
        let giga = |v: f64| format!("{:.1}", v * 1e-9);
        let rows = [
            (
                "matrix product f32, GFLOP/s",
                giga(a.flops_f32),
                giga(t.flops_f32),
            ),
            (
                "matrix product f64, GFLOP/s",
                giga(a.flops_f64),
                giga(t.flops_f64),
            ),
            (
                "copying, GB/s read and written",
                giga(a.bandwidth),
                giga(t.bandwidth),
            ),
            (
                "between two tasks",
                Seconds(a.overhead).to_string(),
                Seconds(t.overhead).to_string(),
            ),
        ];
        for (what, alone, together) in rows {
            table.add_row([what.to_string(), alone, together]);
        }
        println!("{table}");
        for (name, s) in &self.gpus {
            println!(
                "{name}: matrix product {} GFLOP/s f32, {} f64; copying {} GB/s; a launch {}",
                giga(s.flops_f32),
                giga(s.flops_f64),
                giga(s.bandwidth),
                Seconds(s.overhead)
            );
        }
        for s in &self.states {
            let watts = s
                .busy_watts
                .map_or("watts not measured".into(), |w| format!("{w:.2} W a core"));
            println!(
                "{:.2} GHz: {} GFLOP/s a core ({:.2} of the highest), {watts}; a change takes {}",
                s.hertz * 1e-9,
                giga(s.flops),
                s.speed,
                Seconds(s.switch_seconds)
            );
        }
        println!(
            "{} timed in {}; {} with several implementations, of which static costs would choose {} otherwise",
            several(self.timed, "task"),
            several(self.runs, "run"),
            several(self.choices, "call"),
            self.changed
        );
        println!("profile: {}", self.profile.display());
        println!("durations: {} (see `dahl perf`)", self.model.display());
    }
}
