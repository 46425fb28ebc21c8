//! Machines as SimGrid platforms, for its simulators and its energy plugins.
//!
//! Each group of equal units becomes a host with so many cores, or a host per unit where they have frequency states; each
//! link a link, each port two of them, each switch one, and every pair of hosts that a link joins a route: out of the
//! sender's port, through switches, over what the link itself adds to them, and into the receiver's port. So what is
//! shared here is shared there. Where data goes over several links, the route leads over all of them. A host's wattages
//! are those of all its cores; what a node draws beside its units becomes a host that never computes, so that the
//! plugin's total is the machine's. A `<config>` asks for the network model that means what our links mean: latency plus
//! bytes by bandwidth, and no traffic of acknowledgements.
//! What SimGrid has no word for (memories, kinds, memory bandwidth) stands in properties whose names
//! begin with `dahl_`, which it ignores.

use std::collections::HashMap;
use std::fmt::Write;

use dahl_core::{FrequencyState, Machine, MemoryId};

use super::names::{Names, UnitHost};
use super::{UNBOUNDED, VERSION};
use crate::MOST_MEMORIES;
use crate::routes::Routes;

/// The speed written for units whose speed is unknown; a property says that it means nothing.
pub(super) const UNKNOWN_SPEED: f64 = 1e9;

/// SimGrid's network model without its corrections for TCP: transfers take latency plus bytes by bandwidth.
const EXACT: [(&str, &str); 6] = [
    ("network/model", "CM02"),
    ("network/crosstraffic", "0"),
    ("network/TCP-gamma", "0"),
    ("network/latency-factor", "1"),
    ("network/bandwidth-factor", "1"),
    ("network/weight-S", "0"),
];

