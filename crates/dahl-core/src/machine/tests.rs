//! Round trips, hand-written files, and mistakes with their lines.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn unit() -> impl Strategy<Value = Unit> {
    let power = option::of((
        0.0..50.0,
        0.0..500.0,
        vec((0.1..2.0, 0.0..300.0, option::of(1e8..6e9)), 0..3),
    ));
    let rated = option::of((1e6..1e14, 1e6..1e13, 1e6..1e12));
    (
        prop_oneof!["[a-z]{1,4}", "[a-z]{1,3}:[01]", "odd \"<&> née"],
        any::<bool>(),
        power,
        rated,
        (0.0..1e-3, 0.0..1e-3, option::of(0.0..1e-2)),
    )
        .prop_map(
            |(name, gpu, power, rated, (overhead, wake_latency, switch))| Unit {
                name,
                kind: if gpu { UnitKind::GPU } else { UnitKind::CPU },
                memory: MemoryId::HOST,
                power: power.as_ref().map(|(idle, busy, _)| Power {
                    idle: Watts(*idle),
                    busy: Watts(*busy),
                }),
                states: power.map_or(Vec::new(), |p| {
                    let state = |(speed, busy, hertz)| FrequencyState {
                        speed,
                        busy: Watts(busy),
                        hertz,
                    };
                    p.2.into_iter().map(state).collect()
                }),
                switch_seconds: switch.map(Seconds),
                rated: rated.map(|(flops, flops_f64, bandwidth)| Rated {
                    flops,
                    flops_f64,
                    bandwidth,
                }),
                overhead: Seconds(overhead),
                wake_latency: Seconds(wake_latency),
            },
        )
}

/// Machines with repeated units, memories without units, several nodes, links one and both ways.
fn machine() -> impl Strategy<Value = Machine> {
    let port = (1e3..1e12, 0.0..1e-3, option::of(0.0..1e-8));
    let nodes = vec((option::of(0.0..200.0), option::of(port)), 1..4);
    let switch = (option::of(1e3..1e12), 0.0..1e-3, option::of(0.0..1e-8));
    let switches = vec((switch, any::<bool>()), 0..3);
    let memories = vec((option::of(0u64..1 << 40), 0usize..4), 1..5);
    let units = vec((unit(), 1usize..4, 0usize..5), 1..5);
    let links = vec(
        (
            0usize..5,
            0usize..5,
            1e3..1e12,
            option::of(0.0..1e-8),
            1u32..4,
            any::<bool>(),
            vec(0u16..3, 0..3),
            any::<bool>(),
        ),
        0..6,
    );
    let parts = (nodes, memories, units, links, switches);
    parts.prop_map(|(nodes, memories, units, links, switches)| {
        let mut machine = Machine {
            name: "some <machine>".into(),
            nodes: Vec::new(),
            memories: Vec::new(),
            units: Vec::new(),
            links: Vec::new(),
            switches: Vec::new(),
            kernels: Default::default(),
        };
        for (i, (base, port)) in nodes.into_iter().enumerate() {
            machine.nodes.push(Node {
                base: base.map(Watts),
                port: port.map(|(bandwidth, latency, joules_per_byte)| Port {
                    bandwidth,
                    latency: Seconds(latency),
                    joules_per_byte,
                }),
                ..Node::new(format!("n{i}"))
            });
        }
        for (i, ((bandwidth, latency, joules_per_byte), _)) in switches.iter().enumerate() {
            machine.switches.push(Switch {
                name: format!("s{i}"),
                bandwidth: *bandwidth,
                latency: Seconds(*latency),
                joules_per_byte: *joules_per_byte,
            });
        }
        for (i, (capacity, node)) in memories.into_iter().enumerate() {
            machine.memories.push(Memory {
                name: format!("m{i}"),
                capacity: capacity.map(Bytes),
                node: NodeId((node % machine.nodes.len()) as u16),
            });
        }
        let memory = |m: usize| MemoryId((m % machine.memories.len()) as u16);
        for (unit, count, m) in units {
            for i in 0..count {
                let name = match count {
                    1 => unit.name.clone(),
                    _ => format!("{}:{i}", unit.name),
                };
                if machine.units.iter().all(|u| u.name != name) {
                    machine.units.push(Unit {
                        name,
                        memory: memory(m),
                        ..unit.clone()
                    });
                }
            }
        }
        for (from, to, bandwidth, joules_per_byte, at_once, back, via, as_its_way) in links {
            let (from, to) = (memory(from), memory(to));
            let mut link = Link {
                joules_per_byte,
                at_once,
                ..Link::new(from, to, bandwidth, Seconds(1e-6))
            };
            // Some go through something, and as fast as that is.
            let exists = |s: &u16| usize::from(*s) < machine.switches.len();
            link.via = via.into_iter().filter(exists).collect();
            link.via.dedup();
            if machine.is_shared(&link) {
                let way = machine.way(from, to, &link.via);
                link.at_once = 1;
                link.bandwidth = bandwidth.min(way.bandwidth);
                link.joules_per_byte = joules_per_byte.or(way.joules_per_byte);
                if as_its_way && way.bandwidth.is_finite() {
                    link = way;
                }
            }
            for link in [Some(link.clone()), back.then(|| link.reversed())]
                .into_iter()
                .flatten()
            {
                if link.from != link.to && machine.link(link.from, link.to).is_none() {
                    machine.links.push(link);
                }
            }
        }
        let joins = switches.iter().enumerate().filter(|(_, s)| s.1);
        for (number, _) in joins {
            let all: Vec<NodeId> = (0..machine.nodes.len() as u16).map(NodeId).collect();
            machine
                .links
                .extend(machine.star(number as u16, &all).unwrap_or_default());
        }
        machine
    })
}

