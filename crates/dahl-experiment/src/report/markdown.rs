//! Tables and figures as Markdown: a section of a page of results.
//!
//! A table of which no cell has a value is a sentence. CPU-seconds stand where joules cannot.

use crate::session::Session;
use crate::stats::ratio_text;
use crate::summary::{Entry, Filled};

use super::text;

pub(super) fn summary(session: &Session) -> String {
    let e = &session.experiment;
    let fact = |name: &str| {
        let fact = session.environment.facts.get(name);
        fact.map_or("unknown", String::as_str).to_owned()
    };
    let notes: Vec<String> = session.notes().iter().map(|n| format!("- {n}\n")).collect();
    let mut text = format!(
        "## {}\n\n{}\n\nCommit `{}`, {}, {} cores, window {:.1} s after a warm-up of {:.1} s.\n\n{}",
        e.name,
        e.question,
        fact("commit").chars().take(12).collect::<String>(),
        fact("cpu"),
        fact("cores"),
        e.design.window.as_secs_f64(),
        e.design.warmup.as_secs_f64(),
        notes.concat()
    );
    for (name, picture) in session.pictures() {
        text += &format!("\n![{} by {}](figures/{name}.svg)\n", picture.y, picture.x);
    }
    for (_, filled) in session.filled() {
        text += &table(&filled);
    }
    text
}

fn table(filled: &Filled) -> String {
    let reasons = filled.reasons();
    if !filled.has_values() {
        return format!("\n**{}**: {}.\n", filled.title, reasons.join("; "));
    }
    let heads: Vec<&str> = filled
        .keys
        .iter()
        .chain(&filled.columns)
        .map(String::as_str)
        .collect();
    let rule: Vec<&str> = heads.iter().map(|_| "---").collect();
    let mut text = format!("\n**{}**\n\n{}{}", filled.title, row(&heads), row(&rule));
    for (key, entries) in &filled.rows {
        let cells: Vec<String> = key
            .iter()
            .cloned()
            .chain(entries.iter().map(entry))
            .collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        text += &row(&cells);
    }
    let notes = filled.notes.iter().cloned().chain(reasons);
    let notes: Vec<String> = notes.map(|n| format!("- {n}\n")).collect();
    match notes.is_empty() {
        true => text,
        false => format!("{text}\n{}", notes.concat()),
    }
}

fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Empty => String::new(),
        Entry::Missing(_) => "–".into(),
        Entry::Value(e, None) => text::estimate(e),
        Entry::Value(e, Some(r)) => format!("{}<br>{}", text::estimate(e), ratio_text(r)),
    }
}
