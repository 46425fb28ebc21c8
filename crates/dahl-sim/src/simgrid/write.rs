//! Machines as SimGrid platforms, for its simulators and its energy plugins.
//!
//! Each group of equal units becomes a host with so many cores, each link a link, and every pair of
//! groups that a link joins a route. A host's wattages are those of all its cores; what a node draws
//! beside its units becomes a host that never computes, so that the plugin's total is the machine's.
//! What SimGrid has no word for (memories, kinds, memory bandwidth) stands in properties whose names
//! begin with `dahl_`, which it ignores.

use std::collections::HashSet;
use std::fmt::Write;

use dahl_core::{Machine, MemoryId, Unit};

use super::VERSION;

/// The speed written for units whose speed is unknown; a property says that it means nothing.
pub(super) const UNKNOWN_SPEED: f64 = 1e9;

/// The text of a platform file.
pub(super) fn platform(machine: &Machine) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\"?>\n\
         <!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
         <platform version=\"4.1\">\n",
    );
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
    let mut taken = HashSet::new();
    let mut hosts: Vec<(String, MemoryId)> = Vec::new();
    for (unit, name, count) in machine.groups() {
        let id = fresh(&name, &mut taken);
        host(&mut out, &id, unit, &name, count);
        hosts.push((id, unit.memory));
    }
    for (i, node) in machine.nodes.iter().enumerate() {
        if let Some(base) = node.base {
            let id = fresh(&format!("node {}", node.name), &mut taken);
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
    let mut routes = String::new();
    for link in &machine.links {
        let name = |m: MemoryId| &machine.memories[usize::from(m.0)].name;
        let id = fresh(
            &format!("{} to {}", name(link.from), name(link.to)),
            &mut taken,
        );
        let id = escaped(&id);
        // A shared link divides its bandwidth among transfers, a fat pipe gives it to each.
        let sharing = if link.at_once == 1 {
            "SHARED"
        } else {
            "FATPIPE"
        };
        let (bandwidth, latency) = (link.bandwidth, link.latency.0);
        let _ = writeln!(
            out,
            "    <link id=\"{id}\" bandwidth=\"{bandwidth:e}Bps\" latency=\"{latency:e}s\" \
             sharing_policy=\"{sharing}\">"
        );
        if let Some(joules) = link.joules_per_byte {
            let watts = joules * bandwidth;
            prop(&mut out, 6, "wattage_range", format!("0.0:{watts:e}"));
        }
        prop(&mut out, 6, "dahl_from", link.from.0);
        prop(&mut out, 6, "dahl_to", link.to.0);
        prop(&mut out, 6, "dahl_at_once", link.at_once);
        out.push_str("    </link>\n");
        let at = |m: MemoryId| hosts.iter().filter(move |h| h.1 == m);
        for (from, _) in at(link.from) {
            for (to, _) in at(link.to) {
                let (from, to) = (escaped(from), escaped(to));
                let _ = writeln!(
                    routes,
                    "    <route src=\"{from}\" dst=\"{to}\" symmetrical=\"NO\">\
                     <link_ctn id=\"{id}\"/></route>"
                );
            }
        }
    }
    out.push_str(&routes);
    out.push_str("  </zone>\n</platform>\n");
    out
}

fn host(out: &mut String, id: &str, unit: &Unit, name: &str, count: Option<usize>) {
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

/// A name that nothing else in the file has.
fn fresh(name: &str, taken: &mut HashSet<String>) -> String {
    let mut id = name.to_owned();
    while !taken.insert(id.clone()) {
        id.push('\'');
    }
    id
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