/// The text of a platform file.
pub(super) fn platform(machine: &Machine) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\"?>\n\
         <!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
         <platform version=\"4.1\">\n  <config>\n",
    );
    for (key, value) in EXACT {
        prop(&mut out, 4, key, value);
    }
    out.push_str("  </config>\n");
    let zone = escaped(&machine.name);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "  <zone id=\"{zone}\" routing=\"Full\">");
    prop(&mut out, 4, "dahl_version", VERSION);
    for (i, node) in machine.nodes.iter().enumerate() {
        prop(&mut out, 4, &format!("dahl_node_{i}"), &node.name);
    }
    for (i, memory) in machine.memories.iter().enumerate() {
        prop(&mut out, 4, &format!("dahl_memory_{i}"), &memory.name);
        let node = memory.node.0;
        prop(&mut out, 4, &format!("dahl_memory_{i}_node"), node);
        if let Some(capacity) = memory.capacity {
            prop(
                &mut out,
                4,
                &format!("dahl_memory_{i}_capacity"),
                capacity.0,
            );
        }
    }
    let mut names = Names::new(machine);
    for h in &names.hosts {
        host(&mut out, h);
    }
    for (memory, id) in &names.stores {
        let _ = writeln!(out, "    <host id=\"{}\" speed=\"1f\">", escaped(id));
        prop(&mut out, 6, "wattage_per_state", "0.0:0.0");
        prop(&mut out, 6, "dahl_store_of", memory.0);
        out.push_str("    </host>\n");
    }
    for (i, node) in machine.nodes.iter().enumerate() {
        if let Some(base) = node.base {
            let id = names.fresh(&format!("node {}", node.name));
            let _ = writeln!(out, "    <host id=\"{}\" speed=\"1f\">", escaped(&id));
            let watts = base.0;
            prop(
                &mut out,
                6,
                "wattage_per_state",
                format!("{watts:?}:{watts:?}"),
            );
            prop(&mut out, 6, "dahl_base_of", i);
            out.push_str("    </host>\n");
        }
    }
    let mut ids = HashMap::new();
    for (i, node) in machine.nodes.iter().enumerate() {
        let Some(port) = node.port else { continue };
        for way in ["out", "in"] {
            let id = escaped(&names.fresh(&format!("{} {way}", node.name)));
            wire(&mut out, &id, port.bandwidth, port.latency.0, true);
            joules(&mut out, port.joules_per_byte, port.bandwidth);
            prop(&mut out, 6, "dahl_port_of", i);
            out.push_str("    </link>\n");
            ids.insert((way, i), id);
        }
    }
    for (i, switch) in machine.switches.iter().enumerate() {
        let id = escaped(&names.fresh(&switch.name));
        let bandwidth = switch.bandwidth.unwrap_or(UNBOUNDED);
        let is_limited = switch.bandwidth.is_some();
        wire(&mut out, &id, bandwidth, switch.latency.0, is_limited);
        joules(&mut out, switch.joules_per_byte, bandwidth);
        prop(&mut out, 6, "dahl_switch", &switch.name);
        if !is_limited {
            prop(&mut out, 6, "dahl_limit", "none");
        }
        out.push_str("    </link>\n");
        ids.insert(("via", i), id);
    }
    let mut ways: Vec<String> = Vec::new();
    for link in &machine.links {
        let name = |m: MemoryId| &machine.memories[usize::from(m.0)].name;
        let id = names.fresh(&format!("{} to {}", name(link.from), name(link.to)));
        let id = escaped(&id);
        // What the link adds to its way.
        let way = machine.way(link.from, link.to, &link.via);
        let latency = (link.latency.0 - way.latency.0).max(0.0);
        let spent = link.joules_per_byte;
        let more = spent.map(|j| (j - way.joules_per_byte.unwrap_or(0.0)).max(0.0));
        wire(&mut out, &id, link.bandwidth, latency, link.at_once == 1);
        if let Some(more) = more {
            let watts = more * link.bandwidth;
            prop(&mut out, 6, "wattage_range", format!("0.0:{watts:e}"));
        }
        if let Some(exact) = spent {
            prop(&mut out, 6, "dahl_joules_per_byte", format!("{exact:e}"));
        }
        prop(&mut out, 6, "dahl_from", link.from.0);
        prop(&mut out, 6, "dahl_to", link.to.0);
        prop(&mut out, 6, "dahl_at_once", link.at_once);
        prop(&mut out, 6, "dahl_latency", format!("{:e}", link.latency.0));
        if !link.via.is_empty() {
            let via: Vec<String> = link.via.iter().map(u16::to_string).collect();
            prop(&mut out, 6, "dahl_via", via.join(" "));
        }
        out.push_str("    </link>\n");
        let node = |m: MemoryId| usize::from(machine.memories[usize::from(m.0)].node.0);
        let (a, b) = (node(link.from), node(link.to));
        let adds = link.bandwidth < way.bandwidth || latency > 0.0 || more > Some(0.0);
        let port = |way: &'static str, n: usize| ids.get(&(way, n)).filter(|_| a != b);
        let mut parts: Vec<&String> = port("out", a).into_iter().collect();
        parts.extend(link.via.iter().map(|&s| &ids[&("via", usize::from(s))]));
        parts.extend(adds.then_some(&id));
        parts.extend(port("in", b));
        let part = |id: &&String| format!("<link_ctn id=\"{id}\"/>");
        ways.push(parts.iter().map(part).collect());
    }
    write_routes(&mut out, machine, &names, &ways);
    out.push_str("  </zone>\n</platform>\n");
    out
}

/// Every link between all hosts of its two memories; and where only several links lead, all of them.
fn write_routes(out: &mut String, machine: &Machine, names: &Names<'_>, ways: &[String]) {
    let mut route = |from: MemoryId, to: MemoryId, parts: &str| {
        for src in names.at(from) {
            for dst in names.at(to) {
                let (src, dst) = (escaped(src), escaped(dst));
                let _ = writeln!(
                    out,
                    "    <route src=\"{src}\" dst=\"{dst}\" symmetrical=\"NO\">{parts}</route>"
                );
            }
        }
    };
    for (link, way) in machine.links.iter().zip(ways) {
        route(link.from, link.to, way);
    }
    if machine.memories.len() > MOST_MEMORIES {
        return;
    }
    let routes = Routes::new(machine);
    let memories = || (0..machine.memories.len() as u16).map(MemoryId);
    for from in memories() {
        for to in memories().filter(|to| *to != from && machine.link(from, *to).is_none()) {
            if let Some(links) = routes.get(usize::from(from.0), usize::from(to.0)) {
                let parts: String = links.iter().map(|&l| &*ways[usize::from(l)]).collect();
                route(from, to, &parts);
            }
        }
    }
}

