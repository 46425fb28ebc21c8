//! Everything that is made of raw rows: tables, figures, the page. Nothing is measured here, and a report made twice of the
//! same rows is the same, byte for byte.

mod html;
mod latex;
mod markdown;
mod readme;
pub(crate) mod text;

use std::path::PathBuf;

use dahl_core::{report, several};

use crate::ExperimentError;
use crate::design::csv;
use crate::figure::picture;
use crate::level::Level;
use crate::measure;
use crate::plot::Picture;
use crate::resident;
use crate::row::Run;
use crate::session::{Session, put};
use crate::summary::{self, Filled};

/// What an export writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `runs.csv` and `summary.csv`, and `resident.csv` with memory over time.
    Csv,
    /// The same as one JSON object.
    Json,
    /// Tables for LaTeX, and `paper.tex`, a document with those tables and figures that are there.
    Latex,
    /// Figures for pgfplots, and the same document.
    Pgfplots,
    /// `summary.md`: tables and figures for a page, and `figures/*.svg`.
    Markdown,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            "latex" => Ok(Format::Latex),
            "pgfplots" => Ok(Format::Pgfplots),
            "markdown" => Ok(Format::Markdown),
            _ => Err(dahl_core::text::unknown(
                "format",
                text,
                &["csv", "json", "latex", "pgfplots", "markdown"],
            )),
        }
    }
}

/// A table as texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextTable {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Rows of as many texts; none if no cell has a value.
    pub rows: Vec<Vec<String>>,
    /// What a reader must know: the best peer, why a cell is empty.
    pub notes: Vec<String>,
}

impl Session {
    /// Writes everything: CSV, tables, figures, page, README. Gives the page's path.
    pub fn report(&self) -> Result<PathBuf, ExperimentError> {
        for (name, text) in [Format::Csv, Format::Latex, Format::Pgfplots]
            .into_iter()
            .flat_map(|f| self.export(f))
        {
            put(&self.folder, &name, &text)?;
        }
        for (name, svg) in self.drawn() {
            put(&self.folder, &name, &svg)?;
        }
        put(&self.folder, "README.md", &readme::readme(self))?;
        put(&self.folder, "report.html", &html::page(self))?;
        Ok(self.folder.join("report.html"))
    }

    /// What a format has, as names and texts.
    pub fn export(&self, format: Format) -> Vec<(String, String)> {
        match format {
            Format::Csv => {
                let mut all = vec![
                    ("runs.csv".into(), runs_csv(self)),
                    ("summary.csv".into(), summary_csv(self)),
                ];
                let resident = resident::csv(self);
                if !resident.is_empty() {
                    all.push(("resident.csv".into(), resident));
                }
                all
            }
            Format::Json => vec![("summary.json".into(), summary_json(self))],
            Format::Latex => with_paper(self, latex::tables(self)),
            Format::Pgfplots => with_paper(self, latex::figures(self)),
            Format::Markdown => {
                let mut files = self.drawn();
                files.push(("summary.md".into(), markdown::summary(self)));
                files
            }
        }
    }

    /// The tables, and the figures as lines: a title, then each series by its name and its course.
    pub fn shown(&self) -> report::Report {
        let mut shown = report::Report::default();
        for (_, filled) in self.filled() {
            let table = text::table(&filled);
            shown.line(table.title);
            if !table.rows.is_empty() {
                let heads = table.heads.into_iter().map(|head| (head, false)).collect();
                let rows = table.rows;
                shown.table(report::Table { heads, rows });
            }
            table.notes.into_iter().for_each(|note| shown.line(note));
            shown.line("");
        }
        let figures = self.pictures();
        let lines = figures
            .iter()
            .flat_map(|(_, figure)| text::sparklines(figure));
        lines.for_each(|line| shown.line(line));
        shown.line("");
        shown
    }

    /// The tables with values, each by its file's name; beside energy stands CPU time.
    fn filled(&self) -> Vec<(String, Filled)> {
        let mut all = Vec::new();
        for (i, table) in self.experiment.tables.iter().enumerate() {
            for measure in [Some(table.cell.as_str()), measure::companion(&table.cell)]
                .into_iter()
                .flatten()
            {
                all.push((
                    format!("{}-{}", i + 1, measure),
                    summary::fill(self, table, measure),
                ));
            }
        }
        all
    }

    /// The figures that have values, by their file's name; beside energy stands CPU time.
    fn pictures(&self) -> Vec<(String, Picture)> {
        let mut all = Vec::new();
        for (i, figure) in self.experiment.figures.iter().enumerate() {
            for measure in [Some(figure.y.as_str()), measure::companion(&figure.y)]
                .into_iter()
                .flatten()
            {
                if let Some(picture) = picture(self, figure, measure) {
                    all.push((format!("{}-{}", i + 1, measure), picture));
                }
            }
        }
        all
    }

    /// The figures as files.
    fn drawn(&self) -> Vec<(String, String)> {
        let file = |(name, picture): (String, Picture)| {
            let svg = picture.svg(&format!("f{name}"));
            (format!("figures/{name}.svg"), svg)
        };
        self.pictures().into_iter().map(file).collect()
    }

