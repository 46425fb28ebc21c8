//! Round trips of random machines, platforms that others wrote, and damaged files.

use dahl_core::random::Random;
use dahl_core::{
    Bytes, FrequencyState, Link, Memory, MemoryId, Node, NodeId, Port, Power, Rated, Seconds,
    Switch,
};
use dahl_core::{Unit, UnitKind, Watts};

use super::*;

/// Draws one number after another.
struct Dice(Random, u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        self.0.below(self.1, n)
    }

    /// From nothing to this much.
    fn real(&mut self, most: f64) -> f64 {
        most * self.below(1 << 50) as f64 / (1u64 << 50) as f64
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| make(self))
    }
}

fn unit(dice: &mut Dice, name: &str) -> Unit {
    let kind = [UnitKind::CPU, UnitKind::GPU][dice.below(2) as usize];
    let mut unit = Unit::new(name, kind, MemoryId::HOST);
    unit.power = dice.maybe(|d| Power {
        idle: Watts(d.real(50.0)),
        busy: Watts(d.real(500.0)),
    });
    if unit.power.is_some() {
        let states = 0..dice.below(3);
        unit.states.extend(states.map(|_| FrequencyState {
            hertz: dice.maybe(|d| 1e8 + d.real(5e9)),
            ..FrequencyState::new(0.1 + dice.real(2.0), Watts(dice.real(300.0)))
        }));
    }
    unit.rated = dice.maybe(|d| Rated {
        flops: 1e6 + d.real(1e14),
        flops_f64: 1e6 + d.real(1e13),
        bandwidth: 1e6 + d.real(1e12),
    });
    unit.switch_seconds = dice.maybe(|d| Seconds(d.real(1e-2)));
    unit.overhead = Seconds(dice.real(1e-3));
    unit.wake_latency = Seconds(dice.real(1e-3));
    unit
}

/// Machines with repeated units, odd names, memories without units, several nodes, links one and both ways.
fn machine(dice: &mut Dice) -> Machine {
    let mut machine = Machine::cpus(0);
    machine.name = "some <machine>".into();
    machine.nodes = (0..1 + dice.below(3))
        .map(|i| Node {
            base: dice.maybe(|d| Watts(d.real(200.0))),
            port: dice.maybe(|d| Port {
                bandwidth: 1e3 + d.real(1e12),
                latency: Seconds(d.real(1e-3)),
                joules_per_byte: d.maybe(|d| d.real(1e-8)),
            }),
            ..Node::new(format!("n{i}"))
        })
        .collect();
    machine.switches = (0..dice.below(3))
        .map(|i| Switch {
            name: format!("m{i} <to>"),
            bandwidth: dice.maybe(|d| 1e3 + d.real(1e12)),
            latency: Seconds(dice.real(1e-3)),
            joules_per_byte: dice.maybe(|d| d.real(1e-8)),
        })
        .collect();
    let switches = machine.switches.len() as u64;
    let nodes = machine.nodes.len() as u64;
    machine.memories = (0..1 + dice.below(4))
        .map(|i| Memory {
            node: NodeId(dice.below(nodes) as u16),
            ..Memory::new(format!("m{i}"), dice.maybe(|d| Bytes(d.below(1 << 40))))
        })
        .collect();
    let memories = machine.memories.len() as u64;
    for i in 0..1 + dice.below(4) {
        let name = ["cpu", "b:0", "odd \"<&> née", "d:1"][i as usize];
        let mut unit = unit(dice, name);
        unit.memory = MemoryId(dice.below(memories) as u16);
        match dice.below(3) {
            0 => machine.units.push(unit),
            count => machine.units.extend((0..count).map(|i| Unit {
                name: format!("{name}:{i}"),
                ..unit.clone()
            })),
        }
    }
    for _ in 0..dice.below(6) {
        let [from, to] = [0; 2].map(|_| MemoryId(dice.below(memories) as u16));
        let mut link = Link {
            joules_per_byte: dice.maybe(|d| d.real(1e-8)),
            at_once: 1 + dice.below(3) as u32,
            ..Link::new(from, to, 1e3 + dice.real(1e12), Seconds(1e-6))
        };
        link.via = (0..switches as u16)
            .filter(|_| dice.below(2) == 0)
            .collect();
        if machine.is_shared(&link) {
            let way = machine.way(from, to, &link.via);
            let own = way.bandwidth.is_infinite() || dice.below(2) == 0;
            let (bandwidth, joules) = (link.bandwidth, link.joules_per_byte);
            link = match own {
                false => way,
                true => Link {
                    bandwidth: bandwidth.min(way.bandwidth),
                    joules_per_byte: joules.or(way.joules_per_byte),
                    latency: link.latency,
                    ..way
                },
            };
        }
        if from != to && machine.link(from, to).is_none() {
            machine.links.push(link);
        }
    }
    machine
}

