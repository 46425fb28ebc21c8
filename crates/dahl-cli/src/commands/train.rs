//! `dahl train`: trains a model.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use dahl_core::Bytes;
use dahl_nn::checkpoint::Checkpoint;
use dahl_nn::data::{self, DataSpec, Dataset, Split};
use dahl_nn::model::Model;
use dahl_nn::optimizer::{Given, Optimizer, check_lr};
use dahl_nn::schedule::Schedule;
use dahl_nn::train::{Event, Session, Totals, Training};
use dahl_nn::weights;
use indicatif::{ProgressBar, ProgressStyle};

use super::run_options::{RunOptions, model};

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

impl Args {
    fn optimizer(&self) -> anyhow::Result<(Optimizer, f64)> {
        let given = Given {
            momentum: self.momentum,
            nesterov: self.nesterov.then_some(true),
            weight_decay: self.weight_decay,
            ..Given::default()
        };
        let optimizer = Optimizer::parse(&self.optimizer, &given)?;
        let rate = self
            .lr
            .unwrap_or(if self.optimizer == "sgd" { 0.01 } else { 0.002 });
        check_lr(rate)?;
        Ok((optimizer, rate))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(args.model.as_deref())?;
    let (optimizer, rate) = args.optimizer()?;
    let training = Training {
        batch: args.batch as usize,
        epochs: args.epochs,
        steps: args.steps,
        rate,
        schedule: args.schedule,
        optimizer,
        shuffle: !args.no_shuffle,
        seed: args.seed,
        dtype: args.run.dtype,
        grain: args.run.grain(&model, args.batch as usize)?,
        clip: args.clip_norm,
    };
    let train = args.data.open(&model, Split::Train)?;
    let validation = match args.data.val_limit {
        Some(0) => None,
        _ => Some(args.data.open(&model, Split::Validation)?),
    };
    // Whatever cannot be written at the end should be found out at the beginning.
    if let Some(path) = &args.save {
        check_writable(path)?;
    }
    let mut metrics = args.metrics.as_deref().map(Metrics::create).transpose()?;
    let mut runtime = args.run.runtime(1)?;
    if !args.quiet {
        let images = train.len();
        println!(
            "{}: {} parameters, {} images ({} for validation), {} workers, {}",
            model.name,
            model.parameter_count(),
            images,
            validation.as_ref().map_or(0, |v| v.len()),
            runtime.machine().units.len(),
            args.run.policy,
        );
    }
    let grain = training.grain.to_string();
    let mut session = Session::new(model, training)?;
    session.loaders = if args.data.data.starts_with("folder:") {
        2
    } else {
        1
    };
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
    let mut report = Report::new(args.quiet, grain);
    let mut failed = None;
    let result = session.run(&mut runtime, train, validation, &mut |event| {
        report.tell(event);
        if let (
            Some(m),
            Event::Epoch {
                epoch,
                train,
                validation,
            },
        ) = (&mut metrics, event)
            && let Err(error) = m.epoch(epoch, train, validation, report.seconds)
        {
            failed.get_or_insert(error);
        }
    });
    report.finish();
    result?;
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(path) = &args.save {
        weights::write(path, &session.weights(&mut runtime)?)?;
    }
    let graph = session.graph().cloned();
    if let Some(m) = &mut metrics {
        m.done(&report)?;
    }
    if !args.quiet {
        let planned = graph.map_or(0, |g| g.memory.bytes);
        println!(
            "{} images in {:.1} s, {:.0} images/s; temporaries of a step: {} planned, {} in use",
            report.images,
            report.total_seconds,
            report.images as f64 / report.total_seconds.max(1e-9),
            Bytes(planned),
            Bytes(runtime.temporary_bytes() as u64),
        );
        if let Some(path) = &args.save {
            println!("weights: {}", path.display());
        }
    }
    Ok(())
}

/// Refuses a path in a folder that does not exist or cannot be written.
fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(std::path::Path::new("."));
    let data =
        std::fs::metadata(folder).with_context(|| format!("cannot write {}", path.display()))?;
    if !data.is_dir() || data.permissions().readonly() || path.is_dir() {
        anyhow::bail!(
            "cannot write {}: not a file in a folder that can be written",
            path.display()
        );
    }
    Ok(())
}

