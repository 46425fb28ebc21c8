//! Which units execute tasks, as text and as a value: `cpu:2,gpu:0`; and sizes of memory, `2GiB`.
//!
//! This module reads what was asked for. Whether this computer has it is [`gpus`](crate::gpus)' question.

use std::str::FromStr;

use dahl_core::{Bytes, Machine, MemoryId, Seconds, Unit, UnitKind};

/// What the grammar is, for messages.
const GRAMMAR: &str = "use cpu (one worker per core), cpu:N (N workers), gpu (all GPUs), gpu:I or gpu:I+J \
                       (by number), separated by commas: cpu:2,gpu:0";

/// A text that names no units, or no size; it says the grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitsError(String);

/// Which units to use. The default is one CPU worker per core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// CPU workers.
    pub cpus: Cpus,
    /// GPUs.
    pub gpus: Gpus,
}

/// How many CPU workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// One per core.
    All,
    /// So many; none if only GPUs are to work.
    Count(u16),
}

/// Which GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// All that there are; at least one.
    All,
    /// These, in this order.
    These(Vec<usize>),
}

impl Gpus {
    /// None at all.
    pub(crate) const NONE: Gpus = Gpus::These(Vec::new());
}

impl Default for Units {
    fn default() -> Self {
        Units::cpus(None)
    }
}

impl Units {
    /// So many CPU workers and nothing else; one per core if unknown.
    pub fn cpus(workers: Option<u16>) -> Self {
        Units {
            cpus: workers.map_or(Cpus::All, Cpus::Count),
            gpus: Gpus::NONE,
        }
    }

    /// Whether any GPU is among them.
    pub fn has_gpus(&self) -> bool {
        self.gpus != Gpus::NONE
    }

    /// The units of these names, as plans have them: `cpu:0`, `cpu:1`, `gpu:0`.
    pub(crate) fn named<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self, UnitsError> {
        let (mut cpus, mut gpus) = (0, Vec::new());
        for name in names {
            match name.split_once(':') {
                Some(("cpu", number)) if number == cpus.to_string() => cpus += 1,
                Some(("gpu", number)) => gpus.push(number.parse().map_err(|_| {
                    UnitsError(format!(
                        "{name:?} is no GPU's name: they are called gpu:0, gpu:1, …"
                    ))
                })?),
                _ => {
                    return Err(UnitsError(format!(
                        "unit {name:?} is not called as units are here: cpu:0, cpu:1, …, gpu:0, …"
                    )));
                }
            }
        }
        Ok(Units {
            cpus: Cpus::Count(cpus),
            gpus: Gpus::These(gpus),
        })
    }

    /// A machine with units of these names. Nothing else of it is right.
    pub fn machine(&self) -> Machine {
        let mut machine = Machine::cpus(match self.cpus {
            Cpus::Count(n) => n.into(),
            Cpus::All => dahl_runtime::discover::host().cores.len(),
        });
        if let Gpus::These(gpus) = &self.gpus {
            let unit = |n| Unit::new(format!("gpu:{n}"), UnitKind::GPU, MemoryId::HOST);
            machine.units.extend(gpus.iter().map(unit));
        }
        machine
    }

    fn add(&mut self, part: &str, cpus_given: &mut bool) -> Result<(), String> {
        let (kind, which) = match part.split_once(':') {
            Some((kind, which)) => (kind, Some(which)),
            None => (part, None),
        };
        match (kind, which) {
            ("cpu", _) if std::mem::replace(cpus_given, true) => {
                Err("cpu is there twice: give one number of workers".into())
            }
            ("cpu", None) => {
                self.cpus = Cpus::All;
                Ok(())
            }
            ("cpu", Some(n)) => match n.parse::<u16>() {
                Ok(0) => Err("no CPU worker at all: leave cpu out instead".into()),
                Ok(n) => {
                    self.cpus = Cpus::Count(n);
                    Ok(())
                }
                Err(_) => Err(format!("{n:?} is no number of workers (1 to {})", u16::MAX)),
            },
            ("gpu", None) if self.has_gpus() => Err("gpu means all of them: name no other".into()),
            ("gpu", None) => {
                self.gpus = Gpus::All;
                Ok(())
            }
            ("gpu", Some(numbers)) => numbers.split('+').try_for_each(|n| self.gpu(n)),
            _ => Err(format!("there is no kind of unit {kind:?}")),
        }
    }

