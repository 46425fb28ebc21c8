//! Machines: processing units, memories and the links between them.
//!
//! A description, not a discovery: who finds out what this computer has is the runtime, and anything
//! that predicts may be given a machine that does not exist. What is not known is `None`, never a zero
//! that looks like a figure.
//!
//! | file | what |
//! |---|---|
//! | `check` | what every description must satisfy |
//! | `kind` | kinds of units, by name |
//! | [`network`] | what links share: ports, switches, and the rule for transfers |
//! | `read`, `fields`, `write` | `machine.toml`, to be edited by hand |

mod check;
mod fields;
mod kind;
pub mod network;
mod read;
#[cfg(test)]
mod tests;
mod write;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::kernels::DeviceKernels;
use crate::units::{Bytes, Seconds, Watts};

pub use check::MachineError;
pub use kind::{KindError, UnitKind};
pub use network::{Channel, Channels, Port, Switch};

/// A node, by its place in [`Machine::nodes`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct NodeId(pub u16);

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

/// A computer of its own: what has a plug.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it draws beside its units: board, memory, fans, losses of the supply.
    pub base: Option<Watts>,
    /// What it draws while it is switched off, because it takes no part; `None` if it stays on in any case.
    #[serde(default = "nothing")]
    pub off: Option<Watts>,
    /// Its network card, where known: all links to and from other nodes go through it.
    #[serde(default)]
    pub port: Option<Port>,
}

impl Node {
    /// A node of which nothing else is known.
    pub fn new(name: impl Into<String>) -> Self {
        Node {
            name: name.into(),
            base: None,
            off: nothing(),
            port: None,
        }
    }
}

fn nothing() -> Option<Watts> {
    Some(Watts(0.0))
}

/// What a unit can reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Its name.
    pub name: String,
    /// How much it holds; `None` where nothing limits it but the machine itself.
    pub capacity: Option<Bytes>,
    /// The node it is in.
    #[serde(default)]
    pub node: NodeId,
}

impl Memory {
    /// A memory of the first node.
    pub fn new(name: impl Into<String>, capacity: Option<Bytes>) -> Self {
        Memory {
            name: name.into(),
            capacity,
            node: NodeId::default(),
        }
    }
}

/// What a unit draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// While it waits.
    pub idle: Watts,
    /// While it computes.
    pub busy: Watts,
}

/// Another speed that a unit can run at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrequencyState {
    /// Compared with the usual speed: 0.5 computes half as fast. Memory delivers as before.
    pub speed: f64,
    /// What it draws while it computes.
    pub busy: Watts,
    /// Its clock in hertz: what has to be set for it. `None` where the state is described only.
    #[serde(default)]
    pub hertz: Option<f64>,
}

impl FrequencyState {
    /// A state that is described, not one that can be set.
    pub fn new(speed: f64, busy: Watts) -> FrequencyState {
        FrequencyState {
            speed,
            busy,
            hertz: None,
        }
    }
}

/// The highest rates a unit reaches: the roofline for tasks that nobody has measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rated {
    /// Single-precision operations per second.
    pub flops: f64,
    /// Double-precision operations per second.
    pub flops_f64: f64,
    /// Bytes per second from and to its memory while its neighbours use that memory too.
    pub bandwidth: f64,
}

impl Rated {
    /// Operations per second on elements of a type.
    pub fn flops(&self, dtype: DType) -> f64 {
        match dtype {
            DType::F32 => self.flops,
            DType::F64 => self.flops_f64,
        }
    }
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
    /// What it draws, where known.
    #[serde(default)]
    pub power: Option<Power>,
    /// Speeds beside the usual one.
    #[serde(default)]
    pub states: Vec<FrequencyState>,
    /// What changing from one state to another takes, where known; nothing is computed meanwhile.
    #[serde(default)]
    pub switch_seconds: Option<Seconds>,
    /// Its highest rates, where known.
    #[serde(default)]
    pub rated: Option<Rated>,
    /// What every task costs beside its own duration: choosing it, starting it, telling successors.
    #[serde(default)]
    pub overhead: Seconds,
    /// Wake-up latency: from when a task is ready to when a unit without work begins it, the dispatch
    /// `overhead` included.
    #[serde(default)]
    pub wake_latency: Seconds,
}

impl Unit {
    /// A unit of which nothing else is known.
    pub fn new(name: impl Into<String>, kind: UnitKind, memory: MemoryId) -> Self {
        Unit {
            name: name.into(),
            kind,
            memory,
            power: None,
            states: Vec::new(),
            switch_seconds: None,
            rated: None,
            overhead: Seconds(0.0),
            wake_latency: Seconds(0.0),
        }
    }

    /// Speed and busy watts in a state: 0 is the usual one, the others are [`Unit::states`]. Watts that
    /// are unknown are `None`, as is a state that the unit does not have.
    pub fn state(&self, state: usize) -> Option<(f64, Option<Watts>)> {
        match state.checked_sub(1) {
            None => Some((1.0, self.power.map(|p| p.busy))),
            Some(i) => self.states.get(i).map(|s| (s.speed, Some(s.busy))),
        }
    }
}

/// A way for data from one memory to another. Between nodes it goes through the ports of both; its figures are those of
/// the whole way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Where data comes from.
    pub from: MemoryId,
    /// Where it goes.
    pub to: MemoryId,
    /// Bytes per second of one transfer.
    pub bandwidth: f64,
    /// Time before the first byte arrives.
    pub latency: Seconds,
    /// What moving a byte costs beside what units and nodes draw anyway, where known.
    #[serde(default)]
    pub joules_per_byte: Option<f64>,
    /// How many transfers it carries at once, each at the full bandwidth; more wait in line.
    #[serde(default = "one")]
    pub at_once: u32,
    /// What it goes through beside ports: places in [`Machine::switches`].
    #[serde(default)]
    pub via: Vec<u16>,
}