/// Equal but for the last digits: SimGrid's figures are sums and products of ours.
fn near(a: &Machine, b: &Machine) {
    let close = |x: f64, y: f64| (x - y).abs() <= 1e-12 * x.abs().max(y.abs());
    let mut b = b.clone();
    assert_eq!(a.units.len(), b.units.len());
    assert_eq!(a.links.len(), b.links.len());
    for (x, y) in a.units.iter().zip(&mut b.units) {
        if let (Some(p), Some(q)) = (x.power, &mut y.power)
            && close(p.idle.0, q.idle.0)
            && close(p.busy.0, q.busy.0)
        {
            *q = p;
        }
        for (s, t) in x.states.iter().zip(&mut y.states) {
            if close(s.speed, t.speed) && close(s.busy.0, t.busy.0) {
                *t = *s;
            }
        }
    }
    assert_eq!(a, &b);
}

#[test]
fn what_was_written_reads_back() {
    let mut dice = Dice(Random::new(7, 0), 0);
    for _ in 0..300 {
        let machine = machine(&mut dice);
        machine.check().unwrap();
        let text = write(&machine);
        let back = read_machine(&text, "m.xml").unwrap_or_else(|e| panic!("{e}\n{text}"));
        near(&machine, &back);
    }
}

#[test]
fn damaged_files_are_errors_not_panics() {
    let mut dice = Dice(Random::new(8, 0), 0);
    for _ in 0..300 {
        let mut bytes = write(&machine(&mut dice)).into_bytes();
        let at = dice.below(bytes.len() as u64) as usize;
        let _ = std::str::from_utf8(&bytes[..at]).map(|t| read_machine(t, "cut"));
        bytes[at] = dice.below(256) as u8;
        let _ = std::str::from_utf8(&bytes).map(|t| read_machine(t, "changed"));
    }
}

#[test]
fn a_platform_of_others_is_read() {
    let text = r#"<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="world" routing="Full">
    <host id="a" speed="100Mf,50Mf" core="2"><prop id="wattage_per_state" value="10:12:20, 9:10:14"/></host>
    <host id="b" speed="1Gf"/>
    <link id="bus" bandwidth="8Gbps" latency="50us"><prop id="wattage_range" value="1:3"/></link>
    <link id="slow" bandwidth="100MBps" latency="1ms"/>
    <route src="a" dst="b"><link_ctn id="bus"/><link_ctn id="slow"/></route>
  </zone>
</platform>"#;
    let m = read(text, "p.xml").unwrap();
    assert_eq!((m.nodes.len(), m.units.len(), m.links.len()), (2, 3, 2));
    assert_eq!(m.units[1].name, "a:1");
    assert_eq!(m.units[0].power.unwrap().busy, Watts(10.0));
    let state = FrequencyState::new(0.5, Watts(7.0));
    assert_eq!(m.units[0].states, [state]);
    assert_eq!(m.links[0].bandwidth, 100e6);
    assert_eq!(m.links[0].latency, Seconds(1e-3 + 50e-6));
    assert_eq!(m.links[0].joules_per_byte, Some(2e-9));
    assert_eq!((m.links[1].from, m.links[1].to), (MemoryId(1), MemoryId(0)));
    // Both directions share the bus and the slow one.
    let names: Vec<&str> = m.switches.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["bus", "slow"]);
    assert!(m.links.iter().all(|l| l.via == [0, 1]));
    let channels = m.channels();
    let limits = channels.all[2..].iter().map(|c| c.at_once);
    assert_eq!(limits.collect::<Vec<_>>(), [10, 1], "1 GB/s and 100 MB/s");
    let old = text.replace(
        "<prop id=\"watt",
        "<prop id=\"dahl_notice\" value=\"1\"/><prop id=\"watt",
    );
    let error = read(&old, "p.xml").unwrap_err().to_string();
    assert!(error.contains("dahl_wake_latency"), "{error}");
    let odd = text.replace("<host id=\"b\" speed=\"1Gf\"/>", "<cluster id=\"c\"/>");
    let error = read(&odd, "p.xml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "machine: <cluster> is not understood: use zone, host, link, route and prop (p.xml:6)"
    );
}

/// Three hosts with a split-duplex cable each to a backbone.
const STAR: &str = r#"<platform version="4.1">
  <zone id="star" routing="Full">
    <host id="a" speed="1Gf"/> <host id="b" speed="1Gf"/> <host id="c" speed="1Gf"/>
    <link id="la" bandwidth="1GBps" latency="10us" sharing_policy="SPLITDUPLEX"/>
    <link id="lb" bandwidth="1GBps" latency="20us" sharing_policy="SPLITDUPLEX"/>
    <link id="lc" bandwidth="1GBps" latency="30us" sharing_policy="SPLITDUPLEX"/>
    <link id="bone" bandwidth="3GBps" latency="1us"/>
    <link id="air" bandwidth="2GBps" latency="1us" sharing_policy="FATPIPE"/>
    <route src="a" dst="b"><link_ctn id="la" direction="UP"/><link_ctn id="bone"/><link_ctn id="lb" direction="DOWN"/></route>
    <route src="a" dst="c"><link_ctn id="la" direction="UP"/><link_ctn id="bone"/><link_ctn id="lc" direction="DOWN"/></route>
    <route src="b" dst="c"><link_ctn id="lb" direction="UP"/><link_ctn id="air"/><link_ctn id="lc" direction="DOWN"/></route>
  </zone>