    /// What a reader must know of the figures: sources, what was left out, what is marked.
    fn notes(&self) -> Vec<String> {
        let status = self.status();
        let mut notes = vec![format!(
            "{} of {} runs; {} disturbed and left out, {} failed.",
            status.done,
            status.planned,
            several(status.disturbed, "attempt"),
            status.failed
        )];
        if self.experiment.design.noisy {
            notes.push(
                "A trial: disturbed runs were counted, so these figures are worth nothing.".into(),
            );
        }
        let counted: Vec<&Run> = self.runs().filter(|r| r.counts()).collect();
        let mut sources: Vec<&str> = counted.iter().map(|r| r.by.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        if !sources.is_empty() {
            notes.push(format!("Energy: {}.", sources.join("; ")));
        }
        if counted
            .iter()
            .any(|r| r.source == crate::row::Source::Modelled)
        {
            notes.push(
                "Nothing measures energy here: modelled joules have columns of their own, and CPU-seconds stand beside time.".into(),
            );
        }
        let few = counted.iter().filter(|r| {
            r.source == crate::row::Source::Measured && r.readings < crate::world::FEW_READINGS
        });
        let few = few.count();
        if few > 0 {
            notes.push(format!(
                "{few} windows have fewer than {} meter readings.",
                crate::world::FEW_READINGS
            ));
        }
        if !self.has_intervals() {
            notes.push(format!(
                "There are no 95 % intervals of medians of {}: the range of the values stands in their place.",
                several(self.blocks(), "block")
            ));
        }
        notes
    }

    /// Blocks with a run that counts.
    fn blocks(&self) -> usize {
        let counted = self.runs().filter(|r| r.counts()).map(|r| r.block);
        counted.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Whether there are values enough to bound a median with 95 %.
    fn has_intervals(&self) -> bool {
        self.blocks() >= 6
    }
}

/// Files for LaTeX, with the document around them.
fn with_paper(session: &Session, mut files: Vec<(String, String)>) -> Vec<(String, String)> {
    files.push(latex::paper(session));
    files
}

fn factor_names(session: &Session) -> Vec<&str> {
    session
        .experiment
        .factors
        .iter()
        .map(|(n, _)| n.as_str())
        .collect()
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

/// All rows, tidy: one line per run.
fn runs_csv(session: &Session) -> String {
    let factors = factor_names(session);
    let measures = summary::measures(session);
    let fixed = "at,seconds,steps,images,joules,idle_watts,source,by,readings,few_readings,cpu_seconds,peak_bytes,faults,others,steal,throttled,megahertz,celsius,engine_says,status";
    let mut text = format!(
        "block,cell,attempt,{},{fixed},{}\n",
        factors.join(","),
        measures.join(",")
    );
    for run in session.runs() {
        let idle = summary::idle_watts(session, run.block);
        let level = |f: &&str| run.levels.get(*f).map_or(String::new(), Level::to_string);
        let status = match (&run.failed, &run.disturbed) {
            (Some(why), _) => format!("failed: {why}"),
            (None, Some(why)) => format!("disturbed: {why}"),
            (None, None) => "ok".into(),
        };
        let s = &run.surroundings;
        let measured = run.source == crate::row::Source::Measured;
        let mut fields = vec![
            run.block.to_string(),
            run.cell.to_string(),
            run.attempt.to_string(),
        ];
        fields.extend(factors.iter().map(level));
        fields.extend([
            run.at.to_string(),
            run.seconds.to_string(),
            run.steps.to_string(),
            run.images.to_string(),
            number(run.joules),
            number(idle),
            format!("{:?}", run.source).to_lowercase(),
            run.by.clone(),
            run.readings.to_string(),
            (measured && run.readings < crate::world::FEW_READINGS).to_string(),
            run.cpu_seconds.to_string(),
            number(run.peak_bytes.map(|b| b as f64)),
            number(run.faults.map(|f| f as f64)),
            s.others.to_string(),
            s.steal.to_string(),
            s.throttled.to_string(),
            number(s.megahertz),
            number(s.celsius),
            run.engine.clone(),
            status,
        ]);
        fields.extend(
            measures
                .iter()
                .map(|m| number(measure::value(m, run, idle))),
        );
        let fields: Vec<String> = fields.iter().map(|f| csv(f)).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

/// Medians with intervals: one line per cell and measure.
fn summary_csv(session: &Session) -> String {
    let factors = factor_names(session);
    let mut text = format!("cell,{},measure,median,low,high,n\n", factors.join(","));
    for (cell, levels) in session.cells.iter().enumerate() {
        for name in summary::measures(session) {
            let Some(e) = summary::estimate(session, cell, &name) else {
                continue;
            };
            let level = |f: &&str| {
                levels
                    .get(*f)
                    .map_or(String::new(), |l| csv(&l.to_string()))
            };
            let levels: Vec<String> = factors.iter().map(level).collect();
            text += &format!(
                "{cell},{},{name},{},{},{},{}\n",
                levels.join(","),
                e.median,
                e.low,
                e.high,
                e.n
            );
        }
    }
    text
}

fn summary_json(session: &Session) -> String {
    let cell = |(at, levels): (usize, &crate::design::Cell)| {
        let estimate = |name: String| Some((name.clone(), summary::estimate(session, at, &name)?));
        let measures: std::collections::BTreeMap<_, _> = summary::measures(session)
            .into_iter()
            .filter_map(estimate)
            .collect();
        serde_json::json!({ "levels": levels, "measures": measures })
    };
    let cells: Vec<_> = session.cells.iter().enumerate().map(cell).collect();
    let all = serde_json::json!({
        "name": session.experiment.name,
        "environment": session.environment.facts,
        "cells": cells,
    });
    format!("{all}\n")
}