/// Opens a link. A shared one divides its bandwidth among transfers, a fat pipe gives it to each.
fn wire(out: &mut String, id: &str, bandwidth: f64, latency: f64, is_shared: bool) {
    let sharing = if is_shared { "SHARED" } else { "FATPIPE" };
    let _ = writeln!(
        out,
        "    <link id=\"{id}\" bandwidth=\"{bandwidth:e}Bps\" latency=\"{latency:e}s\" \
         sharing_policy=\"{sharing}\">"
    );
}

fn joules(out: &mut String, per_byte: Option<f64>, bandwidth: f64) {
    if let Some(joules) = per_byte {
        let watts = joules * bandwidth;
        prop(out, 6, "wattage_range", format!("0.0:{watts:e}"));
        prop(out, 6, "dahl_joules_per_byte", format!("{joules:e}"));
    }
}

fn host(out: &mut String, host: &UnitHost<'_>) {
    let UnitHost {
        id,
        unit,
        name,
        count,
    } = host;
    let cores = count.unwrap_or(1);
    let top = unit.rated.map_or(UNKNOWN_SPEED, |r| r.flops);
    let factors = std::iter::once(1.0).chain(unit.states.iter().map(|s| s.speed));
    let speeds: Vec<String> = factors.map(|f| format!("{:e}f", top * f)).collect();
    let _ = writeln!(
        out,
        "    <host id=\"{}\" speed=\"{}\" core=\"{cores}\" pstate=\"0\">",
        escaped(id),
        speeds.join(",")
    );
    if let Some(power) = unit.power {
        let idle = power.idle.0 * cores as f64;
        let busy = std::iter::once(power.busy).chain(unit.states.iter().map(|s| s.busy));
        let states: Vec<String> = busy
            .map(|b| {
                let all = b.0 * cores as f64;
                if cores == 1 {
                    format!("{idle:?}:{all:?}")
                } else {
                    // Idle, one core that has just begun, all cores: linear in the busy cores.
                    format!("{idle:?}:{idle:?}:{all:?}")
                }
            })
            .collect();
        prop(out, 6, "wattage_per_state", states.join(", "));
    }
    if unit.states.iter().any(|s| s.hertz.is_some()) {
        let hertz = |s: &FrequencyState| s.hertz.map_or("unknown".into(), |h| format!("{h:e}"));
        let all: Vec<String> = unit.states.iter().map(hertz).collect();
        prop(out, 6, "dahl_hertz", all.join(" "));
    }
    if let Some(seconds) = unit.switch_seconds {
        prop(out, 6, "dahl_switch_seconds", format!("{:e}", seconds.0));
    }
    prop(out, 6, "dahl_name", name);
    prop(out, 6, "dahl_numbered", count.is_some());
    prop(out, 6, "dahl_kind", unit.kind);
    prop(out, 6, "dahl_memory", unit.memory.0);
    match unit.rated {
        None => prop(out, 6, "dahl_speed", "unknown"),
        Some(rated) => {
            prop(out, 6, "dahl_flops_f64", format!("{:e}", rated.flops_f64));
            prop(out, 6, "dahl_bandwidth", format!("{:e}", rated.bandwidth));
        }
    }
    prop(out, 6, "dahl_overhead", format!("{:e}", unit.overhead.0));
    prop(
        out,
        6,
        "dahl_wake_latency",
        format!("{:e}", unit.wake_latency.0),
    );
    out.push_str("    </host>\n");
}

fn prop(out: &mut String, indent: usize, id: &str, value: impl std::fmt::Display) {
    let value = escaped(&value.to_string());
    let _ = writeln!(out, "{:indent$}<prop id=\"{id}\" value=\"{value}\"/>", "");
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
