//! Every implementation on the units of this computer against the reference, as a report that can be kept or pasted.
//!
//! How an implementation is checked is [`dahl_check`]'s business; here devices are opened and outcomes put together.

use dahl_check::Outcome;
use dahl_core::report::{Report, Table};
use dahl_core::{Bytes, Codelet, DType, Seconds};
use dahl_ops::KernelIdentity;
use serde::Serialize;

use crate::error::TuneError;
use crate::gpus::{self, Gpu, GpuState};
use crate::this_machine::ThisMachine;
use crate::units::{Cpus, Units};

/// What a check found, with what it ran on.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// DAHL's.
    pub version: &'static str,
    /// Architecture and operating system.
    pub system: String,
    /// The CPU.
    pub processor: String,
    /// Its vector extensions.
    pub features: Vec<&'static str>,
    /// What decides on the last bits of CPU kernels.
    pub kernels: KernelIdentity,
    /// Of the random cases.
    pub seed: u64,
    /// All that were checked.
    pub units: Vec<UnitReport>,
    /// Whether all did well.
    pub passed: bool,
}

/// What it found of one unit.
#[derive(Clone, Debug, Serialize)]
pub struct UnitReport {
    /// Its name.
    pub unit: String,
    /// The device, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Gpu>,
    /// Why nothing could be checked, or only a part.
    pub skipped: Vec<String>,
    /// Every implementation.
    pub rows: Vec<Checked>,
}

/// One implementation of one codelet.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The operation.
    pub codelet: String,
    /// Its name.
    pub implementation: String,
    /// Element type.
    pub dtype: DType,
    /// How many were fit for it.
    pub cases: usize,
    /// The codelet has no other implementation to compare it with: only its bits were compared.
    pub only_one: bool,
    /// The largest error.
    pub worst_ulps: f64,
    /// Case, operand and element of the worst.
    pub worst_at: Option<[usize; 3]>,
    /// Of the largest case, once warm.
    pub seconds: Seconds,
    /// What went wrong.
    pub failure: Option<String>,
}

