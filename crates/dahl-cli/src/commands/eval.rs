//! `dahl eval`: loss and accuracy of trained weights.

use dahl::core::several;
use dahl::nn::train::Confusion;

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

/// The confusion matrix as a table, columns by number.
fn matrix(confusion: &Confusion, names: &[String]) -> String {
    let columns: Vec<String> = (0..names.len()).map(|c| c.to_string()).collect();
    let head: Vec<&str> = ["is \\ taken for", ""]
        .into_iter()
        .chain(columns.iter().map(String::as_str))
        .collect();
    let mut table = print::table(&head);
    for (class, name) in names.iter().enumerate() {
        let counts = confusion.row(class).iter().map(u64::to_string);
        table.add_row([name.clone(), class.to_string()].into_iter().chain(counts));
    }
    print::align_right(&mut table, 1..=names.len() + 1);
    table.to_string()
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = args.on.model()?;
    let data = args.on.open(&model)?;
    let mut ready = args.on.ready(model, args.loss.loss.clone())?;
    let totals = ready.session.evaluate(&mut ready.member, data.clone())?;
    let confusion = ready.session.confusion(&mut ready.member, data.clone())?;
    let names = ready.class_names(Some(&*data));
    ready.finish()?;
    let (loss, accuracy) = (totals.mean_loss(), totals.accuracy());
    // Classes that do not occur have no accuracy.
    let classes = (0..names.len()).filter(|&c| confusion.samples(c) > 0);
    if args.json {
        let classes = classes.map(|c| {
            serde_json::json!({
                "class": names[c], "images": confusion.samples(c), "accuracy": confusion.accuracy(c),
                "taken_for": confusion.row(c),
            })
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
    for class in classes {
        let accuracy = format!("{:.2} %", 100.0 * confusion.accuracy(class));
        table.add_row([
            names[class].clone(),
            confusion.samples(class).to_string(),
            accuracy,
        ]);
    }
    print::align_right(&mut table, 1..=2);
    println!("{table}");
    if args.confusion {
        println!("\n{}", matrix(&confusion, &names));
    }
    for (class, found, count) in confusion.mistakes().into_iter().take(3) {
        println!("{count} of {} taken for {}", names[class], names[found]);
    }
    Ok(())
}
