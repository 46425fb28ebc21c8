//! The summary of a session: for each cell and measure a median with its interval, and tables of them.
//!
//! Disturbed and failed runs are left out here and nowhere else; how many is said. A measure without values has no
//! estimate, never a zero.

use std::collections::{BTreeMap, BTreeSet};

use crate::design::Cell;
use crate::level::Level;
use crate::measure;
use crate::row::{Row, Run, Source};
use crate::session::Session;
use crate::stats::{self, Estimate};

/// Idle watts of a block: joules of both ends over their seconds; none where nothing was measured.
pub(crate) fn idle_watts(session: &Session, block: u32) -> Option<f64> {
    let idle = session.rows.iter().filter_map(|row| match row {
        Row::Idle(i) if i.block == block => Some((i.joules?, i.seconds)),
        _ => None,
    });
    let (joules, seconds) = idle.fold((0.0, 0.0), |sum, i| (sum.0 + i.0, sum.1 + i.1));
    (seconds > 0.0).then(|| joules / seconds)
}

/// The runs that count: of each block and cell the last that was neither disturbed nor failed.
pub(crate) fn counted(session: &Session, cell: usize) -> BTreeMap<u32, &Run> {
    let mine = session.runs().filter(|r| r.cell == cell && r.counts());
    mine.map(|r| (r.block, r)).collect()
}

/// Values of a measure by block.
pub(crate) fn by_block(session: &Session, cell: usize, name: &str) -> BTreeMap<u32, f64> {
    let counted = counted(session, cell).into_iter();
    let value = |(block, run): (u32, &Run)| {
        Some((
            block,
            measure::value(name, run, idle_watts(session, block))?,
        ))
    };
    counted.filter_map(value).collect()
}

/// Values of a measure.
pub(crate) fn values(session: &Session, cell: usize, name: &str) -> Vec<f64> {
    by_block(session, cell, name).into_values().collect()
}

/// What is known of a measure in a cell.
pub(crate) fn estimate(session: &Session, cell: usize, name: &str) -> Option<Estimate> {
    stats::estimate(&values(session, cell, name), session.experiment.seed)
}

/// The measures that some run of a session has, the usual ones first.
pub(crate) fn measures(session: &Session) -> Vec<String> {
    let mut own = BTreeSet::new();
    for run in session.runs().filter(|r| r.counts()) {
        own.extend(run.measures.keys().cloned());
    }
    let usual = measure::MEASURES.iter().map(|m| m.name.to_owned());
    let known =
        |name: &String| (0..session.cells.len()).any(|c| !values(session, c, name).is_empty());
    usual.chain(own).filter(known).collect()
}

/// Why a cell has no value of a measure that is not its engine's.
const SAYS_NOTHING: &str = "the engine does not say";

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// There is no such cell.
    Empty,
    /// The cell has no value, and why.
    Missing(String),
    /// A value, with its ratio to the peer.
    Value(Estimate, Option<Estimate>),
}

/// A table with values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filled {
    pub title: String,
    /// Heads of the columns that name a row.
    pub keys: Vec<String>,
    pub columns: Vec<String>,
    pub rows: Vec<(Vec<String>, Vec<Entry>)>,
    pub notes: Vec<String>,
}

