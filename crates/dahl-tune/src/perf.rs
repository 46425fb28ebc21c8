//! What a performance model knows, in rows: one for every codelet, implementation, unit and shape that was timed,
//! against what the machine can do at best.

use dahl_core::graph::Choices;
use dahl_core::{DType, UnitKind, several};
use dahl_sched::model::{Key, PerfModel};

use crate::profile::{Profile, Speeds};

/// Durations of one key, with what the machine could do at best.
#[derive(serde::Serialize)]
pub struct PerfRow {
    /// The codelet.
    pub codelet: String,
    /// The implementation.
    pub implementation: String,
    /// The unit.
    pub unit: String,
    /// Shapes and element type.
    pub shapes: String,
    /// Durations that count.
    pub count: u64,
    /// Their mean, in seconds.
    pub mean: f64,
    /// Median of the last ones.
    pub median: f64,
    /// The shortest.
    pub min: f64,
    /// Standard deviation beside the median, as a part of it.
    pub spread: f64,
    /// Durations put aside as outliers.
    pub rejected: u64,
    /// How often the level shifted.
    pub restarts: u64,
    /// Operations of a task.
    pub flops: f64,
    /// Bytes of a task.
    pub bytes: f64,
    /// The roofline's time beside the median.
    pub of_roof: Option<f64>,
    /// Whether it is chosen among its rivals, and why.
    pub chosen: Option<String>,
    /// The key.
    #[serde(skip)]
    pub key: Key,
}

impl PerfRow {
    /// Speed.
    pub(crate) fn gflops(&self) -> f64 {
        self.flops / self.median * 1e-9
    }

    /// Traffic, if every operand comes from memory once.
    pub(crate) fn gbytes(&self) -> f64 {
        self.bytes / self.median * 1e-9
    }
}

/// All rows of a model, in the order of their keys.
pub fn perf_rows(model: &PerfModel, profile: Option<&Profile>) -> Vec<PerfRow> {
    let choices = profile.map(|p| &p.choices);
    let row = |(key, cost, history): (Key, dahl_core::Cost, &dahl_sched::model::History)| {
        let s = history.summary()?;
        let shapes: Vec<String> = key.shapes.iter().map(|s| s.to_string()).collect();
        let roof = profile.and_then(|p| roof(p, &key, cost));
        Some(PerfRow {
            codelet: key.codelet.clone(),
            implementation: key.implementation.clone(),
            unit: key.unit.clone(),
            shapes: format!("{} {}", key.dtype, shapes.join(" ")),
            count: s.count,
            mean: s.mean,
            median: s.median,
            min: s.min,
            spread: s.sigma / s.median,
            rejected: s.rejected,
            restarts: s.restarts,
            flops: cost.flops,
            bytes: cost.bytes,
            of_roof: roof.filter(|r| *r > 0.0).map(|r| r / s.median),
            chosen: choices.and_then(|c| chosen(c, &key)),
            key,
        })
    };
    model.iter().filter_map(row).collect()
}

/// The least time that this cost takes on the unit of a key, if its speeds were measured.
fn roof(profile: &Profile, key: &Key, cost: dahl_core::Cost) -> Option<f64> {
    let speeds: &Speeds = match profile.gpus.get(&key.unit) {
        Some(speeds) => speeds,
        None if key.unit == "cpu" => &profile.alone,
        None if key.unit.starts_with("cpu/") => &profile.together,
        None => return None,
    };
    let flops = match key.dtype {
        DType::F32 => speeds.flops_f32,
        DType::F64 => speeds.flops_f64,
    };
    let part = |amount: f64, rate: f64| if rate > 0.0 { amount / rate } else { 0.0 };
    Some(part(cost.flops, flops).max(part(cost.bytes, speeds.bandwidth)))
}

fn chosen(choices: &Choices, key: &Key) -> Option<String> {
    let choice = choices.iter().find(|c| {
        (&c.codelet, c.dtype, c.footprint) == (&key.codelet, key.dtype, key.footprint)
            && c.kind == UnitKind::CPU
            && c.shapes == key.shapes
    })?;
    if choice.implementation != key.implementation {
        return None;
    }
    let (other, seconds) = choice.instead_of.as_ref()?;
    Some(format!(
        "chosen, {:.2} times as fast as {other}",
        seconds / choice.seconds
    ))
}

/// What durations of the same codelet and shape vary with, in words.
pub(crate) fn variations(rows: &[PerfRow]) -> Vec<String> {
    let mut lines = Vec::new();
    let same = |a: &&PerfRow, b: &PerfRow| {
        (
            &a.implementation,
            &a.key.shapes,
            a.key.footprint,
            a.key.dtype,
        ) == (
            &b.implementation,
            &b.key.shapes,
            b.key.footprint,
            b.key.dtype,
        )
    };
    for row in rows.iter().filter(|r| !r.unit.contains('/')) {
        let loaded = rows.iter().filter(|r| {
            same(r, row)
                && r.unit
                    .strip_prefix(&row.unit)
                    .is_some_and(|u| u.starts_with('/'))
        });
        for other in loaded {
            let ratio = other.median / row.median;
            if (ratio - 1.0).abs() > 0.1 {
                let working = other.unit.rsplit('/').next().unwrap_or_default();
                lines.push(format!(
                    "{} {}: takes {:.0} % {} while {working} units work than alone",
                    row.implementation,
                    row.shapes,
                    100.0 * (ratio - 1.0).abs(),
                    if ratio > 1.0 { "longer" } else { "less time" }
                ));
            }
        }
    }
    for row in rows {
        let seen = row.count + row.rejected;
        if row.rejected * 20 > seen {
            lines.push(format!(
                "{} on {} {}: {} of {seen} were left out, being far from the others: interrupted, or cold data",
                row.implementation, row.unit, row.shapes, row.rejected
            ));
        }
        if row.restarts > 0 {
            lines.push(format!(
                "{} on {} {}: its usual time changed {}: another clock rate, or another load",
                row.implementation,
                row.unit,
                row.shapes,
                several(row.restarts, "time")
            ));
        }
        if row.spread > 0.25 {
            lines.push(format!(
                "{} on {} {}: half of its times are more than {:.0} % off; `dahl trace summary` looks for the cause",
                row.implementation,
                row.unit,
                row.shapes,
                67.0 * row.spread
            ));
        }
    }
    lines
}
