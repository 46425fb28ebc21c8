//! Ports and switches by hand: what shares one takes turns, what does not overlaps.

use dahl_core::random::Random;
use dahl_core::{Mode, Node, NodeId, Port, Switch};

use super::memory::fixed;
use super::*;

/// Each memory in a node of its own with a port of so many bytes per second, all joined by one switch.
pub(super) fn network(machine: &mut Machine, bandwidth: f64, backplane: Option<f64>) {
    machine.links.clear();
    machine.switches = vec![Switch {
        name: "switch".into(),
        bandwidth: backplane,
        latency: Seconds(0.0),
        joules_per_byte: None,
    }];
    let port = Port {
        bandwidth,
        latency: Seconds(0.0),
        joules_per_byte: None,
    };
    let memories = machine.memories.len() as u16;
    machine.nodes = (0..memories)
        .map(|m| Node {
            port: Some(port),
            ..Node::new(format!("node {m}"))
        })
        .collect();
    for m in 0..memories {
        machine.memories[usize::from(m)].node = NodeId(m);
    }
    for from in 0..memories {
        for to in (0..memories).filter(|&to| to != from) {
            let link = machine.way(MemoryId(from), MemoryId(to), &[0]);
            machine.links.push(link);
        }
    }
}

/// Nodes whose ports carry a byte per second.
fn cluster(nodes: u16, backplane: Option<f64>) -> Machine {
    let mut machine = Machine::cpus(1);
    for m in 1..nodes {
        machine.memories.push(Memory::new(format!("m{m}"), None));
    }
    network(&mut machine, 1.0, backplane);
    machine
}

/// Units in these memories.
fn with_units(machine: &Machine, memories: impl Iterator<Item = u16>) -> Machine {
    let unit = |(i, m)| Unit::new(format!("cpu:{i}"), UnitKind::CPU, MemoryId(m));
    Machine {
        units: memories.enumerate().map(unit).collect(),
        ..machine.clone()
    }
}

/// The same with links that share nothing.
fn apart(machine: &Machine) -> Machine {
    let mut apart = machine.clone();
    apart.nodes.iter_mut().for_each(|n| n.port = None);
    apart.links.iter_mut().for_each(|l| l.via.clear());
    apart.switches.clear();
    apart
}

/// Something made on one node and read on another.
#[derive(Clone, Copy)]
struct Message {
    from: u16,
    to: u16,
    bytes: usize,
    /// How long it takes to make, and so when the transfer asks.
    made: i64,
}

/// When each message's transfer begins and ends. Each has units of its own that make and read it, so that nothing but
/// the network decides.
fn spans(machine: &Machine, messages: &[Message]) -> Vec<(f64, f64)> {
    let machine = with_units(machine, messages.iter().flat_map(|m| [m.from, m.to]));
    let (arena, r) = (Arena::new(), Recorder::new());
    let mut orders = Vec::new();
    for (i, m) in messages.iter().enumerate() {
        let x = array(&arena, &format!("x{i}"), m.bytes);
        orders.push(vec![task(&r, m.made, &[x.with(Mode::Write)])]);
        orders.push(vec![task(&r, 0, &[x.with(Mode::Read)])]);
    }
    let graph = r.finish().unwrap();
    let prediction = fixed(&graph, &machine, orders).unwrap();
    let span = |i: usize| {
        let reader = 2 * i as u32 + 1;
        let of = |t: &&crate::TransferSpan| t.for_task.is_some_and(|t| t.task == reader);
        let t = prediction.transfers.iter().find(of).unwrap();
        (t.start.0, t.end.0)
    };
    (0..messages.len()).map(span).collect()
}

fn message(from: u16, to: u16) -> Message {
    Message {
        from,
        to,
        bytes: 4,
        made: 0,
    }
}

#[test]
fn two_transfers_through_one_port_take_the_sum() {
    let machine = cluster(4, None);
    let out = [message(0, 1), message(0, 2)];
    assert_eq!(spans(&machine, &out), [(0.0, 4.0), (4.0, 8.0)]);
    let into = [message(1, 0), message(2, 0)];
    assert_eq!(spans(&machine, &into), [(0.0, 4.0), (4.0, 8.0)]);
    for both in [out, into] {
        assert_eq!(spans(&apart(&machine), &both), [(0.0, 4.0), (0.0, 4.0)]);
    }
}

