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
    /// The model that images are for: a file, or the name of a shipped one [default: images are shown as they are,
    /// pictures of a folder with 64×64 pixels]
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

/// Channels, height and width of pictures that are shown for no model.
const PICTURES: [usize; 3] = [3, 64, 64];

/// Runs a command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Show(args) => show(args),
    }
}

fn show(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.out {
        let is_png = |e: &std::ffi::OsStr| e.eq_ignore_ascii_case("png");
        anyhow::ensure!(
            path.extension().is_some_and(is_png),
            "--out {} must end with .png: pictures are written as PNG",
            path.display()
        );
        super::check_writable(path)?;
    }
    let model = args.model.as_deref().map(|m| model(Some(m))).transpose()?;
    let own = model.as_ref().and_then(|m| m.augment.clone());
    let augment = args.changes.augment()?.or(own);
    let split = match args.validation {
        true => Split::Validation,
        false => Split::Train,
    };
    let data = match &model {
        Some(model) => args.data.open(model, split)?,
        None => args.data.open_alone(PICTURES, split)?,
    };
    // What is shown is before it; what makes no sense is refused all the same.
    args.changes.normalise(&*data)?;
    print::report(&dahl::data::describe(&*data, split)?);
    let Some(path) = &args.out else {
        return Ok(());
    };
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
