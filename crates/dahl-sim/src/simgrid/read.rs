//! Machines from SimGrid platform files.
//!
//! Reads what [`write`](super::write) writes, and other platforms made of `host`, `link`, `route` and `prop`
//! in zones: there each host is a node with a memory of its own and its cores are units, and [`routes`](super::routes)
//! finds what links share. It refuses
//! clusters, routers and computed routes rather than guess what they stand for.

use std::collections::HashMap;

use dahl_core::machine::MachineError;
use dahl_core::{Bytes, Link, Machine, Memory, MemoryId, Node, NodeId, Port, Power, Switch};
use dahl_core::{FrequencyState, Rated, Seconds, Unit, UnitKind, Watts};

use super::{UNBOUNDED, VERSION};

use roxmltree::{Document, ParsingOptions};

pub(super) type Element<'a, 'i> = roxmltree::Node<'a, 'i>;

/// Reads the text of a file.
pub(super) fn machine(text: &str, file: &str) -> Result<Machine, MachineError> {
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: 4_000_000,
        ..ParsingOptions::default()
    };
    let at = |line: Option<usize>, message: String| MachineError {
        file: file.to_owned(),
        line,
        message,
    };
    too_deep(text).map_err(|(line, message)| at(line, message))?;
    let document = Document::parse_with_options(text, options).map_err(|e| {
        let line = e.pos().row as usize;
        at(Some(line), format!("not valid XML: {e}"))
    })?;
    let read = Reader { doc: &document };
    let machine = read
        .machine()
        .map_err(|(line, message)| at(line, message))?;
    machine.check().map_err(|message| at(None, message))?;
    Ok(machine)
}

/// Zones in zones that are read. Parsing and reading recurse, and a platform has a handful.
const DEPTH: usize = 200;

/// Refuses what is nested so deeply that reading it would overflow the stack, and entities, which can hide that. It
/// only counts: whether the text is XML is the parser's question.
fn too_deep(text: &str) -> Result<(), Wrong> {
    let line = |rest: &str| {
        let before = &text.as_bytes()[..text.len() - rest.len()];
        Some(1 + before.iter().filter(|&&b| b == b'\n').count())
    };
    let (mut rest, mut depth) = (text, 0usize);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        let skipped = skipped.iter().find(|(begin, _)| rest.starts_with(begin));
        let end = match skipped {
            Some((_, end)) => rest.find(end),
            None => end_of_tag(rest),
        };
        let tag = &rest[..end.unwrap_or(rest.len())];
        if tag.starts_with("<!DOCTYPE") && tag.contains('[') {
            let message = "<!DOCTYPE> with declarations of its own is not read: leave out what is in brackets";
            return Err((line(rest), message.into()));
        }
        match (skipped, tag.as_bytes().get(1)) {
            (Some(_), _) | (_, Some(b'!')) => {}
            (_, Some(b'/')) => depth = depth.saturating_sub(1),
            _ if tag.ends_with('/') => {}
            _ => depth += 1,
        }
        if depth > DEPTH {
            let message = format!("elements are nested more than {DEPTH} deep: use fewer zones");
            return Err((line(rest), message));
        }
        rest = &rest[tag.len()..];
    }
    Ok(())
}

/// Where the `>` of a tag is; one in quotes is part of a value.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut quote = None;
    tag.bytes().position(|b| match (quote, b) {
        (None, b'>') => true,
        (None, b'"' | b'\'') => {
            quote = Some(b);
            false
        }
        (Some(open), b) => {
            if b == open {
                quote = None;
            }
            false
        }
        _ => false,
    })
}

/// A line, where there is one, and what is wrong there.
pub(super) type Wrong = (Option<usize>, String);

/// What a file holds, before it is tied together.
#[derive(Default)]
pub(super) struct Parts<'a, 'i> {
    hosts: Vec<Element<'a, 'i>>,
    pub links: Vec<Element<'a, 'i>>,
    pub routes: Vec<Element<'a, 'i>>,
    zones: Vec<Element<'a, 'i>>,
}

pub(super) struct Reader<'a, 'i> {
    doc: &'a Document<'i>,
}

impl<'a, 'i> Reader<'a, 'i> {
    pub(super) fn wrong<T>(
        &self,
        at: Element<'_, '_>,
        message: impl Into<String>,
    ) -> Result<T, Wrong> {
        let row = self.doc.text_pos_at(at.range().start).row as usize;
        Err((Some(row), message.into()))
    }

