//! The end of a run on one screen.

use dahl::core::trace::Trace;
use dahl::core::{Bytes, Joules, Seconds, several};
use dahl::nn::train::Best;
use dahl::runtime::Traffic;
use dahl::trace::Summary;
use serde_json::json;

use super::report::Report;
use crate::print;

/// What the executor did.
pub struct Work {
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
}

impl Work {
    /// For the last line of the metrics.
    pub fn json(&self, report: &Report) -> serde_json::Value {
        let (images, seconds) = (report.images(), report.seconds());
        let units = self.units.iter();
        let units = units.map(|(unit, busy)| json!({ "unit": unit, "busy_seconds": busy }));
        json!({
            "grain": report.grain,
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
            "peak_rss_bytes": print::peak_resident(),
        })
    }
}

/// The layer that took the most time of the tasks recorded.
pub struct Slowest {
    layer: String,
    share: f64,
    codelet: String,
    of: u64,
}

/// Finds it; none if nothing was recorded.
pub fn slowest(trace: &Trace) -> Option<Slowest> {
    let summary = Summary::of(trace);
    let layer = summary.layers.iter().max_by_key(|l| l.total_ns)?;
    let tasks = trace.tasks.iter();
    let mut codelets = std::collections::BTreeMap::<&str, u64>::new();
    for run in tasks.filter(|t| trace.section_of(t.id) == layer.layer) {
        *codelets.entry(&trace.class_of(run.id).codelet).or_default() += run.end - run.start;
    }
    let (codelet, _) = codelets.into_iter().max_by_key(|c| c.1)?;
    Some(Slowest {
        layer: layer.layer.clone(),
        share: layer.share,
        codelet: codelet.to_string(),
        of: trace.tasks.len() as u64,
    })
}

/// Prints it.
pub fn print(report: &Report, work: &Work, slowest: Option<&Slowest>, carbon: Option<f64>) {
    let Some((train, validation)) = report.last() else {
        println!("no step was trained; nothing to sum up");
        return;
    };
    let line = |what: &str, text: String| print::folded(&format!("  {what:<11}{text}"), 13);
    let of = |f: fn(&dahl::Epoch) -> Option<f64>| -> Vec<f64> {
        report.epochs.iter().filter_map(f).collect()
    };
    let losses = of(|e| Some(e.train.mean_loss()));
    println!();
    line(
        "loss",
        format!("{:.4}  {}", train.mean_loss(), print::curve(&losses)),
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
        let (percent, curve) = (100.0 * accuracy, print::curve(&curve));
        line("accuracy", format!("{percent:.2} % {on}  {curve}"));
    }
    let (images, seconds) = (report.images(), report.seconds());
    let rate = images as f64 / seconds.max(1e-9);
    line(
        "time",
        format!(
            "{seconds:.1} s, {}, {rate:.0} images/s",
            several(images, "image")
        ),
    );
    if let Some(best) = work
        .best
        .filter(|_| report.epochs.len() > 1 || work.stopped_early)
    {
        let early = if work.stopped_early {
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
    if work.waited > 0.1 * seconds && work.waited >= 0.1 {
        let share = 100.0 * work.waited / seconds.max(1e-9);
        let ways: String = work.faster.iter().map(|way| format!("; {way}")).collect();
        line(
            "loading",
            format!(
                "steps waited {:.1} s for images, {share:.0} % of the time: they are what limits{ways}",
                work.waited
            ),
        );
    }
    let energy = &report.energy;
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
            Bytes(work.planned),
            Bytes(work.in_use),
            Bytes(print::peak_resident()),
        ),
    );
    let share = |busy: f64, of: usize| 100.0 * busy / (seconds * of as f64).max(1e-9);
    let all: Seconds = work.units.iter().map(|u| u.1).sum();
    let n = work.units.len();
    let gpus = work.units.iter().any(|(name, _)| !name.starts_with("cpu"));
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
        let each = work.units.iter();
        let each: Vec<String> = each
            .map(|(name, busy)| format!("{name} {:.0} %", share(busy.0, 1)))
            .collect();
        line("units", format!("{} of the time", each.join(", ")));
        let t = &work.traffic;
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
    if let Some(s) = slowest {
        line(
            "slowest",
            format!(
                "{}, {:.0} % of the time of the last {}, mostly {}",
                s.layer,
                100.0 * s.share,
                several(s.of, "task"),
                s.codelet
            ),
        );
    }
}
