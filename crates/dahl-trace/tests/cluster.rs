//! Traces of several nodes: merged with their clocks aligned, summed up, exported, shown.

mod common;

use common::{chain, graph, run};
use dahl_core::trace::{Alignment, MessageRun, NOBODY, TaskId, Trace, TraceMessage};
use dahl_trace::network::{crossings, joined};
use dahl_trace::{Index, Summary, check, export, merge, view};

/// What one node records, by a clock of its own: times are told by the first node's.
struct Node {
    /// What the first node's clock shows more.
    offset: i64,
    trace: Trace,
}

impl Node {
    /// A node that runs tasks and messages of a chain: `(task, start, end)` for tasks, and for messages
    /// `(task, sends, peer, start, end)`, all of transfer 0.
    fn new(offset: i64, tasks: &[(u32, u64, u64)], message: (u32, bool, u16, u64, u64)) -> Node {
        let own = |at: u64| (at as i64 - offset) as u64;
        let mut trace = chain(3, 1);
        let (task, sends, peer, start, end) = message;
        // Nobody waits for what is sent; for what comes the last task does.
        let last = if sends { 0 } else { 1 };
        trace.graphs = vec![graph(3, &[(0, 1), (last, 2)])];
        trace.graphs[0].messages = vec![TraceMessage {
            task,
            transfer: 0,
            peer,
            sends,
            bytes: 4000,
        }];
        trace.launches[0].at = own(5000);
        trace.messages = vec![MessageRun {
            id: TaskId { launch: 0, task },
            start: own(start),
            end: own(end),
        }];
        let ends = tasks.iter().map(|t| (t.0, t.2)).chain([(task, end)]);
        let ends: Vec<(u32, u64)> = ends.collect();
        for &(task, start, end) in tasks {
            let by = (task > 0).then_some(last);
            let ready = by.and_then(|by| ends.iter().find(|e| e.0 == by));
            let ready = own(ready.map_or(5000, |e| e.1));
            let times = [ready, own(start), own(start), own(end)];
            trace
                .tasks
                .push(run(0, task, by.unwrap_or(NOBODY), 0, times));
        }
        trace.end = own(9000);
        Node { offset, trace }
    }

    fn aligned(self, name: &str) -> (String, Alignment, Trace) {
        let alignment = Alignment {
            at: [0.0, 1000.0],
            offset: [self.offset as f64; 2],
            uncertainty: 7,
        };
        (name.into(), alignment, self.trace)
    }
}

/// Node a computes and sends; node b waits for it, then computes for long.
fn two_nodes() -> Trace {
    let first = Node::new(
        0,
        &[(0, 5010, 5500), (2, 5600, 5700)],
        (1, true, 1, 5500, 5900),
    );
    let second = Node::new(
        -90_000,
        &[(0, 5010, 5100), (2, 5900, 6900)],
        (1, false, 0, 5100, 5880),
    );
    merge(vec![first.aligned("a"), second.aligned("b")])
}

#[test]
fn times_of_all_nodes_are_those_of_the_first() {
    let trace = two_nodes();
    assert_eq!(check(&trace), Ok(()));
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(names(trace.nodes.iter().map(|n| &n.name).collect()), "a b");
    assert_eq!(
        names(trace.units.iter().map(|u| &u.name).collect()),
        "a/u0 b/u0"
    );
    assert_eq!(trace.nodes[1].uncertainty, 7);
    let starts: Vec<(u16, u64)> = trace.tasks.iter().map(|t| (t.unit, t.start)).collect();
    assert_eq!(starts, [(0, 5010), (1, 5010), (0, 5600), (1, 5900)]);
    let launches: Vec<(u64, u16)> = trace.launches.iter().map(|l| (l.step, l.node)).collect();
    assert_eq!(launches, [(1, 0), (1, 1)]);
    // What is the same number on two nodes is not the same data.
    let data = |node: usize| trace.graphs[node].storages[0].data;
    assert_ne!(data(0), data(1));
}

#[test]
fn every_send_finds_its_receive_and_becomes_a_transfer() {
    let trace = two_nodes();
    let all = crossings(&trace);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].start, all[0].end, all[0].bytes), (5500, 5880, 4000));
    let t = &trace.transfers[..];
    assert_eq!(t.len(), 1);
    assert_eq!((t[0].from, t[0].to, t[0].bytes), (0, 1, 4000));
    // Task 0 of a made what task 2 of b read.
    let index = Index::of(&trace);
    let ran = |r: u32| {
        (
            trace.tasks[r as usize].unit,
            trace.tasks[r as usize].id.task,
        )
    };
    let joined: Vec<_> = joined(&trace, &index)
        .into_iter()
        .map(|(a, b)| (ran(a), ran(b)))
        .collect();
    assert_eq!(joined, [((0, 0), (1, 2))]);
}

