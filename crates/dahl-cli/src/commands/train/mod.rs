//! `dahl train`: trains a model.

mod find_rate;
mod report;
mod resuming;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dahl::core::{UnitKind, several};
use dahl::data::{Dataset, Split};
use dahl::energy::WattsModel;
use dahl::nn::checkpoint::CheckpointFolder;
use dahl::nn::schedule::Schedule;
use dahl::nn::train::{Event, Session, Training};
use dahl::nn::weights;
use dahl::runtime::network::Member;
use dahl::trace::summary::Slowest;
use dahl::tune::{
    FirstSteps, Followed, MeasuredRun, ThisMachine, arithmetic_of, core_watts, energy_of_nodes,
    load_machine, units_text,
};
use dahl::{Metrics, RunSummary};

use super::at_least_one;
use super::cluster;
use super::data_args::DataOptions;
use super::image_args::ImageArgs;
use super::run_args::{Run, RunArgs};
use super::step_args::{StepArgs, model, say, weights_for};
use crate::{interrupt, print};
pub use resuming::going_on;

use report::Report;

/// The exit code of a run that ended well, but for a file beside the weights that could not be written.
const NOT_ALL_WRITTEN: u8 = 3;

/// Arguments of `dahl train`.
#[derive(clap::Args)]
#[command(
    after_help = "Ctrl-C or SIGTERM ends training after the step in flight: checkpoint, weights, trace, metrics \
and summary are written, and the last line says how to go on. A second one ends it at once.\n\n\
Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 trained to the end, but metrics, trace or the last checkpoint could \
not be written; 4 another node was lost; 130 stopped by Ctrl-C; 143 stopped by SIGTERM."
)]
pub struct Args {
    /// The model: a file, or the name of a shipped one [default: a small CNN for 28×28 images]
    model: Option<PathBuf>,
    #[command(flatten)]
    data: DataOptions,
    #[command(flatten)]
    changes: ImageArgs,
    /// Passes over the data
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    epochs: u64,
    /// Stop after so many steps, whatever the epochs
    #[arg(long, value_parser = at_least_one)]
    steps: Option<u64>,
    /// Learning rate [default: 0.002, with sgd 0.01]
    #[arg(long)]
    lr: Option<f64>,
    /// How the learning rate changes: constant, step:EPOCHS:FACTOR, cosine[:MIN],
    /// restarts:EPOCHS[:FACTOR[:MIN]] (cosines one after another), each after warmup:STEPS+ if wanted
    #[arg(long, default_value = "constant")]
    schedule: Schedule,
    /// Stop when the validation loss (without validation images, the training loss) has not been lower for so many epochs
    #[arg(long, value_name = "EPOCHS", value_parser = at_least_one)]
    patience: Option<u64>,
    /// Try growing learning rates for a few steps, print their losses, and train nothing
    #[arg(long, conflicts_with_all = ["resume", "save", "checkpoint", "metrics", "trace", "patience", "keep_best", "lr", "init_partial"])]
    find_lr: bool,
    /// The images in the order of the data [default: a new order in every epoch]
    #[arg(long)]
    no_shuffle: bool,
    #[command(flatten)]
    step: StepArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Start from these weights: a file, or the folder of a checkpoint
    #[arg(long, value_name = "F.safetensors|DIR")]
    init: Option<PathBuf>,
    /// Start from what of these weights fits the model, for another head say; the rest begins at random, and is named
    #[arg(long, value_name = "F.safetensors", conflicts_with_all = ["init", "resume"])]
    init_partial: Option<PathBuf>,
    /// Write the final weights here
    #[arg(long, value_name = "F.safetensors")]
    save: Option<PathBuf>,
    /// Write checkpoints into this folder: at the end of every epoch, and where the run is stopped
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Write a checkpoint every so many steps, too
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    checkpoint_every: Option<u64>,
    /// Keep the checkpoint with the lowest validation loss (without validation images, training loss), too, in the folder
    /// `best` below
    #[arg(long)]
    keep_best: bool,
    /// Let checkpoints replace another run's
    #[arg(long, requires = "checkpoint")]
    overwrite: bool,
    /// Go on from the checkpoint in this folder, with the same model, data and options; checkpoints are
    /// written there, too, unless --checkpoint names another folder
    #[arg(long, value_name = "DIR", conflicts_with = "init")]
    resume: Option<PathBuf>,
    /// Go on although another instruction set or GPU computes: the last bits will differ from those of
    /// the unbroken run
    #[arg(long, requires = "resume")]
    other_bits: bool,
    /// Write one JSON object per epoch, and a last one, to this file; a run that goes on keeps the epochs
    /// before its checkpoint; `-` is standard output, which then has nothing else
    #[arg(long, value_name = "F.jsonl")]
    metrics: Option<PathBuf>,
    /// Write metrics every so many steps, too: epoch, step, learning rate, loss since the line before
    #[arg(long, value_name = "N", value_parser = at_least_one, requires = "metrics")]
    metrics_every: Option<u64>,
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

/// Tasks per unit that are recorded if no trace was asked for: enough to say which layer was slow.
const LAST: usize = 1 << 13;

/// All that is needed before the first step.
struct Prepared {
    /// Whether nothing is printed here: by wish, or because another node does.
    quiet: bool,
    /// What computes, on all nodes.
    arithmetic: String,
    run: Run,
    session: Session,
    train: Arc<dyn Dataset>,
    validation: Option<Arc<dyn Dataset>>,
    metrics: Option<Metrics>,
    failed: Failed,
    /// What steps on all nodes are expected to take, where this one prints it.
    expected: Option<FirstSteps>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.check()?;
    let this = ThisMachine::look();
    let step = args.step.step(model(args.model.as_deref())?, &this, true)?;
    let record = (!args.quiet()).then_some(LAST);
    let pipeline = args.step.staging(&step)?;
    let run = args
        .run
        .prepare(this, step, &args.step.graph, pipeline, record)?;
    let mut member = run.member()?;
    let result = train_on(args, run, &mut member);
    cluster::leave(&mut member, result)
}

/// Trains on this computer, alone or with others.
fn train_on(args: &Args, run: Run, member: &mut Member) -> anyhow::Result<()> {
    let mut prepared = prepare(args, run, member)?;
    if args.find_lr {
        return find_rate::find(prepared.session, prepared.train, member);
    }
    if !prepared.quiet {
        announce(args, &prepared, member);
    }
    if !args.quiet() {
        let run = &prepared.run;
        let expected = dahl::tune::expect(member, &run.step, &run.run)?;
        if let Some(expected) = &expected {
            println!("expected: {expected}");
        }
        prepared.expected = expected.map(FirstSteps::new);
    }
    let (report, summary) = train(args, &mut prepared, member)?;
    finish(args, prepared, member, &report, summary)
}

/// What could not be written beside the weights: said at once and by the exit code.
#[derive(Default)]
struct Failed(Option<String>);

impl Failed {
    /// Says it, unless the same was said before.
    fn note(&mut self, report: &Report, what: &str, why: &dyn std::fmt::Display) {
        let text = format!("{what}: {why}; training goes on");
        if self.0.as_ref() != Some(&text) {
            report.warn(&text);
            self.0 = Some(text);
        }
    }
}

/// Opens what is read and what is written, and sets the first weights.
fn prepare(args: &Args, run: Run, member: &mut Member) -> anyhow::Result<Prepared> {
    let first = member.node() == 0;
    let model = &run.step.model;
    let train = args.data.open(model, Split::Train)?;
    let validation = match args.data.val_limit {
        Some(0) => None,
        _ => Some(args.data.open(model, Split::Validation)?),
    };
    // Whatever cannot be written at the end should be found out at the beginning.
    if let Some(path) = args.save.as_ref().filter(|_| first) {
        super::check_writable(path)?;
    }
    let training = Training {
        epochs: args.epochs,
        steps: args.steps,
        rate: args.lr,
        schedule: args.schedule,
        shuffle: !args.no_shuffle,
        patience: args.patience,
        augment: args.changes.augment()?,
        normalise: args.changes.normalise(&*train)?,
    };
    let arithmetic = arithmetic_of(member)?;
    let mut session = Session::new(run.step.clone(), training)?;
    if let Some(plan) = &run.plan {
        plan.check(&*session.lowered()?)?;
    }
    session.stop_by(run.run.stop().clone());
    if !args.other_bits {
        session.computed_by(arithmetic.clone());
    }
    match (&args.resume, &args.init, &args.init_partial) {
        (Some(folder), ..) => session.resume_from(member, folder)?,
        (_, Some(path), _) => {
            let loaded = weights_for(session.model(), path)?;
            session.set_weights(member, &loaded.weights)?;
            session.name_classes(loaded.class_names);
            session.normalise_by(loaded.normalise);
        }
        (.., Some(path)) => {
            let notes = session.set_weights_partly(member, weights::read(path)?)?;
            say(path, &notes);
        }
        _ => session.initialise(member)?,
    }
    session.computed_by(arithmetic.clone());
    if let Some(folder) = args.checkpoints() {
        let folder = CheckpointFolder::new(folder).every(args.checkpoint_every);
        let folder = folder.keep_best(args.keep_best);
        session.checkpoint_to(folder.overwrite(args.overwrite));
    }
    // A file is cut with the first line: what is refused until then leaves it alone.
    let metrics = args.metrics.as_deref().filter(|_| first);
    let metrics = metrics.map(|path| match &args.resume {
        Some(_) => Metrics::resume(path, session.epochs_done()),
        None => Metrics::create(path),
    });
    let metrics = metrics.transpose()?;
    Ok(Prepared {
        quiet: args.quiet() || !first,
        arithmetic,
        run,
        session,
        train,
        validation,
        metrics,
        failed: Failed::default(),
        expected: None,
    })
}

fn announce(args: &Args, prepared: &Prepared, member: &Member) {
    let machine = member.runtime().machine();
    let model = &prepared.run.step.model;
    println!(
        "{}: {}, {}, {} more to validate, {}, {}",
        model.name,
        several(model.parameter_count(), "parameter"),
        several(prepared.train.len(), "image"),
        prepared.validation.as_ref().map_or(0, |v| v.len()),
        units_text(machine),
        prepared.run.run.decides(),
    );
    let training = prepared.session.training();
    if let Some(by) = &training.normalise {
        println!("normalised by {by}");
    }
    if let Some(augment) = training.augment.as_ref().filter(|a| !a.is_empty()) {
        println!("augmented by {augment}");
    }
    if let Some(staging) = prepared.run.run.pipeline() {
        print::folded(&format!("pipeline: {}", staging.summary()), 10);
    }
    cluster::announce(member);
    let arithmetic = &prepared.arithmetic;
    let chosen = args.step.graph.chosen_by(&prepared.run);
    print::folded(&format!("kernels: {arithmetic}; chosen by {chosen}"), 9);
    if let (Some(from), Some(to)) = (&args.resume, args.checkpoints()) {
        println!(
            "going on from {} after step {}; checkpoints are written to {}",
            from.display(),
            prepared.session.steps_done(),
            to.display()
        );
    }
}

/// Trains, telling what happens.
fn train(
    args: &Args,
    prepared: &mut Prepared,
    member: &mut Member,
) -> anyhow::Result<(Report, RunSummary)> {
    let Prepared {
        quiet,
        run,
        session,
        train,
        validation,
        metrics,
        failed,
        expected,
        ..
    } = prepared;
    let machine = args.machine.as_deref().map(load_machine).transpose()?;
    let cores = machine.as_ref().map(core_watts).transpose()?;
    let gpus = run.run.gpu_watts(machine.as_ref());
    let runtime = member.runtime();
    let sampler = dahl::energy::Options {
        epoch: runtime.trace_start(),
        model: Some(cores.unwrap_or_else(WattsModel::of_this_machine)),
        cards: run.run.has_gpus(),
        gpus: gpus.map(|watts| (watts, runtime.busy_clock(UnitKind::GPU))),
        ..dahl::energy::Options::default()
    }
    .start();
    let mut report = Report::new(*quiet, sampler, runtime);
    let (train, validation) = (train.clone(), validation.clone().map(Into::into));
    let result = session.run(member, train, validation, &mut |progress| {
        interrupt::keep();
        let every = args.metrics_every.zip(metrics.as_mut());
        // Of the whole run, as checkpoints count: epochs may be shorter than that.
        if let (
            Event::Step {
                epoch, step, steps, ..
            },
            Some((every, metrics)),
        ) = (progress.event, every)
            && ((epoch - 1) * steps + step).is_multiple_of(every)
            && let Err(error) = metrics.step(progress.event)
        {
            failed.note(&report, "metrics", &error);
        }
        let written = report.tell(progress.event).map(|epoch| match metrics {
            Some(m) => m.epoch(epoch),
            None => Ok(()),
        });
        if let (Event::Step { .. }, Some(expected)) = (progress.event, expected.as_mut())
            && let Some(seen) = expected.step()
        {
            report.say(&format!("seen: {seen}"));
        }
        if let Some(Err(error)) = written {
            failed.note(&report, "metrics", &error);
        }
        if let (Event::CheckpointFailed, Some(error)) = (progress.event, progress.unsaved()) {
            failed.note(&report, "checkpoint", error);
        }
        ControlFlow::Continue(())
    });
    report.finish();
    result.map_err(|error| match dahl::after_loss(&error, args.checkpoints()) {
        Some(advice) => anyhow::anyhow!("{error}; {advice}"),
        None => error.into(),
    })?;
    let mut summary = RunSummary::of(
        &report.log,
        report.energy.clone(),
        session,
        member.runtime(),
    );
    summary.faster = args.data.faster(session.training().augment.as_ref());
    Ok((report, summary))
}

/// Writes what was asked for, and sums up.
fn finish(
    args: &Args,
    mut prepared: Prepared,
    member: &mut Member,
    report: &Report,
    mut summary: RunSummary,
) -> anyhow::Result<()> {
    let Prepared {
        quiet,
        run,
        session,
        metrics,
        failed,
        ..
    } = &mut prepared;
    // Everything is tried; what failed is said last.
    let mut saved = Ok(());
    if let Some(path) = &args.save
        && session.steps_done() > 0
    {
        let weights = session.weights(member)?;
        if member.node() == 0 {
            saved =
                weights::write_named(path, &weights, session.class_names(), session.normalise());
        }
    }
    let mut complete = session.unsaved().is_none();
    if let Some(m) = metrics {
        if let Err(error) = m.done(report.log.epochs.last(), &report.energy, summary.to_json()) {
            failed.note(report, "metrics", &error);
        }
        complete &= m.is_complete();
    }
    let trace = run.finish(member, |trace| {
        if let Some(measured) = &report.measured {
            measured.enter(trace);
        }
    })?;
    if let Err(error) = run.save(trace.as_ref()) {
        print::warning(&format!("trace: {error:#}"));
        complete = false;
    }
    let mut followed = None;
    if let (Some(plan), Some(graph), Some(trace), 1) =
        (&run.plan, session.graph(), &trace, member.nodes())
    {
        let measured = MeasuredRun {
            pipelined: trace,
            seconds: None,
            isolated: None,
            energy: &report.energy,
        };
        followed = Some((Followed::of(plan, graph, &measured, &run.this)?, plan));
    }
    let energy = energy_of_nodes(member, &report.energy)?;
    if !*quiet {
        summary.slowest = trace.as_ref().and_then(Slowest::of);
        let lines = summary.lines(args.carbon);
        match lines.is_empty() {
            true if session.stopped_early() => {
                println!(
                    "nothing to train: no epoch has been better for as many as --patience says"
                );
            }
            true if args.resumes() && session.epochs_done() >= args.epochs => {
                println!(
                    "nothing to train: {} had ended when the checkpoint was written; give --epochs more than that",
                    several(session.epochs_done() as usize, "epoch")
                );
            }
            true => println!("no epoch has ended; nothing to sum up"),
            false => println!(),
        }
        for (what, text) in lines {
            print::folded(&format!("  {what:<11}{text}"), 13);
        }
        if let Some(energy) = energy {
            println!("  nodes      {energy}");
        }
        let saved = args
            .save
            .as_ref()
            .filter(|_| saved.is_ok() && session.steps_done() > 0);
        let traced = args.run.trace.as_ref().filter(|_| complete);
        for (what, path) in [("weights", saved), ("trace", traced)] {
            if let Some(path) = path {
                println!("{what}: {}", path.display());
            }
        }
        if let Some((followed, plan)) = &followed {
            println!();
            print::report(&followed.report(&plan.file));
        }
    }
    saved?;
    if session.interrupted() {
        if member.node() == 0 {
            eprintln!("{}", resuming::how(args, &run.step, session));
        }
        return Err(super::stopped());
    }
    match complete {
        true => Ok(()),
        false => Err(super::Exit(NOT_ALL_WRITTEN).into()),
    }
}

impl Args {
    /// Refuses what makes no sense.
    fn check(&self) -> anyhow::Result<()> {
        if self.carbon.is_some_and(|g| !(0.0..=1e6).contains(&g)) {
            anyhow::bail!("--carbon: grams per kilowatt-hour must be a number from 0 to 1000000");
        }
        let outputs = [
            ("--save", self.save.as_ref()),
            ("--metrics", self.metrics.as_ref()),
            ("--trace", self.run.trace.as_ref()),
        ];
        for (i, (option, path)) in outputs.iter().enumerate() {
            let same = |o: &&(&str, Option<&PathBuf>)| path.is_some() && o.1 == *path;
            if let (Some((other, _)), Some(path)) = (outputs[..i].iter().find(same), path) {
                anyhow::bail!(
                    "{other} and {option} both name {}: give them files of their own",
                    path.display()
                );
            }
        }
        let needs = [
            (self.checkpoint_every.is_some(), "--checkpoint-every"),
            (self.keep_best, "--keep-best"),
        ];
        if let Some((_, option)) = needs.iter().find(|n| n.0 && self.checkpoints().is_none()) {
            anyhow::bail!("{option} needs a folder: add --checkpoint DIR");
        }
        Ok(())
    }

    /// Whether standard output is for nobody, or for programs.
    fn quiet(&self) -> bool {
        self.quiet || self.metrics.as_deref().is_some_and(print::is_stdout)
    }

    /// Whether it goes on from a checkpoint.
    pub fn resumes(&self) -> bool {
        self.resume.is_some()
    }

    /// Whether the grain is measured at every start.
    pub fn is_tuned(&self) -> bool {
        self.step.graph.tuned()
    }

    /// Seconds that a node may be silent.
    pub fn node_timeout(&self) -> f64 {
        self.run.node_timeout()
    }

    /// Where checkpoints go.
    pub fn checkpoints(&self) -> Option<&Path> {
        self.checkpoint.as_deref().or(self.resume.as_deref())
    }
}