impl Filled {
    /// Rows and columns whose engines know nothing of the measure go, if others stay; otherwise nobody knows it.
    fn trimmed(mut self, nobody: &str) -> Filled {
        let silent = |e: &Entry| match e {
            Entry::Empty => true,
            Entry::Missing(why) => why == SAYS_NOTHING,
            Entry::Value(..) => false,
        };
        if self.entries().all(silent) {
            for entry in self.rows.iter_mut().flat_map(|(_, entries)| entries) {
                if let Entry::Missing(why) = entry {
                    *why = nobody.to_owned();
                }
            }
            return self;
        }
        self.rows.retain(|(_, entries)| !entries.iter().all(silent));
        for at in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|(_, entries)| silent(&entries[at])) {
                self.columns.remove(at);
                for (_, entries) in &mut self.rows {
                    entries.remove(at);
                }
            }
        }
        self
    }

    /// A factor that has one level in all rows is said once, below the table, and one that no row has is not said.
    fn without_constants(mut self) -> Filled {
        let mut same = Vec::new();
        for at in (0..self.keys.len()).rev() {
            let levels: BTreeSet<&str> = self.rows.iter().map(|(key, _)| &key[at][..]).collect();
            if levels.len() != 1 || self.keys.len() == 1 {
                continue;
            }
            let factor = self.keys.remove(at);
            let level = self.rows.iter_mut().map(|(key, _)| key.remove(at)).last();
            same.extend(
                level
                    .filter(|l| l != NO_LEVEL)
                    .map(|l| format!("{factor} is {l}")),
            );
        }
        same.reverse();
        if !same.is_empty() {
            self.notes.push(format!("In all rows {}.", same.join(", ")));
        }
        self
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.rows.iter().flat_map(|(_, entries)| entries)
    }

    /// Whether some cell has a value: a table without any is better a sentence.
    pub(crate) fn has_values(&self) -> bool {
        self.entries().any(|e| matches!(e, Entry::Value(..)))
    }

    /// Why cells have none, each reason once.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for entry in self.entries() {
            if let Entry::Missing(why) = entry
                && !all.contains(why)
            {
                all.push(why.clone());
            }
        }
        all
    }
}

/// Factors with more than one level among the cells of a session.
pub(crate) fn varying(session: &Session) -> Vec<String> {
    let varies = |name: &&String| {
        let levels: BTreeSet<Option<String>> = session
            .cells
            .iter()
            .map(|c| c.get(*name).map(Level::to_string))
            .collect();
        levels.len() > 1
    };
    let names = session.experiment.factors.iter().map(|(n, _)| n);
    names.filter(varies).cloned().collect()
}

/// What stands for a level that a cell does not have.
pub(crate) const NO_LEVEL: &str = "–";

/// A level's text in a cell; a dash where the cell has none.
pub(crate) fn level(cell: &Cell, factor: &str) -> String {
    cell.get(factor).map_or(NO_LEVEL.into(), Level::to_string)
}

/// Distinct texts of some factors over the cells, in the order of cells.
pub(crate) fn distinct<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    factors: &[String],
) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for cell in cells {
        let key: Vec<String> = factors.iter().map(|f| level(cell, f)).collect();
        if !all.contains(&key) {
            all.push(key);
        }
    }
    all
}

