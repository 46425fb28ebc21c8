//! Clocks of cores through Linux's cpufreq.
//!
//! CPUs with the same `affected_cpus` share one policy. It says its frequencies (`scaling_available_frequencies`), or only
//! the lowest and the highest, between which steps are made up. A clock is set by its upper limit, `scaling_max_freq`,
//! whatever the governor is: a core that computes runs there. Under the governor `userspace` it is `scaling_setspeed`.
//! Figures are in kilohertz. See the kernel's `Documentation/admin-guide/pm/cpufreq.rst`.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::{Clock, Knob, failed};
use crate::files::trouble;
use crate::{Tree, Trouble, TroubleKind};

const FOLDER: &str = "devices/system/cpu";

/// States between the highest and the lowest frequency of a policy that lists none.
const STEPS: usize = 4;

/// The policies, by their first CPU.
pub(super) fn discover(tree: &Tree) -> Vec<Clock> {
    let mut seen = BTreeSet::<usize>::new();
    let mut out = Vec::new();
    for name in tree.names(FOLDER).unwrap_or_default() {
        let number = name.strip_prefix("cpu").map(str::parse::<usize>);
        let Some(Ok(cpu)) = number else { continue };
        if !seen.contains(&cpu)
            && let Some(clock) = policy(tree, cpu)
        {
            seen.extend(&clock.cpus);
            out.push(clock);
        }
    }
    out
}

fn policy(tree: &Tree, cpu: usize) -> Option<Clock> {
    let file = |name: &str| tree.path(&format!("{FOLDER}/cpu{cpu}/cpufreq/{name}"));
    let number = |name: &str| tree.number(&file(name)).ok();
    let numbers = |name: &str| -> Option<Vec<u64>> {
        let text = tree.text(&file(name)).ok()?;
        let all: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        all.filter(|all| !all.is_empty())
    };
    let (low, high) = (number("cpuinfo_min_freq")?, number("cpuinfo_max_freq")?);
    if low == 0 || low > high {
        return None;
    }
    let mut all = numbers("scaling_available_frequencies").unwrap_or_else(|| {
        let step = |i: usize| low + (high - low) * i as u64 / (STEPS as u64 - 1);
        (0..STEPS).map(step).collect()
    });
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    let cpus = numbers("affected_cpus").unwrap_or_else(|| vec![cpu as u64]);
    let governor = tree.text(&file("scaling_governor")).unwrap_or_default();
    let knob = match governor.as_str() {
        "userspace" => "scaling_setspeed",
        _ => "scaling_max_freq",
    };
    let path = file(knob);
    Some(Clock {
        name: format!("policy{cpu}"),
        device: String::new(),
        cpus: cpus.into_iter().map(|c| c as usize).collect(),
        hertz: all.iter().map(|k| *k as f64 * 1e3).collect(),
        // In nanoseconds; all ones where the driver does not know.
        latency: number("cpuinfo_transition_latency")
            .filter(|n| *n < 1_000_000_000)
            .map_or(0.0, |n| n as f64 * 1e-9),
        trouble: writable(&path, knob).err(),
        knob: Knob::File(path),
    })
}

fn writable(path: &Path, knob: &str) -> Result<(), Trouble> {
    let remedy = format!("sudo chmod a+w /sys/devices/system/cpu/cpufreq/policy*/{knob}");
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Err(Trouble::new(
            TroubleKind::Denied,
            format!("{}: mounted read-only, as in a container", path.display()),
        )),
        Err(e) => Err(trouble(path, &e).or_run(&remedy)),
    }
}

/// Sets a clock and looks whether it is set.
pub(super) fn set(tree: &Tree, knob: &Path, hertz: f64) -> Result<(), Trouble> {
    let wanted = (hertz * 1e-3).round() as u64;
    put(knob, &wanted.to_string())?;
    match tree.number(knob)? {
        found if found == wanted => Ok(()),
        found => Err(failed(format!(
            "{} says {found} kHz after {wanted} kHz was set: the processor has no such state, or something else sets \
             its clock",
            knob.display()
        ))),
    }
}

/// Writes a value. Files of the system are written in one go and keep their length.
pub(super) fn put(path: &Path, value: &str) -> Result<(), Trouble> {
    let file = OpenOptions::new().write(true).truncate(true).open(path);
    let written = file.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|e| trouble(path, &e))
}
