//! The end of a training run in a few lines, and as one object of JSON.

use dahl_core::report::sparkline;
use dahl_core::{Bytes, Joules, Seconds, several};
use dahl_energy::Energy;
use dahl_experiment::peak_resident;
use dahl_nn::train::{Best, Session, Totals};
use dahl_runtime::{Runtime, Traffic};
use dahl_trace::summary::Slowest;
use serde_json::json;

use crate::{Epoch, RunLog};

/// What a run did, and what it took.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// The epochs that have ended.
    pub epochs: Vec<Epoch>,
    /// The last figures of training and validation; none if no step was trained.
    pub last: Option<(Totals, Option<Totals>)>,
    /// Images that were trained on.
    pub images: u64,
    /// Seconds of all epochs.
    pub seconds: f64,
    /// What that used.
    pub energy: Energy,
    /// How layers were cut, to repeat the run.
    pub grain: String,
    /// Units, and how long each worked.
    pub units: Vec<(String, Seconds)>,
    /// Bytes moved to devices and back.
    pub traffic: Traffic,
    /// Bytes of temporaries as planned before the first step.
    pub planned: u64,
    /// Bytes of temporaries that were set apart.
    pub in_use: u64,
    /// Seconds that steps waited for images.
    pub waited: f64,
    /// What would make images come faster.
    pub faster: Vec<&'static str>,
    /// The epoch with the lowest loss.
    pub best: Option<Best>,
    /// Whether no epoch had been better for too long.
    pub stopped_early: bool,
    /// The slowest layer, where tasks were recorded.
    pub slowest: Option<Slowest>,
}

impl RunSummary {
    /// Of a run that has ended: its log, what it used in all, and who ran it.
    pub fn of(log: &RunLog, energy: Energy, session: &Session, runtime: &Runtime) -> RunSummary {
        RunSummary {
            epochs: log.epochs.clone(),
            last: log.last(),
            images: log.samples(),
            seconds: log.seconds(),
            energy,
            grain: session.step().grain.to_string(),
            units: log.units(runtime),
            traffic: runtime.traffic(),
            planned: session.planned_bytes(),
            in_use: runtime.temporary_bytes() as u64,
            waited: session.waited().as_secs_f64(),
            faster: Vec::new(),
            best: session.best(),
            stopped_early: session.stopped_early(),
            slowest: None,
        }
    }

    /// As metrics keep it.
    pub fn to_json(&self) -> serde_json::Value {
        let (images, seconds) = (self.images, self.seconds);
        let units = self.units.iter();
        let units = units.map(|(unit, busy)| json!({ "unit": unit, "busy_seconds": busy }));
        json!({
            "grain": self.grain,
            "images": images,
            "seconds": seconds,
            "images_per_second": images as f64 / seconds.max(1e-9),
            "seconds_waiting_for_data": self.waited,
            "best_epoch": self.best.map(|b| b.epoch),
            "stopped_early": self.stopped_early,
            "units": units.collect::<Vec<_>>(),
            "bytes_to_devices": self.traffic.bytes_in,
            "bytes_from_devices": self.traffic.bytes_out,
            "evictions": self.traffic.evictions,
            "peak_rss_bytes": peak_resident(),
        })
    }

