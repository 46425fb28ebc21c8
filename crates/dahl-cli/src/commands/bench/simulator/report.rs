//! Predictions beside measurements.

use dahl_core::Seconds;
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_sched::model::PerfModel;

use super::way::Way;
use crate::print;

/// Two ways whose measured times differ by less than this part are not ranked: noise would decide.
const TIE: f64 = 0.03;

#[derive(serde::Serialize)]
struct Row {
    workers: usize,
    policy: String,
    #[serde(serialize_with = "in_full")]
    grain: Grain,
    tasks_per_step: usize,
    stretches: usize,
    measured_seconds: Seconds,
    predicted_seconds: Seconds,
    /// Predicted over measured, less one.
    error: f64,
    /// One standard error of that, by how stretches differ.
    uncertainty: f64,
    /// What the plan that was followed expects of a step of a run.
    plan_seconds: Option<Seconds>,
    /// The same of the plan.
    plan_error: Option<f64>,
}

/// Grains as they are given.
fn in_full<S: serde::Serializer>(grain: &Grain, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(grain)
}

/// All ways of a model.
#[derive(serde::Serialize)]
pub struct Report {
    model: String,
    batch: u32,
    ways: Vec<Row>,
    mean_error: f64,
    worst_error: f64,
    /// Pairs of ways that are in the same order, of those that differ.
    ordered: [usize; 2],
}

impl Report {
    /// Learns from all recordings, then predicts every way.
    pub fn new(model: &Model, batch: u32, ways: &[Way]) -> anyhow::Result<Report> {
        let mut known = PerfModel::new();
        let seen: Vec<_> = ways.iter().filter_map(|w| w.learn(&mut known)).collect();
        let rhythms = seen.iter().map(|s| s.beside(&known));
        let rhythms = rhythms.collect::<anyhow::Result<Vec<_>>>()?;
        let row = |way: &Way| -> anyhow::Result<Row> {
            let (real, told) = (way.measured(), way.predicted(&known, &rhythms)?);
            let by_plan = way.by_plan();
            Ok(Row {
                workers: way.workers(),
                policy: way.policy.clone(),
                grain: way.grain.clone(),
                tasks_per_step: way.tasks(),
                stretches: way.stretches(),
                measured_seconds: Seconds(real),
                predicted_seconds: Seconds(told),
                error: told / real - 1.0,
                uncertainty: way.uncertainty(),
                plan_seconds: by_plan,
                plan_error: by_plan.map(|s| s.0 / real - 1.0),
            })
        };
        let rows: Vec<Row> = ways.iter().map(row).collect::<anyhow::Result<_>>()?;
        let sizes = || rows.iter().map(|r| r.error.abs());
        Ok(Report {
            model: model.name.clone(),
            batch,
            mean_error: sizes().sum::<f64>() / rows.len().max(1) as f64,
            worst_error: sizes().fold(0.0, f64::max),
            ordered: ordered(&rows),
            ways: rows,
        })
    }

    /// Prints it for people.
    pub fn show(&self) {
        println!("{}, batch {}\n", self.model, self.batch);
        let head = [
            "workers",
            "policy",
            "grain",
            "tasks",
            "measured",
            "predicted",
            "error",
            "±",
            "by plan",
        ];
        let planned = self.ways.iter().any(|w| w.plan_seconds.is_some());
        let columns = head.len() - usize::from(!planned);
        let mut table = print::table(&head[..columns]);
        for row in &self.ways {
            let cells = [
                row.workers.to_string(),
                row.policy.clone(),
                row.grain.in_short(),
                row.tasks_per_step.to_string(),
                row.measured_seconds.to_string(),
                row.predicted_seconds.to_string(),
                format!("{:+.1} %", 100.0 * row.error),
                format!("{:.1} %", 100.0 * row.uncertainty),
                row.plan_error
                    .map_or(String::new(), |e| format!("{:+.1} %", 100.0 * e)),
            ];
            table.add_row(cells.into_iter().take(columns));
        }
        print::align_right(&mut table, 3..=columns - 1);
        println!("{table}\n");
        let [right, pairs] = self.ordered;
        println!(
            "mean error {:.1} %, worst {:.1} %; {right} of {pairs} pairs in the same order (ties below {:.0} % left out)",
            100.0 * self.mean_error,
            100.0 * self.worst_error,
            100.0 * TIE
        );
    }
}

/// Pairs in the same order, and pairs.
fn ordered(rows: &[Row]) -> [usize; 2] {
    let mut found = [0, 0];
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let real = a.measured_seconds.0 / b.measured_seconds.0;
            let told = a.predicted_seconds.0 / b.predicted_seconds.0;
            if (real - 1.0).abs() > TIE {
                found[0] += usize::from((real > 1.0) == (told > 1.0));
                found[1] += 1;
            }
        }
    }
    found
}
