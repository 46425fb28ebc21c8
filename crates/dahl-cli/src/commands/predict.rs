//! `dahl predict`: class scores of images, by trained weights.

use std::io::Write;
use std::path::PathBuf;

use dahl::core::file::write_atomically;
use dahl::data::{Samples, Split};
use dahl::nn::optim::Sgd;
use dahl::nn::train::{Scores, Session, Training};
use dahl::nn::weights;
use dahl::tune::ThisMachine;

use super::run_args::RunArgs;
use super::step_args::{GraphArgs, model};
use super::train::DataOptions;
use crate::print;

/// Classes that a table shows of each image.
const SHOWN: usize = 3;

/// Arguments of `dahl predict`.
#[derive(clap::Args)]
#[command(mut_arg("batch", |a| a.default_value("64")))]
pub struct Args {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    /// Its weights
    #[arg(long, value_name = "F.safetensors")]
    weights: PathBuf,
    /// Pictures to classify: JPEG or PNG of any size [default: the validation images of --data]
    #[arg(value_name = "IMAGE", conflicts_with_all = ["data", "limit", "val_limit", "train"])]
    images: Vec<PathBuf>,
    #[command(flatten)]
    data: DataOptions,
    /// Predict the training images instead of the validation images
    #[arg(long)]
    train: bool,
    /// Write all class scores (logits) as CSV, a line per image [default: the likeliest classes as a table]
    #[arg(long, value_name = "F.csv")]
    out: Option<PathBuf>,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    run: RunArgs,
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
            write_atomically(path, |out| predicted.csv(out))
                .map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
            println!("{}: {} images", path.display(), predicted.names.len());
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
    let this = ThisMachine::look();
    let step = args.graph.step(model(Some(&args.model))?, &this, true)?;
    let (shape, count) = (step.model.input, step.model.classes());
    let weights = weights::read(&args.weights)?;
    // Pictures are read first: a bad one is told before anything is computed.
    let mut pixels = Vec::new();
    for path in &args.images {
        pixels.extend(dahl::data::read_picture(path, shape)?);
    }
    // Nothing is updated: the optimiser with the least state.
    let step = step.optimizer(Sgd::default());
    let run = args.run.prepare(this, step, &args.graph, None)?;
    let mut runtime = run.runtime(|builder| builder.in_flight(1))?;
    let mut session = Session::new(run.step.clone(), Training::default())?;
    session.set_weights(&mut runtime, &weights)?;
    let mut classes: Vec<String> = (0..count).map(|c| c.to_string()).collect();
    let (names, scores) = if args.images.is_empty() {
        let split = match args.train {
            true => Split::Train,
            false => Split::Validation,
        };
        let data = args.data.open(&run.step.model, split)?;
        for (i, class) in classes.iter_mut().enumerate() {
            if let Some(name) = data.class_name(i) {
                *class = name.to_owned();
            }
        }
        let names = (0..data.len()).map(|i| format!("{} {i}", data.name()));
        (names.collect(), session.predict_all(&mut runtime, data)?)
    } else {
        let names = args.images.iter().map(|p| p.display().to_string());
        let samples = Samples::from(pixels);
        (names.collect(), session.predict(&mut runtime, samples)?)
    };
    run.save(run.finish(&mut runtime).as_ref())?;
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
