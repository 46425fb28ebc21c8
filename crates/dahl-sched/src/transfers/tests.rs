//! The rule, event by event.

use std::sync::Arc;

use dahl_core::{Arena, Codelet, Graph, Link, Memory, MemoryId, Node, NodeId, Port};
use dahl_core::{Recorder, Seconds, Task, UnitKind};

use super::*;

/// `y = f(x)` on a device, `z = g(y)` on another, `x = h(z)` in the host.
fn graph() -> Arc<Graph> {
    let nothing =
        Arc::new(Codelet::new("nothing").implement("reference", UnitKind::CPU, |_| Ok(())));
    let arena = Arena::new();
    let mut x = arena.zeros::<f32, 1>([2]).unwrap();
    let mut y = arena.zeros::<f32, 1>([2]).unwrap();
    let mut z = arena.zeros::<f32, 1>([2]).unwrap();
    let recorder = Recorder::new();
    recorder.submit(Task::new(&nothing, &[x.read(), y.write()]));
    recorder.submit(Task::new(&nothing, &[y.read(), z.write()]));
    recorder.submit(Task::new(&nothing, &[z.read(), x.write()]));
    recorder.finish().unwrap()
}

fn transfer(
    graph: &Graph,
    storage: u32,
    producer: Producer,
    ends: (u16, u16),
    readers: &[u32],
) -> PlannedTransfer {
    let shape = &graph.storages[storage as usize].storage.shape;
    PlannedTransfer {
        storage,
        parts: vec![Region::whole(shape)],
        producer,
        from: ends.0,
        to: ends.1,
        readers: readers.to_vec(),
    }
}

/// The host and two devices.
fn machine() -> Machine {
    let mut machine = Machine::cpus(1);
    for (i, name) in ["first", "second"].into_iter().enumerate() {
        let (host, device) = (MemoryId::HOST, MemoryId(i as u16 + 1));
        machine.memories.push(Memory::new(name, None));
        for (from, to) in [(host, device), (device, host)] {
            machine.links.push(Link::new(from, to, 1.0, Seconds(0.0)));
        }
    }
    machine
}

/// The same as three nodes, each with a port.
fn cluster() -> Machine {
    let mut machine = machine();
    machine.nodes.clear();
    for (i, memory) in machine.memories.iter_mut().enumerate() {
        memory.node = NodeId(i as u16);
        machine.nodes.push(Node {
            port: Some(Port {
                bandwidth: 1.0,
                latency: Seconds(0.0),
                joules_per_byte: None,
            }),
            ..Node::new(format!("node {i}"))
        });
    }
    machine
}

/// `x` to the first device, `y` by way of the host to the second, `z` back.
fn all(graph: &Graph) -> Vec<PlannedTransfer> {
    vec![
        transfer(graph, 0, Producer::LastStep(2), (0, 1), &[0]),
        transfer(graph, 1, Producer::Task(0), (1, 0), &[]),
        transfer(graph, 1, Producer::Task(0), (0, 2), &[1]),
        transfer(graph, 2, Producer::Task(1), (2, 0), &[2]),
    ]
}

const ORDERS: [&[u32]; 3] = [&[2], &[0], &[1]];

fn transfers() -> Transfers {
    let graph = graph();
    Transfers::new(
        &graph,
        &ORDERS.map(<[u32]>::to_vec),
        all(&graph),
        &machine(),
    )
    .unwrap()
}

/// Everything that may go now, over any link.
fn going(queues: &mut TransferQueues) -> Vec<(u64, u32)> {
    let links = queues.transfers().links().count();
    let mut all = Vec::new();
    for link in 0..links {
        all.extend(std::iter::from_fn(|| queues.next(link)));
    }
    all
}

#[test]
fn each_goes_when_its_values_are_made() {
    let mut queues = TransferQueues::new(Arc::new(transfers()));
    queues.begin(7);
    assert_eq!(
        going(&mut queues),
        [(7, 0)],
        "nobody is before the first launch"
    );
    assert!(!queues.is_brought(7, 0, 1) && queues.is_under_way(7, 0));
    assert!(queues.is_brought(7, 0, 0), "it is not meant for the host");
    assert!(queues.is_brought(7, 2, 1) && !queues.is_brought(7, 2, 0));
    queues.begin(8);
    assert_eq!(going(&mut queues), [], "launch 7 will write x");
    queues.done(7, 0);
    assert!(queues.is_brought(7, 0, 1) && !queues.is_under_way(7, 0));
    assert!(queues.ended(7, 0) && !queues.ended(7, 0), "once");
    assert_eq!(going(&mut queues), [(7, 1)], "by way of the host");
    assert!(queues.is_under_way(7, 1), "task 1 will read it in the end");
    assert_eq!(queues.transfers().awaited_by(1), [1]);
    queues.done(7, 1);
    assert_eq!(going(&mut queues), [(7, 2)]);
    queues.done(7, 2);
    assert!(queues.ended(7, 1));
    assert_eq!(going(&mut queues), [(7, 3)]);
    queues.done(7, 3);
    assert!(queues.ended(7, 2));
    assert_eq!(queues.backlog().map(|b| b.0).collect::<Vec<_>>(), [8]);
    assert_eq!(going(&mut queues), [(8, 0)]);
}

