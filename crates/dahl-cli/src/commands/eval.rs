//! `dahl eval`: loss and accuracy of trained weights.

use dahl::core::several;

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
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = args.on.model()?;
    let data = args.on.open(&model)?;
    let mut ready = args.on.ready(model, args.loss.loss.clone())?;
    let totals = ready.session.evaluate(&mut ready.member, data.clone())?;
    let counts = ready
        .session
        .count_classes(&mut ready.member, data.clone())?;
    let names = ready.class_names(Some(&*data));
    ready.finish()?;
    let (loss, accuracy) = (totals.mean_loss(), totals.accuracy());
    // Classes that do not occur have no accuracy.
    let classes = names.iter().zip(&counts).filter(|(_, c)| c.samples > 0);
    if args.json {
        let classes = classes.map(|(name, c)| {
            serde_json::json!({ "class": name, "images": c.samples, "accuracy": c.accuracy() })
        });
        return print::json(&serde_json::json!({
            "loss": loss,
            "accuracy": accuracy,
            "images": totals.samples,
            "classes": classes.collect::<Vec<_>>(),
        }));
    }
    println!(
        "loss {loss:.6}{} of {}\n",
        print::accuracy("accuracy ", accuracy),
        several(totals.samples, "image")
    );
    let mut table = print::table(&["class", "images", "accuracy"]);
    for (name, count) in classes {
        let accuracy = format!("{:.2} %", 100.0 * count.accuracy());
        table.add_row([name.clone(), count.samples.to_string(), accuracy]);
    }
    print::align_right(&mut table, 1..=2);
    println!("{table}");
    Ok(())
}
