//! `dahl data`: what a data set is, and what of it a model sees.

use std::path::PathBuf;

use dahl::data::{BatchView, Split};

use super::data_args::DataOptions;
use super::image_args::ImageArgs;
use super::step_args::model;
use crate::print;

/// What to do with a data set.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Samples, classes and moments of a data set, and a picture of one of its batches as a model sees it
    Show(Box<Args>),
}

/// Arguments of `dahl data show`.
#[derive(clap::Args)]
pub struct Args {
    /// The model that images are for: a file, or the name of a shipped one [default: whatever fits the data, or a small
    /// CNN for 28×28 images]
    model: Option<PathBuf>,
    #[command(flatten)]
    data: DataOptions,
    #[command(flatten)]
    changes: ImageArgs,
    /// Images of the batch
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Which epoch's batch, from 1
    #[arg(long, default_value_t = 1, value_parser = super::at_least_one)]
    epoch: u64,
    /// Key of order and changes
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The validation images, which are never changed
    #[arg(long)]
    validation: bool,
    /// Write a picture of the batch here
    #[arg(long, value_name = "F.png")]
    out: Option<PathBuf>,
}

/// Runs a command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Show(args) => show(args),
    }
}

fn show(args: &Args) -> anyhow::Result<()> {
    let model = model(args.model.as_deref())?;
    let augment = args.changes.augment()?.or_else(|| model.augment.clone());
    let split = match args.validation {
        true => Split::Validation,
        false => Split::Train,
    };
    let data = match &args.model {
        Some(_) => args.data.open(&model, split)?,
        None => args.data.open_alone(&model, split)?,
    };
    let [c, h, w] = data.shape();
    let (images, classes) = (data.len(), data.classes());
    println!(
        "{}: {images} images of {c}×{h}×{w} for {split}, {classes} classes",
        data.name()
    );
    let counts = dahl::data::class_counts(&*data)?;
    let mut table = print::table(&["class", "name", "images"]);
    for (class, count) in counts.iter().enumerate().take(20) {
        let name = data.class_name(class).unwrap_or_default();
        table.add_row([class.to_string(), name.to_owned(), count.to_string()]);
    }
    print::align_right(&mut table, 2..=2);
    println!("{table}");
    if classes > 20 {
        println!("and {} classes more", classes - 20);
    }
    println!(
        "measured: --normalise {}",
        dahl::data::Normalise::measure(&*data)?
    );
    let Some(path) = &args.out else {
        return Ok(());
    };
    super::check_writable(path)?;
    let view = BatchView {
        batch: args.batch as usize,
        epoch: args.epoch - 1,
        seed: args.seed,
        augment: augment.filter(|_| !args.validation).unwrap_or_default(),
    };
    let shown = view.write(data, path)?;
    println!("{shown} images of epoch {}: {}", args.epoch, path.display());
    Ok(())
}
