//! Nodes in one process record, and their traces become one: what is said of messages is true of all of them.

use std::path::Path;
use std::time::Duration;

use dahl_core::trace::Trace;
use dahl_core::{Arena, Executor, Graph, NodeId, ValuesMut};
use dahl_nn::{Step, models};
use dahl_runtime::Runtime;
use dahl_runtime::network::{LinkSpeed, LocalNode, Member, local_cluster};
use dahl_test_support::program::{Dice, Program};
use dahl_trace::network::crossings;
use dahl_tune::{SimulateOptions, load_machine, simulate, simulate_cluster, take_trace};

/// A node that places tasks by chance, alike on all nodes.
fn member(transport: LocalNode, nodes: usize, seed: u64) -> Member {
    let runtime = Runtime::builder()
        .workers(1)
        .pin(false)
        .trace(1 << 12)
        .network(Box::new(transport), Duration::from_secs(600))
        .build()
        .unwrap();
    let mut dice = Dice::new(seed);
    let place = move |graph: &Graph| {
        graph
            .tasks
            .iter()
            .map(|_| dice.below(nodes) as u16)
            .collect()
    };
    Member::new(runtime, Box::new(place)).unwrap()
}

/// Runs a random program a few times on nodes; the trace that the first one gets.
fn traced(nodes: u16, seed: u64, speed: LinkSpeed) -> Trace {
    let program = Program::random(seed, true);
    let node = |transport| {
        let mut member = member(transport, usize::from(nodes), seed);
        member.compare_clocks().unwrap();
        member.runtime_mut().take_trace();
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        for (handle, values) in handles.iter().zip(program.initial()) {
            let mut write = |v: ValuesMut<'_>| {
                (0..v.len()).zip(&values).for_each({
                    let mut v = v;
                    move |(i, x)| v.set(i, *x)
                })
            };
            member.write(handle, &mut write).unwrap();
        }
        for _ in 0..3 {
            member.launch(&graph).unwrap();
        }
        let trace = take_trace(&mut member, |t| {
            t.about.push(("seed".into(), seed.to_string()))
        });
        member.finish().unwrap();
        trace.unwrap()
    };
    let mut all: Vec<Option<Trace>> = std::thread::scope(|scope| {
        let cluster = local_cluster(nodes, speed).into_iter();
        let threads: Vec<_> = cluster.map(|t| scope.spawn(|| node(t))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(
        all[1..].iter().all(Option::is_none),
        "only the first node has it"
    );
    all.remove(0).expect("the first node has it")
}

#[test]
fn messages_are_where_the_clocks_put_them() {
    let slow = LinkSpeed {
        bandwidth: 1e7,
        latency: Duration::from_micros(200),
    };
    for seed in 0..12 {
        let nodes = 2 + (seed % 3) as u16;
        let speed = [LinkSpeed::UNLIMITED, slow][(seed / 3 % 2) as usize];
        let trace = traced(nodes, seed, speed);
        assert_eq!(dahl_trace::check(&trace), Ok(()), "seed {seed}");
        assert_eq!(trace.nodes.len(), usize::from(nodes));
        assert_eq!(trace.dropped, 0);
        let all = crossings(&trace);
        assert_eq!(
            2 * all.len(),
            trace.messages.len(),
            "seed {seed}: ends without another"
        );
        let moved = trace.transfers.iter().map(|t| t.bytes).sum::<u64>();
        assert_eq!(moved, all.iter().map(|c| c.bytes).sum::<u64>());
        for c in &all {
            let [send, receive] = [c.send, c.receive].map(|e| trace.messages[e as usize]);
            let node = |id: dahl_core::trace::TaskId| trace.launches[id.launch as usize].node;
            let off =
                [send.id, receive.id].map(|id| trace.nodes[usize::from(node(id))].uncertainty);
            // It arrives after it was sent, by two clocks that may each be off.
            assert!(
                receive.end + off[0] + off[1] >= send.start,
                "seed {seed}: sent at {}, received at {}, ± {off:?}",
                send.start,
                receive.end
            );
            // Who reads it begins after it has come, by one clock.
            let graph = trace.graph_of(receive.id.launch);
            let readers = graph.successors_of(receive.id.task);
            let read = trace
                .tasks
                .iter()
                .filter(|t| t.id.launch == receive.id.launch && readers.contains(&t.id.task));
            read.for_each(|t| assert!(t.start >= receive.end, "seed {seed}: {t:?}"));
        }
        // Both ends of the file agree, and the summary adds up.
        let s = dahl_trace::Summary::of(&trace);
        let sent: u64 = s.nodes.iter().map(|n| n.sent).sum();
        let received: u64 = s.nodes.iter().map(|n| n.received).sum();
        assert_eq!((sent, received), (all.len() as u64, all.len() as u64));
        for u in &s.units {
            let parts = u.busy_ns + u.transferring_ns + u.waiting_for_data_ns + u.overhead_ns;
            let waits = u.waiting_for_work_ns + u.waiting_for_messages_ns;
            assert_eq!(parts + waits, u.span_ns, "seed {seed}: {u:?}");
        }
    }
}

/// A forecast of a whole cluster keeps to the same rules as a run.
#[test]
fn a_simulated_cluster_is_traced_like_a_run() {
    let machine = load_machine(Path::new("../../machines/four-nodes.toml")).unwrap();
    let model = models::by_name("lenet5").expect("a shipped model");
    let step = Step::new(model).batch(64);
    let options = SimulateOptions {
        steps: 6,
        record: true,
        ..SimulateOptions::default()
    };
    let forecast = simulate_cluster(&step, &machine.clone().into(), None, &options).unwrap();
    let trace = forecast.trace();
    assert_eq!(dahl_trace::check(&trace), Ok(()));
    let all = crossings(&trace);
    assert!(!all.is_empty());
    assert_eq!(2 * all.len(), trace.messages.len());
    let bytes: u64 = forecast.outcome.links.iter().map(|l| l.bytes.0).sum();
    assert_eq!(bytes, all.iter().map(|c| c.bytes).sum::<u64>());
    // One port each way: messages out of a node never overlap.
    for node in 0..machine.nodes.len() as u16 {
        let host = |m: u16| trace.memories[usize::from(m)].node;
        let out = trace.transfers.iter().filter(|t| host(t.from) == node);
        let bytes: u64 = out.map(|t| t.bytes).sum();
        let port = machine.nodes[usize::from(node)].port.unwrap();
        let least = bytes as f64 / port.bandwidth;
        assert!(forecast.outcome.makespan.0 >= least, "node {node}");
    }
    let tasks: usize = forecast
        .parts
        .iter()
        .map(|(p, _)| p.graph.len() - p.graph.messages.len())
        .sum();
    assert_eq!(trace.tasks.len(), 6 * tasks);
    assert!(forecast.step_seconds().0 > 0.0);
}

/// A node that has everything takes what it takes alone, and sends its results.
#[test]
fn a_node_with_the_whole_batch_is_a_computer_alone() {
    let machine = load_machine(Path::new("../../machines/four-nodes.toml")).unwrap();
    let step = Step::new(models::by_name("lenet5").expect("a shipped model")).batch(32);
    let options = SimulateOptions {
        steps: 4,
        ..SimulateOptions::default()
    };
    let shares = [0.0, 1.0, 0.0, 0.0];
    let all = simulate_cluster(&step, &machine.clone().into(), Some(&shares), &options).unwrap();
    let alone = simulate(&step, &machine.of_node(NodeId(1)).into(), &options).unwrap();
    // It is the same graph, and so the same simulation.
    assert_eq!(all.outcome.makespan, alone.outcome.makespan);
    // Losses and counts go to all others, and nothing else.
    let io = step.lower().unwrap().io;
    let results = 4 * (io.losses.shape.len() + io.correct.shape.len()) as u64;
    let mut sent: Vec<u64> = all.outcome.links.iter().map(|l| l.bytes.0).collect();
    sent.retain(|b| *b > 0);
    assert_eq!(sent, [4 * results; 3]);
    let wrong = simulate_cluster(&step, &machine.into(), Some(&shares[..2]), &options);
    let error = wrong.err().unwrap().to_string();
    assert!(error.contains("shares for 2 of 4 nodes"), "{error}");
}
