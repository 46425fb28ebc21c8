//! Why one run was slower than another: the time of both by what it went into, per step.

use std::collections::{BTreeMap, BTreeSet};

use dahl_core::Seconds;
use dahl_core::report::{Report, Table};
use serde::Serialize;

use crate::Summary;

/// What became of one part of the units' time, in seconds per step.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// A codelet with its implementation, or what a unit did without a task.
    pub what: String,
    /// Before.
    pub old: f64,
    /// Now.
    pub new: f64,
    /// Of one task: the median duration. Missing where the part is not tasks.
    pub medians: Option<[f64; 2]>,
}

/// Two runs beside each other; the first of two figures is the older.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Seconds of the span per step.
    pub step_seconds: [f64; 2],
    /// How many.
    pub steps: [u64; 2],
    /// By how much they changed, most first.
    pub rows: Vec<Change>,
}

impl Comparison {
    /// For people: the parts of the time that changed most, so many of them.
    pub fn report(&self, top: usize) -> Report {
        let mut report = Report::default();
        let [a, b] = self.step_seconds;
        report.line(format!(
            "{} per step before, {} now: {:+.1} % ({} and {} steps)\n",
            Seconds(a),
            Seconds(b),
            100.0 * (b / a.max(1e-12) - 1.0),
            self.steps[0],
            self.steps[1]
        ));
        let mut table =
            Table::new("units' time per step|>before|>now|>difference|>one task, median");
        for row in self.rows.iter().take(top) {
            let sign = if row.new < row.old { "-" } else { "+" };
            let one = row
                .medians
                .map(|[a, b]| format!("{} → {}", Seconds(a), Seconds(b)));
            table.row([
                row.what.clone(),
                Seconds(row.old).to_string(),
                Seconds(row.new).to_string(),
                format!("{sign}{}", Seconds((row.new - row.old).abs())),
                one.unwrap_or_default(),
            ]);
        }
        report.table(table);
        report
    }
}

/// Compares the summaries of two runs.
pub fn compare(old: &Summary, new: &Summary) -> Comparison {
    type Part = (f64, Option<f64>);
    let parts = |s: &Summary| -> BTreeMap<String, Part> {
        let step = 1e-9 / s.launches.max(1) as f64;
        let mut all: BTreeMap<String, Part> = BTreeMap::new();
        for c in &s.codelets {
            let name = format!("{} ({})", c.codelet, c.implementation);
            let median = c.time.median_ns as f64 * 1e-9;
            all.insert(name, (c.time.total_ns as f64 * step, Some(median)));
        }
        let u = &s.all_units;
        for (name, nanos) in [
            ("transferring", u.transferring_ns),
            ("waiting for data", u.waiting_for_data_ns),
            ("waiting for messages", u.waiting_for_messages_ns),
            ("waiting for work", u.waiting_for_work_ns),
            ("overhead", u.overhead_ns),
        ] {
            all.insert(name.into(), (nanos as f64 * step, None));
        }
        all
    };
    let (before, now) = (parts(old), parts(new));
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let mut rows: Vec<Change> = names
        .into_iter()
        .map(|name| {
            let get = |all: &BTreeMap<String, Part>| all.get(name).copied().unwrap_or((0.0, None));
            let ((a, one), (b, two)) = (get(&before), get(&now));
            Change {
                what: name.clone(),
                old: a,
                new: b,
                medians: one.zip(two).map(|(a, b)| [a, b]),
            }
        })
        .filter(|r| r.old > 0.0 || r.new > 0.0)
        .collect();
    let change = |r: &Change| (r.new - r.old).abs();
    rows.sort_by(|a, b| change(b).total_cmp(&change(a)));
    let per_step = |s: &Summary| s.span_ns as f64 * 1e-9 / s.launches.max(1) as f64;
    Comparison {
        step_seconds: [per_step(old), per_step(new)],
        steps: [old.launches, new.launches],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn what_got_slower_comes_first() {
        let old = synthetic(2000, 2, 1);
        let mut new = old.clone();
        let slow = "conv2d";
        // Twice as long where there is room behind: the sums change, nothing overlaps.
        let mut ends = std::collections::HashMap::new();
        for i in (0..new.tasks.len()).rev() {
            let run = new.tasks[i];
            let free = ends.insert(run.unit, run.start).unwrap_or(u64::MAX);
            let matches = new.class_of(run.id).codelet.starts_with(slow);
            let longer = run.end + (run.end - run.start);
            if matches && longer <= free {
                new.tasks[i].end = longer;
            }
        }
        let same = compare(&Summary::of(&old), &Summary::of(&old));
        assert!(same.rows.iter().all(|r| r.old == r.new));
        let report = compare(&Summary::of(&old), &Summary::of(&new));
        let tasks = report.rows.iter().find(|r| r.medians.is_some());
        let first = tasks.expect("a codelet");
        assert!(
            first.what.starts_with(slow) && first.new > first.old,
            "{}",
            first.what
        );
    }
}
