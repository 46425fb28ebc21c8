//! Machines as `machine.toml`: what [`super::read`] reads, compact enough to be edited by hand.

use std::fmt::Write;

use super::{Link, Machine, NodeId, Port, groups, read};

/// The text of a file.
pub(super) fn machine(machine: &Machine) -> String {
    let mut out = String::new();
    let several = machine.nodes.len() > 1;
    line(&mut out, "version", read::VERSION);
    line(&mut out, "name", quoted(&machine.name));
    for node in &machine.nodes {
        out.push_str("\n[[node]]\n");
        line(&mut out, "name", quoted(&node.name));
        if let Some(base) = node.base {
            line(&mut out, "base_watts", number(base.0));
        }
        match node.off {
            None => line(&mut out, "switch_off", false),
            Some(watts) if watts.0 != 0.0 => line(&mut out, "off_watts", number(watts.0)),
            Some(_) => {}
        }
        if let Some(port) = &node.port {
            line(&mut out, "port", inline(port));
        }
    }
    for memory in &machine.memories {
        out.push_str("\n[[memory]]\n");
        line(&mut out, "name", quoted(&memory.name));
        if several {
            let node = &machine.nodes[usize::from(memory.node.0)];
            line(&mut out, "node", quoted(&node.name));
        }
        if let Some(capacity) = memory.capacity {
            line(&mut out, "capacity", bytes(capacity.0));
        }
    }
    for (unit, name, count) in groups(&machine.units) {
        out.push_str("\n[[unit]]\n");
        line(&mut out, "name", quoted(&name));
        line(&mut out, "kind", quoted(&unit.kind.to_string()));
        if let Some(count) = count {
            line(&mut out, "count", count);
        }
        let memory = &machine.memories[usize::from(unit.memory.0)];
        line(&mut out, "memory", quoted(&memory.name));
        if let Some(power) = unit.power {
            line(&mut out, "idle_watts", number(power.idle.0));
            line(&mut out, "busy_watts", number(power.busy.0));
        }
        if let Some(rated) = unit.rated {
            line(&mut out, "flops", number(rated.flops));
            if rated.flops_f64 != rated.flops / 2.0 {
                line(&mut out, "flops_f64", number(rated.flops_f64));
            }
            line(&mut out, "bandwidth", number(rated.bandwidth));
        }
        if unit.overhead.0 != 0.0 {
            line(&mut out, "overhead", number(unit.overhead.0));
        }
        if unit.wake_latency.0 != 0.0 {
            line(&mut out, "wake_latency", number(unit.wake_latency.0));
        }
        if !unit.states.is_empty() {
            let states: Vec<String> = unit
                .states
                .iter()
                .map(|s| {
                    let (speed, busy) = (number(s.speed), number(s.busy.0));
                    let hertz = s.hertz.map(|h| format!(", hertz = {}", number(h)));
                    let hertz = hertz.unwrap_or_default();
                    format!("{{ speed = {speed}, busy_watts = {busy}{hertz} }}")
                })
                .collect();
            line(&mut out, "states", format!("[{}]", states.join(", ")));
        }
        if let Some(seconds) = unit.switch_seconds {
            line(&mut out, "switch_seconds", number(seconds.0));
        }
    }
    let joined = stars(machine);
    let mut own = machine.links.len();
    for (switch, (nodes, links)) in machine.switches.iter().zip(&joined) {
        out.push_str("\n[[switch]]\n");
        line(&mut out, "name", quoted(&switch.name));
        if !nodes.is_empty() {
            let name = |n: &NodeId| quoted(&machine.nodes[usize::from(n.0)].name);
            let names: Vec<String> = nodes.iter().map(name).collect();
            line(&mut out, "nodes", format!("[{}]", names.join(", ")));
        }
        own -= links;
        if let Some(bandwidth) = switch.bandwidth {
            line(&mut out, "bandwidth", number(bandwidth));
        }
        if switch.latency.0 != 0.0 {
            line(&mut out, "latency", number(switch.latency.0));
        }
        if let Some(joules) = switch.joules_per_byte {
            line(&mut out, "joules_per_byte", number(joules));
        }
    }
    let mut links = machine.links[..own].iter().peekable();
    while let Some(link) = links.next() {
        let both = links.next_if(|next| **next == link.reversed()).is_some();
        write_link(&mut out, machine, link, both);
    }
    out
}

