//! The description of an experiment: one TOML file.
//!
//! What this refuses: keys nobody reads, factors without levels, figures and tables of factors that do not exist,
//! designs too large to mean it. Errors name file and line, and what to write instead. Nothing is looked up in the
//! world here: whether an engine exists is found out by who runs it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::ExperimentError;
use crate::level::Level;

mod check;
mod time;
mod words;

/// The most cells an experiment may have.
pub(crate) const MOST_CELLS: usize = 10_000;

/// An experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name, also of its folder.
    pub name: String,
    /// What it answers.
    pub question: String,
    /// Of the order and of the bootstrap.
    pub seed: u64,
    /// How often, how long.
    pub design: Design,
    /// Factors with their levels, in the file's order.
    pub factors: Vec<(String, Vec<Level>)>,
    /// Factors that belong to some levels of others.
    pub(crate) only: Vec<Only>,
    /// Combinations that are left out.
    pub(crate) skip: Vec<Condition>,
    /// Commands that run once before anything is measured; doing so again changes nothing.
    pub prepare: Vec<Vec<String>>,
    /// How engines are started, by the level of the factor `engine`.
    pub(crate) engines: BTreeMap<String, Engine>,
    /// What is drawn.
    pub(crate) figures: Vec<Figure>,
    /// What is tabled.
    pub(crate) tables: Vec<Table>,
    /// The text it was read from.
    pub text: String,
}

/// How often and how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Every block runs every cell once.
    pub blocks: u32,
    /// More blocks, until intervals are narrow.
    pub(crate) until: Option<Until>,
    /// Run and thrown away before each window.
    pub warmup: Duration,
    /// Measured in each run.
    pub window: Duration,
    /// Measured without any run at both ends of a block.
    pub idle: Duration,
    /// Cores that others may use before a run counts as disturbed.
    pub others: f64,
    /// Whether disturbed runs count all the same.
    pub noisy: bool,
}

/// When enough blocks have run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    /// Width of the 95 % interval as a part of the median.
    pub interval: f64,
    /// Of which measure.
    pub of: String,
    /// Never more blocks than this.
    pub at_most: u32,
}

/// Levels that factors must have, all of them.
pub(crate) type Condition = BTreeMap<String, Vec<Level>>;

/// A factor that belongs to one level of another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Only {
    /// Which.
    pub factor: String,
    /// Where it varies; elsewhere it is not there.
    pub when: Condition,
}

/// How an engine is started.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    /// A program that speaks the protocol. `{dahl}` is this program; a path with a slash is looked for in the file's
    /// folder and those above.
    #[serde(default)]
    pub command: Vec<String>,
    /// Instead, a program that is measured from its start to its end; `{factor}` stands for a level. Numbers of the last
    /// line of its output, where that is a JSON object, are measures.
    #[serde(default)]
    pub job: Vec<String>,
    /// What of a peer is measured.
    #[serde(default)]
    pub scope: Scope,
    /// Images that a job handles, for what is counted per image.
    #[serde(default)]
    pub images: u64,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// What of a peer is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// A window of steps after a warm-up.
    #[default]
    Window,
    /// The whole process, from its start to its end: loading, compiling and a window without a warm-up.
    Job,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Lines or bars.
    #[serde(default)]
    pub kind: FigureKind,
    /// The factor along the axis.
    pub x: String,
    /// The measure.
    pub y: String,
    /// The factor of colours.
    pub series: Option<String>,
    /// The factor of panels.
    pub panels: Option<String>,
    /// Logarithmic axes: `x`, `y` or `xy`.
    #[serde(default)]
    pub log: String,
}

/// How a figure shows values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FigureKind {
    /// Points with intervals, joined.
    #[default]
    Line,
    /// Bars with intervals.
    Bar,
    /// What peers had resident, over time: `x` is `seconds`, `y` is `resident_bytes`.
    Time,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// The factors of rows; others that vary are added.
    #[serde(deserialize_with = "one_or_many")]
    pub rows: Vec<String>,
    /// The factor of columns.
    pub columns: String,
    /// The measure.
    pub cell: String,
    /// Ratios to this level of a factor; a star at its end means the best level that begins so.
    #[serde(default)]
    pub ratio_to: BTreeMap<String, Level>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: Spanned<u32>,
    name: Spanned<String>,
    #[serde(default)]
    question: String,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    prepare: Option<Spanned<Vec<Vec<String>>>>,
    design: Spanned<RawDesign>,
    factors: Spanned<BTreeMap<Spanned<String>, toml::Value>>,
    #[serde(default)]
    only: Vec<Spanned<RawOnly>>,
    #[serde(default)]
    skip: Vec<Spanned<RawSkip>>,
    #[serde(default)]
    engine: BTreeMap<String, Spanned<Engine>>,
    #[serde(default)]
    figure: Vec<Spanned<Figure>>,
    #[serde(default)]
    table: Vec<Spanned<Table>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDesign {
    blocks: u32,
    until: Option<Until>,
    #[serde(default)]
    warmup: Option<Spanned<String>>,
    window: Spanned<String>,
    #[serde(default)]
    idle: Option<Spanned<String>>,
    #[serde(default = "others")]
    others: f64,
}