#[test]
fn a_task_that_gathers_from_all_nodes_waits_for_its_port() {
    let (arena, r) = (Arena::new(), Recorder::new());
    let arrays: Vec<Handle> = (0..3).map(|i| array(&arena, &format!("x{i}"), 4)).collect();
    for x in &arrays {
        task(&r, 1, &[x.with(Mode::Write)]);
    }
    let all: Vec<Operand<'_>> = arrays.iter().map(|x| x.with(Mode::Read)).collect();
    task(&r, 1, &all);
    let graph = r.finish().unwrap();
    let orders = vec![vec![3], vec![0], vec![1], vec![2]];
    let machine = with_units(&cluster(4, None), 0..4);
    let prediction = fixed(&graph, &machine, orders.clone()).unwrap();
    assert_eq!(when(&prediction)[3], (0, 13.0, 14.0));
    let prediction = fixed(&graph, &apart(&machine), orders).unwrap();
    assert_eq!(when(&prediction)[3], (0, 5.0, 6.0));
}

#[test]
fn different_ports_and_both_ways_of_one_overlap() {
    let machine = cluster(4, None);
    let pairs = [message(0, 1), message(2, 3)];
    assert_eq!(spans(&machine, &pairs), [(0.0, 4.0), (0.0, 4.0)]);
    let duplex = [message(0, 1), message(1, 0)];
    assert_eq!(spans(&machine, &duplex), [(0.0, 4.0), (0.0, 4.0)]);
}

#[test]
fn a_backplane_carries_as_many_as_it_has_bandwidth_for() {
    let three = [message(0, 1), message(2, 3), message(4, 5)];
    let at = |backplane| {
        let begins = spans(&cluster(6, backplane), &three);
        begins.iter().map(|s| s.0).collect::<Vec<f64>>()
    };
    assert_eq!(at(None), [0.0, 0.0, 0.0]);
    assert_eq!(at(Some(3.0)), [0.0, 0.0, 0.0]);
    assert_eq!(at(Some(2.9)), [0.0, 0.0, 4.0]);
    assert_eq!(at(Some(1.0)), [0.0, 4.0, 8.0]);
    // Slower than a port, it slows down all.
    assert_eq!(at(Some(0.5)), [0.0, 8.0, 16.0]);
}

#[test]
fn who_asked_first_goes_first_and_holds_up_those_behind() {
    let later = |from, to, made| Message {
        made,
        ..message(from, to)
    };
    // The second waits for its receiver; the third, which asked later, for the second.
    let three = [message(0, 1), later(2, 1, 1), later(2, 3, 1)];
    let machine = cluster(4, None);
    assert_eq!(
        spans(&machine, &three),
        [(0.0, 4.0), (4.0, 8.0), (8.0, 12.0)]
    );
}

/// The rule's equation, transfer by transfer: each begins when it has asked and the last before it in each line has ended.
#[test]
fn begins_follow_the_equation_and_sharing_never_ends_earlier() {
    let dice = Random::new(5, 0);
    let mut drawn = 0;
    let mut below = |n: u64| {
        drawn += 1;
        dice.below(drawn, n)
    };
    let mut waited = 0;
    for _ in 0..200 {
        let nodes = 2 + below(4) as u16;
        let mut messages: Vec<Message> = (0..1 + below(8))
            .map(|_| {
                let from = below(nodes.into());
                Message {
                    from: from as u16,
                    to: ((from + 1 + below(u64::from(nodes) - 1)) % u64::from(nodes)) as u16,
                    bytes: 4 * (1 + below(5) as usize),
                    made: below(30) as i64,
                }
            })
            .collect();
        // In the order in which they ask.
        messages.sort_by_key(|m| m.made);
        let machine = cluster(nodes, None);
        let found = spans(&machine, &messages);
        let (mut out, mut into) = (vec![0.0_f64; 9], vec![0.0_f64; 9]);
        for (m, span) in messages.iter().zip(&found) {
            let (out, into) = (&mut out[usize::from(m.from)], &mut into[usize::from(m.to)]);
            let begin = out.max(*into).max(m.made as f64);
            assert_eq!(*span, (begin, begin + m.bytes as f64));
            (*out, *into) = (span.1, span.1);
            waited += u32::from(begin > m.made as f64);
        }
        let end = |spans: &[(f64, f64)]| spans.iter().map(|s| s.1).fold(0.0, f64::max);
        let alone = spans(&apart(&machine), &messages);
        assert!(end(&alone) <= end(&found));
        messages.iter_mut().for_each(|m| m.made = 0);
        let narrow = spans(&cluster(nodes, Some(1.0)), &messages);
        assert_eq!(
            end(&narrow),
            messages.iter().map(|m| m.bytes as f64).sum::<f64>()
        );
    }
    assert!(waited > 50, "{waited}: nothing was tried");
}
