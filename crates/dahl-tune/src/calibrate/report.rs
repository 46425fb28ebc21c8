//! What calibration did, as a value and as text for people.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dahl_core::report::{Report, Table};
use dahl_core::{Seconds, several};
use serde::Serialize;

use super::Calibration;
use crate::profile::{Speeds, StateFigures};

/// What is known of this machine after calibration, and where it is kept.
#[derive(Clone, Debug, Serialize)]
pub struct CalibrationReport {
    profile: PathBuf,
    model: PathBuf,
    alone: Speeds,
    together: Speeds,
    cores: usize,
    /// GPUs that were measured.
    gpus: BTreeMap<String, Speeds>,
    runs: usize,
    timed: u64,
    choices: usize,
    /// Choices that differ from what static costs say.
    changed: usize,
    /// Frequency states of the cores, the highest first.
    states: Vec<StateFigures>,
}

impl Calibration {
    /// The figures that are worth keeping.
    pub fn report(self) -> CalibrationReport {
        let done = self;
        CalibrationReport {
            profile: done.profile_path,
            model: done.times_path,
            alone: done.profile.alone,
            together: done.profile.together,
            cores: done.workers,
            gpus: done.profile.gpus,
            runs: done.runs,
            timed: done.timed,
            choices: done.profile.choices.len(),
            changed: done.changed,
            states: done.profile.states,
        }
    }
}

impl CalibrationReport {
    /// For people.
    pub fn text(&self) -> Report {
        let mut out = Report::default();
        let mut table = Table::new(&format!("one core|alone|with {} working", self.cores));
        let (a, t) = (&self.alone, &self.together);
        let giga = |v: f64| format!("{:.1}", v * 1e-9);
        let rows = [
            (
                "matrix product f32, GFLOP/s",
                giga(a.flops_f32),
                giga(t.flops_f32),
            ),
            (
                "matrix product f64, GFLOP/s",
                giga(a.flops_f64),
                giga(t.flops_f64),
            ),
            (
                "copying, GB/s read and written",
                giga(a.bandwidth),
                giga(t.bandwidth),
            ),
            (
                "between two tasks",
                Seconds(a.overhead).to_string(),
                Seconds(t.overhead).to_string(),
            ),
        ];
        for (what, alone, together) in rows {
            table.row([what.to_string(), alone, together]);
        }
        out.table(table);
        for (name, s) in &self.gpus {
            out.line(format!(
                "{name}: matrix product {} GFLOP/s f32, {} f64; copying {} GB/s; a launch {}",
                giga(s.flops_f32),
                giga(s.flops_f64),
                giga(s.bandwidth),
                Seconds(s.overhead)
            ));
        }
        for s in &self.states {
            let watts = s
                .busy_watts
                .map_or("watts not measured".into(), |w| format!("{w:.2} W a core"));
            out.line(format!(
                "{:.2} GHz: {} GFLOP/s a core ({:.2} of the highest), {watts}; a change takes {}",
                s.hertz * 1e-9,
                giga(s.flops),
                s.speed,
                Seconds(s.switch_seconds)
            ));
        }
        out.line(format!("{} timed in {}; {} with several implementations, of which static costs would choose {} otherwise",
            several(self.timed, "task"),
            several(self.runs, "run"),
            several(self.choices, "call"),
            self.changed));
        out.line(format!("profile: {}", self.profile.display()));
        out.line(format!(
            "durations: {} (see `dahl perf`)",
            self.model.display()
        ));
        out
    }
}
