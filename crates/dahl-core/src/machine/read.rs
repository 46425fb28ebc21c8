//! Machines from `machine.toml`.
//!
//! Names tie the tables together, so that lines can be moved and copied by hand. An optional key that is
//! missing means "not known", but for `off_watts` (0), `switch_off` (true), `node` (the first), `at_once` (1), `flops_f64` (half of `flops`),
//! `overhead` and `wake_latency` (0), and what a link's ports and switches say for it.

use toml::de::DeTable;

use super::fields::{Fields, Lines};
use super::{FrequencyState, Rated, Unit, UnitKind};
use super::{Link, Machine, MachineError, Memory, MemoryId, Node, NodeId, Port, Power, Switch};
use crate::units::{Bytes, Seconds, Watts};

/// The version of the format.
pub(super) const VERSION: u64 = 1;

/// Reads the text of a file.
pub(super) fn machine(text: &str, file: &str) -> Result<Machine, MachineError> {
    let lines = Lines { text, file };
    let parsed = DeTable::parse(text).map_err(|e| {
        let message = format!("not valid TOML: {}", e.message());
        lines.error(message, e.span().unwrap_or(0..0))
    })?;
    let mut top = Fields::new(parsed.get_ref(), 0..0, String::new(), &lines);
    let version = top.whole("version")?;
    let version = top.needed("version", version)?;
    if version != VERSION {
        let message = format!("it has version {version}, this program reads {VERSION}");
        return Err(top.error_at("version", message));
    }
    let mut machine = Machine {
        name: top.text("name")?.unwrap_or_else(|| "machine".into()),
        nodes: Vec::new(),
        memories: Vec::new(),
        units: Vec::new(),
        links: Vec::new(),
        switches: Vec::new(),
        kernels: Default::default(),
    };
    for (table, span) in top.tables("node")? {
        let mut f = Fields::new(table, span, "node".into(), &lines);
        let name = f.text("name")?;
        machine.nodes.push(Node {
            name: f.needed("name", name)?,
            base: f.number("base_watts")?.map(Watts),
            off: off(&mut f)?,
            port: port(&mut f)?,
        });
        f.finish()?;
    }
    for (table, span) in top.tables("memory")? {
        let mut f = Fields::new(table, span, "memory".into(), &lines);
        memory(&mut f, &mut machine)?;
        f.finish()?;
    }
    for (table, span) in top.tables("unit")? {
        let mut f = Fields::new(table, span, "unit".into(), &lines);
        units(&mut f, &mut machine, &lines)?;
        f.finish()?;
    }
    let switches = top.tables("switch")?;
    let mut joined = Vec::new();
    for (table, span) in &switches {
        let mut f = Fields::new(table, span.clone(), "switch".into(), &lines);
        joined.push(switch(&mut f, &mut machine)?);
        f.finish()?;
    }
    for (table, span) in top.tables("link")? {
        let mut f = Fields::new(table, span, "link".into(), &lines);
        links(&mut f, &mut machine)?;
        f.finish()?;
    }
    for (number, ((table, span), nodes)) in switches.into_iter().zip(&joined).enumerate() {
        let f = Fields::new(table, span, "switch".into(), &lines);
        let links = machine.star(number as u16, nodes).map_err(|e| f.error(e))?;
        machine.links.extend(links);
    }
    top.finish()?;
    machine.check().map_err(|message| MachineError {
        file: file.to_owned(),
        line: None,
        message,
    })?;
    Ok(machine)
}

fn off(f: &mut Fields<'_, '_>) -> Result<Option<Watts>, MachineError> {
    let watts = f.number("off_watts")?;
    match (f.flag("switch_off")?, watts) {
        (Some(false), Some(_)) => {
            let message = "`off_watts` of a node that stays on: leave one of the two keys out";
            Err(f.error_at("off_watts", message))
        }
        (Some(false), None) => Ok(None),
        _ => Ok(Some(Watts(watts.unwrap_or(0.0)))),
    }
}

fn memory(f: &mut Fields<'_, '_>, machine: &mut Machine) -> Result<(), MachineError> {
    let name = f.text("name")?;
    let name = f.needed("name", name)?;
    let node = match f.text("node")? {
        None => 0,
        Some(node) => {
            let names = machine.nodes.iter().map(|n| n.name.as_str());
            named(f, "node", &node, names)?
        }
    };
    machine.memories.push(Memory {
        name,
        capacity: f.bytes("capacity")?.map(Bytes),
        node: NodeId(node),
    });
    Ok(())
}

