//! `dahl diff`: how far two sets of weights are apart.

use std::path::PathBuf;

use dahl::nn::weights::{self, TensorDiff, Worst};

use crate::print;

/// Arguments of `dahl diff`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 no tensor differs by more than --ulps; 1 failed, or one does; 2 wrong arguments."
)]
pub struct Args {
    /// Weights: a file, or the folder of a checkpoint
    a: PathBuf,
    /// Others
    b: PathBuf,
    /// Units in the last place up to which values count as the same
    #[arg(long, default_value_t = 0)]
    ulps: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let [a, b] = [weights::read(&args.a)?, weights::read(&args.b)?];
    let all = weights::diff(&a, &b);
    let beyond =
        |d: &&TensorDiff| d.unequal.is_some() || d.worst.is_some_and(|w| w.ulps > args.ulps);
    let differing: Vec<&TensorDiff> = all.iter().filter(beyond).collect();
    if args.json {
        let row = |d: &&TensorDiff| {
            serde_json::json!({
                "tensor": d.key,
                "elements": d.elements,
                "different": d.different,
                "ulps": d.worst.map(|w| w.ulps),
                "relative": d.worst.map(|w| w.relative),
                "index": d.worst.map(|w| w.index),
                "values": d.worst.map(|w| w.values),
                "unequal": d.unequal,
            })
        };
        let rows: Vec<_> = differing.iter().map(row).collect();
        print::json(&serde_json::json!({ "tensors": all.len(), "different": rows }))?;
    } else {
        show(&all, &differing);
    }
    match differing.is_empty() {
        true => Ok(()),
        false => Err(super::Exit(1).into()),
    }
}

fn show(all: &[TensorDiff], differing: &[&TensorDiff]) {
    println!("{} tensors, {} differ", all.len(), differing.len());
    if differing.is_empty() {
        return;
    }
    let mut table = print::table(&["tensor", "elements", "different", "ULPs", "relative", "at"]);
    for d in differing {
        let [ulps, relative, at] = match (&d.worst, &d.unequal) {
            (Some(w), _) => [ulps(w), format!("{:.1e}", w.relative), w.index.to_string()],
            (None, why) => [
                why.clone().unwrap_or_default(),
                String::new(),
                String::new(),
            ],
        };
        table.add_row([
            &d.key,
            &d.elements.to_string(),
            &d.different.to_string(),
            &ulps,
            &relative,
            &at,
        ]);
    }
    print::align_right(&mut table, 1..=5);
    println!("{table}");
    let worst = differing.iter().filter_map(|d| Some((d, d.worst?)));
    if let Some((d, w)) = worst.max_by_key(|(_, w)| w.ulps) {
        println!("\nthe worst, element {} of {}:", w.index, d.key);
        let [x, y] = w.values.map(|v| format!("{v:+.16e}"));
        let same = x.bytes().zip(y.bytes()).take_while(|(x, y)| x == y).count();
        println!(
            "  {x}\n  {y}\n  {}^ digits differ from here",
            " ".repeat(same)
        );
    }
}

fn ulps(worst: &Worst) -> String {
    match worst.ulps {
        u64::MAX => "not a number".into(),
        n => n.to_string(),
    }
}