fn one() -> u32 {
    1
}

impl Link {
    /// A link that carries one transfer at a time.
    pub fn new(from: MemoryId, to: MemoryId, bandwidth: f64, latency: Seconds) -> Self {
        Link {
            from,
            to,
            bandwidth,
            latency,
            joules_per_byte: None,
            at_once: 1,
            via: Vec::new(),
        }
    }

    /// How long it takes to move this much when nothing else uses the link.
    pub fn duration(&self, bytes: Bytes) -> Seconds {
        Seconds(self.latency.0 + bytes.0 as f64 / self.bandwidth)
    }

    /// The same link the other way.
    pub fn reversed(&self) -> Link {
        Link {
            from: self.to,
            to: self.from,
            ..self.clone()
        }
    }
}

/// Units, memories and links, in one or several computers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The computers; most machines have one.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Its memories; the first is the host's, where arrays live that no task has touched yet.
    pub memories: Vec<Memory>,
    /// Its units.
    pub units: Vec<Unit>,
    /// Its links. Between host and device there is one in each direction.
    pub links: Vec<Link>,
    /// What links share beside the ports of nodes.
    #[serde(default)]
    pub switches: Vec<Switch>,
    /// What kinds of units with kernels of their own can execute. Not part of any file: who has the devices, or knows
    /// them, says it.
    #[serde(skip)]
    pub kernels: DeviceKernels,
}

impl Machine {
    /// `cores` CPU cores around one memory.
    pub fn cpus(cores: usize) -> Self {
        let unit = |i| Unit::new(format!("cpu:{i}"), UnitKind::CPU, MemoryId::HOST);
        Machine {
            name: "machine".into(),
            nodes: vec![Node::new("machine")],
            memories: vec![Memory::new("host", None)],
            units: (0..cores).map(unit).collect(),
            links: Vec::new(),
            switches: Vec::new(),
            kernels: DeviceKernels::default(),
        }
    }

    /// The link from one memory to another.
    pub fn link(&self, from: MemoryId, to: MemoryId) -> Option<&Link> {
        self.links.iter().find(|l| l.from == from && l.to == to)
    }

    /// The name under which durations of a unit are recorded. Equal units share theirs, and so their
    /// experience: `cpu`. Where several share a memory the name says how many, `cpu/8`, because they
    /// slow each other down.
    pub fn timed_as(&self, unit: &Unit) -> String {
        let name = match usize::from(unit.memory.0) {
            0 => unit.kind.to_string(),
            m => self.memories[m].name.clone(),
        };
        let alike = |u: &&Unit| (u.kind, u.memory) == (unit.kind, unit.memory);
        match self.units.iter().filter(alike).count() {
            0 | 1 => name,
            n => format!("{name}/{n}"),
        }
    }

    /// What all nodes draw beside their units; nodes that do not say count nothing.
    pub fn base(&self) -> Watts {
        self.nodes.iter().filter_map(|n| n.base).sum()
    }

    /// What lacks a figure that energy is made of: nodes without base watts, units without theirs, links
    /// without joules per byte. Empty if every joule is accounted for.
    pub fn without_power(&self) -> Vec<String> {
        let nodes = self.nodes.iter().filter(|n| n.base.is_none());
        let units = self.units.iter().filter(|u| u.power.is_none());
        let links = self.links.iter().filter(|l| l.joules_per_byte.is_none());
        let memory = |m: MemoryId| &self.memories[usize::from(m.0)].name;
        nodes
            .map(|n| format!("node {}", n.name))
            .chain(units.map(|u| format!("unit {}", u.name)))
            .chain(links.map(|l| format!("link {} to {}", memory(l.from), memory(l.to))))
            .collect()
    }

    /// Reads the text of a `machine.toml`; `file` is its name, for errors.
    pub fn from_toml(text: &str, file: &str) -> Result<Machine, MachineError> {
        read::machine(text, file)
    }

    /// The text of a `machine.toml`. Reading it gives the same machine.
    pub fn to_toml(&self) -> String {
        write::machine(self)
    }

    /// Units as files write them: equal ones next to each other whose names count up from zero (`cpu:0`,
    /// `cpu:1`…) are one group, the first of them, `cpu` and how many; others stand alone with `None`.
    pub fn groups(&self) -> Vec<(&Unit, String, Option<usize>)> {
        groups(&self.units)
    }
}

fn groups(units: &[Unit]) -> Vec<(&Unit, String, Option<usize>)> {
    let numbered = |unit: &Unit, i: usize| {
        let stem = unit.name.strip_suffix(&format!(":{i}"))?;
        (!stem.is_empty()).then(|| stem.to_owned())
    };
    let equal = |a: &Unit, b: &Unit| {
        let named = |u: &Unit| Unit {
            name: String::new(),
            ..u.clone()
        };
        named(a) == named(b)
    };
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(first) = units.get(at) {
        match numbered(first, 0) {
            None => {
                out.push((first, first.name.clone(), None));
                at += 1;
            }
            Some(stem) => {
                let same = |(i, u): (usize, &Unit)| {
                    numbered(u, i).as_ref() == Some(&stem) && equal(u, first)
                };
                let rest = units[at..].iter().enumerate();
                let count = rest.take_while(|&pair| same(pair)).count();
                out.push((first, stem, Some(count)));
                at += count;
            }
        }
    }
    out
}
