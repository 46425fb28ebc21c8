//! `dahl eval`: loss and accuracy of trained weights.

use std::path::PathBuf;

use dahl_data::Split;
use dahl_nn::optim::Sgd;
use dahl_nn::step::Step;
use dahl_nn::train::{Session, Training};
use dahl_nn::weights;

use super::run_options::{RunOptions, model};
use super::train::DataOptions;
use crate::print;

/// Arguments of `dahl eval`.
#[derive(clap::Args)]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    /// Its weights
    #[arg(long, value_name = "F.safetensors")]
    weights: PathBuf,
    #[command(flatten)]
    data: DataOptions,
    /// Evaluate on the training images instead of the validation images
    #[arg(long)]
    train: bool,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    #[command(flatten)]
    run: RunOptions,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let data = args.data.open(
        &model,
        if args.train {
            Split::Train
        } else {
            Split::Validation
        },
    )?;
    let weights = weights::read(&args.weights)?;
    let mut runtime = args.run.runtime(1)?;
    let (name, batch) = (model.name.clone(), args.batch as usize);
    let grain = args.run.grain(&model, batch)?;
    let step = Step::new(model)
        .batch(batch)
        .dtype(args.run.dtype)
        .grain(grain)
        .optimizer(Sgd::default())
        .kernels(args.run.kernels()?);
    let mut session = Session::new(step, Training::default())?;
    session.set_weights(&mut runtime, &weights)?;
    let totals = session.evaluate(&mut runtime, data)?;
    args.run.finish(&mut runtime, &name, |_| {})?;
    let (loss, accuracy) = (totals.mean_loss(), totals.accuracy());
    if args.json {
        let images = totals.samples;
        return print::json(
            &serde_json::json!({ "loss": loss, "accuracy": accuracy, "images": images }),
        );
    }
    println!(
        "loss {loss:.6}, accuracy {:.2} % of {} images",
        100.0 * accuracy,
        totals.samples
    );
    Ok(())
}