#[test]
fn nodes_that_began_earlier_begin_at_nothing() {
    let early = Node::new(-3000, &[(0, 5010, 5100)], (1, false, 0, 5100, 5880)).aligned("a");
    let late = (
        early.0.clone(),
        Alignment {
            offset: [-9000.0; 2],
            ..early.1
        },
        early.2.clone(),
    );
    let trace = merge(vec![early, late]);
    assert_eq!(check(&trace), Ok(()));
    // The same name twice gets the numbers of the nodes.
    assert_eq!(trace.units[1].name, "a.1/u0");
    let first = |node: u16| trace.launches.iter().find(|l| l.node == node).map(|l| l.at);
    assert_eq!((first(1), first(0)), (Some(0), Some(6000)));
}

#[test]
fn waiting_for_messages_is_a_cause_of_its_own() {
    let s = Summary::of(&two_nodes());
    let b = &s.units[1];
    assert_eq!(b.waiting_for_messages_ns, 5880 - 5100);
    assert_eq!(b.overhead_ns, 10 + 20);
    let sum = b.busy_ns + b.overhead_ns + b.waiting_for_messages_ns + b.waiting_for_work_ns;
    assert_eq!(sum, b.span_ns);
    assert_eq!(s.units[0].waiting_for_messages_ns, 0);
    assert!(
        s.gaps
            .iter()
            .any(|g| g.says.ends_with("waited for a message from a")),
        "{:?}",
        s.gaps
    );
    assert_eq!(s.launches, 1);
    let b = &s.nodes[1];
    assert_eq!((b.received, b.received_bytes, b.sent), (1, 4000, 0));
    assert_eq!((b.network_ns, b.hidden, b.uncertainty_ns), (380, 0.0, 7));
    // Work of a, the message, work of b.
    let path = &s.critical_path;
    assert_eq!(
        (path.length_ns, path.messages, path.network_ns),
        (490 + 380 + 1000, 1, 380)
    );
    assert_eq!(path.tasks, 2);
}

#[test]
fn a_run_that_mostly_waits_for_messages_says_so() {
    let first = Node::new(
        0,
        &[(0, 5010, 5020), (2, 5600, 5700)],
        (1, true, 1, 5020, 8900),
    );
    let second = Node::new(
        0,
        &[(0, 5010, 5100), (2, 8900, 8950)],
        (1, false, 0, 5100, 8880),
    );
    let s = Summary::of(&merge(vec![first.aligned("a"), second.aligned("b")]));
    // Node a has nothing to do after its last task: that is no message's fault.
    assert_eq!(s.units[1].waiting_for_messages_ns, 8880 - 5100);
    assert!(s.bound.messages_ns > s.bound.overhead_ns);
}

#[test]
fn files_keep_nodes_and_messages() {
    let trace = two_nodes();
    let mut bytes = Vec::new();
    dahl_trace::write(&trace, &mut bytes).unwrap();
    assert_eq!(dahl_trace::read(&bytes).unwrap(), trace);
}

#[test]
fn exports_and_the_page_have_nodes_and_messages() {
    let trace = two_nodes();
    let text = |write: fn(&Trace, &mut Vec<u8>) -> std::io::Result<()>| {
        let mut out = Vec::new();
        write(&trace, &mut out).unwrap();
        String::from_utf8_lossy(&out).into_owned()
    };
    let paje = text(|t, out| export::paje::write(t, out));
    for line in [
        "0 N P \"Node\"",
        "n1 N p \"b\"",
        "u1 U n1 \"b/u0\"",
        "10 0.000005500 X p copy m0 x0",
        "T u1 wait",
    ] {
        assert!(paje.contains(line), "{line}: {paje}");
    }
    let csv = text(|t, out| export::csv::write(t, out));
    assert!(csv.contains("message,1,"), "{csv}");
    let perfetto = text(|t, out| export::perfetto::write(t, out));
    for part in ["waiting for messages", "a/host → b/host", "message"] {
        assert!(perfetto.contains(part), "{part}");
    }
    let page = text(|t, out| view::write(t, out));
    assert!(page.contains("\"uncertainty_ns\":7") && page.contains("block-messages"));
}

#[test]
fn broken_messages_are_found() {
    type Break = fn(&mut Trace);
    let cases: [(&str, Break); 5] = [
        ("messages[0]: task 0 of its graph is no message", |t| {
            t.messages[0].id.task = 0
        }),
        ("messages[0]: start", |t| t.messages[0].end = 0),
        ("launches[1]: node 2", |t| t.launches[1].node = 2),
        ("memories[1] (b/host): node 5", |t| t.memories[1].node = 5),
        ("graphs[0]: messages[0]: task 9", |t| {
            t.graphs[0].messages[0].task = 9
        }),
    ];
    for (says, spoil) in cases {
        let mut trace = two_nodes();
        spoil(&mut trace);
        let problem = check(&trace).expect_err(says);
        assert!(problem.contains(says), "{says}: {problem}");
    }
}
