//! What links share: the network card of a node, and switches.
//!
//! A node has one *port*, its network card, which all links to and from other nodes go through; a *switch* (or a bus,
//! or a cable that several use) is what a link says it goes `via`. Nodes without a port limit nothing, so descriptions
//! that know no ports mean what they always meant: each link by itself.
//!
//! # The rule
//!
//! Everything that carries transfers is a *channel*: a link of its own accord (`at_once` transfers), a port's way out
//! and its way in (one each: full duplex), and a switch whose backplane is limited. A transfer occupies all channels
//! of its link for its whole time, at the slowest of their bandwidths:
//!
//! ```text
//! seconds = latency + bytes / bandwidth       bandwidth = min over the way,   latency = Σ over the way
//! begin   = max(asked, until each channel c of its link has room)
//! ```
//!
//! Channels serve in the order in which transfers ask: who asks later never begins before on a channel that both need.
//! A switch of bandwidth `B` has room for `⌊B / b⌋` transfers, at least one, where `b` is the bandwidth of the fastest
//! link via it.
//!
//! The simulator, the planner and the runtime's `local` transport all keep to it. Real networks and SimGrid divide a
//! port among the transfers that want it. There the bytes of the last one end at the same moment, as the port is never
//! idle, and the first ones end later. One after the other is what a plan can put in order. It is the slower rule in
//! three cases: latencies of transfers through one port add up, where there they overlap; a transfer that waits for its
//! receiver keeps those behind it waiting; and a slow link via a switch counts there as much as a fast one.

#[cfg(test)]
mod tests;

use super::check::MOST;
use super::{Link, Machine, MemoryId, NodeId};
use crate::units::Seconds;

use serde::{Deserialize, Serialize};

/// A node's network card.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Bytes per second, each way: full duplex.
    pub bandwidth: f64,
    /// What it adds to the latency of a link.
    pub latency: Seconds,
    /// What moving a byte through it costs, where known.
    #[serde(default)]
    pub joules_per_byte: Option<f64>,
}

/// What several links go through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Bytes per second of all transfers together; `None` if it carries whatever its ports do.
    #[serde(default)]
    pub bandwidth: Option<f64>,
    /// What it adds to the latency of a link.
    #[serde(default)]
    pub latency: Seconds,
    /// What moving a byte through it costs, where known.
    #[serde(default)]
    pub joules_per_byte: Option<f64>,
}

/// A channel: carries so many transfers at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// For people.
    pub name: String,
    /// How many.
    pub at_once: u32,
}

/// The channels of a machine, by the rule of the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Those of links first, in their order; then what links share.
    pub all: Vec<Channel>,
    /// For every link the channels it occupies, its own first.
    pub of_link: Vec<Vec<u32>>,
}

impl Machine {
    /// What carries transfers, and what each link occupies of it.
    pub fn channels(&self) -> Channels {
        let mut out = Channels::default();
        for (i, link) in self.links.iter().enumerate() {
            let (name, at_once) = (self.link_name(link), link.at_once);
            out.all.push(Channel { name, at_once });
            out.of_link.push(vec![i as u32]);
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if node.port.is_none() {
                continue;
            }
            for (way, is_out) in [("out of", true), ("into", false)] {
                out.share(format!("port {way} node {:?}", node.name), 1, |l| {
                    let (from, to) = self.nodes_of(&self.links[l]);
                    from != to && i == usize::from(if is_out { from.0 } else { to.0 })
                });
            }
        }
        for (i, switch) in self.switches.iter().enumerate() {
            let through = |link: &Link| link.via.iter().any(|&s| usize::from(s) == i);
            let fastest = self.links.iter().filter(|l| through(l));
            let fastest = fastest.map(|l| l.bandwidth).fold(0.0, f64::max);
            if let (Some(bandwidth), true) = (switch.bandwidth, fastest > 0.0) {
                // Of two equal texts one may be a quotient that was rounded down.
                let at_once = (bandwidth / fastest * (1.0 + 1e-12)).floor();
                let at_once = at_once.clamp(1.0, f64::from(u32::MAX)) as u32;
                out.share(format!("switch {:?}", switch.name), at_once, |l| {
                    through(&self.links[l])
                });
            }
        }
        out
    }

    /// A link as its way makes it: as fast as the slowest part, with the latencies and joules of all parts, where all
    /// are known. If nothing on its way says how fast it is, the bandwidth is infinite: the link has to say it.
    pub fn way(&self, from: MemoryId, to: MemoryId, via: &[u16]) -> Link {
        let (a, b) = (self.node_of(from), self.node_of(to));
        let port = |n: NodeId| self.nodes.get(usize::from(n.0)).and_then(|n| n.port);
        let ports = [a, b].map(|n| port(n).filter(|_| a != b));
        let switches = || {
            via.iter()
                .filter_map(|&s| self.switches.get(usize::from(s)))
        };
        let bandwidths = ports.iter().flatten().map(|p| p.bandwidth);
        let bandwidth = bandwidths
            .chain(switches().filter_map(|s| s.bandwidth))
            .fold(f64::INFINITY, f64::min);
        // The ports' sum first: it is the same for the way back, to the last bit.
        let latency = |p: Option<Port>| p.map_or(0.0, |p| p.latency.0);
        let latency = latency(ports[0]) + latency(ports[1]);
        let joules = |p: Option<Port>| p.map_or(Some(0.0), |p| p.joules_per_byte);
        let joules = joules(ports[0]).zip(joules(ports[1])).map(|(a, b)| a + b);
        let is_own = via.is_empty() && ports == [None; 2];
        Link {
            latency: switches().fold(Seconds(latency), |sum, s| sum + s.latency),
            joules_per_byte: switches()
                .map(|s| s.joules_per_byte)
                .fold(joules, |sum, j| sum.zip(j).map(|(a, b)| a + b))
                .filter(|_| !is_own),
            via: via.to_vec(),
            ..Link::new(from, to, bandwidth, Seconds(0.0))
        }
    }

