//! Results as text for people: lines and tables, as a value that a program prints, and that a terminal may lay out anew.

use std::fmt::{self, Display};

/// Rows under heads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What stands above each column, and whether its cells are aligned to the right.
    pub heads: Vec<(String, bool)>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. Heads are separated by `|`; a `>` before one aligns its column to the right.
    pub fn new(heads: &str) -> Table {
        let head = |text: &str| match text.strip_prefix('>') {
            Some(text) => (text.to_owned(), true),
            None => (text.to_owned(), false),
        };
        Table {
            heads: heads.split('|').map(head).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<String> = self.heads.iter().map(|h| h.0.clone()).collect();
        let all = || std::iter::once(&heads).chain(&self.rows);
        let length = |row: &Vec<String>, c: usize| row.get(c).map_or(0, |t| t.chars().count());
        let widths: Vec<usize> = (0..heads.len())
            .map(|c| all().map(|row| length(row, c)).max().unwrap_or(0))
            .collect();
        for (n, row) in all().enumerate() {
            let cells = row.iter().zip(&widths).zip(&self.heads);
            let cells = cells.map(|((text, &width), (_, right))| match right {
                true => format!("{text:>width$}"),
                false => format!("{text:width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            writeln!(f, "{}", line.trim_end())?;
            if n == 0 {
                let lines = widths.iter().map(|&width| "═".repeat(width));
                writeln!(f, "{}", lines.collect::<Vec<_>>().join("  "))?;
            }
        }
        Ok(())
    }
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A line, or an empty one.
    Line(String),
    /// A table.
    Table(Table),
}

/// Lines and tables, one after another.
///
/// ```
/// use dahl_core::report::{Report, Table};
///
/// let mut table = Table::new("unit|>tasks");
/// table.row(["cpu:0".into(), 12.to_string()]);
/// let mut report = Report::default();
/// report.line(format!("{} unit", table.rows.len()));
/// report.table(table);
/// assert_eq!(report.to_string(), "1 unit\nunit   tasks\n═════  ═════\ncpu:0     12\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What it consists of.
    pub parts: Vec<Part>,
}

impl Report {
    /// Adds a line.
    pub fn line(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Line(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    /// Adds a table and an empty line below it.
    pub fn paragraph(&mut self, table: Table) {
        self.table(table);
        self.line("");
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Line(text) => writeln!(f, "{text}")?,
                Part::Table(table) => write!(f, "{table}")?,
            }
        }
        Ok(())
    }
}

/// A curve as tall as a letter; of many values, about forty are drawn.
pub fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = || values.iter().copied().filter(|v| v.is_finite());
    let low = known().fold(f64::INFINITY, f64::min);
    let high = known().fold(f64::NEG_INFINITY, f64::max);
    let step = values.len().div_ceil(40).max(1);
    let bar = |v: &f64| match v.is_finite() {
        true => BARS[((v - low) / (high - low).max(1e-12) * 7.0).round() as usize],
        false => '?',
    };
    values.iter().step_by(step).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_span_from_low_to_high_and_mark_what_is_no_number() {
        assert_eq!(sparkline(&[0.0, 1.0, 0.5]), "▁█▅");
        assert_eq!(sparkline(&[2.0, 2.0]), "▁▁");
        assert_eq!(sparkline(&[1.0, f64::NAN, 3.0]), "▁?█");
        assert_eq!(sparkline(&[]), "");
        assert!(sparkline(&vec![1.0; 1000]).chars().count() <= 40);
    }
}
