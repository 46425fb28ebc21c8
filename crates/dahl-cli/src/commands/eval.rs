//! `dahl eval`: loss and accuracy of trained weights.

use std::path::PathBuf;

use dahl::data::Split;
use dahl::nn::optim::Sgd;
use dahl::nn::train::{Session, Training};
use dahl::nn::weights;
use dahl::tune::ThisMachine;

use super::run_args::RunArgs;
use super::step_args::{GraphArgs, model};
use super::train::DataOptions;
use crate::print;

/// Arguments of `dahl eval`.
#[derive(clap::Args)]
#[command(mut_arg("batch", |a| a.default_value("64")))]
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
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let this = ThisMachine::look();
    let step = args.graph.step(model(Some(&args.model))?, &this, true)?;
    let split = match args.train {
        true => Split::Train,
        false => Split::Validation,
    };
    let data = args.data.open(&step.model, split)?;
    let weights = weights::read(&args.weights)?;
    // Nothing is updated: the optimiser with the least state.
    let step = step.optimizer(Sgd::default());
    let run = args.run.prepare(this, step, &args.graph, None)?;
    let mut runtime = run.runtime(|builder| builder.in_flight(1))?;
    let mut session = Session::new(run.step.clone(), Training::default())?;
    session.set_weights(&mut runtime, &weights)?;
    let totals = session.evaluate(&mut runtime, data)?;
    let trace = run.finish(&mut runtime);
    run.save(trace.as_ref())?;
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