    /// Whether a link goes through anything.
    pub fn is_shared(&self, link: &Link) -> bool {
        let (from, to) = self.nodes_of(link);
        let port = |n: NodeId| self.nodes[usize::from(n.0)].port.is_some();
        !link.via.is_empty() || from != to && (port(from) || port(to))
    }

    /// The links by which a switch joins nodes, each with each, but for those that are there: between the first
    /// memories, there and back. An error says which node cannot be joined.
    pub(super) fn star(&self, switch: u16, nodes: &[NodeId]) -> Result<Vec<Link>, String> {
        let first = |node: &NodeId| {
            let place = self.memories.iter().position(|m| m.node == *node);
            let name = || &self.nodes[usize::from(node.0)].name;
            place
                .map(|m| MemoryId(m as u16))
                .ok_or_else(|| format!("node {:?} has no memory: add one", name()))
        };
        let memories = nodes.iter().map(first).collect::<Result<Vec<_>, _>>()?;
        if nodes.len() * nodes.len() > MOST {
            let most = MOST.isqrt();
            return Err(format!(
                "it joins {} nodes: use at most {most}",
                nodes.len()
            ));
        }
        let mut links = Vec::new();
        for (i, &from) in memories.iter().enumerate() {
            for &to in &memories[i + 1..] {
                let link = self.way(from, to, &[switch]);
                if link.bandwidth.is_infinite() {
                    let name = |m| &self.nodes[usize::from(self.node_of(m).0)].name;
                    return Err(format!(
                        "nothing says how fast it joins {:?} and {:?}: give them ports, or give it a `bandwidth`",
                        name(from),
                        name(to)
                    ));
                }
                let both = [link.clone(), link.reversed()];
                links.extend(
                    both.into_iter()
                        .filter(|l| self.link(l.from, l.to).is_none()),
                );
            }
        }
        Ok(links)
    }

    /// One node as a machine of its own: its units, memories and the links between these.
    pub fn of_node(&self, node: NodeId) -> Machine {
        let mut machine = self.of_nodes(&[node]);
        machine.switches.clear();
        machine.links.iter_mut().for_each(|l| l.via.clear());
        machine
    }

    /// Some of its nodes, in their order, as a machine of their own; the first memory of the first is the host's.
    pub fn of_nodes(&self, nodes: &[NodeId]) -> Machine {
        let number = |m: MemoryId| nodes.iter().position(|n| *n == self.node_of(m));
        let here = |m: MemoryId| number(m).is_some();
        let all = (0..self.memories.len() as u16).map(MemoryId);
        let mut own: Vec<MemoryId> = all.filter(|&m| here(m)).collect();
        own.sort_by_key(|&m| number(m));
        let place = |m: MemoryId| {
            let at = own.iter().position(|o| *o == m);
            MemoryId(at.unwrap_or(0) as u16)
        };
        let within = self.links.iter().filter(|l| here(l.from) && here(l.to));
        let links = within.map(|l| Link {
            from: place(l.from),
            to: place(l.to),
            ..l.clone()
        });
        let mut units: Vec<&super::Unit> = self.units.iter().filter(|u| here(u.memory)).collect();
        units.sort_by_key(|u| number(u.memory));
        let named = nodes
            .iter()
            .filter_map(|n| self.nodes.get(usize::from(n.0)));
        Machine {
            name: self.name.clone(),
            nodes: named.cloned().collect(),
            memories: own
                .iter()
                .map(|m| super::Memory {
                    node: NodeId(number(*m).unwrap_or(0) as u16),
                    ..self.memories[usize::from(m.0)].clone()
                })
                .collect(),
            units: units
                .into_iter()
                .map(|u| super::Unit {
                    memory: place(u.memory),
                    ..u.clone()
                })
                .collect(),
            links: links.collect(),
            switches: self.switches.clone(),
            kernels: self.kernels.clone(),
        }
    }

    pub(super) fn node_of(&self, memory: MemoryId) -> NodeId {
        self.memories
            .get(usize::from(memory.0))
            .map_or(NodeId::default(), |m| m.node)
    }

    pub(super) fn nodes_of(&self, link: &Link) -> (NodeId, NodeId) {
        (self.node_of(link.from), self.node_of(link.to))
    }
}

impl Channels {
    /// Adds a channel that some links occupy.
    fn share(&mut self, name: String, at_once: u32, through: impl Fn(usize) -> bool) {
        let number = self.all.len() as u32;
        self.all.push(Channel { name, at_once });
        for (l, of_link) in self.of_link.iter_mut().enumerate() {
            if through(l) {
                of_link.push(number);
            }
        }
    }
}
