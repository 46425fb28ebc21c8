//! Clocks of cores and cards: which frequencies there are, set for a run, and put back however the run ends.
//!
//! A [`Clock`] is what the system sets at once: the CPUs of one cpufreq policy, or a card. [`set_clocks`] sets some and gives a value
//! that stands for the run. Who puts them back is a *guard*, a process of its own that waits for that value, or the
//! whole process, to be gone: so a panic, a signal or `kill -9` are ends like any other. Old values are on disk before
//! the first clock is touched; if guard and run die together, the next run that sets clocks puts them back first.
//!
//! | file | what |
//! |---|---|
//! | `cpufreq` | clocks of cores, below `/sys/devices/system/cpu` |
//! | `cards` | clocks of NVIDIA's cards, through NVML |
//! | `guard` | the process that puts values back |
//!
//! What this refuses to do: set a clock of which the old value is not known, or one that another run has set; change
//! governors; hide that a clock may not be set.

#[cfg(target_os = "linux")]
mod cards;
mod cpufreq;
#[cfg(target_os = "linux")]
mod guard;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Tree, Trouble, TroubleKind};

/// A clock that units share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clock {
    /// Its name, such as `policy0`.
    pub name: String,
    /// The card that it drives, by the name of its model; empty for cores.
    pub device: String,
    /// The CPUs that it drives; none for a card.
    pub cpus: Vec<usize>,
    /// The frequencies it can be set to, in hertz, the highest first.
    pub hertz: Vec<f64>,
    /// Seconds that the processor says changing it takes; 0 where it does not say.
    pub latency: f64,
    /// Why it cannot be set, and the command that would allow it; `None` if it can.
    pub trouble: Option<Trouble>,
    /// What sets it.
    #[serde(skip)]
    knob: Knob,
}

/// What sets a clock.
#[derive(Clone, Debug, PartialEq)]
enum Knob {
    /// A file of the system.
    File(PathBuf),
    /// NVML, by the card's number there.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    Card(u32),
}

/// What puts a clock back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
enum Undo {
    /// A file, and what stood in it.
    Write(PathBuf, String),
    /// A program with its arguments.
    Run { run: Vec<String> },
}

/// The clocks of this machine's cores, in the order of their CPUs; none where the system tells nothing.
pub fn clocks(tree: &Tree) -> Vec<Clock> {
    cpufreq::discover(tree)
}

/// The clocks of this computer's cards; none without NVIDIA's driver.
pub fn card_clocks() -> Vec<Clock> {
    #[cfg(target_os = "linux")]
    return cards::discover();
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// Clocks that are set. They are put back when this is dropped, and if the process ends in any other way.
#[derive(Debug)]
pub struct SetClocks {
    #[cfg(target_os = "linux")]
    guard: guard::Guard,
    #[cfg(target_os = "linux")]
    cards: Option<cards::Cards>,
}

impl SetClocks {
    /// Sets one of these clocks to another frequency that it has. What is put back in the end is what was there before
    /// all.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
    pub fn change(&self, tree: &Tree, clock: &Clock, hertz: f64) -> Result<(), Trouble> {
        #[cfg(target_os = "linux")]
        return match (&clock.knob, &self.cards) {
            (Knob::File(file), _) if self.guard.keeps(file) => cpufreq::set(tree, file, hertz),
            (Knob::Card(card), Some(cards)) => cards.set(*card, hertz),
            _ => Err(failed(format!("{} was not set before", clock.name))),
        };
        #[cfg(not(target_os = "linux"))]
        Ok(())
    }

    /// Puts the clocks back now, and says if that failed.
    pub fn restore(self) -> Result<(), Trouble> {
        #[cfg(target_os = "linux")]
        return self.guard.end();
        #[cfg(not(target_os = "linux"))]
        Ok(())
    }
}

/// Where the old values are kept while clocks are set: one place for all runs of this computer.
pub fn record_path() -> PathBuf {
    std::env::temp_dir().join("dahl-clocks.json")
}

/// Sets clocks to frequencies that they have. `record` is where old values are kept meanwhile; another run that has set
/// clocks with the same record is named.
#[cfg(target_os = "linux")]
pub fn set_clocks(
    tree: &Tree,
    wanted: &[(&Clock, f64)],
    record: &Path,
) -> Result<SetClocks, Trouble> {
    let mut lock = guard::Record::take(record)?;
    // What a run and its guard left behind when both were killed.
    lock.put_back()?;
    let mut old = Vec::new();
    for (clock, _) in wanted {
        if let Some(trouble) = &clock.trouble {
            return Err(trouble.clone());
        }
        old.push(match &clock.knob {
            Knob::File(file) => Undo::Write(file.clone(), tree.text(file)?),
            Knob::Card(card) => cards::undo(*card)?,
        });
    }
    let any = wanted.iter().any(|w| matches!(w.0.knob, Knob::Card(_)));
    let cards = any.then(cards::Cards::open).transpose()?;
    lock.keep(old)?;
    let guard = guard::Guard::start(lock)?;
    let set = SetClocks { guard, cards };
    for (clock, hertz) in wanted {
        set.change(tree, clock, *hertz)?;
    }
    Ok(set)
}

/// As on Linux; elsewhere nothing can be set.
#[cfg(not(target_os = "linux"))]
pub fn set_clocks(_: &Tree, _: &[(&Clock, f64)], _: &Path) -> Result<SetClocks, Trouble> {
    let text = "clocks can be set on Linux only";
    Err(Trouble::new(TroubleKind::Missing, text))
}

fn failed(text: impl Into<String>) -> Trouble {
    Trouble::new(TroubleKind::Failed, text)
}
