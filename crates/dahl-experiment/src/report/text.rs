//! Numbers and entries of tables as texts.

use crate::stats::{Estimate, ratio_text};
use crate::summary::Entry;

/// A number with three or four digits that count.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".into(),
        s if s >= 1e9 => format!("{:.3} G", value / 1e9),
        s if s >= 1e6 => format!("{:.2} M", value / 1e6),
        s if s >= 1e4 => format!("{:.2} k", value / 1e3),
        s if s >= 100.0 => format!("{value:.0}"),
        s if s >= 1.0 => format!("{value:.2}"),
        s if s >= 1e-3 => format!("{:.3} m", value * 1e3),
        s if s >= 1e-6 => format!("{:.3} µ", value * 1e6),
        _ => format!("{value:.2e}"),
    }
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
pub(super) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Empty => String::new(),
        Entry::Missing(why) => format!("– ({why})"),
        Entry::Value(value, None) => estimate(value),
        Entry::Value(value, Some(ratio)) => format!("{}; × {}", estimate(value), ratio_text(ratio)),
    }
}
