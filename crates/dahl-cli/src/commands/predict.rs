//! `dahl predict`: class scores of images, by trained weights.

use std::path::PathBuf;

use dahl::core::several;
use dahl::data::Samples;
use dahl::nn::train::Predictions;

use super::inference::InferenceArgs;
use crate::print;

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

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let predicted = predict(args)?;
    if !super::cluster::is_first() {
        return Ok(());
    }
    match &args.out {
        Some(path) => {
            print::write(path, |out| predicted.csv(out))?;
            if !print::is_stdout(path) {
                let images = several(predicted.names.len(), "image");
                println!("{}: {images}", path.display());
            }
            Ok(())
        }
        None if args.json => predicted.to_json().try_for_each(|line| print::json(&line)),
        None => {
            println!("{}", print::laid_out(&predicted.table()));
            Ok(())
        }
    }
}

fn predict(args: &Args) -> anyhow::Result<Predictions> {
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
    let mut ready = args.on.ready(model)?;
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
    let has_classes = args.on.has_classes();
    let classes = has_classes.then(|| ready.class_names(data.as_deref()));
    ready.finish()?;
    Ok(Predictions {
        names,
        classes,
        scores,
    })
}