    fn machine(&self) -> Result<Machine, Wrong> {
        let root = self.doc.root_element();
        if root.tag_name().name() != "platform" {
            return self.wrong(root, "this is no SimGrid platform: <platform> is missing");
        }
        let mut parts = Parts::default();
        self.collect(root, &mut parts)?;
        let name = parts.zones.first().and_then(|z| z.attribute("id"));
        let mut machine = Machine {
            name: name.unwrap_or("machine").to_owned(),
            nodes: Vec::new(),
            memories: Vec::new(),
            units: Vec::new(),
            links: Vec::new(),
            switches: Vec::new(),
            kernels: Default::default(),
        };
        let ours = parts
            .zones
            .iter()
            .find(|z| property(**z, "dahl_version").is_some());
        match ours {
            Some(zone) => self.ours(*zone, &parts, &mut machine)?,
            None => self.foreign(&parts, &mut machine)?,
        }
        Ok(machine)
    }

    fn collect(&self, of: Element<'a, 'i>, parts: &mut Parts<'a, 'i>) -> Result<(), Wrong> {
        for e in of.children().filter(Element::is_element) {
            match e.tag_name().name() {
                "zone" | "AS" => {
                    parts.zones.push(e);
                    // Depth is bounded, by `too_deep`.
                    self.collect(e, parts)?;
                }
                "host" => parts.hosts.push(e),
                "link" => parts.links.push(e),
                "route" => parts.routes.push(e),
                "prop" | "config" => {}
                other => {
                    let message = format!(
                        "<{other}> is not understood: use zone, host, link, route and prop"
                    );
                    return self.wrong(e, message);
                }
            }
        }
        Ok(())
    }

    /// A file that we wrote: properties say what SimGrid cannot.
    fn ours(
        &self,
        zone: Element<'_, '_>,
        parts: &Parts<'_, '_>,
        machine: &mut Machine,
    ) -> Result<(), Wrong> {
        let version = property(zone, "dahl_version").unwrap_or_default();
        if version != VERSION.to_string() {
            return self.wrong(
                zone,
                format!("it has version {version}, this program reads {VERSION}"),
            );
        }
        for i in 0.. {
            let Some(name) = property(zone, &format!("dahl_node_{i}")) else {
                break;
            };
            machine.nodes.push(Node::new(name));
        }
        for i in 0.. {
            let key = format!("dahl_memory_{i}");
            let Some(name) = property(zone, &key) else {
                break;
            };
            let node = self.whole(zone, &format!("{key}_node"), 0)?;
            let capacity = format!("{key}_capacity");
            let capacity = match property(zone, &capacity) {
                None => None,
                Some(_) => Some(Bytes(self.whole(zone, &capacity, 0)?)),
            };
            machine.memories.push(Memory {
                name: name.to_owned(),
                capacity,
                node: NodeId(node),
            });
        }
        for &host in &parts.hosts {
            if property(host, "dahl_store_of").is_some() {
                continue;
            }
            if property(host, "dahl_base_of").is_some() {
                let node: usize = self.whole(host, "dahl_base_of", 0)?;
                let watts = self.wattages(host)?.first().map(|w| w.0);
                match machine.nodes.get_mut(node) {
                    Some(node) => node.base = watts.map(Watts),
                    None => return self.wrong(host, format!("there is no node {node}")),
                }
                continue;
            }
            let memory = MemoryId(self.whole(host, "dahl_memory", 0)?);
            self.units(host, memory, machine)?;
        }
        for &e in &parts.links {
            let link = self.link(e)?;
            if property(e, "dahl_port_of").is_some() {
                let node: usize = self.whole(e, "dahl_port_of", 0)?;
                let Some(node) = machine.nodes.get_mut(node) else {
                    return self.wrong(e, format!("there is no node {node}"));
                };
                node.port = Some(Port {
                    bandwidth: link.bandwidth,
                    latency: link.latency,
                    joules_per_byte: link.joules_per_byte,
                });
            } else if let Some(name) = property(e, "dahl_switch") {
                let limited = property(e, "dahl_limit") != Some("none");
                machine.switches.push(Switch {
                    name: name.to_owned(),
                    bandwidth: limited.then_some(link.bandwidth),
                    latency: link.latency,
                    joules_per_byte: link.joules_per_byte,
                });
            } else {
                let via = property(e, "dahl_via").unwrap_or("");
                let via = via.split_whitespace().map(str::parse);
                let Ok(via) = via.collect::<Result<Vec<u16>, _>>() else {
                    return self.wrong(e, "property dahl_via must be the numbers of switches");
                };
                machine.links.push(Link {
                    from: MemoryId(self.whole(e, "dahl_from", u16::MAX)?),
                    to: MemoryId(self.whole(e, "dahl_to", u16::MAX)?),
                    latency: Seconds(self.real(e, "dahl_latency", link.latency.0)?),
                    at_once: self.whole(e, "dahl_at_once", 1)?,
                    via,
                    ..link
                });
            }
        }
        Ok(())
    }

