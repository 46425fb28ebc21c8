//! What each computation can be: seconds and joules of every stage and instruction at every frequency, as CSV.
//!
//! `stage,instruction,frequency,time,energy`: stages from 0, `forward` or `backward`, MHz, seconds, joules; columns
//! in any order, others left alone.

use std::collections::BTreeMap;

/// One way to run a computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) seconds: f64,
    pub(super) joules: f64,
}

/// What can be wrong with a table of options.
#[derive(Debug, thiserror::Error)]
pub enum EnergyError {
    /// A line that makes no sense.
    #[error("line {line}: {what}; {remedy}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A table or a question that lacks something.
    #[error("{0}")]
    Lacking(String),
}

/// The options of all stages.
#[derive(Clone, Debug)]
pub struct OptionTable {
    /// For each stage, the options of `[forward, backward]`: rising times, falling joules.
    pub(super) stages: Vec<[Vec<Choice>; 2]>,
}

const COLUMNS: [&str; 5] = ["stage", "instruction", "frequency", "time", "energy"];
/// Longer than any computation takes. Thousands of them in a row are whole picoseconds of 63 bits.
const MOST_SECONDS: f64 = 100.0;
/// More stages than any pipeline has.
const MOST_STAGES: usize = 1024;

impl OptionTable {
    /// Reads the CSV.
    ///
    /// # Errors
    /// Names the line and what to do.
    pub fn from_csv(text: &str) -> Result<OptionTable, EnergyError> {
        let mut lines = text.lines().enumerate();
        let head = lines.next().map_or("", |(_, line)| line);
        let names: Vec<&str> = head.split(',').map(str::trim).collect();
        let mut place = [0; 5];
        for (column, place) in COLUMNS.iter().zip(&mut place) {
            let found = names.iter().position(|n| n.eq_ignore_ascii_case(column));
            *place = found.ok_or_else(|| EnergyError::Line {
                line: 1,
                what: format!("there is no column {column}"),
                remedy: "the first line must be stage,instruction,frequency,time,energy",
            })?;
        }
        let mut found: BTreeMap<(usize, usize), Vec<Choice>> = BTreeMap::new();
        for (number, line) in lines {
            if line.trim().is_empty() {
                continue;
            }
            let (key, choice) = row(line, number + 1, &place)?;
            found.entry(key).or_default().push(choice);
        }
        let stages = found.keys().map(|k| k.0 + 1).max().unwrap_or(0);
        if stages == 0 {
            let text =
                "the table has no rows; add a line for each stage, instruction and frequency";
            return Err(EnergyError::Lacking(text.into()));
        }
        let mut table = OptionTable { stages: Vec::new() };
        for stage in 0..stages {
            let mut of = |i: usize| {
                let all = found.remove(&(stage, i)).ok_or_else(|| {
                    let name = ["forward", "backward"][i];
                    let text = format!("stage {stage} has no {name} rows; stages count from 0");
                    EnergyError::Lacking(text)
                })?;
                Ok(all)
            };
            table.stages.push([of(0)?, of(1)?]);
        }
        Ok(table)
    }

    /// Only options that no other beats, if waiting draws so many watts: rising times, falling joules above waiting.
    pub(super) fn useful(&self, watts: f64) -> Vec<[Vec<Choice>; 2]> {
        let stages = self.stages.iter();
        stages
            .map(|s| s.each_ref().map(|all| falling(all, watts)))
            .collect()
    }
}

/// Options sorted by time, each with fewer joules above waiting than all faster ones.
fn falling(all: &[Choice], watts: f64) -> Vec<Choice> {
    let cost = |c: &Choice| c.joules - watts * c.seconds;
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| {
        a.seconds
            .total_cmp(&b.seconds)
            .then(cost(a).total_cmp(&cost(b)))
    });
    let mut kept: Vec<Choice> = Vec::new();
    for choice in sorted {
        if kept.last().is_none_or(|last| cost(&choice) < cost(last)) {
            kept.push(choice);
        }
    }
    kept
}

fn row(
    line: &str,
    number: usize,
    place: &[usize; 5],
) -> Result<((usize, usize), Choice), EnergyError> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let wrong = |column: usize, remedy: &'static str| {
        let value = fields.get(place[column]).copied().unwrap_or("");
        EnergyError::Line {
            line: number,
            what: format!("{} is {value:?}", COLUMNS[column]),
            remedy,
        }
    };
    let field = |column: usize| fields.get(place[column]).copied().unwrap_or("");
    let stage: usize = field(0)
        .parse()
        .ok()
        .filter(|s| *s < MOST_STAGES)
        .ok_or_else(|| wrong(0, "it must be a number of a stage: 0, 1, 2, …"))?;
    let instruction = match field(1) {
        "forward" => 0,
        "backward" => 1,
        _ => return Err(wrong(1, "it must be forward or backward")),
    };
    let number = |column: usize, most: f64, remedy: &'static str| {
        let value: Option<f64> = field(column).parse().ok();
        let sound = |v: &f64| (0.0..=most).contains(v);
        value.filter(sound).ok_or_else(|| wrong(column, remedy))
    };
    let any = "it must be a number that is not negative";
    number(2, 1e12, any)?;
    let choice = Choice {
        seconds: number(3, MOST_SECONDS, "it must be from 0 to 100 seconds")?,
        joules: number(4, 1e12, any)?,
    };
    Ok(((stage, instruction), choice))
}
