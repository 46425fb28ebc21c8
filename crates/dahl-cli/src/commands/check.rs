//! `dahl check`: every implementation of every codelet against the reference, on the units of this
//! computer, as a report to paste into an issue.
//!
//! Values are compared on random cases of odd extents, inside larger arrays; gradients are codelets like
//! any other. Each case runs twice and must give the same bits. Nothing is written anywhere.

use dahl::core::{Codelet, DType};
use dahl::ops::codelets::TABLE;
use dahl::tune::{ThisMachine, Units, check_units};

use crate::print;

/// Arguments of `dahl check`.
#[derive(clap::Args)]
pub struct Args {
    /// What to check, such as gpu:0 or cpu,gpu:1 [default: the CPU and every GPU]
    #[arg(long, value_name = "U", alias = "units")]
    unit: Option<Units>,
    /// Only this codelet
    #[arg(long, value_name = "NAME")]
    codelet: Option<String>,
    /// Only this element type: f32 or f64 [default: both]
    #[arg(long)]
    dtype: Option<DType>,
    /// Of the random cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let codelets: Vec<&Codelet> = TABLE
        .iter()
        .map(|c| &****c)
        .filter(|c| args.codelet.as_ref().is_none_or(|name| c.name == *name))
        .collect();
    if let (Some(name), true) = (&args.codelet, codelets.is_empty()) {
        anyhow::bail!(dahl::ops::codelets::unknown(name));
    }
    let dtypes = match args.dtype {
        Some(dtype) => vec![dtype],
        None => vec![DType::F32, DType::F64],
    };
    let this = ThisMachine::look();
    let report = check_units(&this, args.unit.as_ref(), &codelets, &dtypes, args.seed)?;
    print::answer(args.json, &report, || report.report())?;
    match report.passed {
        true => Ok(()),
        false => anyhow::bail!("{}", report.verdict()),
    }
}