/// What a person sees while a model trains.
struct Report {
    quiet: bool,
    bar: Option<ProgressBar>,
    terminal: bool,
    epoch_start: Instant,
    /// Seconds of the last epoch.
    seconds: f64,
    total_seconds: f64,
    images: u64,
    /// How layers were cut, to repeat the run.
    grain: String,
    last: Option<(u64, Totals, Option<Totals>)>,
}

impl Report {
    fn new(quiet: bool, grain: String) -> Self {
        Report {
            quiet,
            bar: None,
            terminal: std::io::stderr().is_terminal(),
            epoch_start: Instant::now(),
            seconds: 0.0,
            total_seconds: 0.0,
            images: 0,
            grain,
            last: None,
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Step {
                epoch,
                step,
                steps,
                totals,
            } => {
                if self.quiet || !self.terminal {
                    return;
                }
                let bar = self.bar.get_or_insert_with(|| {
                    let style =
                        "epoch {prefix} [{bar:30.cyan/blue}] {pos}/{len} {msg} ({eta} left)";
                    let style = ProgressStyle::with_template(style)
                        .unwrap_or_else(|_| ProgressStyle::default_bar());
                    let bar = ProgressBar::new(steps).with_style(style.progress_chars("━╸─"));
                    bar.set_prefix(epoch.to_string());
                    bar
                });
                bar.set_position(step);
                let rate =
                    totals.samples as f64 / self.epoch_start.elapsed().as_secs_f64().max(1e-9);
                bar.set_message(format!(
                    "loss {:.4}, {rate:.0} images/s",
                    totals.mean_loss()
                ));
            }
            Event::Epoch {
                epoch,
                train,
                validation,
            } => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                self.seconds = self.epoch_start.elapsed().as_secs_f64();
                self.total_seconds += self.seconds;
                self.epoch_start = Instant::now();
                self.images += train.samples;
                self.last = Some((epoch, train, validation));
                if !self.quiet {
                    let rate = train.samples as f64 / self.seconds.max(1e-9);
                    let on = validation.map_or(String::new(), |v| {
                        format!(
                            ", validation loss {:.4}, accuracy {:.2} %",
                            v.mean_loss(),
                            100.0 * v.accuracy()
                        )
                    });
                    println!(
                        "epoch {epoch:>3}: loss {:.4}, accuracy {:.2} %{on}, {:.1} s, {rate:.0} images/s",
                        train.mean_loss(),
                        100.0 * train.accuracy(),
                        self.seconds,
                    );
                }
            }
            Event::Checkpoint => {}
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The metrics file: one JSON object a line.
struct Metrics {
    file: std::fs::File,
    path: PathBuf,
}

impl Metrics {
    fn create(path: &std::path::Path) -> anyhow::Result<Self> {
        let file = std::fs::File::create(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Metrics {
            file,
            path: path.to_path_buf(),
        })
    }

    fn line(&mut self, value: &serde_json::Value) -> anyhow::Result<()> {
        let text = format!("{value}\n");
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.flush());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn epoch(
        &mut self,
        epoch: u64,
        train: Totals,
        validation: Option<Totals>,
        seconds: f64,
    ) -> anyhow::Result<()> {
        self.line(&serde_json::json!({
            "event": "epoch",
            "epoch": epoch,
            "loss": train.mean_loss(),
            "accuracy": train.accuracy(),
            "val_loss": validation.map(|v| v.mean_loss()),
            "val_accuracy": validation.map(|v| v.accuracy()),
            "seconds": seconds,
            "images_per_second": train.samples as f64 / seconds.max(1e-9),
        }))
    }

    fn done(&mut self, report: &Report) -> anyhow::Result<()> {
        let (epoch, train, validation) = report.last.unwrap_or_default();
        self.line(&serde_json::json!({
            "event": "done",
            "epochs": epoch,
            "loss": train.mean_loss(),
            "accuracy": train.accuracy(),
            "val_loss": validation.map(|v| v.mean_loss()),
            "val_accuracy": validation.map(|v| v.accuracy()),
            "grain": report.grain,
            "images": report.images,
            "seconds": report.total_seconds,
            "images_per_second": report.images as f64 / report.total_seconds.max(1e-9),
        }))
    }
}
