//! `dahl eval`: loss and accuracy of trained weights.

use dahl::nn::train::Evaluation;

use super::inference::InferenceArgs;
use crate::print;

/// Arguments of `dahl eval`.
#[derive(clap::Args)]
#[command(mut_arg("batch", |a| a.default_value("64")))]
pub struct Args {
    #[command(flatten)]
    on: InferenceArgs,
    /// Print which classes are taken for which: a row per class, a column per answer
    #[arg(long, conflicts_with = "json")]
    confusion: bool,
    /// Print one line of JSON, the confusion matrix included
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        !args.confusion || args.on.has_classes(),
        "--confusion is of classes, and --loss compares with numbers: leave it out"
    );
    let model = args.on.model()?;
    let data = args.on.open(&model)?;
    let mut ready = args.on.ready(model)?;
    let totals = ready.session.evaluate(&mut ready.member, data.clone())?;
    let confusion = match args.on.has_classes() {
        true => Some(ready.session.confusion(&mut ready.member, data.clone())?),
        false => None,
    };
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