</platform>"#;

#[test]
fn what_routes_share_is_there_once() {
    let m = read(STAR, "p.xml").unwrap();
    let latency = |i: usize| m.nodes[i].port.unwrap().latency;
    let all = [latency(0), latency(1), latency(2)];
    assert_eq!(all, [10.0, 20.0, 30.0].map(|us: f64| Seconds(us * 1e-6)));
    let [bone] = &m.switches[..] else {
        panic!("{:?}", m.switches)
    };
    assert_eq!((&*bone.name, bone.bandwidth), ("bone", Some(3e9)));
    let link = |a, b| m.link(MemoryId(a), MemoryId(b)).unwrap();
    assert_eq!((link(0, 1).via.len(), link(2, 1).via.len()), (1, 0));
    assert_eq!(link(0, 1).bandwidth, 1e9);
    // The last part is no port's: nobody shares it.
    assert!((link(1, 2).latency.0 - 51e-6).abs() < 1e-12);
    assert_eq!(m.channels().all.last().unwrap().at_once, 3);
    // Half duplex is no port: a way out that is also the way in carries one transfer in all.
    let half = STAR.replace("SPLITDUPLEX", "SHARED");
    let half = half.replace(" direction=\"UP\"", "");
    let m = read(&half.replace(" direction=\"DOWN\"", ""), "p.xml").unwrap();
    assert!(m.nodes.iter().all(|n| n.port.is_none()));
    assert_eq!(m.switches.len(), 4);
    let channels = m.channels();
    let both = m.links.iter().zip(&channels.of_link);
    let of = |from, to| {
        let ends = (MemoryId(from), MemoryId(to));
        let mut all = both.clone().filter(|(l, _)| (l.from, l.to) == ends);
        all.next().unwrap().1[1..].to_vec()
    };
    assert_eq!(of(1, 2), of(2, 1));
}

#[test]
fn shared_links_stay_shared_both_ways_of_the_export() {
    let m = read(STAR, "p.xml").unwrap();
    let text = write(&m);
    let route = "<route src=\"a\" dst=\"b\" symmetrical=\"NO\"><link_ctn id=\"a out\"/>\
                 <link_ctn id=\"bone\"/><link_ctn id=\"b in\"/></route>";
    assert!(text.contains(route), "{text}");
    // Between b and c there is something of the link's own.
    let own = "<link_ctn id=\"b out\"/><link_ctn id=\"b to c\"/><link_ctn id=\"c in\"/>";
    assert!(text.contains(own), "{text}");
    near(&m, &read(&text, "again.xml").unwrap());
    // To somebody who does not know our properties, ports are ports still.
    let lines = text.lines().filter(|l| !l.contains("dahl_"));
    let plain = lines.collect::<Vec<_>>().join("\n");
    let again = read(&plain, "plain.xml").unwrap();
    let ports = |m: &Machine| m.nodes.iter().map(|n| n.port).collect::<Vec<_>>();
    assert_eq!(ports(&again), ports(&m));
    assert_eq!(again.switches, m.switches);
    assert_eq!(again.channels().all.len(), m.channels().all.len());
}

#[test]
fn what_is_nested_too_deeply_is_refused_not_overflowed() {
    for (open, close) in [("<zone id=\"a>b\">", "</zone>"), ("<x>", "")] {
        let text = format!(
            "<platform><!-- <zone> -->{}{}</platform>",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        let error = read(&text, "deep.xml").unwrap_err().to_string();
        assert!(
            error.contains("more than 200 deep") && error.contains("deep.xml:1"),
            "{error}"
        );
    }
    // Entities could hide the depth.
    let text = "<!DOCTYPE platform [<!ENTITY a \"<zone>\">]>\n<platform>&a;</platform>";
    let error = read(text, "p.xml").unwrap_err().to_string();
    assert!(error.contains("brackets"), "{error}");
    // Many zones side by side, and some in each other, are fine as far as depth goes.
    let flat = format!(
        "<platform>{}</platform>",
        "<zone id=\"z\"><zone/></zone>".repeat(1000)
    );
    let error = read(&flat, "p.xml").unwrap_err().to_string();
    assert!(error.contains("it has 0 nodes"), "{error}");
}
