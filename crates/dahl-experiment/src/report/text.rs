//! Numbers and entries of tables as texts.

use crate::plot::{Picture, Series};
use crate::report::TextTable;
use crate::stats::{Estimate, ratio_text};
use crate::summary::{Entry, Filled};

/// A number with four digits that count, and a prefix where it is large or small.
pub(crate) fn number(value: f64) -> String {
    let (scale, prefix) = match value.abs() {
        0.0 => return "0".into(),
        size if size < 1e-9 => return format!("{value:.2e}"),
        size if (0.1..1e4).contains(&size) => (1.0, ""),
        size => prefix(size),
    };
    let scaled = value / scale;
    // As it will be printed: 9.9999 is 10.00, not 10.000.
    let digits = (0..=4).rev().find(|&d| {
        let shown = (scaled.abs() * 10f64.powi(d)).round();
        shown < 10_000.0
    });
    let text = format!("{scaled:.*}", digits.unwrap_or(0) as usize);
    match prefix {
        "" => text,
        _ => format!("{text} {prefix}"),
    }
}

/// The prefix that a number of this size takes, and what it stands for.
pub(crate) fn prefix(size: f64) -> (f64, &'static str) {
    const ALL: [(f64, &str); 7] = [
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
        (1e-9, "n"),
    ];
    let at = |(scale, _): &(f64, &str)| size * (1.0 + 1e-9) >= *scale;
    ALL.into_iter().find(at).unwrap_or((1.0, ""))
}

/// A median with its interval: `1234 (1230–1239, n = 10)`.
pub(super) fn estimate(e: &Estimate) -> String {
    format!(
        "{} ({}–{}, n = {})",
        number(e.median),
        number(e.low),
        number(e.high),
        e.n
    )
}

/// An entry of a table.
fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Empty => String::new(),
        Entry::Missing(_) => "–".into(),
        Entry::Value(value, None) => estimate(value),
        Entry::Value(value, Some(ratio)) => {
            format!("{}\n{}", estimate(value), ratio_text(ratio))
        }
    }
}

/// A table for terminals. Why cells are empty stands below it, each reason once; a table without values is its reasons.
pub(super) fn table(filled: &Filled) -> TextTable {
    if !filled.has_values() {
        return TextTable {
            title: filled.title.clone(),
            notes: filled.reasons(),
            ..TextTable::default()
        };
    }
    let row = |(key, entries): &(Vec<String>, Vec<Entry>)| {
        let key = key.iter().cloned();
        key.chain(entries.iter().map(entry)).collect()
    };
    let mut notes = filled.notes.clone();
    for (_, entries) in &filled.rows {
        for (entry, column) in entries.iter().zip(&filled.columns) {
            if let Entry::Missing(why) = entry {
                let note = format!("–, {column}: {why}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    TextTable {
        title: filled.title.clone(),
        heads: filled.keys.iter().chain(&filled.columns).cloned().collect(),
        rows: filled.rows.iter().map(row).collect(),
        notes,
    }
}

/// Heights of a sparkline.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A picture as lines: every series of a panel on the same scale, which each panel has for itself.
pub(super) fn sparklines(picture: &Picture) -> Vec<String> {
    let mut lines = vec![format!("{} by {}", picture.y, picture.x)];
    for panel in &picture.panels {
        let names = panel.series.iter().map(|s| s.name.chars().count());
        let width = names.max().unwrap_or(0);
        let points = || panel.series.iter().flat_map(|s| &s.points);
        let scale = |v: f64| if picture.log_y { v.max(1e-300).ln() } else { v };
        let all = || points().map(|p| scale(p.estimate.median));
        let (low, high) = all().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let places = points().map(|p| p.place + 1).max().unwrap_or(0);
        if !panel.title.is_empty() {
            lines.push(format!("  {}", panel.title));
        }
        for series in &panel.series {
            let mut marks = vec![' '; places];
            for p in &series.points {
                let part = (scale(p.estimate.median) - low) / (high - low).max(1e-300);
                marks[p.place] = BLOCKS[((part * 8.0) as usize).min(7)];
            }
            let marks: String = marks.into_iter().collect();
            lines.push(format!(
                "  {:width$}  {marks}  {}",
                series.name,
                ends(series)
            ));
        }
    }
    lines
}

/// From the first value of a series to its last.
fn ends(series: &Series) -> String {
    let value = |p: Option<&crate::plot::Point>| p.map_or(0.0, |p| p.estimate.median);
    let (first, last) = (value(series.points.first()), value(series.points.last()));
    match series.points.len() {
        1 => number(first),
        _ => format!("{} → {}", number(first), number(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Panel, Point};

    #[test]
    fn numbers_have_four_digits_that_count() {
        let texts = [
            (0.0, "0"),
            (0.995374, "0.9954"),
            (0.99996, "1.000"),
            (1.0149, "1.015"),
            (836.6, "836.6"),
            (9999.7, "10000"),
            (621_980.0, "622.0 k"),
            (-2.5e9, "-2.500 G"),
            (0.067_884, "67.88 m"),
            (9.16716e-5, "91.67 µ"),
            (2e-12, "2.00e-12"),
        ];
        for (value, text) in texts {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn sparklines_have_a_scale_for_each_panel_and_gaps_where_nothing_is() {
        let series = |name: &str, values: &[(usize, f64)]| Series {
            name: name.into(),
            colour: 0,
            joined: true,
            points: values
                .iter()
                .map(|&(place, median)| Point {
                    x: place as f64,
                    place,
                    estimate: Estimate {
                        median,
                        low: median,
                        high: median,
                        n: 1,
                    },
                })
                .collect(),
        };
        let picture = Picture {
            panels: vec![Panel {
                title: "lenet5".into(),
                series: vec![
                    series("one", &[(0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0)]),
                    series("other", &[(1, 8.0), (3, 1.0)]),
                ],
            }],
            x: "batch".into(),
            y: "images/s".into(),
            categories: None,
            log_x: true,
            log_y: true,
            bars: false,
            marks: true,
        };
        let expected = [
            "images/s by batch",
            "  lenet5",
            "  one    ▁▃▆█  1.000 → 8.000",
            "  other   █ ▁  8.000 → 1.000",
        ];
        assert_eq!(sparklines(&picture), expected);
    }
}
