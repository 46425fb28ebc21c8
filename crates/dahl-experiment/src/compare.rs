//! Two sessions beside each other: machines, commits, or the same twice. Values are not paired, since no block was in both.

use std::path::Path;

use dahl_core::report::{Report, Table};

use crate::ExperimentError;
use crate::design::name;
use crate::report::text::number;
use crate::session::Session;
use crate::stats::{self, Estimate, ratio_text};
use crate::summary;

/// A cell that both have.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Its levels.
    pub cell: String,
    /// In the first session.
    pub first: Estimate,
    /// In the second.
    pub second: Estimate,
    /// The second's part of the first.
    pub ratio: Estimate,
}

impl Compared {
    /// Whether the intervals have a value in common.
    pub fn overlap(&self) -> bool {
        self.first.overlaps(&self.second)
    }

    /// Both medians in words.
    pub fn medians(&self) -> [String; 2] {
        [self.first.median, self.second.median].map(number)
    }

    /// The ratio in words.
    pub fn text(&self) -> String {
        ratio_text(&self.ratio)
    }
}

/// What two sessions say of a measure.
pub struct Comparison {
    /// Cells that both have.
    pub cells: Vec<Compared>,
    /// Facts of the environments that differ: name, first, second.
    pub differences: Vec<(String, String, String)>,
}

impl Comparison {
    /// The cells, how many of them overlap, and what differs between the environments.
    pub fn report(&self, measure: &str) -> Report {
        let mut out = Report::default();
        let mut table = Table::new("cell|first|second|second / first|intervals");
        for c in &self.cells {
            let overlap = if c.overlap() { "overlap" } else { "apart" };
            let [first, second] = c.medians();
            table.row([c.cell.clone(), first, second, c.text(), overlap.into()]);
        }
        out.table(table);
        let overlapping = self.cells.iter().filter(|c| c.overlap()).count();
        let all = self.cells.len();
        out.line(format!(
            "{}: intervals overlap in {overlapping} of {all} cells ({:.1} %)",
            measure,
            100.0 * overlapping as f64 / all as f64
        ));
        for (name, first, second) in &self.differences {
            out.line(format!("{name}: {first} | {second}"));
        }
        out
    }
}

/// Compares a measure of two sessions, cell by cell.
pub fn compare(first: &Path, second: &Path, measure: &str) -> Result<Comparison, ExperimentError> {
    crate::measure::known(measure).map_err(ExperimentError::refused)?;
    let (a, b) = (Session::open(first)?, Session::open(second)?);
    let mut cells = Vec::new();
    for (i, cell) in a.cells.iter().enumerate() {
        let Some(j) = b.cells.iter().position(|c| c == cell) else {
            continue;
        };
        let (x, y) = (
            summary::values(&a, i, measure),
            summary::values(&b, j, measure),
        );
        let seed = a.experiment.seed;
        let both = stats::estimate(&x, seed)
            .zip(stats::estimate(&y, seed))
            .zip(stats::unpaired_ratio(&y, &x, seed));
        cells.extend(both.map(|((first, second), ratio)| Compared {
            cell: name(cell),
            first,
            second,
            ratio,
        }));
    }
    if cells.is_empty() {
        return Err(ExperimentError::refused(format!(
            "{} and {} have no cell with {measure} in common",
            first.display(),
            second.display()
        )));
    }
    let unknown = "unknown".to_owned();
    let names = a.environment.facts.keys().chain(b.environment.facts.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    let fact =
        |s: &Session, name: &String| s.environment.facts.get(name).unwrap_or(&unknown).clone();
    let differences = names
        .into_iter()
        .map(|n| (n.clone(), fact(&a, n), fact(&b, n)))
        .filter(|d| d.1 != d.2);
    Ok(Comparison {
        cells,
        differences: differences.collect(),
    })
}
