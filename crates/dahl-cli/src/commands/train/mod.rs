//! `dahl train`: trains a model.

mod metrics;
mod report;
mod stopped;
mod summary;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dahl::core::{Seconds, UnitKind};
use dahl::data::{self, DataSpec, Dataset, Split};
use dahl::energy::WattsModel;
use dahl::nn::Model;
use dahl::nn::checkpoint::Checkpoint;
use dahl::nn::schedule::Schedule;
use dahl::nn::train::{Session, Training};
use dahl::nn::weights;
use dahl::runtime::Runtime;
use dahl::tune::{Followed, MeasuredRun, ThisMachine, core_watts, load_machine, units_text};

use super::follow;
use super::run_args::{Run, RunArgs};
use super::step_args::{StepArgs, model};
use metrics::Metrics;
use report::Report;
use summary::Work;

/// Arguments of `dahl train`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one [default: a small CNN for 28×28 images]
    model: Option<PathBuf>,
    #[command(flatten)]
    data: DataOptions,
    /// Passes over the data
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Stop after so many steps, whatever the epochs
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Learning rate [default: 0.002, with sgd 0.01]
    #[arg(long)]
    lr: Option<f64>,
    /// How the learning rate changes: constant, step:EPOCHS:FACTOR, cosine[:MIN], each after
    /// warmup:STEPS+ if wanted
    #[arg(long, default_value = "constant")]
    schedule: Schedule,
    /// A new order of the images in every epoch (this is the default)
    #[arg(long, overrides_with = "no_shuffle")]
    shuffle: bool,
    /// The images in the order of the data
    #[arg(long, overrides_with = "shuffle")]
    no_shuffle: bool,
    #[command(flatten)]
    step: StepArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Start from these weights
    #[arg(long, value_name = "F.safetensors")]
    init: Option<PathBuf>,
    /// Write the final weights here
    #[arg(long, value_name = "F.safetensors")]
    save: Option<PathBuf>,
    /// Write checkpoints into this folder, at the end of every epoch
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Write a checkpoint every so many steps, too
    #[arg(long, requires = "checkpoint")]
    checkpoint_every: Option<u64>,
    /// Go on from the checkpoint in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "init")]
    resume: Option<PathBuf>,
    /// Write one JSON object per epoch, and a last one, to this file
    #[arg(long, value_name = "F.jsonl")]
    metrics: Option<PathBuf>,
    /// Take watts for the energy model from this machine file, where nothing can be measured
    #[arg(long, value_name = "F")]
    machine: Option<PathBuf>,
    /// Grams of CO₂ equivalents per kilowatt-hour of your grid: adds the run's grams to the summary
    #[arg(long, value_name = "G_PER_KWH")]
    carbon: Option<f64>,
    /// Print nothing but errors
    #[arg(long)]
    quiet: bool,
}

/// Which images.
#[derive(clap::Args, Clone)]
pub struct DataOptions {
    /// Images: fashion-mnist-small (shipped), fashion-mnist, idx:DIR, cifar-10:DIR, folder:DIR,
    /// synthetic:CxHxW:N[:classes]
    #[arg(long, default_value = "fashion-mnist-small")]
    pub data: String,
    /// Use only the first N images
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Use only the first N images for validation; 0 for none
    #[arg(long, value_name = "N")]
    pub val_limit: Option<usize>,
}

impl DataOptions {
    /// Opens a part of the images for a model.
    pub fn open(&self, model: &Model, split: Split) -> anyhow::Result<Arc<dyn Dataset>> {
        let spec = DataSpec::parse(&self.data)?;
        let limit = if split == Split::Train {
            self.limit
        } else {
            self.val_limit
        };
        let set = data::open(&spec, split, model.input, limit, &data::default_roots())?;
        data::check_classes(&*set, model.classes())?;
        Ok(Arc::from(set))
    }
}

/// Tasks per unit that are recorded if no trace was asked for: enough to say which layer was slow.
const LAST: usize = 1 << 13;

/// All that is needed before the first step.
struct Prepared {
    run: Run,
    runtime: Runtime,
    session: Session,
    train: Arc<dyn Dataset>,
    validation: Option<Arc<dyn Dataset>>,
    metrics: Option<Metrics>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut prepared = prepare(args)?;
    if !args.quiet {
        announce(&prepared);
    }
    let (report, work) = train(args, &mut prepared)?;
    finish(args, prepared, &report, &work)
}

