//! `dahl check`: every implementation of every codelet against the reference, on the units of this
//! computer, as a report to paste into an issue.
//!
//! Values are compared on random cases of odd extents, inside larger arrays; gradients are codelets like
//! any other. Each case runs twice and must give the same bits. Nothing is written anywhere.

use dahl::core::{Codelet, DType};
use dahl::ops::codelets::TABLE;
use dahl::tune::gpus::{Gpu, GpuState};
use dahl::tune::{CheckReport, ThisMachine, UnitReport, Units, check_units};

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
    match args.json {
        true => print::json(&report)?,
        false => show(&report),
    }
    match report.passed {
        true => Ok(()),
        false => anyhow::bail!("{}", report.verdict()),
    }
}

fn show(report: &CheckReport) {
    println!(
        "dahl {} on {} ({}; {}), CPU kernels {}, seed {}\n",
        report.version,
        report.processor,
        report.system,
        report.features.join(" "),
        report.kernels,
        report.seed
    );
    for unit in &report.units {
        show_unit(unit);
    }
    println!(
        "worst: the largest error, in units of the last place of the larger of the expected value and \
         the root mean square of all, then case, operand and element. Every case ran twice with the same \
         bits unless FAILED says otherwise; \"same bits\" has no other implementation to be compared with, \
         and \"no case\" was fit for none. time: the largest case, once warm."
    );
}

fn show_unit(unit: &UnitReport) {
    match &unit.device {
        None => println!("{}: implementations beside the reference", unit.unit),
        Some(d) => show_device(d),
    }
    for why in &unit.skipped {
        println!("not checked: {why}");
    }
    let heads = ["codelet", "by", "type", "", "cases", "worst", "at", "time"];
    let mut table = print::table(&heads);
    let mut rows: Vec<_> = unit.rows.iter().collect();
    rows.sort_by(|a, b| a.codelet.cmp(&b.codelet));
    for r in rows {
        let result = match (&r.failure, r.cases) {
            (Some(_), _) => "FAILED",
            (None, 0) => "no case",
            (None, _) if r.only_one => "same bits",
            (None, _) => "ok",
        };
        table.add_row([
            r.codelet.clone(),
            r.implementation.clone(),
            r.dtype.to_string(),
            result.into(),
            r.cases.to_string(),
            format!("{:.1} ulp", r.worst_ulps),
            r.worst_at
                .map_or(String::new(), |[c, o, e]| format!("{c}, {o}, {e}")),
            r.seconds.to_string(),
        ]);
    }
    print::align_right(&mut table, 4..=7);
    println!("{table}");
    for why in unit.rows.iter().filter_map(|r| r.failure.as_ref()) {
        println!("FAILED {why}");
    }
    let (n, cases) = (
        unit.rows.len(),
        unit.rows.iter().map(|r| r.cases).sum::<usize>(),
    );
    println!(
        "{}: {} of {n} ok, {cases} cases\n",
        unit.unit,
        n - unit.failed()
    );
}

fn show_device(d: &Gpu) {
    println!("{}: {}, {}, {}", d.unit, d.name, d.library, d.driver);
    println!(
        "{} of memory, {} compute units, {} MHz, {}",
        dahl::core::Bytes(d.memory_bytes),
        d.compute_units,
        d.clock_mhz,
        if d.f64 { "f64" } else { "no f64" }
    );
    match &d.state {
        GpuState::Failure(why) => println!("FAILED to open: {why}"),
        GpuState::Measured(m) => {
            print!(
                "{:.1} GB/s to it, {:.1} GB/s back, launch {}",
                m.to_device.bytes_per_second * 1e-9,
                m.from_device.bytes_per_second * 1e-9,
                m.launch_seconds
            );
            if let Some(r) = m.rated {
                print!(", products {:.1} GFLOP/s f32", r.flops * 1e-9);
                if d.f64 {
                    print!(" and {:.1} f64", r.flops_f64 * 1e-9);
                }
                print!(", copies {:.1} GB/s", r.bandwidth * 1e-9);
            }
            println!();
        }
    }
}
