//! A session: a folder in which an experiment runs, is killed, goes on and ends.
//!
//! What is in the folder before the first run: `experiment.toml`, `session.json` (what the command line changed),
//! `environment.json` and `order.csv`. Rows are appended to `rows.jsonl`. Everything else is made of these by `report`.
//! A session goes on only in the environment in which it began, and one process at a time writes a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dahl_core::Seconds;
use dahl_core::file::{Lock, write_atomically};
use dahl_core::report::Report;
use serde::{Deserialize, Serialize};

use crate::ExperimentError;
use crate::design::{Cell, name};
use crate::environment::Environment;
use crate::file::Experiment;
use crate::row::{self, Idle, Row, Rows, Run};
use crate::stats;
use crate::summary;
use crate::world::{self, World};

/// A disturbed run is repeated at most so often.
const REPEATS: u32 = 2;

/// The part of a window that must have been seen: what a peer did is divided by the time that was seen.
const SEEN: f64 = 0.95;

/// What a command line changes of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Only these levels of factors.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// So many blocks, and no more.
    #[serde(default)]
    pub blocks: Option<u32>,
    /// All times divided by this.
    #[serde(default)]
    pub shorter: Option<f64>,
    /// Disturbed runs count, for trials.
    #[serde(default)]
    pub noisy: bool,
    /// Cores that others may use before a run counts as disturbed.
    #[serde(default)]
    pub others: Option<f64>,
    /// Meters at the wall, as `dahl_energy::WallMeter` reads them.
    #[serde(default)]
    pub meters: Vec<String>,
}

impl Changes {
    /// How to measure: this machine's meters, and those at the wall.
    pub fn meter(&self) -> Result<dahl_energy::Options, ExperimentError> {
        let wall = self.meters.iter().map(|text| text.parse());
        let wall: Result<Vec<_>, String> = wall.collect();
        Ok(dahl_energy::Options {
            wall: wall.map_err(ExperimentError::refused)?,
            ..dahl_energy::Options::default()
        })
    }

    /// The same as options of a command line, each with a space before it.
    pub(crate) fn options(&self) -> String {
        let mut text = String::new();
        for (factor, levels) in &self.only {
            text += &format!(" --only {factor}={}", levels.join(","));
        }
        let numbers = [
            ("blocks", self.blocks.map(|n| n.to_string())),
            ("shorter", self.shorter.map(|x| x.to_string())),
            ("others", self.others.map(|x| x.to_string())),
        ];
        for (name, number) in numbers {
            text += &number.map_or(String::new(), |n| format!(" --{name} {n}"));
        }
        text += if self.noisy { " --noisy" } else { "" };
        text + &self
            .meters
            .iter()
            .map(|m| format!(" --meter {m}"))
            .collect::<String>()
    }

    /// The experiment with these changes.
    pub fn apply(&self, mut experiment: Experiment) -> Result<Experiment, ExperimentError> {
        for (factor, levels) in &self.only {
            let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
            experiment
                .keep(factor, &levels)
                .map_err(|e| ExperimentError::refused(format!("--only {factor}: {e}")))?;
        }
        if let Some(blocks) = self.blocks {
            experiment = experiment.with_blocks(blocks);
        }
        if let Some(by) = self.shorter {
            experiment = experiment
                .shortened(by)
                .map_err(|e| ExperimentError::refused(format!("--shorter {by}: {e}")))?;
        }
        if let Some(others) = self.others {
            experiment = experiment
                .allowing(others)
                .map_err(|e| ExperimentError::refused(format!("--others {others}: {e}")))?;
        }
        experiment.design.noisy = self.noisy;
        if experiment.cells().is_empty() {
            return Err(ExperimentError::refused(
                "no cell is left: every combination of levels is skipped",
            ));
        }
        Ok(experiment)
    }
}

/// A folder with an experiment.
pub struct Session {
    /// The folder.
    pub folder: PathBuf,
    /// What runs, with the changes.
    pub experiment: Experiment,
    /// What the command line changed of it.
    pub changes: Changes,
    /// Where it began.
    pub environment: Environment,
    /// What runs, cell by cell.
    pub cells: Vec<Cell>,
    /// What was measured so far.
    pub rows: Vec<Row>,
}

/// How far a session is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Runs that are done, without repetitions.
    pub done: usize,
    /// Runs that the design has at least.
    pub planned: usize,
    /// Runs that were repeated or left out because something disturbed them.
    pub disturbed: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Seconds that the rest will take, about.
    pub left: f64,
    /// Seconds of a usual run.
    pub each: f64,
}