fn units(
    f: &mut Fields<'_, '_>,
    machine: &mut Machine,
    lines: &Lines<'_>,
) -> Result<(), MachineError> {
    let name = f.text("name")?;
    let name = f.needed("name", name)?;
    let kind = f.text("kind")?;
    let kind = f.needed("kind", kind)?;
    let kind: UnitKind = match kind.parse() {
        Ok(kind) => kind,
        Err(e) => return Err(f.error_at("kind", format!("{e}: such as cpu or gpu"))),
    };
    let memory = match f.text("memory")? {
        None => MemoryId::HOST,
        Some(memory) => memory_named(f, "memory", &memory, machine)?,
    };
    let mut unit = Unit::new(name.clone(), kind, memory);
    unit.power = match (f.number("idle_watts")?, f.number("busy_watts")?) {
        (Some(idle), Some(busy)) => Some(Power {
            idle: Watts(idle),
            busy: Watts(busy),
        }),
        (None, None) => None,
        _ => return Err(f.error("give both `idle_watts` and `busy_watts`, or neither")),
    };
    let (flops, double) = (f.number("flops")?, f.number("flops_f64")?);
    unit.rated = match (flops, f.number("bandwidth")?) {
        (Some(flops), Some(bandwidth)) => Some(Rated {
            flops,
            flops_f64: double.unwrap_or(flops / 2.0),
            bandwidth,
        }),
        (None, None) if double.is_none() => None,
        _ => return Err(f.error("give both `flops` and `bandwidth`, or neither")),
    };
    unit.overhead = Seconds(f.number("overhead")?.unwrap_or(0.0));
    if f.has("notice") {
        let message = "`notice` is called `wake_latency` now: rename the key";
        return Err(f.error_at("notice", message));
    }
    unit.wake_latency = Seconds(f.number("wake_latency")?.unwrap_or(0.0));
    for (table, span) in f.tables("states")? {
        let mut s = Fields::new(table, span, format!("unit {name:?}: state"), lines);
        let (speed, busy) = (s.number("speed")?, s.number("busy_watts")?);
        unit.states.push(FrequencyState {
            speed: s.needed("speed", speed)?,
            busy: Watts(s.needed("busy_watts", busy)?),
            hertz: s.number("hertz")?,
        });
        s.finish()?;
    }
    unit.switch_seconds = f.number("switch_seconds")?.map(Seconds);
    match f.whole("count")? {
        None => machine.units.push(unit),
        Some(count @ 1..=60_000) => machine.units.extend((0..count).map(|i| Unit {
            name: format!("{name}:{i}"),
            ..unit.clone()
        })),
        Some(count) => {
            return Err(f.error_at("count", format!("`count` is {count}: use 1 to 60000")));
        }
    }
    Ok(())
}

fn port(f: &mut Fields<'_, '_>) -> Result<Option<Port>, MachineError> {
    let Some(mut p) = f.table("port")? else {
        return Ok(None);
    };
    let bandwidth = p.number("bandwidth")?;
    let port = Port {
        bandwidth: p.needed("bandwidth", bandwidth)?,
        latency: Seconds(p.number("latency")?.unwrap_or(0.0)),
        joules_per_byte: p.number("joules_per_byte")?,
    };
    p.finish()?;
    Ok(Some(port))
}

/// Adds a switch; returns the nodes that it joins.
fn switch(f: &mut Fields<'_, '_>, machine: &mut Machine) -> Result<Vec<NodeId>, MachineError> {
    let name = f.text("name")?;
    machine.switches.push(Switch {
        name: f.needed("name", name)?,
        bandwidth: f.number("bandwidth")?,
        latency: Seconds(f.number("latency")?.unwrap_or(0.0)),
        joules_per_byte: f.number("joules_per_byte")?,
    });
    let mut nodes = Vec::new();
    for node in f.texts("nodes")? {
        let names = machine.nodes.iter().map(|n| n.name.as_str());
        nodes.push(NodeId(named(f, "nodes", &node, names)?));
    }
    nodes.sort_unstable();
    match nodes.windows(2).find(|w| w[0] == w[1]) {
        None => Ok(nodes),
        Some(twice) => {
            let name = &machine.nodes[usize::from(twice[0].0)].name;
            Err(f.error_at("nodes", format!("`nodes` has {name:?} twice: leave one")))
        }
    }
}

fn links(f: &mut Fields<'_, '_>, machine: &mut Machine) -> Result<(), MachineError> {
    let (from, to) = (f.text("from")?, f.text("to")?);
    let (from, to) = (f.needed("from", from)?, f.needed("to", to)?);
    let bandwidth = f.number("bandwidth")?;
    let at_once = f.whole("at_once")?.unwrap_or(1);
    let mut via = Vec::new();
    for switch in f.texts("via")? {
        let names = machine.switches.iter().map(|s| s.name.as_str());
        via.push(named(f, "via", &switch, names)?);
    }
    let from = memory_named(f, "from", &from, machine)?;
    let to = memory_named(f, "to", &to, machine)?;
    // What its way says, unless the link says otherwise.
    let way = machine.way(from, to, &via);
    let bandwidth = bandwidth.or(Some(way.bandwidth).filter(|b| b.is_finite()));
    let link = Link {
        bandwidth: f.needed("bandwidth", bandwidth)?,
        latency: f.number("latency")?.map_or(way.latency, Seconds),
        joules_per_byte: f.number("joules_per_byte")?.or(way.joules_per_byte),
        at_once: u32::try_from(at_once)
            .map_err(|_| f.error_at("at_once", format!("`at_once` is {at_once}: too many")))?,
        via,
        ..way
    };
    let back = f
        .flag("both_ways")?
        .unwrap_or(false)
        .then(|| link.reversed());
    machine.links.push(link);
    machine.links.extend(back);
    Ok(())
}

fn memory_named(
    f: &Fields<'_, '_>,
    key: &str,
    name: &str,
    machine: &Machine,
) -> Result<MemoryId, MachineError> {
    let names = machine.memories.iter().map(|m| m.name.as_str());
    named(f, key, name, names).map(MemoryId)
}

/// The place of a name among names; if it is missing, an error that lists them.
fn named<'n>(
    f: &Fields<'_, '_>,
    key: &str,
    name: &str,
    mut names: impl Iterator<Item = &'n str> + Clone,
) -> Result<u16, MachineError> {
    let all = names.clone();
    let place = names.position(|n| n == name).map(u16::try_from);
    match place {
        Some(Ok(place)) => Ok(place),
        _ => {
            let known: Vec<&str> = all.collect();
            let message = format!(
                "`{key}` is {name:?}, which no entry above is called; there are: {}",
                known.join(", ")
            );
            Err(f.error_at(key, message))
        }
    }
}
