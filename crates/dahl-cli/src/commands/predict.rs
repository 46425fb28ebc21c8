//! `dahl predict`: class scores of images, by trained weights.

use std::io::Write;
use std::path::PathBuf;

use dahl::core::several;
use dahl::data::Samples;
use dahl::nn::losses::Loss;
use dahl::nn::train::Scores;

use super::inference::InferenceArgs;
use crate::print;

/// Classes that a table shows of each image.
const SHOWN: usize = 3;

/// Arguments of `dahl predict`.
#[derive(clap::Args)]
#[command(mut_arg("batch", |a| a.default_value("64")))]
pub struct Args {
    #[command(flatten)]
    on: InferenceArgs,
    /// Pictures to classify: JPEG or PNG of any size [default: the validation images of --data]
    #[arg(value_name = "IMAGE", conflicts_with_all = ["data", "limit", "val_limit", "train"])]
    images: Vec<PathBuf>,
    /// Write all class scores (logits) as CSV, a line per image [default: the likeliest classes as a table]
    #[arg(long, value_name = "F.csv")]
    out: Option<PathBuf>,
    /// Print a line of JSON per image: its name, class, probability and scores
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// What was predicted, and what to call it.
struct Predicted {
    names: Vec<String>,
    classes: Vec<String>,
    scores: Scores,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let predicted = predict(args)?;
    match &args.out {
        Some(path) => {
            print::write(path, |out| predicted.csv(out))?;
            if !print::is_stdout(path) {
                let images = several(predicted.names.len(), "image");
                println!("{}: {images}", path.display());
            }
            Ok(())
        }
        None if args.json => predicted.json(),
        None => {
            println!("{}", predicted.table());
            Ok(())
        }
    }
}

fn predict(args: &Args) -> anyhow::Result<Predicted> {
    let model = args.on.model()?;
    // Pictures are read first: a bad one is told before anything is computed.
    let mut pixels = Vec::new();
    for path in &args.images {
        pixels.extend(dahl::data::read_picture(path, model.input)?);
    }
    let data = match args.images.is_empty() {
        true => Some(args.on.open(&model)?),
        false => None,
    };
    let mut ready = args.on.ready(model, Loss::default())?;
    let (session, member) = (&mut ready.session, &mut ready.member);
    let (names, scores) = match &data {
        Some(data) => {
            let names = (0..data.len()).map(|i| format!("{} {i}", data.name()));
            let scores = session.predict_all(member, data.clone())?;
            (names.collect(), scores)
        }
        None => {
            let names = args.images.iter().map(|p| p.display().to_string());
            let scores = session.predict(member, Samples::from(pixels))?;
            (names.collect(), scores)
        }
    };
    let classes = ready.class_names(data.as_deref());
    ready.finish()?;
    Ok(Predicted {
        names,
        classes,
        scores,
    })
}

impl Predicted {
    fn table(&self) -> comfy_table::Table {
        let mut table = print::table(&["image", "class", "probability", "then"]);
        for (i, name) in self.names.iter().enumerate() {
            let likely = self.scores.probabilities(i);
            let mut order: Vec<usize> = (0..likely.len()).collect();
            order.sort_by(|&a, &b| likely[b].total_cmp(&likely[a]));
            let percent = |c: usize| format!("{:.1} %", 100.0 * likely[c]);
            let rest = order.iter().skip(1).take(SHOWN - 1);
            let rest: Vec<String> = rest
                .map(|&c| format!("{} {}", self.classes[c], percent(c)))
                .collect();
            let class = order.first().copied().unwrap_or(0);
            table.add_row([
                name.clone(),
                self.classes[class].clone(),
                percent(class),
                rest.join(", "),
            ]);
        }
        print::align_right(&mut table, 2..=2);
        table
    }

    fn json(&self) -> anyhow::Result<()> {
        for (i, (name, class)) in self.names.iter().zip(self.scores.classes()).enumerate() {
            print::json(&serde_json::json!({
                "image": name,
                "class": class,
                "class_name": self.classes[class],
                "probability": self.scores.probabilities(i)[class],
                "scores": self.scores.row(i),
                "classes": self.classes,
            }))?;
        }
        Ok(())
    }

    fn csv(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write!(out, "image,class")?;
        self.classes
            .iter()
            .try_for_each(|c| write!(out, ",{}", quoted(c)))?;
        writeln!(out)?;
        for ((name, class), row) in self
            .names
            .iter()
            .zip(self.scores.classes())
            .zip(self.scores.rows())
        {
            write!(out, "{},{}", quoted(name), quoted(&self.classes[class]))?;
            row.iter().try_for_each(|score| write!(out, ",{score}"))?;
            writeln!(out)?;
        }
        Ok(())
    }
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