#[test]
fn what_is_given_up_is_waited_for_by_nobody() {
    let mut queues = TransferQueues::new(Arc::new(transfers()));
    queues.begin(1);
    queues.begin(2);
    queues.give_up(1);
    assert!((0..3).all(|t| queues.is_brought(1, t, 0) && queues.is_brought(1, t, 1)));
    assert_eq!(going(&mut queues), [(2, 0)]);
    queues.give_up(2);
    assert!(
        queues.knows(2) && queues.is_under_way(2, 0),
        "it was under way"
    );
    queues.done(2, 0);
    assert!(!queues.ended(2, 0) && queues.is_brought(2, 0, 1));
    assert_eq!(queues.backlog().count(), 0);
}

#[test]
fn a_link_keeps_the_order_and_lends_itself_to_the_next_launch() {
    let graph = graph();
    let orders = ORDERS.map(<[u32]>::to_vec);
    // First x, which the step before leaves, then z by a task; y is there.
    let first = transfer(&graph, 1, Producer::Task(0), (0, 1), &[1]);
    let then = transfer(&graph, 0, Producer::Before, (0, 1), &[]);
    let mut queues = TransferQueues::new(Arc::new(
        Transfers::new(&graph, &orders, vec![first, then], &machine()).unwrap(),
    ));
    queues.begin(1);
    assert_eq!(going(&mut queues), [], "the second waits for the first");
    assert!(queues.ended(1, 0));
    queues.begin(2);
    assert_eq!(going(&mut queues), [(1, 0), (1, 1)]);
    assert!(queues.ended(2, 0));
    assert_eq!(going(&mut queues), [(2, 0), (2, 1)]);
    // Launch 3 waits for its task: launch 4, whose task has ended, may use the link.
    queues.begin(3);
    queues.begin(4);
    assert!(queues.ended(4, 0));
    assert_eq!(queues.next(0), Some((4, 0)));
    assert!(queues.ended(3, 0));
    assert_eq!(queues.next(0), Some((3, 0)), "the oldest first");
}

#[test]
fn circles_are_found() {
    let graph = graph();
    let orders = ORDERS.map(<[u32]>::to_vec);
    let mut all = all(&graph);
    // What task 1 needs behind what task 2 makes, over one link.
    all.insert(0, transfer(&graph, 0, Producer::Task(2), (0, 2), &[]));
    let refused = Transfers::new(&graph, &orders, all, &machine()).unwrap_err();
    assert_eq!(refused, TransferError::Circle(0));
}

#[test]
fn links_that_share_a_port_keep_the_plans_order_between_them() {
    let graph = graph();
    let orders = ORDERS.map(<[u32]>::to_vec);
    // Both leave the host: y, which a task makes, before x, which is there.
    let made = transfer(&graph, 1, Producer::Task(0), (0, 2), &[1]);
    let there = transfer(&graph, 0, Producer::Before, (0, 1), &[]);
    let queues = |machine: &Machine| {
        let all = vec![made.clone(), there.clone()];
        let all = Transfers::new(&graph, &orders, all, machine).unwrap();
        let mut queues = TransferQueues::new(Arc::new(all));
        queues.begin(1);
        queues
    };
    assert_eq!(going(&mut queues(&machine())), [(1, 1)]);
    let mut shared = queues(&cluster());
    assert_eq!(going(&mut shared), []);
    let waiting: Vec<_> = shared.backlog().collect();
    assert_eq!(waiting, [(1, 2, vec![0, 1])], "of links, not of ports");
    assert!(shared.ended(1, 0));
    assert_eq!(going(&mut shared), [(1, 0), (1, 1)]);
    // An order that contradicts itself over two links is found by the port that they share.
    let before = transfer(&graph, 2, Producer::Task(1), (0, 1), &[]);
    let needed = transfer(&graph, 1, Producer::Task(0), (0, 2), &[1]);
    let all = vec![before, needed];
    assert!(Transfers::new(&graph, &orders, all.clone(), &machine()).is_ok());
    let refused = Transfers::new(&graph, &orders, all, &cluster()).unwrap_err();
    assert_eq!(refused, TransferError::Circle(0));
}
