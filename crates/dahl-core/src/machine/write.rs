//! Machines as `machine.toml`: what [`super::read`] reads, compact enough to be edited by hand.

use std::fmt::Write;

use super::{Link, Machine, groups, read};

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
                    format!("{{ speed = {speed}, busy_watts = {busy} }}")
                })
                .collect();
            line(&mut out, "states", format!("[{}]", states.join(", ")));
        }
    }
    let mut links = machine.links.iter().peekable();
    while let Some(link) = links.next() {
        let both = links.next_if(|next| **next == link.reversed()).is_some();
        write_link(&mut out, machine, link, both);
    }
    out
}

fn write_link(out: &mut String, machine: &Machine, link: &Link, both: bool) {
    out.push_str("\n[[link]]\n");
    let name = |m: super::MemoryId| quoted(&machine.memories[usize::from(m.0)].name);
    line(out, "from", name(link.from));
    line(out, "to", name(link.to));
    if both {
        line(out, "both_ways", true);
    }
    line(out, "bandwidth", number(link.bandwidth));
    line(out, "latency", number(link.latency.0));
    if let Some(joules) = link.joules_per_byte {
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
