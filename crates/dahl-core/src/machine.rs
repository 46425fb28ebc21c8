//! Machines: processing units, memories and the links between them.
//!
//! A description, not a discovery: who finds out what this computer has is the runtime, and anything
//! that predicts may be given a machine that does not exist.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Seconds};

/// The kind of a unit; implementations are written for kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitKind {
    /// A CPU core.
    Cpu,
    /// A GPU or another accelerator with its own kernels.
    Gpu,
}

impl fmt::Display for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnitKind::Cpu => "cpu",
            UnitKind::Gpu => "gpu",
        })
    }
}

/// A memory, by its place in [`Machine::memories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemoryId(pub u16);

impl MemoryId {
    /// The host's RAM, which every machine has first.
    pub const HOST: MemoryId = MemoryId(0);
}

/// A unit, by its place in [`Machine::units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitId(pub u16);

/// What a unit can reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Its name.
    pub name: String,
    /// How much it holds; `None` where nothing limits it but the machine itself.
    pub capacity: Option<Bytes>,
}

/// What executes tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name, such as `cpu:0`.
    pub name: String,
    /// Its kind.
    pub kind: UnitKind,
    /// The memory its operands must be in.
    pub memory: MemoryId,
}

/// A way for data from one memory to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Where data comes from.
    pub from: MemoryId,
    /// Where it goes.
    pub to: MemoryId,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Time before the first byte arrives.
    pub latency: Seconds,
}

impl Link {
    /// How long it takes to move this much when nothing else uses the link.
    pub fn duration(&self, bytes: Bytes) -> Seconds {
        Seconds(self.latency.0 + bytes.0 as f64 / self.bandwidth)
    }
}

/// Units, memories and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its memories; the first is the host's.
    pub memories: Vec<Memory>,
    /// Its units.
    pub units: Vec<Unit>,
    /// Its links. Between host and device there is one in each direction.
    pub links: Vec<Link>,
}

impl Machine {
    /// `cores` CPU cores around one memory.
    pub fn cpus(cores: usize) -> Self {
        let unit = |i| Unit {
            name: format!("cpu:{i}"),
            kind: UnitKind::Cpu,
            memory: MemoryId::HOST,
        };
        Machine {
            memories: vec![Memory {
                name: "host".into(),
                capacity: None,
            }],
            units: (0..cores).map(unit).collect(),
            links: Vec::new(),
        }
    }

    /// The link from one memory to another.
    pub fn link(&self, from: MemoryId, to: MemoryId) -> Option<&Link> {
        self.links.iter().find(|l| l.from == from && l.to == to)
    }
}
