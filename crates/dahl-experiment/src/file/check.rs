//! What must hold of a description beyond its syntax. Pure functions: a text says what is wrong and what to write.

use dahl_core::text::{nearest, unknown};

use super::{Condition, Design, Engine, Figure, FigureKind, MOST_CELLS, Table};
use crate::level::Level;
use crate::measure;
use crate::resident;

/// Factors with their levels.
type Factors = [(String, Vec<Level>)];

pub(super) fn name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= 64 && name.chars().all(good) {
        true => Ok(()),
        false => {
            Err("name must be letters, digits and dashes: it becomes the name of a folder".into())
        }
    }
}

pub(super) fn design(design: &Design) -> Result<(), String> {
    if !(1..=10_000).contains(&design.blocks) {
        return Err("blocks must be 1 to 10000".into());
    }
    if design.window.is_zero() {
        return Err("window must be longer than 0 s".into());
    }
    if !(0.0..=1e6).contains(&design.others) {
        return Err("others is a number of cores, 0 or more".into());
    }
    if let Some(until) = &design.until {
        if !(until.interval > 0.0 && until.interval < 10.0) {
            return Err("until: interval is a part of the median, such as 0.02".into());
        }
        if until.at_most < design.blocks || until.at_most > 10_000 {
            return Err("until: at_most must be at least blocks, and at most 10000".into());
        }
        measure::known(&until.of).map_err(|e| format!("until: {e}"))?;
    }
    Ok(())
}

pub(super) fn factors(
    table: Vec<(String, toml::Value)>,
) -> Result<Vec<(String, Vec<Level>)>, String> {
    let mut factors = Vec::new();
    let mut cells = 1usize;
    for (name, value) in table {
        self::name(&name)
            .map_err(|_| format!("factor {name:?}: use letters, digits and dashes"))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(format!(
                "factor {name:?}: a column of runs.csv has this name; choose another"
            ));
        }
        let values = match value {
            toml::Value::Array(values) => values,
            one => vec![one],
        };
        let mut levels = Vec::new();
        for value in values {
            let level = Level::try_from(value).map_err(|e| format!("factor {name:?}: {e}"))?;
            if levels.contains(&level) {
                return Err(format!("factor {name:?} has level {level} twice"));
            }
            levels.push(level);
        }
        if levels.is_empty() {
            return Err(format!(
                "factor {name:?} has no levels: leave it out or give it some"
            ));
        }
        cells = cells.saturating_mul(levels.len());
        factors.push((name, levels));
    }
    if factors.is_empty() {
        return Err("there are no factors: give at least one, such as engine = [\"dahl\"]".into());
    }
    if cells > MOST_CELLS {
        return Err(format!(
            "{cells} combinations of levels are more than {MOST_CELLS}: vary less at a time"
        ));
    }
    Ok(factors)
}

/// Columns of rows beside the factors.
pub(crate) const RESERVED: &[&str] = &[
    "block", "place", "attempt", "cell", "measure", "n", "status",
];

fn factor<'a>(factors: &'a Factors, name: &str) -> Result<&'a [Level], String> {
    let found = factors.iter().find(|(n, _)| n == name);
    found.map(|(_, levels)| levels.as_slice()).ok_or_else(|| {
        let names: Vec<&str> = factors.iter().map(|(n, _)| n.as_str()).collect();
        unknown("factor", name, &names)
    })
}

pub(super) fn condition(factors: &Factors, when: &Condition) -> Result<(), String> {
    if when.is_empty() {
        return Err("when is empty: name a factor and its levels".into());
    }
    for (name, levels) in when {
        let known = factor(factors, name)?;
        for level in levels {
            if !known.contains(level) {
                let texts: Vec<String> = known.iter().map(Level::to_string).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                return Err(unknown(
                    &format!("level of {name}"),
                    &level.to_string(),
                    &texts,
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn only(factors: &Factors, name: &str, when: &Condition) -> Result<(), String> {
    factor(factors, name)?;
    if when.contains_key(name) {
        return Err(format!("factor {name:?} cannot depend on itself"));
    }
    condition(factors, when)
}

pub(super) fn engine(factors: &Factors, engine: &Engine) -> Result<(), String> {
    // Other braces are the program's own.
    let names = || factors.iter().map(|(n, _)| n.as_str()).chain(["dahl"]);
    for word in &engine.job {
        let inside = word.split('{').skip(1).filter_map(|w| w.split_once('}'));
        for (name, _) in inside.filter(|(name, _)| !names().any(|n| n == *name)) {
            if let Some(near) = nearest(name, names()) {
                return Err(format!(
                    "job: no factor is called {name:?}: did you mean {{{near}}}?"
                ));
            }
        }
    }
    match (engine.command.is_empty(), engine.job.is_empty()) {
        (true, true) => Err("an engine needs a command (a peer) or a job (a program)".into()),
        (false, false) => Err("an engine is a command or a job, not both".into()),
        (true, false) if engine.scope == super::Scope::Job => {
            Err("a job is measured from its start to its end anyway: leave scope out".into())
        }
        _ => Ok(()),
    }
}

pub(super) fn figure(factors: &Factors, figure: &Figure) -> Result<(), String> {
    if figure.kind == FigureKind::Time {
        if (figure.x.as_str(), figure.y.as_str()) != ("seconds", resident::MEASURE) {
            let y = resident::MEASURE;
            return Err(format!(
                "a figure of kind \"time\" has x = \"seconds\" and y = {y:?}"
            ));
        }
    } else {
        factor(factors, &figure.x)?;
    }
    for name in figure.series.iter().chain(&figure.panels) {
        factor(factors, name)?;
    }
    measure::known(&figure.y)?;
    match figure.log.as_str() {
        "" | "x" | "y" | "xy" => Ok(()),
        other => Err(format!("log = {other:?}: write \"x\", \"y\" or \"xy\"")),
    }
}

pub(super) fn table(factors: &Factors, table: &Table) -> Result<(), String> {
    for name in table.rows.iter().chain([&table.columns]) {
        factor(factors, name)?;
    }
    if table.rows.contains(&table.columns) {
        return Err(format!(
            "factor {:?} is both in rows and in columns",
            table.columns
        ));
    }
    measure::known(&table.cell)?;
    if table.ratio_to.len() > 1 {
        return Err("ratio_to names one factor".into());
    }
    for (name, level) in &table.ratio_to {
        let known = factor(factors, name)?;
        if *name != table.columns {
            return Err(format!(
                "ratio_to must name the columns' factor, {:?}",
                table.columns
            ));
        }
        if !known.iter().any(|l| level.matches(l)) {
            return Err(format!("ratio_to: {name} has no level {level}"));
        }
    }
    Ok(())
}