    /// Somebody else's file: hosts with memories of their own, joined by routes.
    fn foreign(&self, parts: &Parts<'_, '_>, machine: &mut Machine) -> Result<(), Wrong> {
        let mut memories: HashMap<&str, MemoryId> = HashMap::new();
        for &host in &parts.hosts {
            let id = self.id(host, "id")?;
            let Ok(place) = u16::try_from(machine.nodes.len()) else {
                return self.wrong(host, "there are more hosts than can be numbered");
            };
            machine.nodes.push(Node::new(id));
            machine.memories.push(Memory {
                name: id.to_owned(),
                capacity: None,
                node: NodeId(place),
            });
            memories.insert(id, MemoryId(place));
            self.units(host, MemoryId(place), machine)?;
        }
        self.routes(parts, &memories, machine)
    }

    /// The units of a host.
    fn units(
        &self,
        host: Element<'_, '_>,
        memory: MemoryId,
        machine: &mut Machine,
    ) -> Result<(), Wrong> {
        let id = self.id(host, "id")?;
        let name = property(host, "dahl_name").unwrap_or(id);
        let kind = property(host, "dahl_kind").unwrap_or("cpu");
        let kind: UnitKind = match kind.parse() {
            Ok(kind) => kind,
            Err(e) => return self.wrong(host, format!("host {id:?}: {e}")),
        };
        let cores = match host.attribute("core").unwrap_or("1").parse::<u16>() {
            Ok(cores @ 1..=60_000) => cores,
            _ => return self.wrong(host, format!("host {id:?}: `core` must be 1 to 60000")),
        };
        let speeds = self
            .id(host, "speed")?
            .split(',')
            .map(|s| scaled(s, SPEEDS))
            .collect::<Option<Vec<f64>>>();
        let Some(speeds) = speeds.filter(|s| s[0] > 0.0) else {
            return self.wrong(
                host,
                format!("host {id:?}: `speed` must be such as 80Gf,40Gf"),
            );
        };
        let mut unit = Unit::new(name, kind, memory);
        if property(host, "dahl_speed") != Some("unknown") {
            let flops = speeds[0];
            let flops_f64 = self.real(host, "dahl_flops_f64", flops / 2.0)?;
            // Without a figure for memory, arithmetic alone decides how long a task takes.
            let bandwidth = self.real(host, "dahl_bandwidth", UNBOUNDED)?;
            unit.rated = Some(Rated {
                flops,
                flops_f64,
                bandwidth,
            });
        }
        unit.overhead = Seconds(self.real(host, "dahl_overhead", 0.0)?);
        if property(host, "dahl_notice").is_some() {
            let message = "property dahl_notice is called dahl_wake_latency now: rename it";
            return self.wrong(host, message);
        }
        unit.wake_latency = Seconds(self.real(host, "dahl_wake_latency", 0.0)?);
        unit.switch_seconds = match property(host, "dahl_switch_seconds") {
            None => None,
            Some(_) => Some(Seconds(self.real(host, "dahl_switch_seconds", 0.0)?)),
        };
        let watts = self.wattages(host)?;
        if let Some(&(idle, busy)) = watts.first() {
            if watts.len() != speeds.len() {
                let message = format!(
                    "host {id:?}: {} wattages for {} speeds: give one for each",
                    watts.len(),
                    speeds.len()
                );
                return self.wrong(host, message);
            }
            let each = |w: f64| Watts(w / f64::from(cores));
            unit.power = Some(Power {
                idle: each(idle),
                busy: each(busy),
            });
            unit.states = speeds
                .iter()
                .zip(&watts)
                .skip(1)
                .map(|(speed, w)| FrequencyState::new(speed / speeds[0], each(w.1)))
                .collect();
            self.hertz(host, &mut unit)?;
        }
        let numbered = property(host, "dahl_numbered").map_or(cores > 1, |v| v == "true");
        if numbered {
            machine.units.extend((0..cores).map(|i| Unit {
                name: format!("{name}:{i}"),
                ..unit.clone()
            }));
        } else {
            machine.units.push(unit);
        }
        Ok(())
    }

    /// What has to be set for each state, where we wrote it.
    fn hertz(&self, host: Element<'_, '_>, unit: &mut Unit) -> Result<(), Wrong> {
        let Some(text) = property(host, "dahl_hertz") else {
            return Ok(());
        };
        let mut all = text.split_whitespace();
        for state in &mut unit.states {
            state.hertz = match all.next() {
                Some("unknown") => None,
                Some(hertz) if hertz.parse::<f64>().is_ok() => hertz.parse().ok(),
                _ => return self.wrong(host, "property dahl_hertz must have a number per state"),
            };
        }
        Ok(())
    }

