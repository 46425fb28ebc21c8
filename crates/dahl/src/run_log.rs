//! What happens while a model is trained, kept: epochs with their time and energy, and the one under way.

use std::fmt;
use std::time::Instant;

use dahl_core::{Joules, Seconds};
use dahl_energy::Energy;
use dahl_nn::train::{EpochReport, Event, Totals};
use dahl_runtime::Runtime;

/// How an epoch went.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: u64,
    /// As seen during training.
    pub train: Totals,
    /// On the validation set, after the epoch.
    pub validation: Option<Totals>,
    /// Wall-clock time, validation included.
    pub seconds: f64,
    /// What it used, and where the figure comes from.
    pub energy: Energy,
}

impl Epoch {
    /// Joules; `None` where nothing is known of them.
    pub fn joules(&self) -> Option<Joules> {
        self.energy.joules()
    }

    /// Samples trained per second, validation included.
    pub fn samples_per_second(&self) -> f64 {
        self.train.samples as f64 / self.seconds.max(1e-9)
    }
}

/// As one line.
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let score = |totals: &Totals| {
            let accuracy = totals.accuracy().map(|a| format!(", {:.2} %", 100.0 * a));
            format!("{:.4}{}", totals.mean_loss(), accuracy.unwrap_or_default())
        };
        write!(f, "epoch {:>3}: loss {}", self.epoch, score(&self.train))?;
        if let Some(validation) = &self.validation {
            write!(f, "; val {}", score(validation))?;
        }
        let rate = self.samples_per_second();
        write!(f, "; {:.1} s, {rate:.0}/s", self.seconds)?;
        self.joules()
            .map_or(Ok(()), |joules| write!(f, ", {joules}"))
    }
}

/// The log of a run.
pub struct RunLog {
    /// The epochs that have ended.
    pub epochs: Vec<Epoch>,
    /// Of the epoch under way; a step or two behind.
    partial: Totals,
    /// When it began.
    began: Instant,
    /// What had been used by then.
    before: Energy,
    /// How long an epoch took that was cut short.
    cut: f64,
    /// How long units had worked before the run.
    busy: Vec<Seconds>,
}

impl RunLog {
    /// Of a run that begins now, when so much has been used.
    pub fn new(runtime: &Runtime, energy: Energy) -> RunLog {
        RunLog {
            epochs: Vec::new(),
            partial: Totals::default(),
            began: Instant::now(),
            before: energy,
            cut: 0.0,
            busy: runtime.busy(),
        }
    }

    /// Something has happened. Returns the epoch if one has ended, for which alone the energy is asked.
    pub fn tell(&mut self, event: Event, energy: impl FnOnce() -> Energy) -> Option<&Epoch> {
        match event {
            Event::Step { totals, .. } => {
                self.partial = totals;
                None
            }
            Event::Epoch(EpochReport {
                epoch,
                train,
                validation,
            }) => {
                let now = energy();
                self.epochs.push(Epoch {
                    epoch,
                    train,
                    validation,
                    seconds: self.began.elapsed().as_secs_f64(),
                    energy: now.since(&self.before),
                });
                self.partial = Totals::default();
                (self.began, self.before) = (Instant::now(), now);
                self.epochs.last()
            }
            Event::Checkpoint | Event::CheckpointFailed => None,
        }
    }

    /// The run has ended, maybe within an epoch.
    pub fn finish(&mut self) {
        if self.partial.samples > 0 {
            self.cut = self.began.elapsed().as_secs_f64();
        }
    }

    /// Samples per second of the epoch under way.
    pub fn samples_per_second(&self) -> f64 {
        self.partial.samples as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// What the epoch under way has used, when so much has been used in all.
    pub fn used(&self, now: &Energy) -> Energy {
        now.since(&self.before)
    }

    /// Samples trained so far.
    pub(crate) fn samples(&self) -> u64 {
        let ended: u64 = self.epochs.iter().map(|e| e.train.samples).sum();
        ended + self.partial.samples
    }

    /// Seconds of all epochs, the one that was cut short included.
    pub(crate) fn seconds(&self) -> f64 {
        let ended: f64 = self.epochs.iter().map(|e| e.seconds).sum();
        ended + self.cut
    }

    /// The last figures there are: of an epoch that ended, else of the one under way.
    pub(crate) fn last(&self) -> Option<(Totals, Option<Totals>)> {
        let ended = self.epochs.last().map(|e| (e.train, e.validation));
        ended.or((self.partial.samples > 0).then_some((self.partial, None)))
    }

    /// Every unit, and how long it has worked in this run.
    pub(crate) fn units(&self, runtime: &Runtime) -> Vec<(String, Seconds)> {
        let names = runtime.machine().units.iter().map(|u| u.name.clone());
        let now = runtime.busy();
        let since = now
            .iter()
            .zip(&self.busy)
            .map(|(now, before)| *now - *before);
        names.zip(since).collect()
    }
}
