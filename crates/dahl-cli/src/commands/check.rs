//! `dahl check`: every implementation of every codelet against the reference, on the units of this
//! computer, as a report to paste into an issue.
//!
//! Values are compared on random cases of odd extents, inside larger arrays; gradients are codelets like
//! any other. Each case runs twice and must give the same bits. Nothing is written anywhere.

use dahl::check::{self, Outcome};
use dahl::core::{Codelet, DType, Seconds};
use dahl::ops::KernelIdentity;
use dahl::ops::codelets::TABLE;
use dahl::tune::gpus::{self, Gpu, GpuState};
use dahl::tune::{Cpus, ThisMachine, TuneError, Units};
use serde::Serialize;

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

#[derive(Serialize)]
struct Report {
    version: &'static str,
    system: String,
    processor: String,
    features: Vec<&'static str>,
    /// What decides on the last bits of CPU kernels.
    kernels: KernelIdentity,
    seed: u64,
    units: Vec<Unit>,
    passed: bool,
}

#[derive(Serialize)]
struct Unit {
    unit: String,
    /// The device, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Gpu>,
    /// Why nothing could be checked, or only a part.
    skipped: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    codelet: String,
    implementation: String,
    dtype: DType,
    cases: usize,
    /// The codelet has no other implementation to compare it with: only its bits were compared.
    only_one: bool,
    worst_ulps: f64,
    /// Case, operand and element of the worst.
    worst_at: Option<[usize; 3]>,
    /// Of the largest case, once warm.
    seconds: Seconds,
    failure: Option<String>,
}

impl From<Outcome> for Row {
    fn from(o: Outcome) -> Row {
        Row {
            codelet: o.codelet,
            implementation: o.implementation,
            dtype: o.dtype,
            cases: o.cases,
            only_one: o.alone,
            // JSON has no infinity.
            worst_ulps: o.worst.map_or(0.0, |w| w.ulps.min(f64::MAX)),
            worst_at: o.worst.map(|w| [w.case, w.operand, w.element]),
            seconds: o.seconds,
            failure: o.failure,
        }
    }
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
    let numbers = match &args.unit {
        Some(units) => gpus::numbers(&units.gpus)?,
        None => gpus::all(),
    };
    let mut units = Vec::new();
    if args.unit.as_ref().is_none_or(|u| u.cpus != Cpus::Count(0)) {
        units.push(cpu(&codelets, &dtypes, args.seed));
    }
    let this = ThisMachine::look();
    let devices = gpus::look(&numbers, true, &this);
    for (device, &number) in devices.into_iter().zip(&numbers) {
        units.push(on_gpu(device, number, &this, &codelets, &dtypes, args.seed));
    }
    let host = this.host().clone();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        system: format!("{}, {}", host.architecture, host.system),
        processor: host.processor,
        features: host.features,
        kernels: KernelIdentity::here(),
        seed: args.seed,
        passed: units.iter().all(Unit::passed),
        units,
    };
    match args.json {
        true => print::json(&report)?,
        false => report.show(),
    }
    match report.passed {
        true => Ok(()),
        false => anyhow::bail!("{}", report.verdict()),
    }
}

fn cpu(codelets: &[&Codelet], dtypes: &[DType], seed: u64) -> Unit {
    let each = |&dtype: &DType| {
        let all = codelets.iter();
        all.flat_map(move |c| check::check_cpu(c, dtype, seed))
    };
    Unit {
        unit: "cpu".into(),
        device: None,
        skipped: Vec::new(),
        rows: dtypes.iter().flat_map(each).map(Row::from).collect(),
    }
}

fn on_gpu(
    device: Gpu,
    number: usize,
    this: &ThisMachine,
    codelets: &[&Codelet],
    dtypes: &[DType],
    seed: u64,
) -> Unit {
    let mut unit = Unit {
        unit: device.unit.clone(),
        device: Some(device),
        skipped: Vec::new(),
        rows: Vec::new(),
    };
    for &dtype in dtypes {
        match rows(number, this, codelets, dtype, seed) {
            Ok(rows) => unit.rows.extend(rows),
            Err(e) => unit.skipped.push(format!("{dtype}: {e}")),
        }
    }
    unit
}

fn rows(
    number: usize,
    this: &ThisMachine,
    codelets: &[&Codelet],
    dtype: DType,
    seed: u64,
) -> Result<Vec<Row>, TuneError> {
    gpus::subject(number, dtype, this, |subject| {
        let one = |c: &&Codelet| check::check(subject, c, dtype, seed).into();
        codelets.iter().map(one).collect()
    })
}

impl Unit {
    fn failed(&self) -> usize {
        self.rows.iter().filter(|r| r.failure.is_some()).count()
    }

    /// A device on which nothing could be run has not passed; one without double precision may.
    fn passed(&self) -> bool {
        let broken = self.device.as_ref();
        let broken = broken.is_some_and(|d| matches!(d.state, GpuState::Failure(_)));
        !broken && !self.rows.is_empty() && self.failed() == 0
    }
}

impl Report {
    fn verdict(&self) -> String {
        let bad = self.units.iter().filter(|u| !u.passed());
        let bad: Vec<String> = bad
            .map(|u| match u.rows.len() {
                0 => format!("{}: nothing could be run", u.unit),
                n => format!("{}: {} of {n} checks failed", u.unit, u.failed()),
            })
            .collect();
        bad.join("; ")
    }

    fn show(&self) {
        println!(
            "dahl {} on {} ({}; {}), CPU kernels {}, seed {}\n",
            self.version,
            self.processor,
            self.system,
            self.features.join(" "),
            self.kernels,
            self.seed
        );
        for unit in &self.units {
            unit.show();
        }
        println!(
            "worst: the largest error, in units of the last place of the larger of the expected value and \
             the root mean square of all, then case, operand and element. Every case ran twice with the same \
             bits unless FAILED says otherwise; \"same bits\" has no other implementation to be compared with, \
             and \"no case\" was fit for none. time: the largest case, once warm."
        );
    }
}

impl Unit {
    fn show(&self) {
        match &self.device {
            None => println!("{}: implementations beside the reference", self.unit),
            Some(d) => show_device(d),
        }
        for why in &self.skipped {
            println!("not checked: {why}");
        }
        let heads = ["codelet", "by", "type", "", "cases", "worst", "at", "time"];
        let mut table = print::table(&heads);
        let mut rows: Vec<&Row> = self.rows.iter().collect();
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
        for why in self.rows.iter().filter_map(|r| r.failure.as_ref()) {
            println!("FAILED {why}");
        }
        let (n, cases) = (
            self.rows.len(),
            self.rows.iter().map(|r| r.cases).sum::<usize>(),
        );
        println!(
            "{}: {} of {n} ok, {cases} cases\n",
            self.unit,
            n - self.failed()
        );
    }
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
