//! What a person sees while a model trains: a bar on a terminal, a line per epoch.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use dahl::core::Joules;
use dahl::energy::{Energy, Sampler};
use dahl::nn::train::Event;
use dahl::runtime::Runtime;
use dahl::{Epoch, Forecast, RunLog};
use indicatif::{ProgressBar, ProgressStyle};

use crate::print;

/// The meters are read for the bar no more often than this.
const REFRESH: Duration = Duration::from_millis(200);

/// The story of a run.
pub struct Report {
    quiet: bool,
    bar: Option<ProgressBar>,
    terminal: bool,
    sampler: Option<Sampler>,
    shown: (Instant, Option<Joules>),
    forecast: Forecast,
    /// What has happened.
    pub log: RunLog,
    /// What the run used, once it has ended.
    pub energy: Energy,
    /// What the meters said, once the run has ended.
    pub measured: Option<dahl::energy::Report>,
}

impl Report {
    /// At the beginning.
    pub fn new(quiet: bool, sampler: Sampler, runtime: &Runtime) -> Self {
        Report {
            quiet,
            bar: None,
            terminal: std::io::stderr().is_terminal(),
            log: RunLog::new(runtime, sampler.snapshot()),
            sampler: Some(sampler),
            shown: (Instant::now(), None),
            forecast: Forecast::default(),
            energy: Energy::default(),
            measured: None,
        }
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
        let Some(sampler) = &self.sampler else {
            return None;
        };
        if let Event::Epoch(_) = event
            && let Some(bar) = self.bar.take()
        {
            bar.finish_and_clear();
        }
        let ended = self.log.tell(event, || sampler.snapshot()).is_some();
        match event {
            _ if self.quiet => {}
            Event::Step {
                epoch,
                step,
                steps,
                total,
                totals,
                ..
            } => {
                let done = (epoch - 1) * steps + step;
                let forecast = self.forecast.tell(done, total, || sampler.snapshot());
                if let Some(text) = forecast {
                    self.say(&text);
                }
                if self.terminal {
                    self.step(epoch, step, steps, totals.mean_loss());
                }
            }
            Event::Epoch(_) => {
                if let Some(epoch) = self.log.epochs.last() {
                    println!("{epoch}");
                }
            }
            Event::Checkpoint | Event::CheckpointFailed => {}
        }
        self.log.epochs.last().filter(|_| ended)
    }

    fn step(&mut self, epoch: u64, step: u64, steps: u64, loss: f64) {
        let bar = self.bar.get_or_insert_with(|| {
            let style = "epoch {prefix} {pos}/{len} [{wide_bar:.cyan/blue}] {msg}, {eta} left";
            let style = ProgressStyle::with_template(style)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(steps).with_style(style.progress_chars("━╸─"));
            bar.set_prefix(epoch.to_string());
            bar
        });
        bar.set_position(step);
        if self.shown.0.elapsed() > REFRESH
            && let Some(sampler) = &self.sampler
        {
            let used = self.log.used(&sampler.snapshot());
            self.shown = (Instant::now(), used.joules());
        }
        let joules = self.shown.1.map_or(String::new(), |j| format!(", {j}"));
        let rate = self.log.samples_per_second();
        bar.set_message(format!("loss {loss:.4}, {rate:.0}/s{joules}"));
    }

    /// The run has ended, well or not.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.log.finish();
        if let Some(sampler) = self.sampler.take() {
            let measured = sampler.finish();
            self.energy = measured.energy.clone();
            self.measured = Some(measured);
        }
    }
}
