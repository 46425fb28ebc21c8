//! Measures: what is computed from a row, by name.
//!
//! Measured and modelled joules are different measures, so that they cannot stand in one table.

use crate::row::{Run, Source};

pub(crate) struct Measure {
    pub name: &'static str,
    /// For axes and heads of columns.
    pub label: &'static str,
    /// Whether less is better.
    pub less: bool,
    of: fn(&Run, Option<f64>) -> Option<f64>,
}

fn per(amount: Option<f64>, count: u64) -> Option<f64> {
    (count > 0)
        .then(|| amount.map(|a| a / count as f64))
        .flatten()
}

fn joules(run: &Run, source: Source) -> Option<f64> {
    (run.source == source).then_some(run.joules).flatten()
}

/// Gross joules less what the idle machine would have used; needs the block's idle watts.
fn net(run: &Run, idle: Option<f64>, source: Source) -> Option<f64> {
    Some(joules(run, source)? - idle? * run.seconds)
}

/// All of them. The second argument is the block's idle watts.
pub(crate) const MEASURES: &[Measure] = &[
    Measure {
        name: "images_per_second",
        label: "images/s",
        less: false,
        of: |r, _| (r.seconds > 0.0 && r.images > 0).then(|| r.images as f64 / r.seconds),
    },
    Measure {
        name: "seconds_per_step",
        label: "s/step",
        less: true,
        of: |r, _| per(Some(r.seconds), r.steps),
    },
    Measure {
        name: "seconds",
        label: "s",
        less: true,
        of: |r, _| Some(r.seconds),
    },
    Measure {
        name: "joules_per_image",
        label: "J/image, measured",
        less: true,
        of: |r, _| per(joules(r, Source::Measured), r.images),
    },
    Measure {
        name: "net_joules_per_image",
        label: "J/image above idle, measured",
        less: true,
        of: |r, i| per(net(r, i, Source::Measured), r.images),
    },
    Measure {
        name: "joules",
        label: "J, measured",
        less: true,
        of: |r, _| joules(r, Source::Measured),
    },
    Measure {
        name: "net_joules",
        label: "J above idle, measured",
        less: true,
        of: |r, i| net(r, i, Source::Measured),
    },
    Measure {
        name: "watts",
        label: "W, measured",
        less: true,
        of: |r, _| joules(r, Source::Measured).map(|j| j / r.seconds),
    },
    Measure {
        name: "modelled_joules_per_image",
        label: "J/image, modelled",
        less: true,
        of: |r, _| per(joules(r, Source::Modelled), r.images),
    },
    Measure {
        name: "cpu_seconds_per_image",
        label: "CPU-s/image",
        less: true,
        of: |r, _| per(Some(r.cpu_seconds), r.images),
    },
    Measure {
        name: "cpu_seconds",
        label: "CPU-s",
        less: true,
        of: |r, _| Some(r.cpu_seconds),
    },
    Measure {
        name: "peak_bytes",
        label: "peak bytes",
        less: true,
        of: |r, _| r.peak_bytes.map(|b| b as f64),
    },
    Measure {
        name: "faults_per_step",
        label: "page faults/step",
        less: true,
        of: |r, _| per(r.faults.map(|f| f as f64), r.steps),
    },
    Measure {
        name: "predicted_ratio",
        label: "predicted / measured",
        less: true,
        of: |r, _| {
            Some(r.measures.get("predicted_seconds_per_step")? / per(Some(r.seconds), r.steps)?)
        },
    },
    Measure {
        name: "loss",
        label: "loss",
        less: true,
        of: |r, _| r.loss,
    },
];

/// The measure of a name; others are a peer's own.
pub(crate) fn find(name: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|m| m.name == name)
}

/// Refuses names that are nearly a measure's: a peer may add its own, but nobody means `joule_per_image`.
pub(crate) fn known(name: &str) -> Result<(), String> {
    if find(name).is_some() {
        return Ok(());
    }
    let names = MEASURES.iter().map(|m| m.name);
    if let Some(near) = dahl_core::text::nearest(name, names) {
        return Err(format!("unknown measure {name:?}: did you mean {near:?}?"));
    }
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match !name.is_empty() && name.chars().all(good) {
        true => Ok(()),
        false => {
            let names: Vec<&str> = MEASURES.iter().map(|m| m.name).collect();
            Err(format!(
                "{name:?} is no measure; there are: {}, and those that peers report",
                names.join(", ")
            ))
        }
    }
}

/// The value of a measure in a run.
pub(crate) fn value(name: &str, run: &Run, idle_watts: Option<f64>) -> Option<f64> {
    let value = match find(name) {
        Some(measure) => (measure.of)(run, idle_watts),
        None => run.measures.get(name).copied(),
    };
    value.filter(|v| v.is_finite())
}

/// How axes and heads call a measure.
pub(crate) fn label(name: &str) -> String {
    find(name).map_or_else(
        || match name.rsplit_once('_') {
            Some((of, unit @ ("ns" | "bytes" | "seconds"))) => {
                format!("{} ({unit})", of.replace('_', " "))
            }
            _ => name.replace('_', " "),
        },
        |m| m.label.into(),
    )
}

pub(crate) fn less_is_better(name: &str) -> bool {
    find(name).is_none_or(|m| m.less)
}

/// What stands beside a measure of energy.
pub(crate) fn companion(name: &str) -> Option<&'static str> {
    match name {
        "joules_per_image" | "net_joules_per_image" | "modelled_joules_per_image" => {
            Some("cpu_seconds_per_image")
        }
        "joules" | "net_joules" => Some("cpu_seconds"),
        _ => None,
    }
}