proptest! {
    #[test]
    fn toml_reads_back_what_it_wrote(machine in machine()) {
        prop_assume!(machine.check().is_ok());
        let text = machine.to_toml();
        let back = Machine::from_toml(&text, "m.toml");
        prop_assert_eq!(back, Ok(machine), "{}", text);
    }

    #[test]
    fn damaged_files_are_errors_not_panics(machine in machine(), cut in 0.0..1.0f64, byte in any::<u8>()) {
        let text = machine.to_toml();
        let at = (cut * text.len() as f64) as usize;
        let mut bytes = text.into_bytes();
        let _ = std::str::from_utf8(&bytes[..at]).map(|t| Machine::from_toml(t, "cut"));
        bytes[at] = byte;
        let _ = std::str::from_utf8(&bytes).map(|t| Machine::from_toml(t, "changed"));
    }
}

const SMALL: &str = r#"version = 1
name = "small"

[[node]]
name = "box"
base_watts = 20

[[memory]]
name = "host"
capacity = "16 GiB"

[[memory]]
name = "card"
capacity = "8 GB"

[[unit]]
name = "cpu"
kind = "cpu"
count = 2
idle_watts = 1
busy_watts = 8.5
flops = 5e10
bandwidth = 10e9
states = [{ speed = 0.5, busy_watts = 3.0 }]

[[unit]]
name = "gpu"
kind = "gpu"
memory = "card"

[[link]]
from = "host"
to = "card"
both_ways = true
bandwidth = 12e9
"#;

#[test]
fn a_file_written_by_hand_is_understood() {
    let m = Machine::from_toml(SMALL, "m.toml").unwrap();
    let names: Vec<&str> = m.units.iter().map(|u| u.name.as_str()).collect();
    assert_eq!(names, ["cpu:0", "cpu:1", "gpu"]);
    assert_eq!(m.memories[0].capacity, Some(Bytes(16 << 30)));
    assert_eq!(m.memories[1].capacity, Some(Bytes(8_000_000_000)));
    assert_eq!(m.units[1].state(0), Some((1.0, Some(Watts(8.5)))));
    assert_eq!(m.units[1].state(1), Some((0.5, Some(Watts(3.0)))));
    assert_eq!(m.units[1].state(2), None);
    assert_eq!(m.units[1].rated.unwrap().flops(DType::F64), 2.5e10);
    assert_eq!(m.links.len(), 2);
    assert_eq!(m.base(), Watts(20.0));
    let unknown = ["unit gpu", "link host to card", "link card to host"];
    assert_eq!(m.without_power(), unknown);
    assert_eq!(m.timed_as(&m.units[0]), "cpu/2");
    assert_eq!(m.timed_as(&m.units[2]), "card");
}

