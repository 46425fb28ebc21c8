//! What a person sees while a model trains: a bar on a terminal, a line per epoch.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use dahl::core::Joules;
use dahl::core::trace::{PowerSample, Trace};
use dahl::energy::{Energy, Sampler};
use dahl::nn::train::{Event, Totals};
use indicatif::{ProgressBar, ProgressStyle};

/// The meters are read for the bar no more often than this.
const REFRESH: Duration = Duration::from_millis(200);

/// An epoch that has ended.
#[derive(Clone)]
pub struct Epoch {
    /// Counted from 1.
    pub number: u64,
    /// As seen during training.
    pub train: Totals,
    /// On the validation set.
    pub validation: Option<Totals>,
    /// How long it took, validation included.
    pub seconds: f64,
    /// What it used.
    pub energy: Energy,
}

impl Epoch {
    /// Images trained per second.
    pub fn rate(&self) -> f64 {
        self.train.samples as f64 / self.seconds.max(1e-9)
    }
}

/// The story of a run.
pub struct Report {
    quiet: bool,
    bar: Option<ProgressBar>,
    terminal: bool,
    epoch_start: Instant,
    sampler: Option<Sampler>,
    /// Energy when this epoch began.
    before: Energy,
    shown: (Instant, Option<Joules>),
    /// How layers were cut, to repeat the run.
    pub grain: String,
    /// The epochs that have ended.
    pub epochs: Vec<Epoch>,
    /// What the run used, once it has ended.
    pub energy: Energy,
    power: Power,
}

/// Power over time, for a trace.
#[derive(Clone, Default)]
pub struct Power {
    domains: Vec<String>,
    samples: Vec<PowerSample>,
}

impl Power {
    /// Adds the samples to a trace whose times count from the same moment.
    pub fn enter(&self, trace: &mut Trace) {
        trace.domains.clone_from(&self.domains);
        trace.power.clone_from(&self.samples);
    }
}

impl Report {
    /// At the beginning.
    pub fn new(quiet: bool, grain: String, sampler: Sampler) -> Self {
        let before = sampler.snapshot();
        Report {
            quiet,
            bar: None,
            terminal: std::io::stderr().is_terminal(),
            epoch_start: Instant::now(),
            sampler: Some(sampler),
            before,
            shown: (Instant::now(), None),
            grain,
            epochs: Vec::new(),
            energy: Energy::default(),
            power: Power::default(),
        }
    }

    /// Images trained so far.
    pub fn images(&self) -> u64 {
        self.epochs.iter().map(|e| e.train.samples).sum()
    }

    /// Seconds of all epochs.
    pub fn seconds(&self) -> f64 {
        self.epochs.iter().map(|e| e.seconds).sum()
    }

    /// Power over time, once the run has ended.
    pub fn samples(&self) -> Power {
        self.power.clone()
    }

    /// Something happened; returns the epoch if one has ended.
    pub fn tell(&mut self, event: Event) -> Option<&Epoch> {
        match event {
            Event::Step {
                epoch,
                step,
                steps,
                totals,
            } => {
                if !self.quiet && self.terminal {
                    self.step(epoch, step, steps, totals);
                }
                None
            }
            Event::Epoch(report) => {
                self.epoch(report.epoch, report.train, report.validation);
                self.epochs.last()
            }
            Event::Checkpoint => None,
        }
    }

    fn step(&mut self, epoch: u64, step: u64, steps: u64, totals: Totals) {
        let bar = self.bar.get_or_insert_with(|| {
            let style = "epoch {prefix} [{bar:30.cyan/blue}] {pos}/{len} {msg} ({eta} left)";
            let style = ProgressStyle::with_template(style)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(steps).with_style(style.progress_chars("━╸─"));
            bar.set_prefix(epoch.to_string());
            bar
        });
        bar.set_position(step);
        let rate = totals.samples as f64 / self.epoch_start.elapsed().as_secs_f64().max(1e-9);
        if self.shown.0.elapsed() > REFRESH
            && let Some(sampler) = &self.sampler
        {
            self.shown = (Instant::now(), sampler.snapshot().joules());
        }
        let joules = self.shown.1.map_or(String::new(), |j| format!(", {j}"));
        bar.set_message(format!(
            "loss {:.4}, {rate:.0} images/s{joules}",
            totals.mean_loss()
        ));
    }

    fn epoch(&mut self, number: u64, train: Totals, validation: Option<Totals>) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let now = self.sampler.as_ref().map(Sampler::snapshot);
        let now = now.unwrap_or_default();
        let epoch = Epoch {
            number,
            train,
            validation,
            seconds: self.epoch_start.elapsed().as_secs_f64(),
            energy: now.since(&self.before),
        };
        self.before = now;
        self.epoch_start = Instant::now();
        if !self.quiet {
            let on = validation.map_or(String::new(), |v| {
                format!(
                    ", validation loss {:.4}, accuracy {:.2} %",
                    v.mean_loss(),
                    100.0 * v.accuracy()
                )
            });
            let joules = epoch.energy.joules();
            let joules = joules.map_or(String::new(), |j| format!(", {j}"));
            println!(
                "epoch {number:>3}: loss {:.4}, accuracy {:.2} %{on}, {:.1} s, {:.0} images/s{joules}",
                train.mean_loss(),
                100.0 * train.accuracy(),
                epoch.seconds,
                epoch.rate(),
            );
        }
        self.epochs.push(epoch);
    }

    /// The run has ended, well or not.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let Some(sampler) = self.sampler.take() else {
            return;
        };
        let report = sampler.finish();
        self.energy = report.energy;
        // Only domains that make the total: a counter that never moved, or a part of another, would look
        // like a figure of its own.
        let mut places = Vec::new();
        for domain in &report.domains {
            places.push(domain.counted.then_some(self.power.domains.len() as u16));
            if domain.counted {
                self.power.domains.push(domain.source());
            }
        }
        let sample = |s: &dahl::energy::PowerSample| {
            Some(PowerSample {
                at: (s.at.0.max(0.0) * 1e9) as u64,
                domain: places[usize::from(s.domain)]?,
                watts: s.watts.0,
            })
        };
        self.power.samples = report.samples.iter().filter_map(sample).collect();
    }
}
