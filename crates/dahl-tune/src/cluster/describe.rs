//! A cluster as a machine that can be simulated and planned for: every node as it describes itself, and the network as it
//! was measured.
//!
//! A node's port is as fast as the fastest of its links, each way: what a card can do is what it does for the best
//! partner. A link that is slower than its ports says so itself. Latencies belong to links.

use std::time::Duration;

use dahl_core::machine::Port;
use dahl_core::{Link, Machine, MemoryId, NodeId, Rated, Seconds, Unit, UnitKind};
use dahl_runtime::network::{Launched, MeasuredLink, Talk};
use serde::{Deserialize, Serialize};

use crate::describe::Described;
use crate::error::TuneError;
use crate::this_machine::ThisMachine;
use crate::units::Units;

/// Joules to move a byte through a network card and a switch's port: about 5 W more at 10 Gbit/s, half at each end.
const PER_BYTE: f64 = 4e-9;

/// What a node gives the first.
#[derive(Serialize, Deserialize)]
struct Part {
    name: String,
    machine: Machine,
    header: String,
    warnings: Vec<String>,
}

/// Seconds for each speed of a node that was never calibrated.
const SPEEDS: f64 = 0.2;

/// Describes the cluster that a launcher has started, with these units of this node, and links measured in about so many
/// seconds. The first node gets the description, the others none.
pub fn describe_cluster(
    launched: &Launched,
    this: &ThisMachine,
    units: Option<&Units>,
    seconds: f64,
    patience: Duration,
) -> Result<Option<Described>, TuneError> {
    let own = describe_node(launched, this, units)?;
    let mut transport = super::connect(launched, patience)?;
    let mut talk = Talk::new(&mut *transport, patience);
    let lost = |e: dahl_runtime::network::NodeLost| TuneError::Cluster(e.to_string());
    let part = Part {
        name: dahl_runtime::discover::host_name(),
        machine: own.machine,
        header: own.header,
        warnings: own.warnings,
    };
    let text = serde_json::to_vec(&part).map_err(|e| TuneError::Cluster(e.to_string()))?;
    let told = talk.gather(&text).map_err(lost)?;
    let links = talk.measure_links(seconds).map_err(lost)?;
    let read = |text: &Vec<u8>| serde_json::from_slice::<Part>(text);
    let parts: Result<Vec<Part>, _> = told.iter().map(read).collect();
    let parts = parts.map_err(|e| TuneError::Cluster(format!("another build of DAHL: {e}")))?;
    let described = match talk.node() {
        0 => Some(join(parts, &links)?),
        _ => None,
    };
    talk.finish().map_err(lost)?;
    Ok(described)
}

/// This node: nodes on one computer divide its cores, and speeds that were never measured are measured now.
fn describe_node(
    launched: &Launched,
    this: &ThisMachine,
    units: Option<&Units>,
) -> Result<Described, TuneError> {
    let here = usize::from(launched.here.max(1));
    let part = (here > 1).then(|| Units::cpus(Some((this.cores() / here).max(1) as u16)));
    let mut own = this.describe(units.or(part.as_ref()))?;
    let is_core = |u: &&mut Unit| u.kind == UnitKind::CPU;
    let cores = own.machine.units.iter_mut().filter(is_core).count();
    if cores > 0 && this.profile()?.is_none() {
        let speeds = crate::calibrate::speeds(cores, SPEEDS)?;
        for unit in own.machine.units.iter_mut().filter(is_core) {
            unit.rated = Some(Rated {
                flops: speeds.flops_f32,
                flops_f64: speeds.flops_f64,
                bandwidth: speeds.bandwidth,
            });
            unit.overhead = Seconds(speeds.overhead);
        }
        own.warnings
            .retain(|w| !w.starts_with("speeds are unknown"));
        own.header = own.header.replace(
            "flops and bandwidth are missing: run `dahl calibrate`, then describe again.",
            "flops, bandwidth and overhead of cores were measured just now; `dahl calibrate` does it better.",
        );
    }
    Ok(own)
}

/// One machine of all nodes, and what to say of it.
fn join(parts: Vec<Part>, links: &[MeasuredLink]) -> Result<Described, TuneError> {
    let names = unlike(parts.iter().map(|p| &p.name[..]));
    let (mut header, mut warnings) = (String::new(), Vec::new());
    header += "# Described by `dahl machine --describe --cluster`. Ports and links were measured just now, one pair of\n\
               # nodes at a time; 4e-9 J per byte and port is an estimate. Put in your own.\n";
    let mut nodes = Vec::new();
    for (part, name) in parts.into_iter().zip(names) {
        header += &format!("#\n# {name}: {}\n", part.machine.name);
        for line in part.header.lines().skip(1) {
            header += &format!("{line}\n");
        }
        warnings.extend(part.warnings.iter().map(|w| format!("{name}: {w}")));
        nodes.push((name, part.machine));
    }
    Ok(Described {
        machine: one_machine(nodes, links)?,
        header,
        warnings,
    })
}

