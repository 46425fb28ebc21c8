//! `dahl bench loading`: how fast images become batches, without any training.

use std::path::PathBuf;
use std::time::Instant;

use dahl::data::{Batches, Prefetch, Prefetcher, Split};

use crate::commands::data_args::DataOptions;
use crate::commands::image_args::ImageArgs;
use crate::commands::step_args::model;
use crate::print;

/// Arguments of `dahl bench loading`.
#[derive(clap::Args)]
pub struct Args {
    /// The model that images are for: a file, or the name of a shipped one
    model: PathBuf,
    #[command(flatten)]
    data: DataOptions,
    #[command(flatten)]
    changes: ImageArgs,
    /// Images of a batch
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// Threads that prepare batches [default: as in training]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Epochs, each timed; the fastest counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = model(Some(&args.model))?;
    let data = args.data.open(&model, Split::Train)?;
    let images = data.len();
    let normalise = args.changes.normalise(&*data)?.or(model.normalise);
    let mut batches = Batches::<f32>::new(data, args.batch as usize)?.shuffled(1);
    if let Some(by) = &normalise {
        batches = batches.normalised(by)?;
    }
    if let Some(augment) = args.changes.augment()?.or(model.augment) {
        batches = batches.augmented(&augment, 1)?;
    }
    let threads = args.threads.map_or(batches.source().loaders(), usize::from);
    let mut best = f64::INFINITY;
    for epoch in 0..u64::from(args.rounds) {
        let options = Prefetch {
            epoch,
            until: Some(epoch + 1),
            threads,
            ..Prefetch::default()
        };
        let began = Instant::now();
        for batch in Prefetcher::start(&batches, options)? {
            std::hint::black_box(batch?.inputs());
        }
        best = best.min(began.elapsed().as_secs_f64());
    }
    let rate = images as f64 / best.max(1e-9);
    if args.json {
        return print::json(&serde_json::json!({
            "images": images, "threads": threads, "seconds": best, "images_per_second": rate,
        }));
    }
    println!("{images} images in {best:.2} s on {threads} threads: {rate:.0} images/s");
    Ok(())
}