    fn gpu(&mut self, number: &str) -> Result<(), String> {
        let n = number
            .parse::<u16>()
            .map_err(|_| format!("{number:?} is no GPU's number (0, 1, …)"))?;
        match &mut self.gpus {
            Gpus::All => Err("gpu means all of them: name no other".into()),
            Gpus::These(all) if all.contains(&usize::from(n)) => {
                Err(format!("gpu:{n} is there twice"))
            }
            Gpus::These(all) => {
                all.push(usize::from(n));
                Ok(())
            }
        }
    }
}

impl FromStr for Units {
    type Err = UnitsError;

    fn from_str(text: &str) -> Result<Self, UnitsError> {
        let mut units = Units {
            cpus: Cpus::Count(0),
            gpus: Gpus::NONE,
        };
        let mut cpus_given = false;
        for part in text.split(',') {
            let part = part.trim();
            let added = match part.is_empty() {
                true => Err("a part is empty".into()),
                false => units.add(part, &mut cpus_given),
            };
            added.map_err(|e| match part.is_empty() || part == text {
                true => UnitsError(format!("{e}; {GRAMMAR}")),
                false => UnitsError(format!("{part:?}: {e}; {GRAMMAR}")),
            })?;
        }
        Ok(units)
    }
}

/// The units of a runtime's machine, for people: `2 workers and gpu:0 (its name)`.
pub fn units_text(machine: &Machine) -> String {
    let cpus = machine.units.iter().filter(|u| u.kind == UnitKind::CPU);
    let gpus = machine.units.iter().filter(|u| u.kind == UnitKind::GPU);
    let gpu = |u: &Unit| {
        let memory = &machine.memories[usize::from(u.memory.0)].name;
        let name = memory.strip_prefix(&u.name).unwrap_or_default().trim();
        format!("{} ({name})", u.name)
    };
    let mut parts: Vec<String> = gpus.map(gpu).collect();
    match cpus.count() {
        0 => {}
        1 => parts.insert(0, "1 worker".into()),
        n => parts.insert(0, format!("{n} workers")),
    }
    parts.join(" and ")
}

/// What computes on a runtime's machine, as far as it decides on the last bits of results: the identity of CPU
/// kernels, and which GPUs. Counts and policies do not.
pub(crate) fn arithmetic(machine: &Machine) -> String {
    let mut parts = std::collections::BTreeSet::new();
    for unit in &machine.units {
        let memory = &machine.memories[usize::from(unit.memory.0)].name;
        parts.insert(match unit.kind {
            UnitKind::CPU => format!("cpu {}", dahl_ops::KernelIdentity::here()),
            _ => memory
                .strip_prefix(&unit.name)
                .unwrap_or(memory)
                .trim()
                .to_owned(),
        });
    }
    parts.into_iter().collect::<Vec<_>>().join(", ")
}

