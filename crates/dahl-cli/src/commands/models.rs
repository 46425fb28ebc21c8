//! `dahl models`: the shipped models, and what each costs.

use std::path::PathBuf;

use dahl::core::Bytes;
use dahl::nn::{Step, models};
use dahl::tune::Footprint;

use super::step_args::model;
use crate::print;

/// Arguments of `dahl models`.
#[derive(clap::Args)]
pub struct Args {
    /// A model of your own beside the shipped ones, or the text of a shipped one with --toml
    model: Option<PathBuf>,
    /// Print the model's file, to begin one's own with
    #[arg(long, requires = "model")]
    toml: bool,
    /// Print one line of JSON
    #[arg(long, conflicts_with = "toml")]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let own = args
        .model
        .as_deref()
        .map(|path| model(Some(path)))
        .transpose()?;
    if let (true, Some(model)) = (args.toml, &own) {
        print!("{}", model.to_toml());
        return Ok(());
    }
    let shipped = models::NAMES
        .iter()
        .filter_map(|name| models::by_name(name));
    let all: Vec<_> = own.map_or_else(|| shipped.collect(), |model| vec![model]);
    let mut rows = Vec::new();
    for model in all {
        let one = Footprint::of(&Step::new(model.clone()).batch(2))?;
        rows.push((model, one));
    }
    if args.json {
        let rows = rows.iter().map(|(model, f)| {
            serde_json::json!({
                "model": model.name, "input": model.input, "layers": model.layers.len(), "parameters": f.parameters,
                "classes": model.classes(), "train_flops_per_image": f.flops / 2.0, "bytes": f.weights.0,
            })
        });
        return print::json(&serde_json::json!(rows.collect::<Vec<_>>()));
    }
    let mut table =
        print::table("model|input|>layers|>classes|>parameters|>training/image|>weights");
    for (model, f) in &rows {
        let [c, h, w] = model.input;
        table.add_row([
            model.name.clone(),
            format!("{c}×{h}×{w}"),
            model.layers.len().to_string(),
            model.classes().to_string(),
            f.parameters.to_string(),
            format!("{:.4} GFLOP", f.flops / 2e9),
            Bytes(f.weights.0).to_string(),
        ]);
    }
    println!("{table}");
    println!(
        "training/image: forward, backward and update of one image, as the graph counts them in batches of 2"
    );
    Ok(())
}