    /// Each line by its name; none if no step was trained. Grams of CO₂ equivalents are added where so many per
    /// kilowatt-hour are given.
    pub fn lines(&self, carbon: Option<f64>) -> Vec<(&'static str, String)> {
        let Some((train, validation)) = self.last else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        let mut line = |what: &'static str, text: String| lines.push((what, text));
        let of = |f: fn(&Epoch) -> Option<f64>| -> Vec<f64> {
            self.epochs.iter().filter_map(f).collect()
        };
        let losses = of(|e| Some(e.train.mean_loss()));
        line(
            "loss",
            format!("{:.4}  {}", train.mean_loss(), sparkline(&losses)),
        );
        let (accuracy, curve, on) = match validation {
            Some(v) => (
                v.accuracy(),
                of(|e| e.validation.and_then(|v| v.accuracy())),
                format!("of {} validation images", v.samples),
            ),
            None => (
                train.accuracy(),
                of(|e| e.train.accuracy()),
                "while training".into(),
            ),
        };
        if let Some(accuracy) = accuracy {
            let (percent, curve) = (100.0 * accuracy, sparkline(&curve));
            line("accuracy", format!("{percent:.2} % {on}  {curve}"));
        }
        let (images, seconds) = (self.images, self.seconds);
        let rate = images as f64 / seconds.max(1e-9);
        line(
            "time",
            format!(
                "{seconds:.1} s, {}, {rate:.0} images/s",
                several(images, "image")
            ),
        );
        if let Some(best) = self
            .best
            .filter(|_| self.epochs.len() > 1 || self.stopped_early)
        {
            let early = if self.stopped_early {
                "; stopped, as none has been better since"
            } else {
                ""
            };
            line(
                "best",
                format!("epoch {}, loss {:.4}{early}", best.epoch, best.loss),
            );
        }
        // A tenth of the time is worth a word, but for a first batch that anybody waits for.
        if self.waited > 0.1 * seconds && self.waited >= 0.1 {
            let share = 100.0 * self.waited / seconds.max(1e-9);
            let ways: String = self.faster.iter().map(|way| format!("; {way}")).collect();
            line(
                "loading",
                format!(
                    "steps waited {:.1} s for images, {share:.0} % of the time: they are what limits{ways}",
                    self.waited
                ),
            );
        }
        let energy = &self.energy;
        line(
            "energy",
            match (energy.joules(), energy.watts()) {
                (Some(joules), Some(watts)) => {
                    let each = Joules(joules.0 / images.max(1) as f64);
                    format!("{joules}, {each} per image, {watts}: {}", energy.source())
                }
                _ => energy.source(),
            },
        );
        if let Some(grams) = carbon.and_then(|g| energy.carbon(g)) {
            line("carbon", format!("{grams:.4} g CO₂e"));
        }
        line(
            "memory",
            format!(
                "{} of temporaries planned, {} in use; at most {} resident",
                Bytes(self.planned),
                Bytes(self.in_use),
                Bytes(peak_resident()),
            ),
        );
        let share = |busy: f64, of: usize| 100.0 * busy / (seconds * of as f64).max(1e-9);
        let all: Seconds = self.units.iter().map(|u| u.1).sum();
        let n = self.units.len();
        let gpus = self.units.iter().any(|(name, _)| !name.starts_with("cpu"));
        let what = if gpus { "unit" } else { "worker" };
        line(
            "efficiency",
            format!(
                "{:.0} % of the time of {} went into work",
                share(all.0, n),
                several(n, what)
            ),
        );
        if gpus {
            let each = self.units.iter();
            let each: Vec<String> = each
                .map(|(name, busy)| format!("{name} {:.0} %", share(busy.0, 1)))
                .collect();
            line("units", format!("{} of the time", each.join(", ")));
            let t = &self.traffic;
            let (to, back) = (Bytes(t.bytes_in), Bytes(t.bytes_out));
            let evictions = t.evictions;
            line(
                "transfers",
                format!(
                    "{to} to devices, {back} back, {}",
                    several(evictions, "eviction")
                ),
            );
            if t.elsewhere > 0 {
                let tasks = several(t.elsewhere, "task");
                line(
                    "fallback",
                    match t.needed {
                        0 => format!("{tasks} of a device that failed ran on the CPU"),
                        n => format!(
                            "{tasks} found no room on the device and ran on the CPU: at least {} needed",
                            Bytes(n).rounded_up()
                        ),
                    },
                );
            }
        }
        if let Some(s) = &self.slowest {
            line("slowest", s.to_string());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_step_has_nothing_to_sum_up() {
        assert!(RunSummary::default().lines(None).is_empty());
    }

    #[test]
    fn lines_say_what_the_figures_are() {
        let totals = Totals::default();
        let run = RunSummary {
            last: Some((totals, None)),
            images: 600,
            seconds: 2.0,
            waited: 1.0,
            faster: vec!["a cache"],
            units: vec![("cpu:0".into(), Seconds(1.5))],
            ..RunSummary::default()
        };
        let lines = run.lines(None);
        let of = |name| &lines.iter().find(|line| line.0 == name).unwrap().1;
        assert_eq!(of("time"), "2.0 s, 600 images, 300 images/s");
        let text = "steps waited 1.0 s for images, 50 % of the time: they are what limits; a cache";
        assert_eq!(of("loading"), text);
        assert_eq!(
            of("efficiency"),
            "75 % of the time of 1 worker went into work"
        );
        assert_eq!(run.to_json()["images_per_second"], 300.0);
    }
}