/// An amount of memory with its unit: `512MiB`, `2GiB`, `1.5GB`, or bytes.
pub fn size(text: &str) -> Result<Bytes, UnitsError> {
    const UNITS: [(&str, f64); 10] = [
        ("", 1.0),
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
        ("TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
    ];
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim();
    let scale = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(|| {
            UnitsError(format!(
                "{unit:?} is no unit of memory; use KiB, MiB, GiB, kB, MB or GB, as in 2GiB"
            ))
        })?
        .1;
    let bytes = number.parse::<f64>().unwrap_or(-1.0) * scale;
    if bytes < 1.0 || bytes > i64::MAX as f64 {
        return Err(UnitsError(format!(
            "{text:?} is no amount of memory; use a number and a unit, as in 512MiB or 2GiB"
        )));
    }
    Ok(Bytes(bytes as u64))
}

/// A time above 0 as it is typed, in seconds or with a unit.
///
/// ```
/// use dahl_core::Seconds;
///
/// for (text, seconds) in [("2", 2.0), ("0.5s", 0.5), ("150 us", 150.0 * 1e-6), ("20ms", 20.0 * 1e-3)] {
///     assert_eq!(dahl_tune::time(text), Ok(Seconds(seconds)));
/// }
/// for wrong in ["", "ms", "-3", "0", "nan", "inf", "1ss", "1 minute", "1e400"] {
///     assert!(dahl_tune::time(wrong).is_err(), "{wrong:?}");
/// }
/// ```
pub fn time(text: &str) -> Result<Seconds, String> {
    let units = [
        ("ms", 1e-3),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("s", 1.0),
        ("", 1.0),
    ];
    let found = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    match found.and_then(|(number, scale)| Some(number.trim().parse::<f64>().ok()? * scale)) {
        Some(n) if n > 0.0 && n.is_finite() => Ok(Seconds(n)),
        _ => Err("not a positive time, such as 0.02, 20ms or 150us".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> (Cpus, Gpus) {
        let units: Units = text.parse().unwrap();
        (units.cpus, units.gpus)
    }

    #[test]
    fn units_are_read() {
        let these = |all: &[usize]| Gpus::These(all.to_vec());
        assert_eq!(units("cpu"), (Cpus::All, Gpus::NONE));
        assert_eq!(units("cpu:2,gpu:0"), (Cpus::Count(2), these(&[0])));
        assert_eq!(units("gpu:1+0"), (Cpus::Count(0), these(&[1, 0])));
        assert_eq!(
            units("gpu:0, gpu:1 ,cpu:3"),
            (Cpus::Count(3), these(&[0, 1]))
        );
        assert_eq!(units("gpu,cpu"), (Cpus::All, Gpus::All));
    }

    #[test]
    fn refusals_name_the_part_and_the_grammar() {
        for (text, part) in [
            ("", "empty"),
            ("cpu:2,", "empty"),
            ("cpu:0,gpu", "leave cpu out"),
            ("cpu:-1", "\"-1\""),
            ("cpu:70000", "70000"),
            ("cpu,cpu:2", "twice"),
            ("cpu:2,tpu:0", "\"tpu\""),
            ("gpu:x", "\"x\""),
            ("gpu:", "\"\""),
            ("gpu:0+", "\"\""),
            ("gpu:0,gpu:0", "gpu:0 is there twice"),
            ("gpu,gpu:0", "all of them"),
            ("gpu:0,gpu", "all of them"),
            ("GPU:0", "\"GPU\""),
        ] {
            let error = text.parse::<Units>().unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains("cpu:2,gpu:0"),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn names_of_plans_are_units() {
        let named = |all: &[&str]| Units::named(all.iter().copied());
        let both = named(&["cpu:0", "cpu:1", "gpu:1"]).unwrap();
        assert_eq!(both, "cpu:2,gpu:1".parse().unwrap());
        for wrong in [["cpu:1", "cpu:0"], ["cpu:0", "rtx4060"], ["gpu:a", "cpu:0"]] {
            assert!(named(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("2GiB"), Ok(Bytes(2 << 30)));
        assert_eq!(size("512 MiB"), Ok(Bytes(512 << 20)));
        assert_eq!(size("1.5gb"), Ok(Bytes(1_500_000_000)));
        assert_eq!(size("4096"), Ok(Bytes(4096)));
        for wrong in [
            "",
            "GiB",
            "0MiB",
            "-1GiB",
            "2GiX",
            "1.2.3GB",
            "9e99GB",
            "99999999TiB",
        ] {
            let error = size(wrong).unwrap_err().to_string();
            assert!(error.contains("GiB"), "{wrong:?}: {error}");
        }
    }
}