fn others() -> f64 {
    0.05
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOnly {
    factor: String,
    when: BTreeMap<String, OneOrMany>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSkip {
    when: BTreeMap<String, OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<Level>),
    One(Level),
}

impl OneOrMany {
    fn levels(self) -> Vec<Level> {
        match self {
            OneOrMany::Many(levels) => levels,
            OneOrMany::One(level) => vec![level],
        }
    }
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let levels = OneOrMany::deserialize(from)?.levels();
    Ok(levels.iter().map(Level::to_string).collect())
}

/// Where in a text something is.
pub(crate) struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    fn error(&self, span: Range<usize>, message: impl Into<String>) -> ExperimentError {
        let start = span.start.min(self.text.len());
        let before = self.text.as_bytes()[..start].iter();
        ExperimentError::File {
            file: self.file.into(),
            line: 1 + before.filter(|b| **b == b'\n').count(),
            message: message.into(),
        }
    }

    fn time(&self, text: Option<&Spanned<String>>) -> Result<Duration, ExperimentError> {
        let Some(text) = text else {
            return Ok(Duration::ZERO);
        };
        time::parse(text.get_ref()).map_err(|message| self.error(text.span(), message))
    }
}

impl Experiment {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Experiment, ExperimentError> {
        let bytes = std::fs::read(path).map_err(ExperimentError::io(path))?;
        let file = path.display().to_string();
        let text = String::from_utf8(bytes).map_err(|_| {
            let why = "is no text: an experiment is a TOML file, such as the shipped ones";
            ExperimentError::refused(format!("{file} {why}"))
        })?;
        Experiment::from_toml(&text, &file)
    }

    /// The experiment of a file, or of a shipped name where there is no such file.
    pub fn find(path: &Path) -> Result<Experiment, ExperimentError> {
        let name = path.to_string_lossy();
        let refused = |why: &str| Err(ExperimentError::refused(format!("{name} {why}")));
        match path.exists() || name.contains(['/', '.']) {
            true if path.join("session.json").exists() => refused(
                "is the folder of a session: `dahl experiment run --resume` goes on with it, and its experiment.toml begins another",
            ),
            true if path.is_dir() => refused("is a folder: name the file of an experiment in it"),
            true if !path.exists() => {
                refused("is not there: name a file, or one of `dahl experiment list`")
            }
            true => Experiment::load(path),
            false => crate::shipped::find(&name),
        }
    }

    /// Refuses numbers that the design cannot have.
    pub(crate) fn check_design(&self) -> Result<(), String> {
        check::design(&self.design)
    }

    /// Reads a text; `file` is its name in errors.
    pub fn from_toml(text: &str, file: &str) -> Result<Experiment, ExperimentError> {
        let lines = Lines { file, text };
        let raw: Raw = toml::from_str(text)
            .map_err(|e| lines.error(e.span().unwrap_or(0..0), words::said(e.message())))?;
        let version = *raw.version.get_ref();
        if version != 1 {
            let message = format!("version {version} is not known here: write version = 1");
            return Err(lines.error(raw.version.span(), message));
        }
        let design = raw.design.get_ref();
        let mut experiment = Experiment {
            name: raw.name.get_ref().clone(),
            question: raw.question,
            seed: raw.seed,
            design: Design {
                blocks: design.blocks,
                until: design.until.clone(),
                warmup: lines.time(design.warmup.as_ref())?,
                window: lines.time(Some(&design.window))?,
                idle: lines.time(design.idle.as_ref())?,
                others: design.others,
                noisy: false,
            },
            factors: Vec::new(),
            only: Vec::new(),
            skip: Vec::new(),
            prepare: Vec::new(),
            engines: BTreeMap::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            text: text.into(),
        };
        check::name(&experiment.name).map_err(|m| lines.error(raw.name.span(), m))?;
        experiment
            .check_design()
            .map_err(|m| lines.error(raw.design.span(), m))?;
        let at = raw.factors.span();
        // Tables come sorted by name; the file's order is that of places.
        let mut factors: Vec<_> = raw.factors.into_inner().into_iter().collect();
        factors.sort_by_key(|(name, _)| name.span().start);
        let factors = factors
            .into_iter()
            .map(|(name, value)| (name.into_inner(), value));
        experiment.factors = check::factors(factors.collect()).map_err(|m| lines.error(at, m))?;
        for only in raw.only {
            let span = only.span();
            let only = only.into_inner();
            let when = condition(only.when);
            check::only(&experiment.factors, &only.factor, &when)
                .map_err(|m| lines.error(span, m))?;
            let factor = only.factor;
            experiment.only.push(Only { factor, when });
        }
        for skip in raw.skip {
            let span = skip.span();
            let when = condition(skip.into_inner().when);
            check::condition(&experiment.factors, &when).map_err(|m| lines.error(span, m))?;
            experiment.skip.push(when);
        }
        if let Some(prepare) = raw.prepare {
            if prepare.get_ref().iter().any(Vec::is_empty) {
                let message = "a command of prepare has no program: write prepare = [[\"program\", \"argument\"]]";
                return Err(lines.error(prepare.span(), message));
            }
            experiment.prepare = prepare.into_inner();
        }
        for (name, engine) in raw.engine {
            check::engine(&experiment.factors, engine.get_ref())
                .map_err(|m| lines.error(engine.span(), m))?;
            experiment.engines.insert(name, engine.into_inner());
        }
        for figure in raw.figure {
            check::figure(&experiment.factors, figure.get_ref())
                .map_err(|m| lines.error(figure.span(), m))?;
            experiment.figures.push(figure.into_inner());
        }
        for table in raw.table {
            check::table(&experiment.factors, table.get_ref())
                .map_err(|m| lines.error(table.span(), m))?;
            experiment.tables.push(table.into_inner());
        }
        Ok(experiment)
    }
}

fn condition(raw: BTreeMap<String, OneOrMany>) -> Condition {
    let levels = |(factor, levels): (String, OneOrMany)| (factor, levels.levels());
    raw.into_iter().map(levels).collect()
}

#[cfg(test)]
mod tests;