impl From<Outcome> for Checked {
    fn from(o: Outcome) -> Checked {
        Checked {
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

/// Checks codelets on these units, or on the CPU and every GPU.
pub fn check_units(
    this: &ThisMachine,
    units: Option<&Units>,
    codelets: &[&Codelet],
    dtypes: &[DType],
    seed: u64,
) -> Result<CheckReport, TuneError> {
    let numbers = match units {
        Some(units) => gpus::numbers(&units.gpus)?,
        None => gpus::all(),
    };
    let mut all = Vec::new();
    if units.is_none_or(|u| u.cpus != Cpus::Count(0)) {
        all.push(cpu(codelets, dtypes, seed));
    }
    let devices = gpus::look(&numbers, true, this);
    for (device, &number) in devices.into_iter().zip(&numbers) {
        all.push(on_gpu(device, number, this, codelets, dtypes, seed));
    }
    let host = this.host().clone();
    Ok(CheckReport {
        version: env!("CARGO_PKG_VERSION"),
        system: format!("{}, {}", host.architecture, host.system),
        processor: host.processor,
        features: host.features,
        kernels: KernelIdentity::here(),
        seed,
        passed: all.iter().all(UnitReport::passed),
        units: all,
    })
}

fn cpu(codelets: &[&Codelet], dtypes: &[DType], seed: u64) -> UnitReport {
    let each = |&dtype: &DType| {
        let all = codelets.iter();
        all.flat_map(move |c| dahl_check::check_cpu(c, dtype, seed))
    };
    UnitReport {
        unit: "cpu".into(),
        device: None,
        skipped: Vec::new(),
        rows: dtypes.iter().flat_map(each).map(Checked::from).collect(),
    }
}

fn on_gpu(
    device: Gpu,
    number: usize,
    this: &ThisMachine,
    codelets: &[&Codelet],
    dtypes: &[DType],
    seed: u64,
) -> UnitReport {
    let mut unit = UnitReport {
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
) -> Result<Vec<Checked>, TuneError> {
    gpus::subject(number, dtype, this, |subject| {
        let one = |c: &&Codelet| dahl_check::check(subject, c, dtype, seed).into();
        codelets.iter().map(one).collect()
    })
}

impl UnitReport {
    /// How many implementations did not pass.
    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().filter(|r| r.failure.is_some()).count()
    }

    /// A device on which nothing could be run has not passed; one without double precision may.
    pub(crate) fn passed(&self) -> bool {
        let broken = self.device.as_ref();
        let broken = broken.is_some_and(|d| matches!(d.state, GpuState::Failure(_)));
        !broken && !self.rows.is_empty() && self.failed() == 0
    }
}

impl CheckReport {
    /// In one line, what did not pass; empty if all did.
    pub fn verdict(&self) -> String {
        let bad = self.units.iter().filter(|u| !u.passed());
        let bad: Vec<String> = bad
            .map(|u| match u.rows.len() {
                0 => format!("{}: nothing could be run", u.unit),
                n => format!("{}: {} of {n} checks failed", u.unit, u.failed()),
            })
            .collect();
        bad.join("; ")
    }
    /// All of it for people.
    pub fn report(&self) -> Report {
        let mut out = Report::default();
        out.line(format!(
            "dahl {} on {} ({}; {}), CPU kernels {}, seed {}\n",
            self.version,
            self.processor,
            self.system,
            self.features.join(" "),
            self.kernels,
            self.seed
        ));
        for unit in &self.units {
            show_unit(unit, &mut out);
        }
        out.line(
            "worst: the largest error, in units of the last place of the larger of the expected value and \
             the root mean square of all, then case, operand and element. Every case ran twice with the same \
             bits unless FAILED says otherwise; \"same bits\" has no other implementation to be compared with, \
             and \"no case\" was fit for none. time: the largest case, once warm.",
        );
        out
    }
}

fn show_unit(unit: &UnitReport, out: &mut Report) {
    match &unit.device {
        None => out.line(format!(
            "{}: implementations beside the reference",
            unit.unit
        )),
        Some(d) => show_device(d, out),
    }
    for why in &unit.skipped {
        out.line(format!("not checked: {why}"));
    }
    let mut table = Table::new("codelet|by|type||>cases|>worst|>at|>time");
    let mut rows: Vec<_> = unit.rows.iter().collect();
    rows.sort_by(|a, b| a.codelet.cmp(&b.codelet));
    for r in rows {
        let result = match (&r.failure, r.cases) {
            (Some(_), _) => "FAILED",
            (None, 0) => "no case",
            (None, _) if r.only_one => "same bits",
            (None, _) => "ok",
        };
        table.row([
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
    out.table(table);
    for why in unit.rows.iter().filter_map(|r| r.failure.as_ref()) {
        out.line(format!("FAILED {why}"));
    }
    let (n, cases) = (
        unit.rows.len(),
        unit.rows.iter().map(|r| r.cases).sum::<usize>(),
    );
    out.line(format!(
        "{}: {} of {n} ok, {cases} cases\n",
        unit.unit,
        n - unit.failed()
    ));
}

fn show_device(d: &Gpu, out: &mut Report) {
    out.line(format!(
        "{}: {}, {}, {}",
        d.unit, d.name, d.library, d.driver
    ));
    out.line(format!(
        "{} of memory, {} compute units, {} MHz, {}",
        Bytes(d.memory_bytes),
        d.compute_units,
        d.clock_mhz,
        if d.f64 { "f64" } else { "no f64" }
    ));
    match &d.state {
        GpuState::Failure(why) => out.line(format!("FAILED to open: {why}")),
        GpuState::Measured(m) => {
            let mut text = format!(
                "{:.1} GB/s to it, {:.1} GB/s back, launch {}",
                m.to_device.bytes_per_second * 1e-9,
                m.from_device.bytes_per_second * 1e-9,
                m.launch_seconds
            );
            if let Some(r) = m.rated {
                text += &format!(", products {:.1} GFLOP/s f32", r.flops * 1e-9);
                if d.f64 {
                    text += &format!(" and {:.1} f64", r.flops_f64 * 1e-9);
                }
                text += &format!(", copies {:.1} GB/s", r.bandwidth * 1e-9);
            }
            out.line(text);
        }
    }
}