/// Nodes as one machine, each by its name, with these links between them.
pub(crate) fn one_machine(
    nodes: Vec<(String, Machine)>,
    links: &[MeasuredLink],
) -> Result<Machine, TuneError> {
    let mut all = Machine {
        name: "cluster".into(),
        nodes: Vec::new(),
        memories: Vec::new(),
        units: Vec::new(),
        links: Vec::new(),
        switches: Vec::new(),
        kernels: Default::default(),
    };
    let mut hosts = Vec::new();
    for (name, machine) in nodes {
        let first = all.memories.len() as u16;
        hosts.push(MemoryId(first));
        let node = NodeId(all.nodes.len() as u16);
        for mut of in machine.nodes.into_iter().take(1) {
            of.name.clone_from(&name);
            of.port = port(node.0, links);
            all.nodes.push(of);
        }
        for mut memory in machine.memories {
            memory.name = format!("{name}-{}", memory.name);
            memory.node = node;
            all.memories.push(memory);
        }
        for mut unit in machine.units {
            unit.name = format!("{name}-{}", unit.name);
            unit.memory.0 += first;
            all.units.push(unit);
        }
        for mut link in machine.links {
            (link.from.0, link.to.0) = (link.from.0 + first, link.to.0 + first);
            all.links.push(link);
        }
        all.kernels = machine.kernels;
    }
    for measured in links {
        let (from, to) = (usize::from(measured.from), usize::from(measured.to));
        for (from, to, bandwidth) in [
            (from, to, measured.bandwidth),
            (to, from, measured.bandwidth_back),
        ] {
            let latency = Seconds(measured.latency);
            let mut link = Link::new(hosts[from], hosts[to], bandwidth, latency);
            link.joules_per_byte = Some(2.0 * PER_BYTE);
            all.links.push(link);
        }
    }
    all.check().map_err(TuneError::Machine)?;
    Ok(all)
}

/// A node's network card: as fast as the fastest transfer through it.
fn port(node: u16, links: &[MeasuredLink]) -> Option<Port> {
    let its = links.iter().filter(|l| l.from == node || l.to == node);
    let both = its.flat_map(|l| [l.bandwidth, l.bandwidth_back]);
    let fastest = both.fold(0.0, f64::max);
    (fastest > 0.0).then_some(Port {
        bandwidth: fastest,
        latency: Seconds(0.0),
        joules_per_byte: Some(PER_BYTE),
    })
}

/// Names of nodes, with a number where several are called alike.
fn unlike<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in names.clone() {
        let alike = names.clone().filter(|n| *n == name).count();
        let before = names.clone().take(out.len()).filter(|n| *n == name).count();
        out.push(match alike {
            1 => name.to_string(),
            _ => format!("{name}-{}", before + 1),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> Part {
        Part {
            name: name.into(),
            machine: Machine::cpus(2),
            header: "# Described\n# of it\n".into(),
            warnings: vec!["slow".into()],
        }
    }

    fn link(from: u16, to: u16, bandwidth: f64) -> MeasuredLink {
        MeasuredLink {
            from,
            to,
            latency: 2e-5,
            bandwidth,
            bandwidth_back: bandwidth / 2.0,
            clock_ahead: 0.0,
            clock_error: 0.0,
        }
    }

    #[test]
    fn nodes_become_one_machine_that_can_be_read_again() {
        let links = [link(0, 1, 1e8), link(0, 2, 1e7), link(1, 2, 1e7)];
        let described = join(vec![part("a"), part("b"), part("a")], &links).unwrap();
        let machine = described.machine;
        let nodes: Vec<&str> = machine.nodes.iter().map(|n| &n.name[..]).collect();
        assert_eq!(nodes, ["a-1", "b", "a-2"]);
        assert_eq!((machine.units.len(), machine.links.len()), (6, 6));
        let ports: Vec<f64> = machine
            .nodes
            .iter()
            .map(|n| n.port.unwrap().bandwidth)
            .collect();
        assert_eq!(ports, [1e8, 1e8, 1e7]);
        let back = machine.link(MemoryId(1), MemoryId(0)).unwrap();
        assert_eq!((back.bandwidth, back.latency), (5e7, Seconds(2e-5)));
        let text = described.header + &machine.to_toml();
        let again = Machine::from_toml(&text, "cluster.toml").unwrap();
        assert_eq!(again.links, machine.links);
        assert_eq!(again.nodes, machine.nodes);
        assert_eq!(described.warnings[1], "b: slow");
    }
}
