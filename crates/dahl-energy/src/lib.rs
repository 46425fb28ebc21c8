//! Energy meters: joules, each with where they come from.
//!
//! A [`Meter`] reads raw numbers from one source: counters of energy, or power at this moment. An
//! `account` turns what one domain's meter reads into joules and says what makes them doubtful; the
//! `ledger` keeps the accounts of a run and adds up what may be added; the `sampler` is the thread
//! that reads ten times a second.
//!
//! | file | what |
//! |---|---|
//! | `rapl` | Linux's powercap files: package, core, DRAM, platform |
//! | `perf_event` | the same counters through perf events, where powercap is closed |
//! | `nvml` | NVIDIA's library, loaded while running |
//! | `hwmon` | AMD's sockets and GPUs |
//! | `wall` | meters at the wall: a file, or a plug over HTTP |
//! | `model` | watts × busy and idle time, where nothing can be measured |
//! | [`clocks`] | frequencies of cores: found, set, and put back however a run ends |
//! | `files`, `account`, `energy`, `ledger`, `sampler` | what they share |
//! | `program`, `export` | what another program uses; the same as CSV and for Prometheus |
//!
//! What this refuses to do: report a zero that nobody measured (a counter that never moves measures
//! nothing), add a part to the whole that contains it, hide that a figure is a model's, or stop a run
//! because a meter fails.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod account;
pub mod clocks;
mod energy;
pub mod export;
mod files;
mod hwmon;
mod ledger;
mod model;
mod nvml;
mod perf_event;
mod program;
mod rapl;
mod readable;
mod sampler;
#[cfg(test)]
mod tests;
mod wall;

use std::fmt;

use dahl_core::{Seconds, Watts};
use serde::Serialize;

pub use energy::{DomainEnergy, Energy, Part, PartKind, PowerSample, Report};
pub use files::Tree;
pub use ledger::{Ledger, Meters};
pub use model::{BUSY, Clock, IDLE, WattsModel};
pub use program::{ProgramError, ProgramRun, run_program};
pub use readable::Readable;
pub use sampler::{Options, Sampler, measure};
pub use wall::WallMeter;

/// The most a domain is believed to draw where nothing says otherwise.
pub(crate) const PLAUSIBLE: Watts = Watts(1000.0);

/// A source of raw readings.
pub trait Meter: Send {
    /// Its short name: `rapl`, `nvml`…
    fn name(&self) -> &'static str;
    /// What it reads.
    fn domains(&self) -> &[Domain];
    /// Reads a domain, by its place in [`Meter::domains`]: a count in the unit of its [`Quantity`].
    /// `now` is the time since the ledger's beginning.
    fn read(&mut self, domain: usize, now: Seconds) -> Result<u64, Trouble>;
    /// How often the source had something new to say, where it is slower than it is asked.
    fn readings(&self) -> Option<u64> {
        None
    }
}

/// Something whose energy is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Its name: `package-0`, `package-0/core`, `gpu-1`.
    pub name: String,
    /// What it is a part of.
    pub scope: Scope,
    /// What a count means.
    pub quantity: Quantity,
    /// More than this it cannot draw.
    pub ceiling: Watts,
    /// Whether a reading in the middle of a run means something, or only the last one does.
    pub sampled: bool,
}

/// Which part of a machine a domain covers; decides what may be added to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "scope", content = "package")]
pub enum Scope {
    /// Everything, and the losses of the power supply.
    Wall,
    /// Everything.
    Platform,
    /// A processor without its memory.
    Package,
    /// A part of the package of this name: its cores, its graphics.
    Inside(String),
    /// Memory beside a package, not counted in it.
    Dram,
    /// A graphics card.
    Gpu,
    /// A chip that has processor and graphics in one: nothing beside a package that was measured.
    Chip,
    /// What a model says of the processors.
    Modelled,
    /// What a model says of graphics cards.
    ModelledGpu,
}

/// What a meter's numbers are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Energy since some beginning.
    Counter {
        /// Joules of one count.
        joules: f64,
        /// The count after which it starts again at zero, where it does.
        range: Option<u64>,
    },
    /// Power now.
    Power {
        /// Watts of one count.
        watts: f64,
    },
}

/// What kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TroubleKind {
    /// It is not there, or no longer.
    Missing,
    /// It is there and may not be read.
    Denied,
    /// It was read and makes no sense.
    Garbage,
    /// Something else.
    Failed,
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// What kind.
    pub kind: TroubleKind,
    /// In words.
    pub text: String,
    /// The command that helps, where one does.
    pub remedy: Option<String>,
}

impl Trouble {
    /// Trouble without a remedy.
    pub(crate) fn new(kind: TroubleKind, text: impl Into<String>) -> Self {
        Trouble {
            kind,
            text: text.into(),
            remedy: None,
        }
    }

    /// The same, with the command that helps if it is a matter of permission.
    pub(crate) fn or_run(mut self, command: &str) -> Self {
        if self.kind == TroubleKind::Denied {
            self.remedy = Some(command.into());
        }
        self
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.remedy {
            Some(command) => write!(f, "; run {command}"),
            None => Ok(()),
        }
    }
}

/// What the search for meters found in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The source that looked.
    pub meter: &'static str,
    /// The domain or the place; empty for the source as a whole.
    pub what: String,
    /// What it covers, where that is known.
    pub scope: Option<Scope>,
    /// Why it cannot be used; `None` if it can.
    pub trouble: Option<Trouble>,
    /// What else is to be said.
    pub note: String,
}

impl Finding {
    /// Something that can be read.
    pub(crate) fn readable(meter: &'static str, what: &str, note: impl Into<String>) -> Self {
        Finding {
            meter,
            what: what.into(),
            scope: None,
            trouble: None,
            note: note.into(),
        }
    }

    /// Something that cannot.
    pub(crate) fn not(meter: &'static str, what: &str, trouble: Trouble) -> Self {
        Finding {
            meter,
            what: what.into(),
            scope: None,
            trouble: Some(trouble),
            note: String::new(),
        }
    }

    /// The same, of something that covers this.
    pub(crate) fn of(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }
}

/// What a source offers.
#[derive(Default)]
pub struct Found {
    /// The meter, if there is anything to read.
    pub meter: Option<Box<dyn Meter>>,
    /// What was found, readable or not.
    pub findings: Vec<Finding>,
}

impl Found {
    /// A source with nothing to offer, and why.
    pub(crate) fn nothing(meter: &'static str, trouble: Trouble) -> Self {
        Found {
            meter: None,
            findings: vec![Finding::not(meter, "", trouble)],
        }
    }

    /// Whether it reads what processors use.
    pub(crate) fn has_processors(&self) -> bool {
        let domains = self.meter.iter().flat_map(|m| m.domains());
        domains
            .into_iter()
            .any(|d| matches!(d.scope, Scope::Package | Scope::Platform))
    }
}
