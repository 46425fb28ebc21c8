//! `dahl eval`: loss and accuracy of trained weights.

use dahl::nn::train::Evaluation;

use super::inference::InferenceArgs;
use super::step_args::LossArgs;
use crate::print;

/// Arguments of `dahl eval`.
#[derive(clap::Args)]
#[command(mut_arg("batch", |a| a.default_value("64")))]
pub struct Args {
    #[command(flatten)]
    on: InferenceArgs,
    #[command(flatten)]
    loss: LossArgs,
    /// Print which classes are taken for which: a row per class, a column per answer
    #[arg(long, conflicts_with = "json")]
    confusion: bool,
    /// Print one line of JSON, the confusion matrix included
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = args.on.model()?;
    let data = args.on.open(&model)?;
    let mut ready = args.on.ready(model, args.loss.loss.clone())?;
    let totals = ready.session.evaluate(&mut ready.member, data.clone())?;
    let confusion = ready.session.confusion(&mut ready.member, data.clone())?;
    let evaluation = Evaluation {
        totals,
        confusion,
        classes: ready.class_names(Some(&*data)),
    };
    ready.finish()?;
    if !super::cluster::is_first() {
        return Ok(());
    }
    print::answer(args.json, &evaluation.to_json(), || {
        evaluation.report(args.confusion)
    })
}