#[test]
fn mistakes_name_the_entry_and_the_line() {
    let cases = [
        (
            "version = 1",
            "version = 2",
            "it has version 2, this program reads 1 (m.toml:1)",
        ),
        (
            "kind = \"gpu\"",
            "kind = \"GPU\"",
            "unit \"gpu\": a kind of unit is named by 1 to 15 characters from a-z, 0-9, - and _, not \"GPU\": such as cpu or gpu (m.toml:28)",
        ),
        (
            "memory = \"card\"",
            "memory = \"vram\"",
            "unit \"gpu\": `memory` is \"vram\", which no entry above is called; there are: host, card (m.toml:29)",
        ),
        (
            "idle_watts = 1",
            "idle_wats = 1",
            "unit \"cpu\": give both `idle_watts` and `busy_watts`, or neither (m.toml:16)",
        ),
        (
            "count = 2",
            "count = 0",
            "unit \"cpu\": `count` is 0: use 1 to 60000 (m.toml:19)",
        ),
        (
            "count = 2",
            "notice = 1e-6",
            "unit \"cpu\": `notice` is called `wake_latency` now: rename the key (m.toml:19)",
        ),
        (
            "bandwidth = 12e9",
            "bandwidth = -1",
            "link \"host\" to \"card\": bandwidth is -1: it must be more than zero (m.toml)",
        ),
        (
            "bandwidth = 12e9",
            "bandwidth = 0.0",
            "link \"host\" to \"card\": bandwidth is 0: it must be more than zero (m.toml)",
        ),
        (
            "both_ways = true",
            "both = true",
            "link: unknown key \"both\": did you mean \"both_ways\"? (m.toml:34)",
        ),
        (
            "both_ways = true",
            "duplex = true",
            "link: unknown key \"duplex\"; there are: at_once, bandwidth, both_ways, from, joules_per_byte, latency, to, via (m.toml:34)",
        ),
        (
            "count = 2",
            "overhead = 1e300",
            "unit \"cpu\": overhead is 1e300: it must be at most 1e9 (m.toml)",
        ),
        (
            "busy_watts = 8.5",
            "busy_watts = inf",
            "unit \"cpu:0\": busy watts is inf: it must be at most 1e9 (m.toml)",
        ),
        (
            "bandwidth = 12e9",
            "bandwidth = 1e-300",
            "link \"host\" to \"card\": bandwidth is 1e-300: it must be from 1e-6 to 1e21 (m.toml)",
        ),
        (
            "capacity = \"8 GB\"",
            "capacity = \"8 GX\"",
            "memory \"card\": `capacity` must be a number of bytes or a text such as \"8 GiB\" or \"800 MB\" (m.toml:14)",
        ),
        (
            "name = \"card\"",
            "name = \"host\"",
            "two memory entries are called \"host\": rename one (m.toml)",
        ),
        (
            "speed = 0.5",
            "speed = nan",
            "unit \"cpu:0\": speed of a state is NaN: it must be more than zero (m.toml)",
        ),
    ];
    for (old, new, expected) in cases {
        assert!(SMALL.contains(old), "{old}");
        let text = SMALL.replacen(old, new, 1);
        let error = Machine::from_toml(&text, "m.toml").unwrap_err().to_string();
        // A renamed memory also unties what refers to it.
        if new == "name = \"host\"" {
            assert!(error.contains("\"card\""), "{error}");
            continue;
        }
        assert_eq!(error, format!("machine: {expected}"), "{new}");
    }
}

#[test]
fn the_examples_can_be_used_and_account_for_every_joule() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let m = Machine::from_toml(&text, &path.display().to_string()).unwrap();
        assert!(m.without_power().is_empty(), "{:?}", m.without_power());
        assert!(m.units.iter().all(|u| u.rated.is_some()));
        assert_eq!(Machine::from_toml(&m.to_toml(), "again"), Ok(m));
        found += 1;
    }
    assert!(found >= 3);
}