    /// Idle and full watts of every state; none if the host does not say.
    fn wattages(&self, host: Element<'_, '_>) -> Result<Vec<(f64, f64)>, Wrong> {
        let value =
            property(host, "wattage_per_state").or_else(|| property(host, "watt_per_state"));
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        let state = |s: &str| {
            let watts: Option<Vec<f64>> = s.split(':').map(|w| w.trim().parse().ok()).collect();
            match watts.as_deref() {
                Some([idle, .., full]) => Some((*idle, *full)),
                _ => None,
            }
        };
        match value.split(',').map(state).collect() {
            Some(states) => Ok(states),
            None => self.wrong(
                host,
                format!("wattage_per_state {value:?}: write idle:full or idle:one core:all cores, per state"),
            ),
        }
    }

    /// A link without its ends.
    pub(super) fn link(&self, e: Element<'_, '_>) -> Result<Link, Wrong> {
        let id = self.id(e, "id")?;
        let Some(bandwidth) = scaled(self.id(e, "bandwidth")?, BANDWIDTHS) else {
            return self.wrong(
                e,
                format!("link {id:?}: `bandwidth` must be such as 10GBps"),
            );
        };
        let Some(latency) = scaled(e.attribute("latency").unwrap_or("0s"), TIMES) else {
            return self.wrong(e, format!("link {id:?}: `latency` must be such as 5us"));
        };
        let mut link = Link::new(MemoryId(0), MemoryId(0), bandwidth, Seconds(latency));
        if let Some(range) = property(e, "wattage_range") {
            let watts: Option<Vec<f64>> = range.split(':').map(|w| w.trim().parse().ok()).collect();
            let Some([idle, busy]) = watts.as_deref() else {
                return self.wrong(e, format!("link {id:?}: wattage_range must be idle:busy"));
            };
            link.joules_per_byte = Some((busy - idle) / bandwidth);
        }
        // What we wrote to the last digit.
        if property(e, "dahl_joules_per_byte").is_some() {
            link.joules_per_byte = Some(self.real(e, "dahl_joules_per_byte", 0.0)?);
        }
        Ok(link)
    }

    pub(super) fn id<'e>(&self, e: Element<'e, '_>, key: &str) -> Result<&'e str, Wrong> {
        match e.attribute(key) {
            Some(value) => Ok(value),
            None => {
                let tag = e.tag_name().name().to_owned();
                self.wrong(e, format!("<{tag}> lacks `{key}`"))
            }
        }
    }

    fn whole<T: std::str::FromStr>(
        &self,
        e: Element<'_, '_>,
        key: &str,
        default: T,
    ) -> Result<T, Wrong> {
        match property(e, key).map(str::parse) {
            None => Ok(default),
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => self.wrong(e, format!("property {key} must be a whole number")),
        }
    }

    fn real(&self, e: Element<'_, '_>, key: &str, default: f64) -> Result<f64, Wrong> {
        match property(e, key).map(str::parse) {
            None => Ok(default),
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => self.wrong(e, format!("property {key} must be a number")),
        }
    }
}

fn property<'e>(e: Element<'e, '_>, id: &str) -> Option<&'e str> {
    e.children()
        .filter(|c| c.has_tag_name("prop"))
        .find(|c| c.attribute("id") == Some(id))
        .and_then(|c| c.attribute("value"))
}

const SPEEDS: &[(&str, f64)] = &[
    ("f", 1.0),
    ("kf", 1e3),
    ("Mf", 1e6),
    ("Gf", 1e9),
    ("Tf", 1e12),
    ("Pf", 1e15),
    ("Ef", 1e18),
];
const BANDWIDTHS: &[(&str, f64)] = &[
    ("Bps", 1.0),
    ("kBps", 1e3),
    ("MBps", 1e6),
    ("GBps", 1e9),
    ("TBps", 1e12),
    ("KiBps", 1024.0),
    ("MiBps", 1048576.0),
    ("GiBps", 1073741824.0),
    ("bps", 0.125),
    ("kbps", 125.0),
    ("Mbps", 125e3),
    ("Gbps", 125e6),
    ("Tbps", 125e9),
];
const TIMES: &[(&str, f64)] = &[
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("ns", 1e-9),
    ("ps", 1e-12),
    ("m", 60.0),
    ("h", 3600.0),
];

/// A number with a unit; without one, the first of the list.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    if let Ok(plain) = text.parse() {
        return Some(plain);
    }
    // `kBps` ends with `Bps` too, but `10k` is no number.
    units.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim();
        Some(number.parse::<f64>().ok()? * scale)
    })
}
