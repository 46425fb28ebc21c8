//! What a person sees while a model trains: a bar on a terminal, a line per epoch.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use dahl::Epoch;
use dahl::core::Joules;
use dahl::energy::{Energy, Sampler};
use dahl::nn::train::{Event, Totals};
use indicatif::{ProgressBar, ProgressStyle};

use super::forecast::Forecast;
use crate::print;

/// The meters are read for the bar no more often than this.
const REFRESH: Duration = Duration::from_millis(200);

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
    forecast: Forecast,
    /// How layers were cut, to repeat the run.
    pub grain: String,
    /// The epochs that have ended.
    pub epochs: Vec<Epoch>,
    /// Of the epoch under way; a step or two behind.
    partial: Totals,
    /// How long that took, once the run has ended.
    cut: f64,
    /// What the run used, once it has ended.
    pub energy: Energy,
    /// What the meters said, once the run has ended.
    pub measured: Option<dahl::energy::Report>,
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
            forecast: Forecast::default(),
            grain,
            epochs: Vec::new(),
            partial: Totals::default(),
            cut: 0.0,
            energy: Energy::default(),
            measured: None,
        }
    }

    /// Images trained so far.
    pub fn images(&self) -> u64 {
        let ended: u64 = self.epochs.iter().map(|e| e.train.samples).sum();
        ended + self.partial.samples
    }

    /// Seconds of all epochs, the one under way included.
    pub fn seconds(&self) -> f64 {
        let ended: f64 = self.epochs.iter().map(|e| e.seconds).sum();
        ended + self.cut
    }

    /// The last figures there are: of an epoch that ended, else of the one under way.
    pub fn last(&self) -> Option<(Totals, Option<Totals>)> {
        let ended = self.epochs.last().map(|e| (e.train, e.validation));
        ended.or((self.partial.samples > 0).then_some((self.partial, None)))
    }

    /// Something worth knowing, above the bar.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    /// The same of something that is wrong.
    pub fn warn(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print::warning(text)),
            None => print::warning(text),
        }
    }

    /// Something happened; returns the epoch if one has ended.
    pub fn tell(&mut self, event: Event) -> Option<&Epoch> {
        match event {
            Event::Step {
                epoch,
                step,
                steps,
                total,
                totals,
                ..
            } => {
                self.partial = totals;
                let done = (epoch - 1) * steps + step;
                if !self.quiet
                    && let Some(sampler) = &self.sampler
                    && let Some(text) = self.forecast.tell(done, total, || sampler.snapshot())
                {
                    match &self.bar {
                        Some(bar) => bar.suspend(|| println!("{text}")),
                        None => println!("{text}"),
                    }
                }
                if !self.quiet && self.terminal {
                    self.step(epoch, step, steps, totals);
                }
                None
            }
            Event::Epoch(report) => {
                self.epoch(report.epoch, report.train, report.validation);
                self.epochs.last()
            }
            Event::Checkpoint | Event::CheckpointFailed => None,
        }
    }

    fn step(&mut self, epoch: u64, step: u64, steps: u64, totals: Totals) {
        let bar = self.bar.get_or_insert_with(|| {
            let style = "epoch {prefix} {pos}/{len} [{wide_bar:.cyan/blue}] {msg}, {eta} left";
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
            let since = sampler.snapshot().since(&self.before);
            self.shown = (Instant::now(), since.joules());
        }
        let joules = self.shown.1.map_or(String::new(), |j| format!(", {j}"));
        bar.set_message(format!(
            "loss {:.4}, {rate:.0}/s{joules}",
            totals.mean_loss()
        ));
    }

    fn epoch(&mut self, number: u64, train: Totals, validation: Option<Totals>) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let now = self.sampler.as_ref().map(Sampler::snapshot);
        let now = now.unwrap_or_default();
        self.partial = Totals::default();
        let epoch = Epoch {
            epoch: number,
            train,
            validation,
            seconds: self.epoch_start.elapsed().as_secs_f64(),
            energy: now.since(&self.before),
        };
        self.before = now;
        self.epoch_start = Instant::now();
        if !self.quiet {
            let on = validation.map_or(String::new(), |v| {
                let accuracy = print::accuracy("", v.accuracy());
                format!("; val {:.4}{accuracy}", v.mean_loss())
            });
            let joules = epoch.energy.joules();
            let joules = joules.map_or(String::new(), |j| format!(", {j}"));
            println!(
                "epoch {number:>3}: loss {:.4}{}{on}; {:.1} s, {:.0}/s{joules}",
                train.mean_loss(),
                print::accuracy("", train.accuracy()),
                epoch.seconds,
                epoch.samples_per_second(),
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
        if self.partial.samples > 0 {
            self.cut = self.epoch_start.elapsed().as_secs_f64();
        }
        let measured = sampler.finish();
        self.energy = measured.energy.clone();
        self.measured = Some(measured);
    }
}