/// Resolves everything, opens what is read and what is written, and sets the first weights.
fn prepare(args: &Args) -> anyhow::Result<Prepared> {
    if args.carbon.is_some_and(|g| !(g >= 0.0 && g.is_finite())) {
        anyhow::bail!("--carbon: grams per kilowatt-hour must be a number of at least 0");
    }
    let this = ThisMachine::look();
    let step = args.step.step(model(args.model.as_deref())?, &this, true)?;
    let record = (!args.quiet).then_some(LAST);
    let run = args.run.prepare(this, step, &args.step.graph, record)?;
    let model = &run.step.model;
    let train = args.data.open(model, Split::Train)?;
    let validation = match args.data.val_limit {
        Some(0) => None,
        _ => Some(args.data.open(model, Split::Validation)?),
    };
    // Whatever cannot be written at the end should be found out at the beginning.
    if let Some(path) = &args.save {
        super::check_writable(path)?;
    }
    let metrics = args.metrics.as_deref().map(Metrics::create).transpose()?;
    let training = Training {
        epochs: args.epochs,
        steps: args.steps,
        rate: args.lr,
        schedule: args.schedule,
        shuffle: !args.no_shuffle,
    };
    // The session overlaps steps by graphs of its own.
    let mut runtime = run.runtime(|builder| builder.in_flight(1))?;
    let mut session = Session::new(run.step.clone(), training)?;
    if let Some(plan) = &run.plan {
        plan.check(&*session.lowered()?)?;
    }
    match (&args.resume, &args.init) {
        (Some(folder), _) => {
            session.resume(&mut runtime, &Checkpoint::load(folder)?)?;
        }
        (None, Some(path)) => {
            session.set_weights(&mut runtime, &weights::read(path)?)?;
        }
        (None, None) => session.initialise(&mut runtime)?,
    }
    if let Some(folder) = args.checkpoints() {
        session.checkpoint_to(folder.into(), args.checkpoint_every);
    }
    Ok(Prepared {
        run,
        runtime,
        session,
        train,
        validation,
        metrics,
    })
}

fn announce(prepared: &Prepared) {
    let model = &prepared.run.step.model;
    println!(
        "{}: {} parameters, {} images ({} for validation), {}, {}",
        model.name,
        model.parameter_count(),
        prepared.train.len(),
        prepared.validation.as_ref().map_or(0, |v| v.len()),
        units_text(prepared.runtime.machine()),
        prepared.run.run.policy(),
    );
}

/// Trains, telling what happens.
fn train(args: &Args, prepared: &mut Prepared) -> anyhow::Result<(Report, Work)> {
    let Prepared {
        run,
        runtime,
        session,
        train,
        validation,
        metrics,
    } = prepared;
    let machine = args.machine.as_deref().map(load_machine).transpose()?;
    let cores = machine.as_ref().map(core_watts).transpose()?;
    let gpus = run.run.gpu_watts(machine.as_ref());
    let sampler = dahl::energy::Options {
        epoch: runtime.trace_start(),
        model: Some(cores.unwrap_or_else(WattsModel::of_this_machine)),
        gpus: gpus.map(|watts| (watts, runtime.busy_clock(UnitKind::GPU))),
        ..dahl::energy::Options::default()
    }
    .start();
    let mut report = Report::new(args.quiet, run.step.grain.to_string(), sampler);
    let before = runtime.busy();
    let mut failed = None;
    let (train, validation) = (train.clone(), validation.clone().map(Into::into));
    let result = session.run(runtime, train, validation, &mut |progress| {
        if let Some(epoch) = report.tell(progress.event)
            && let Some(m) = metrics
            && let Err(error) = m.epoch(epoch)
        {
            failed.get_or_insert(error);
        }
        ControlFlow::Continue(())
    });
    report.finish();
    result.map_err(|error| stopped::stopped(error, args.checkpoints()))?;
    if let Some(error) = failed {
        return Err(error);
    }
    let work = Work {
        units: busy(runtime, &before),
        traffic: runtime.traffic(),
        planned: session.planned_bytes(),
        in_use: runtime.temporary_bytes() as u64,
    };
    Ok((report, work))
}

/// Writes what was asked for, and sums up.
fn finish(args: &Args, mut prepared: Prepared, report: &Report, work: &Work) -> anyhow::Result<()> {
    let Prepared {
        run,
        runtime,
        session,
        metrics,
        ..
    } = &mut prepared;
    if let Some(path) = &args.save {
        weights::write(path, &session.weights(runtime)?)?;
    }
    if let Some(m) = metrics {
        m.done(report, work)?;
    }
    let mut trace = run.finish(runtime);
    if let Some(trace) = &mut trace {
        report.samples().enter(trace);
    }
    run.save(trace.as_ref())?;
    let mut followed = None;
    if let (Some(plan), Some(graph), Some(trace)) = (&run.plan, session.graph(), &trace) {
        let measured = MeasuredRun {
            pipelined: trace,
            seconds: None,
            isolated: None,
            energy: &report.energy,
        };
        followed = Some((Followed::of(plan, graph, &measured, &run.this)?, plan));
    }
    if args.quiet {
        return Ok(());
    }
    let slowest = trace.as_ref().and_then(summary::slowest);
    summary::print(report, work, slowest.as_ref(), args.carbon);
    for (what, path) in [("weights", &args.save), ("trace", &args.run.trace)] {
        if let Some(path) = path {
            println!("{what}: {}", path.display());
        }
    }
    if let Some((followed, plan)) = &followed {
        println!();
        follow::show(followed, &plan.file);
    }
    Ok(())
}

impl Args {
    /// Where checkpoints go.
    fn checkpoints(&self) -> Option<&Path> {
        self.checkpoint.as_deref().or(self.resume.as_deref())
    }
}

/// Every unit, and how long it has worked since it had worked so long.
fn busy(runtime: &Runtime, before: &[Seconds]) -> Vec<(String, Seconds)> {
    let names = runtime.machine().units.iter().map(|u| u.name.clone());
    let now = runtime.busy();
    let since = now.iter().zip(before).map(|(n, b)| *n - *b);
    names.zip(since).collect()
}
