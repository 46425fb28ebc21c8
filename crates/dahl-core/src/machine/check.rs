//! What every description of a machine must satisfy, whatever file it came from.

use std::collections::HashSet;

use super::{Link, Machine, MemoryId, NodeId, Port, Switch, Unit};

/// Larger machines are refused: units, memories and links are numbered in 16 bits, and the last numbers are
/// left free.
pub(super) const MOST: usize = 60_000;

/// A description that cannot be used: which file, which line, what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MachineError {
    /// The file, or empty.
    pub file: String,
    /// The line, where it is known.
    pub line: Option<usize>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl std::fmt::Display for MachineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "machine: {}", self.message)?;
        match (self.file.is_empty(), self.line) {
            (true, _) => Ok(()),
            (false, Some(line)) => write!(f, " ({}:{line})", self.file),
            (false, None) => write!(f, " ({})", self.file),
        }
    }
}

impl Machine {
    /// Refuses what nobody could simulate or run on; says what and how to put it right.
    pub fn check(&self) -> Result<(), String> {
        for (what, count) in [
            ("nodes", self.nodes.len()),
            ("memories", self.memories.len()),
            ("units", self.units.len()),
        ] {
            if count == 0 || count > MOST {
                return Err(format!("it has {count} {what}: use 1 to {MOST}"));
            }
        }
        unique("node", self.nodes.iter().map(|n| &n.name))?;
        unique("memory", self.memories.iter().map(|m| &m.name))?;
        unique("unit", self.units.iter().map(|u| &u.name))?;
        unique("switch", self.switches.iter().map(|s| &s.name))?;
        for node in &self.nodes {
            if let Some(base) = node.base {
                at_least_zero(&format!("node {:?}: base watts", node.name), base.0)?;
            }
            if let Some(off) = node.off {
                at_least_zero(&format!("node {:?}: off watts", node.name), off.0)?;
            }
            if let Some(port) = &node.port {
                check_port(&format!("node {:?}: port:", node.name), port)?;
            }
        }
        for (what, count) in [
            ("switches", self.switches.len()),
            ("links", self.links.len()),
        ] {
            if count > MOST {
                return Err(format!("it has {count} {what}: use at most {MOST}"));
            }
        }
        self.switches.iter().try_for_each(check_switch)?;
        for memory in &self.memories {
            let NodeId(node) = memory.node;
            if usize::from(node) >= self.nodes.len() {
                return Err(format!("memory {:?}: there is no node {node}", memory.name));
            }
            if memory.capacity.is_some_and(|c| c.0 > i64::MAX as u64) {
                return Err(format!(
                    "memory {:?}: the capacity is not credible",
                    memory.name
                ));
            }
        }
        self.units.iter().try_for_each(|u| self.check_unit(u))?;
        let mut pairs = HashSet::new();
        for link in &self.links {
            self.check_link(link)?;
            if !pairs.insert((link.from, link.to)) {
                let name = self.link_name(link);
                return Err(format!("{name} is there twice: leave one"));
            }
        }
        Ok(())
    }

    fn check_unit(&self, unit: &Unit) -> Result<(), String> {
        let named = |what: &str| format!("unit {:?}: {what}", unit.name);
        self.known(unit.memory).map_err(|e| named(&e))?;
        at_least_zero(&named("overhead"), unit.overhead.0)?;
        at_least_zero(&named("wake_latency"), unit.wake_latency.0)?;
        if let Some(power) = unit.power {
            at_least_zero(&named("idle watts"), power.idle.0)?;
            at_least_zero(&named("busy watts"), power.busy.0)?;
        } else if !unit.states.is_empty() {
            return Err(named(
                "frequency states need the usual idle and busy watts too",
            ));
        }
        for state in &unit.states {
            positive(&named("speed of a state"), state.speed)?;
            at_least_zero(&named("busy watts of a state"), state.busy.0)?;
            if let Some(hertz) = state.hertz {
                positive(&named("hertz of a state"), hertz)?;
            }
        }
        if let Some(seconds) = unit.switch_seconds {
            at_least_zero(&named("switch_seconds"), seconds.0)?;
        }
        if unit.states.len() > usize::from(u8::MAX) {
            return Err(named("more than 255 frequency states"));
        }
        if let Some(rated) = unit.rated {
            positive(&named("flops"), rated.flops)?;
            positive(&named("flops in double precision"), rated.flops_f64)?;
            positive(&named("bandwidth"), rated.bandwidth)?;
        }
        Ok(())
    }

