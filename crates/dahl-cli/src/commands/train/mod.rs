//! `dahl train`: trains a model.

mod metrics;
mod report;
mod stopped;
mod summary;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::trace::Trace;
use dahl_core::{Seconds, UnitKind};
use dahl_data::{DataSpec, Dataset, Split};
use dahl_nn::checkpoint::Checkpoint;
use dahl_nn::model::Model;
use dahl_nn::optim::{Given, Optimizer};
use dahl_nn::schedule::Schedule;
use dahl_nn::step::Step;
use dahl_nn::train::{Session, Training};
use dahl_nn::weights;
use dahl_plan::PlanFile;
use dahl_runtime::Runtime;

use super::follow::{self, Measured, Outcome};
use super::run_options::{RunOptions, model, units_text};
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
    /// Images per step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Passes over the data
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Stop after so many steps, whatever the epochs
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Learning rate [default: 0.002, with sgd 0.01]
    #[arg(long)]
    lr: Option<f64>,
    /// How weights are updated
    #[arg(long, value_parser = ["sgd", "adam", "adamw"], default_value = "adam")]
    optimizer: String,
    /// Momentum of sgd [default: 0]
    #[arg(long)]
    momentum: Option<f64>,
    /// Nesterov's variant of momentum
    #[arg(long, requires = "momentum")]
    nesterov: bool,
    /// Weight decay [default: 0, with adamw 0.01]
    #[arg(long)]
    weight_decay: Option<f64>,
    /// How the learning rate changes: constant, step:EPOCHS:FACTOR, cosine[:MIN], each after
    /// warmup:STEPS+ if wanted
    #[arg(long, default_value = "constant")]
    schedule: Schedule,
    /// Scale gradients so that their global norm is at most this
    #[arg(long)]
    clip_norm: Option<f64>,
    /// A new order of the images in every epoch (this is the default)
    #[arg(long, overrides_with = "no_shuffle")]
    shuffle: bool,
    /// The images in the order of the data
    #[arg(long, overrides_with = "shuffle")]
    no_shuffle: bool,
    /// Key of everything random: initial weights, order, dropout
    #[arg(long, default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    run: RunOptions,
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
        let set = dahl_data::open(
            &spec,
            split,
            model.input,
            limit,
            &dahl_data::default_roots(),
        )?;
        dahl_data::check_classes(&*set, model.classes())?;
        Ok(Arc::from(set))
    }
}