/// Fills a table of an experiment; `cell` is its measure, or the one that stands beside it.
pub(crate) fn fill(session: &Session, table: &crate::file::Table, measure: &str) -> Filled {
    let mut keys = table.rows.clone();
    keys.extend(
        varying(session)
            .into_iter()
            .filter(|f| *f != table.columns && !table.rows.contains(f)),
    );
    let columns: Vec<String> = distinct(session.cells.iter(), std::slice::from_ref(&table.columns))
        .into_iter()
        .flatten()
        .filter(|c| c != NO_LEVEL)
        .collect();
    let mut best: Vec<(String, Vec<String>)> = Vec::new();
    let mut rows = Vec::new();
    let find = |column: &str, key: &[String], same: fn(&str, &str) -> bool| {
        session.cells.iter().position(|cell| {
            let mut levels = keys.iter().map(|f| level(cell, f)).zip(key);
            level(cell, &table.columns) == column && levels.all(|(l, k)| same(&l, k))
        })
    };
    let at = |key: &[String], column: &str| find(column, key, |level, key| level == key);
    for key in distinct(session.cells.iter(), &keys) {
        // A peer that lacks a factor, as one node has no shares, is the peer for all its levels.
        let peer = peer(session, table, measure, &columns, &|column| {
            at(&key, column)
                .or_else(|| find(column, &key, |level, key| level == key || level == NO_LEVEL))
        });
        // Which of several was the best is not to be seen in the table.
        if let Some((name, _, true)) = &peer {
            let place = best.iter_mut().find(|(peer, _)| peer == name);
            let key = key.join(" ");
            match place {
                Some((_, keys)) => keys.push(key),
                None => best.push((name.clone(), vec![key])),
            }
        }
        let entry = |column: &String| {
            let Some(cell) = at(&key, column) else {
                return Entry::Empty;
            };
            let Some(value) = estimate(session, cell, measure) else {
                return Entry::Missing(why_missing(session, cell, measure));
            };
            let ratio = peer
                .as_ref()
                .filter(|(_, p, _)| *p != cell)
                .and_then(|(_, p, _)| ratio(session, cell, *p, measure));
            Entry::Value(value, ratio)
        };
        let entries: Vec<Entry> = columns.iter().map(entry).collect();
        if entries.iter().any(|e| *e != Entry::Empty) {
            rows.push((key, entries));
        }
    }
    let note = |(peer, keys): (String, Vec<String>)| {
        format!("The best peer is {peer} for {}.", keys.join("; "))
    };
    let notes = best.into_iter().map(note).collect();
    let filled = Filled {
        title: format!("{} by {}", measure::label(measure), table.columns),
        keys,
        columns,
        rows,
        notes,
    };
    let nobody = format!(
        "no engine says {measure}; there are {}",
        measures(session).join(", ")
    );
    filled.trimmed(&nobody).without_constants()
}

/// The level that ratios are to, its cell, and whether it is the best of several.
fn peer(
    session: &Session,
    table: &crate::file::Table,
    measure: &str,
    columns: &[String],
    at: &dyn Fn(&str) -> Option<usize>,
) -> Option<(String, usize, bool)> {
    let wanted = table.ratio_to.values().next()?;
    let matching = columns
        .iter()
        .filter(|c| wanted.matches(&Level::Text((*c).clone())) || wanted.to_string() == **c);
    let known = matching.filter_map(|c| {
        let cell = at(c)?;
        Some((c.clone(), cell, estimate(session, cell, measure)?.median))
    });
    let sign = if measure::less_is_better(measure) {
        1.0
    } else {
        -1.0
    };
    let known: Vec<(String, usize, f64)> = known.collect();
    let several = known.len() > 1;
    let best = known
        .into_iter()
        .min_by(|a, b| (sign * a.2).total_cmp(&(sign * b.2)));
    best.map(|(name, cell, _)| (name, cell, several))
}

/// The ratio of two cells, block by block.
pub(crate) fn ratio(
    session: &Session,
    above: usize,
    below: usize,
    measure: &str,
) -> Option<Estimate> {
    let (a, b) = (
        by_block(session, above, measure),
        by_block(session, below, measure),
    );
    let pairs: Vec<(f64, f64)> = a
        .iter()
        .filter_map(|(block, x)| Some((*x, *b.get(block)?)))
        .collect();
    stats::paired_ratio(&pairs, session.experiment.seed)
}

/// Why a cell has no value of a measure.
fn why_missing(session: &Session, cell: usize, measure: &str) -> String {
    let mine = || session.runs().filter(|r| r.cell == cell);
    if let Some(why) = mine().find_map(|r| r.failed.as_ref()) {
        return format!("failed: {why}");
    }
    if mine().next().is_none() {
        return "not run yet".into();
    }
    if mine().all(|r| r.disturbed.is_some()) {
        return "every run was disturbed".into();
    }
    let measured = mine().any(|r| r.source == Source::Measured);
    match measure.contains("joules") || measure == "watts" {
        true if measure.starts_with("modelled") => "measured, not modelled".into(),
        true if !measured => "no meter here".into(),
        true => "no idle power".into(),
        false => SAYS_NOTHING.into(),
    }
}