    fn check_link(&self, link: &Link) -> Result<(), String> {
        self.known(link.from).map_err(|e| format!("link: {e}"))?;
        self.known(link.to).map_err(|e| format!("link: {e}"))?;
        let name = self.link_name(link);
        if link.from == link.to {
            return Err(format!("{name} leads nowhere: give it two memories"));
        }
        positive(&format!("{name}: bandwidth"), link.bandwidth)?;
        at_least_zero(&format!("{name}: latency"), link.latency.0)?;
        if let Some(joules) = link.joules_per_byte {
            at_least_zero(&format!("{name}: joules per byte"), joules)?;
        }
        if link.at_once == 0 {
            return Err(format!(
                "{name} carries no transfer at once: use 1 or more, or leave it out"
            ));
        }
        self.check_way(link, &name)
    }

    /// A link cannot be more than what it goes through.
    fn check_way(&self, link: &Link, name: &str) -> Result<(), String> {
        let mut seen = HashSet::new();
        for &switch in &link.via {
            let Some(found) = self.switches.get(usize::from(switch)) else {
                return Err(format!("{name}: there is no switch {switch}"));
            };
            if !seen.insert(switch) {
                let switch = &found.name;
                return Err(format!("{name} goes via {switch:?} twice: leave one"));
            }
        }
        let way = self.way(link.from, link.to, &link.via);
        if link.bandwidth > way.bandwidth {
            return Err(format!(
                "{name}: bandwidth is {:e}, but a port or switch on its way carries {:e}: leave it out, or make it less",
                link.bandwidth, way.bandwidth
            ));
        }
        if link.joules_per_byte.is_none() && way.joules_per_byte.is_some() {
            return Err(format!(
                "{name}: joules per byte are not known, but those of its ports and switches are: take their sum"
            ));
        }
        let ports = |n: NodeId| self.nodes[usize::from(n.0)].port.is_some();
        let (from, to) = self.nodes_of(link);
        if link.at_once > 1 && from != to && (ports(from) || ports(to)) {
            return Err(format!(
                "{name}: at_once is {}, but a port carries one transfer at a time: leave it out",
                link.at_once
            ));
        }
        Ok(())
    }

    /// A link's name, for people. Its memories must exist.
    pub(super) fn link_name(&self, link: &Link) -> String {
        let name = |m: MemoryId| &self.memories[usize::from(m.0)].name;
        format!("link {:?} to {:?}", name(link.from), name(link.to))
    }

    fn known(&self, memory: MemoryId) -> Result<(), String> {
        let MemoryId(m) = memory;
        if usize::from(m) < self.memories.len() {
            return Ok(());
        }
        Err(format!("there is no memory {m}"))
    }
}

fn check_port(name: &str, port: &Port) -> Result<(), String> {
    positive(&format!("{name} bandwidth"), port.bandwidth)?;
    at_least_zero(&format!("{name} latency"), port.latency.0)?;
    let joules = port.joules_per_byte.unwrap_or(0.0);
    at_least_zero(&format!("{name} joules per byte"), joules)
}

fn check_switch(switch: &Switch) -> Result<(), String> {
    // Without a bandwidth of its own any will do.
    let port = Port {
        bandwidth: switch.bandwidth.unwrap_or(1.0),
        latency: switch.latency,
        joules_per_byte: switch.joules_per_byte,
    };
    check_port(&format!("switch {:?}:", switch.name), &port)
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for name in names {
        // Names travel through files of two formats, tables and traces: keep to what all of them print.
        let plain = !name.is_empty()
            && name.len() <= 200
            && name.trim() == name
            && !name.chars().any(char::is_control);
        if !plain {
            return Err(format!(
                "{what} {name:?}: a name is 1 to 200 bytes of printable text without spaces at its ends"
            ));
        }
        if !seen.insert(name) {
            return Err(format!(
                "two {what} entries are called {name:?}: rename one"
            ));
        }
    }
    Ok(())
}

/// Seconds, watts and joules per byte: more than a billion of any is a mistake in the unit.
fn at_least_zero(what: &str, value: f64) -> Result<(), String> {
    match value {
        0.0..=1e9 => Ok(()),
        v if v > 1e9 => Err(format!("{what} is {v:e}: it must be at most 1e9")),
        v => Err(format!("{what} is {v}: it must be zero or more")),
    }
}

/// Flops, bandwidths and ratios: from what no machine is slower than to far more than any has.
fn positive(what: &str, value: f64) -> Result<(), String> {
    match value {
        1e-6..=1e21 => Ok(()),
        v if v > 0.0 => Err(format!("{what} is {v:e}: it must be from 1e-6 to 1e21")),
        v => Err(format!("{what} is {v}: it must be more than zero")),
    }
}