impl Args {
    fn optimizer(&self) -> anyhow::Result<Optimizer> {
        let given = Given::default()
            .set("momentum", self.momentum)
            .set("nesterov", self.nesterov.then_some(true))
            .set("weight_decay", self.weight_decay);
        Ok(Optimizer::parse(&self.optimizer, &given)?)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.carbon.is_some_and(|g| !(g >= 0.0 && g.is_finite())) {
        anyhow::bail!("--carbon: grams per kilowatt-hour must be a number of at least 0");
    }
    let model = model(args.model.as_deref())?;
    let optimizer = args.optimizer()?;
    let plan = args.run.plan(&model, args.batch as usize)?;
    let run = args.run.following(plan.as_ref())?;
    let step = Step::new(model.clone())
        .batch(args.batch as usize)
        .dtype(args.run.dtype)
        .grain(args.run.grain(&model, args.batch as usize)?)
        .optimizer(optimizer)
        .clip_norm(args.clip_norm)
        .seed(args.seed)
        .kernels(args.run.kernels()?);
    let training = Training {
        epochs: args.epochs,
        steps: args.steps,
        rate: args.lr,
        schedule: args.schedule,
        shuffle: !args.no_shuffle,
    };
    let train = args.data.open(&model, Split::Train)?;
    let validation = match args.data.val_limit {
        Some(0) => None,
        _ => Some(args.data.open(&model, Split::Validation)?),
    };
    // Whatever cannot be written at the end should be found out at the beginning.
    if let Some(path) = &args.save {
        super::check_writable(path)?;
    }
    let mut metrics = args.metrics.as_deref().map(Metrics::create).transpose()?;
    let mut runtime = recording(args, &run, plan.as_ref())?;
    if !args.quiet {
        let images = train.len();
        println!(
            "{}: {} parameters, {} images ({} for validation), {}, {}",
            model.name,
            model.parameter_count(),
            images,
            validation.as_ref().map_or(0, |v| v.len()),
            units_text(&runtime),
            run.policy(),
        );
    }
    let (name, grain) = (model.name.clone(), step.grain.to_string());
    let mut session = Session::new(step, training)?;
    if let Some(plan) = &plan {
        let optimizer = follow::optimizer(&args.optimizer, args.momentum);
        follow::check(plan, &*session.lowered()?, &optimizer)?;
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
    if let Some(folder) = args.checkpoint.as_ref().or(args.resume.as_ref()) {
        session.checkpoint_to(folder.clone(), args.checkpoint_every);
    }
    let sampler = dahl_energy::Options {
        epoch: runtime.trace_start(),
        model: Some(super::machine::watts(args.machine.as_deref())?),
        gpus: run
            .gpu_watts(args.machine.as_deref())?
            .map(|watts| (watts, runtime.busy_clock(UnitKind::GPU))),
        ..dahl_energy::Options::default()
    }
    .start();
    let mut report = Report::new(args.quiet, grain, sampler);
    let before = runtime.busy();
    let mut failed = None;
    let validation = validation.map(Into::into);
    let result = session.run(&mut runtime, train, validation, &mut |progress| {
        if let Some(epoch) = report.tell(progress.event)
            && let Some(m) = &mut metrics
            && let Err(error) = m.epoch(epoch)
        {
            failed.get_or_insert(error);
        }
        ControlFlow::Continue(())
    });
    report.finish();
    let folder = args.checkpoint.as_deref().or(args.resume.as_deref());
    result.map_err(|error| stopped::stopped(error, folder))?;
    if let Some(error) = failed {
        return Err(error);
    }
    let work = Work {
        units: busy(&runtime, &before),
        traffic: runtime.traffic(),
        planned: session.planned_bytes(),
        in_use: runtime.temporary_bytes() as u64,
    };
    if let Some(path) = &args.save {
        weights::write(path, &session.weights(&mut runtime)?)?;
    }
    if let Some(m) = &mut metrics {
        m.done(&report, &work)?;
    }
    let power = report.samples();
    let (mut slowest, mut followed) = (None, None);
    let mut look = |trace: &Trace| {
        slowest = summary::slowest(trace);
        if let (Some(plan), Some(graph)) = (&plan, session.graph()) {
            let measured = Measured {
                row: trace,
                seconds: None,
                alone: None,
                energy: &report.energy,
            };
            followed = Some(Outcome::of(plan, graph, &measured));
        }
    };
    run.finish(&mut runtime, &name, |trace| {
        power.enter(trace);
        look(trace);
    })?;
    let followed = followed.transpose()?;
    if !args.quiet {
        summary::print(&report, &work, slowest.as_ref(), args.carbon);
        for (what, path) in [("weights", &args.save), ("trace", &run.trace)] {
            if let Some(path) = path {
                println!("{what}: {}", path.display());
            }
        }
        if let (Some(plan), Some(followed)) = (&plan, &followed) {
            println!();
            followed.show(plan);
        }
    }
    Ok(())
}

/// A runtime that records enough of its last tasks to say which layer was slow, or all that was asked
/// for.
fn recording(args: &Args, run: &RunOptions, plan: Option<&PlanFile>) -> anyhow::Result<Runtime> {
    let schedule = plan.map(follow::schedule).transpose()?;
    run.runtime_with(1, |mut builder| {
        if run.trace.is_none() && !args.quiet {
            builder = builder.trace(LAST);
        }
        match schedule {
            Some(schedule) => builder.schedule(schedule),
            None => builder,
        }
    })
}

/// Tasks per unit that are recorded if no trace was asked for.
const LAST: usize = 1 << 13;

/// Every unit, and how long it has worked since it had worked so long.
fn busy(runtime: &Runtime, before: &[Seconds]) -> Vec<(String, Seconds)> {
    let names = runtime.machine().units.iter().map(|u| u.name.clone());
    let now = runtime.busy();
    let since = now.iter().zip(before).map(|(n, b)| *n - *b);
    names.zip(since).collect()
}