/// What a session tells while it runs.
pub enum SessionEvent<'a> {
    /// The machine's idle power is measured.
    Idle(&'a Status),
    /// A cell begins.
    Begins(&'a Status, String),
    /// A run has ended.
    Ended(&'a Status, &'a Run),
}

impl Session {
    /// Makes the folder of a new session.
    pub fn create(
        folder: &Path,
        experiment: Experiment,
        changes: &Changes,
        environment: Environment,
    ) -> Result<Session, ExperimentError> {
        if folder.join("rows.jsonl").exists() {
            return Err(ExperimentError::refused(format!(
                "{} has a session already: go on with --resume {0}, or name another folder with -o",
                folder.display()
            )));
        }
        let experiment = changes.apply(experiment)?;
        fs::create_dir_all(folder).map_err(|e| {
            ExperimentError::refused(format!(
                "cannot make the folder {}: {e}; name another with -o",
                folder.display()
            ))
        })?;
        let cells = experiment.cells();
        put(folder, "experiment.toml", &experiment.text)?;
        put(folder, "session.json", &json(changes))?;
        put(folder, "environment.json", &json(&environment))?;
        if !environment.diff.is_empty() {
            put(folder, "changes.diff", &environment.diff)?;
        }
        put(folder, "order.csv", &experiment.order_csv(&cells))?;
        put(folder, "rows.jsonl", "")?;
        Ok(Session {
            folder: folder.to_owned(),
            experiment,
            changes: changes.clone(),
            environment,
            cells,
            rows: Vec::new(),
        })
    }

    /// Opens the folder of a session, to look at it.
    pub fn open(folder: &Path) -> Result<Session, ExperimentError> {
        if !folder.join("session.json").is_file() {
            let what = match folder.exists() {
                true => "is not the folder of a session",
                false => "is not there",
            };
            return Err(ExperimentError::refused(format!(
                "{} {what}: `dahl experiment run FILE -o DIR` makes one",
                folder.display()
            )));
        }
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(ExperimentError::io(&path))
        };
        let bad = |name: &str, e: serde_json::Error| ExperimentError::Rows {
            path: folder.join(name),
            line: e.line(),
            message: e.to_string(),
        };
        let file = folder.join("experiment.toml").display().to_string();
        let experiment = Experiment::from_toml(&read("experiment.toml")?, &file)?;
        let changes: Changes =
            serde_json::from_str(&read("session.json")?).map_err(|e| bad("session.json", e))?;
        let experiment = changes.apply(experiment)?;
        let environment = serde_json::from_str(&read("environment.json")?)
            .map_err(|e| bad("environment.json", e))?;
        let rows = row::load(&folder.join("rows.jsonl"))?;
        let cells = experiment.cells();
        let session = Session {
            folder: folder.to_owned(),
            experiment,
            changes,
            environment,
            cells,
            rows,
        };
        session.check()?;
        Ok(session)
    }

    /// Refuses rows that this experiment cannot have made.
    fn check(&self) -> Result<(), ExperimentError> {
        let mut seen = std::collections::HashSet::new();
        for (i, row) in self.rows.iter().enumerate() {
            let Row::Run(run) = row else { continue };
            let wrong = match self.cells.get(run.cell) {
                None => Some(format!("there is no cell {}", run.cell)),
                Some(cell) if *cell != run.levels => {
                    Some(format!("cell {} is {}", run.cell, name(cell)))
                }
                Some(_) if !seen.insert((run.block, run.cell, run.attempt)) => Some(format!(
                    "block {}, cell {}, attempt {} is there twice",
                    run.block, run.cell, run.attempt
                )),
                Some(_) => None,
            };
            if let Some(message) = wrong {
                let path = self.folder.join("rows.jsonl");
                return Err(ExperimentError::Rows {
                    path,
                    line: i + 1,
                    message,
                });
            }
        }
        Ok(())
    }

    /// Refuses to go on where figures could not be compared.
    pub fn check_environment(&self, now: &Environment) -> Result<(), ExperimentError> {
        match self.environment.difference(now) {
            None => Ok(()),
            Some(what) => Err(ExperimentError::refused(format!(
                "{} cannot go on here, because {what}: figures would not belong together; start a new session with -o",
                self.folder.display()
            ))),
        }
    }

    /// All runs, repetitions included.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.rows.iter().filter_map(|row| match row {
            Row::Run(run) => Some(run.as_ref()),
            Row::Idle(_) => None,
        })
    }

    fn last(&self, block: u32, cell: usize) -> Option<&Run> {
        let mine = |r: &&Run| r.block == block && r.cell == cell;
        self.runs().filter(mine).max_by_key(|r| r.attempt)
    }

    /// How far it is.
    pub fn status(&self) -> Status {
        let design = &self.experiment.design;
        let blocks = self.blocks_begun().max(design.blocks);
        let first: Vec<&Run> = self.runs().filter(|r| r.attempt == 0).collect();
        let planned = self.cells.len() * blocks as usize;
        let usual = (design.warmup + design.window).as_secs_f64();
        // What starting and loading take is known from the times at which runs began.
        let gaps = self.rows.windows(2).filter_map(|pair| match pair {
            [Row::Run(a), Row::Run(b)] if b.block == a.block && b.at > a.at => Some(b.at - a.at),
            _ => None,
        });
        let gaps: Vec<f64> = gaps.collect();
        let each = stats::median(&gaps).unwrap_or(usual + 1.0);
        let idle = 2.0
            * design.idle.as_secs_f64()
            * (1.0 - first.len() as f64 / planned as f64)
            * f64::from(blocks);
        Status {
            done: first.len(),
            planned,
            disturbed: self.runs().filter(|r| r.disturbed.is_some()).count(),
            failed: self.runs().filter(|r| r.failed.is_some()).count(),
            left: (planned - first.len().min(planned)) as f64 * each + idle,
            each,
        }
    }

    /// The same in words, with the command that goes on.
    pub fn progress(&self) -> Report {
        let (mut report, s) = (Report::default(), self.status());
        report.line(format!(
            "{}: {} of {} runs done, {} disturbed, {} failed",
            self.experiment.name, s.done, s.planned, s.disturbed, s.failed
        ));
        report.line(match s.done < s.planned {
            true => format!(
                "about {} left; go on with: dahl experiment run --resume {}",
                Seconds(s.left),
                self.folder.display()
            ),
            false => "complete".into(),
        });
        report
    }

    /// Where the archive of a session lies unless somebody says otherwise: beside its folder.
    pub fn archive_path(&self) -> PathBuf {
        let whole = self.folder.canonicalize();
        let whole = whole.unwrap_or_else(|_| self.folder.clone());
        PathBuf::from(format!("{}.tar.gz", whole.display()))
    }

    /// Cells and blocks without a measurement that counts, each with the reason.
    pub fn unmeasured(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for block in 0..self.blocks_begun() {
            for (at, cell) in self.cells.iter().enumerate() {
                let last = self.last(block, at).filter(|r| !r.counts());
                let why = last.and_then(|r| r.failed.as_ref().or(r.disturbed.as_ref()));
                all.extend(
                    why.map(|why| (format!("block {}, {}", block + 1, name(cell)), why.clone())),
                );
            }
        }
        all
    }

    fn blocks_begun(&self) -> u32 {
        self.runs().map(|r| r.block + 1).max().unwrap_or(0)
    }

    /// Whether intervals are narrow enough to stop before a block.
    fn is_enough(&self, block: u32) -> bool {
        let design = &self.experiment.design;
        let Some(until) = &design.until else {
            return block >= design.blocks;
        };
        let narrow = |cell: usize| {
            let values = summary::values(self, cell, &until.of);
            let Some(estimate) = stats::estimate(&values, self.experiment.seed) else {
                // A cell that fails, or a measure that is not there, does not become known by waiting.
                return true;
            };
            estimate.width() <= until.interval
        };
        block >= until.at_most || block >= design.blocks && (0..self.cells.len()).all(narrow)
    }

    /// Runs what is left. Every row is on the disk before the next run begins.
    pub(crate) fn run_in(
        &mut self,
        world: &mut dyn World,
        on_event: &mut dyn FnMut(SessionEvent<'_>),
    ) -> Result<(), ExperimentError> {
        let path = self.folder.join("rows.jsonl");
        let lock = Lock::take(&path).map_err(ExperimentError::io(&path))?;
        let Some(_lock) = lock else {
            return Err(ExperimentError::refused(format!(
                "another process writes {}: wait until it has ended, or stop it",
                self.folder.display()
            )));
        };
        let (mut rows, there) = Rows::open(&path)?;
        self.rows = there;
        self.check()?;
        let mut block = 0;
        while !self.is_enough(block) {
            self.idle(world, &mut rows, block, false, on_event)?;
            let order = self.experiment.order(block, self.cells.len());
            for &cell in &order {
                if self.last(block, cell).is_none() {
                    self.once(world, &mut rows, (block, cell, 0), on_event)?;
                }
            }
            for attempt in 1..=REPEATS {
                for &cell in &order {
                    let again = |r: &Run| r.disturbed.is_some() && r.attempt + 1 == attempt;
                    if self.last(block, cell).is_some_and(again) {
                        self.once(world, &mut rows, (block, cell, attempt), on_event)?;
                    }
                }
            }
            self.idle(world, &mut rows, block, true, on_event)?;
            block += 1;
        }
        Ok(())
    }

    fn idle(
        &mut self,
        world: &mut dyn World,
        rows: &mut Rows,
        block: u32,
        end: bool,
        on_event: &mut dyn FnMut(SessionEvent<'_>),
    ) -> Result<(), ExperimentError> {
        let time = self.experiment.design.idle;
        let there = |r: &Row| matches!(r, Row::Idle(i) if i.block == block && i.end == end);
        if time.is_zero() || self.rows.iter().any(there) {
            return Ok(());
        }
        on_event(SessionEvent::Idle(&self.status()));
        let before = world.look();
        world.wait(time)?;
        let after = world.look();
        let joules = world::joules(&before, &after);
        let row = Row::Idle(Idle {
            block,
            end,
            seconds: after.at - before.at,
            joules: (!joules.is_empty()).then(|| joules.values().sum()),
            surroundings: world::surroundings(&before, &after),
        });
        rows.append(&row)?;
        self.rows.push(row);
        Ok(())
    }

    fn once(
        &mut self,
        world: &mut dyn World,
        rows: &mut Rows,
        (block, cell, attempt): (u32, usize, u32),
        on_event: &mut dyn FnMut(SessionEvent<'_>),
    ) -> Result<(), ExperimentError> {
        let levels = self.cells[cell].clone();
        on_event(SessionEvent::Begins(&self.status(), name(&levels)));
        let design = &self.experiment.design;
        let mut run = match world::run(world, &levels, design.warmup, design.window) {
            Ok(run) => run,
            Err(ExperimentError::Peer(why)) => Run {
                failed: Some(why),
                at: world.look().unix,
                ..Run::default()
            },
            Err(other) => return Err(other),
        };
        let usual: Vec<f64> = self
            .runs()
            .filter_map(|r| r.surroundings.megahertz)
            .collect();
        if run.failed.is_none() && !design.noisy {
            let around = run
                .surroundings
                .disturbance(design.others, stats::median(&usual));
            let reasons: Vec<String> = around.into_iter().chain(unseen(&run)).collect();
            run.disturbed = (!reasons.is_empty()).then(|| reasons.join("; "));
        }
        run = Run {
            block,
            cell,
            attempt,
            levels,
            ..run
        };
        let row = Row::Run(Box::new(run));
        rows.append(&row)?;
        self.rows.push(row);
        if let Some(Row::Run(run)) = self.rows.last() {
            on_event(SessionEvent::Ended(&self.status(), run));
        }
        Ok(())
    }

    /// Runs what is left on this machine.
    pub fn run(
        &mut self,
        machine: &mut crate::Machine,
        on_event: &mut dyn FnMut(SessionEvent<'_>),
    ) -> Result<(), ExperimentError> {
        self.run_in(machine, on_event)
    }
}

/// That less was seen of a window than it lasted, as the peer says, because this process was kept from running.
fn unseen(run: &Run) -> Option<String> {
    let lasted = *run.measures.get("own_seconds")?;
    (run.seconds < SEEN * lasted).then(|| {
        let (seen, lasted) = (dahl_core::Seconds(run.seconds), dahl_core::Seconds(lasted));
        format!("{seen} were seen of a window of {lasted}")
    })
}

/// Writes a file of a session.
pub(crate) fn put(folder: &Path, name: &str, text: &str) -> Result<(), ExperimentError> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(ExperimentError::io(parent))?;
    }
    write_atomically(&path, |out| out.write_all(text.as_bytes()))
        .map_err(ExperimentError::io(&path))
}

/// A value as JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod made_up;
#[cfg(test)]
mod tests;