/// For every switch the nodes that it joins, and how many of the last links say so: no more need be said of these. Reading
/// puts them after all others, switch by switch, so here it goes from the last to the first.
fn stars(machine: &Machine) -> Vec<(Vec<NodeId>, usize)> {
    let mut rest = Machine {
        kernels: Default::default(),
        ..machine.clone()
    };
    let mut found = vec![(Vec::new(), 0); machine.switches.len()];
    for (number, found) in found.iter_mut().enumerate().rev() {
        let number = number as u16;
        let other = rest.links.iter().rposition(|l| l.via != [number]);
        let mut through = rest.links.split_off(other.map_or(0, |last| last + 1));
        let ends = |l: &Link| <[NodeId; 2]>::from(rest.nodes_of(l));
        let mut nodes: Vec<NodeId> = through.iter().flat_map(ends).collect();
        nodes.sort_unstable();
        nodes.dedup();
        // Of those through it, the first may have been written one by one.
        let mut own = through.len();
        for link in rest.star(number, &nodes).unwrap_or_default().iter().rev() {
            own -= usize::from(own > 0 && through[own - 1] == *link);
        }
        let star = through.split_off(own);
        rest.links.extend(through);
        if !star.is_empty() && rest.star(number, &nodes).as_ref() == Ok(&star) {
            *found = (nodes, star.len());
        } else {
            rest.links.extend(star);
        }
    }
    found
}

fn inline(port: &Port) -> String {
    let mut keys = vec![format!("bandwidth = {}", number(port.bandwidth))];
    if port.latency.0 != 0.0 {
        keys.push(format!("latency = {}", number(port.latency.0)));
    }
    let joules = port.joules_per_byte;
    keys.extend(joules.map(|j| format!("joules_per_byte = {}", number(j))));
    format!("{{ {} }}", keys.join(", "))
}

fn write_link(out: &mut String, machine: &Machine, link: &Link, both: bool) {
    out.push_str("\n[[link]]\n");
    let name = |m: super::MemoryId| quoted(&machine.memories[usize::from(m.0)].name);
    line(out, "from", name(link.from));
    line(out, "to", name(link.to));
    if both {
        line(out, "both_ways", true);
    }
    if !link.via.is_empty() {
        let name = |s: &u16| quoted(&machine.switches[usize::from(*s)].name);
        let names: Vec<String> = link.via.iter().map(name).collect();
        line(out, "via", format!("[{}]", names.join(", ")));
    }
    // What its way says anyway is said there.
    let way = machine.way(link.from, link.to, &link.via);
    let shared = machine.is_shared(link);
    let said = |of: fn(&Link) -> f64| shared && of(&way) == of(link);
    if !said(|l| l.bandwidth) {
        line(out, "bandwidth", number(link.bandwidth));
    }
    if !said(|l| l.latency.0) {
        line(out, "latency", number(link.latency.0));
    }
    if let Some(joules) = link.joules_per_byte
        && !said(|l| l.joules_per_byte.unwrap_or(f64::NAN))
    {
        line(out, "joules_per_byte", number(joules));
    }
    if link.at_once != 1 {
        line(out, "at_once", link.at_once);
    }
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{key} = {value}");
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The shortest text that reads back as the same number, and that TOML takes for a float.
fn number(value: f64) -> String {
    let plain = value.abs() < 1e6 && value.abs() >= 1e-3 || value == 0.0;
    if plain {
        format!("{value:?}")
    } else {
        format!("{value:e}")
    }
}

/// In the largest unit that divides it.
fn bytes(value: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let exact = |shift: u32| value > 0 && value.trailing_zeros() >= shift;
    match units.iter().find(|(_, shift)| exact(*shift)) {
        Some((unit, shift)) => format!("\"{} {unit}\"", value >> shift),
        None => value.to_string(),
    }
}
