//! The rule, event by event.

use std::sync::Arc;

use dahl_core::{Arena, Codelet, Graph, Recorder, Task, UnitKind};

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
    made: Made,
    ends: (u16, u16),
    readers: &[u32],
) -> Transfer {
    let shape = &graph.storages[storage as usize].storage.shape;
    Transfer {
        storage,
        parts: vec![Region::whole(shape)],
        made,
        from: ends.0,
        to: ends.1,
        readers: readers.to_vec(),
    }
}

/// `x` to the first device, `y` by way of the host to the second, `z` back.
fn all(graph: &Graph) -> Vec<Transfer> {
    vec![
        transfer(graph, 0, Made::LastStep(2), (0, 1), &[0]),
        transfer(graph, 1, Made::Task(0), (1, 0), &[]),
        transfer(graph, 1, Made::Task(0), (0, 2), &[1]),
        transfer(graph, 2, Made::Task(1), (2, 0), &[2]),
    ]
}

const ORDERS: [&[u32]; 3] = [&[2], &[0], &[1]];

fn transfers() -> Transfers {
    let graph = graph();
    Transfers::new(&graph, &ORDERS.map(<[u32]>::to_vec), all(&graph)).unwrap()
}

/// Everything that may go now, over any link.
fn going(lines: &mut Lines) -> Vec<(u64, u32)> {
    let links = lines.transfers().links().count();
    let mut all = Vec::new();
    for link in 0..links {
        all.extend(std::iter::from_fn(|| lines.next(link)));
    }
    all
}

#[test]
fn each_goes_when_its_values_are_made() {
    let mut lines = Lines::new(Arc::new(transfers()));
    lines.begin(7);
    assert_eq!(
        going(&mut lines),
        [(7, 0)],
        "nobody is before the first launch"
    );
    assert!(!lines.is_brought(7, 0, 1) && lines.is_under_way(7, 0));
    assert!(lines.is_brought(7, 0, 0), "it is not meant for the host");
    assert!(lines.is_brought(7, 2, 1) && !lines.is_brought(7, 2, 0));
    lines.begin(8);
    assert_eq!(going(&mut lines), [], "launch 7 will write x");
    lines.done(7, 0);
    assert!(lines.is_brought(7, 0, 1) && !lines.is_under_way(7, 0));
    assert!(lines.ended(7, 0) && !lines.ended(7, 0), "once");
    assert_eq!(going(&mut lines), [(7, 1)], "by way of the host");
    assert!(lines.is_under_way(7, 1), "task 1 will read it in the end");
    assert_eq!(lines.transfers().awaited_by(1), [1]);
    lines.done(7, 1);
    assert_eq!(going(&mut lines), [(7, 2)]);
    lines.done(7, 2);
    assert!(lines.ended(7, 1));
    assert_eq!(going(&mut lines), [(7, 3)]);
    lines.done(7, 3);
    assert!(lines.ended(7, 2));
    assert_eq!(lines.backlog().map(|b| b.0).collect::<Vec<_>>(), [8]);
    assert_eq!(going(&mut lines), [(8, 0)]);
}

#[test]
fn what_is_given_up_is_waited_for_by_nobody() {
    let mut lines = Lines::new(Arc::new(transfers()));
    lines.begin(1);
    lines.begin(2);
    lines.give_up(1);
    assert!((0..3).all(|t| lines.is_brought(1, t, 0) && lines.is_brought(1, t, 1)));
    assert_eq!(going(&mut lines), [(2, 0)]);
    lines.give_up(2);
    assert!(
        lines.knows(2) && lines.is_under_way(2, 0),
        "it was under way"
    );
    lines.done(2, 0);
    assert!(!lines.ended(2, 0) && lines.is_brought(2, 0, 1));
    assert_eq!(lines.backlog().count(), 0);
}

#[test]
fn a_link_keeps_the_order_and_lends_itself_to_the_next_launch() {
    let graph = graph();
    let orders = ORDERS.map(<[u32]>::to_vec);
    // First x, which the step before leaves, then z by a task; y is there.
    let first = transfer(&graph, 1, Made::Task(0), (0, 1), &[1]);
    let then = transfer(&graph, 0, Made::Before, (0, 1), &[]);
    let mut lines = Lines::new(Arc::new(
        Transfers::new(&graph, &orders, vec![first, then]).unwrap(),
    ));
    lines.begin(1);
    assert_eq!(going(&mut lines), [], "the second waits for the first");
    assert!(lines.ended(1, 0));
    lines.begin(2);
    assert_eq!(going(&mut lines), [(1, 0), (1, 1)]);
    assert!(lines.ended(2, 0));
    assert_eq!(going(&mut lines), [(2, 0), (2, 1)]);
    // Launch 3 waits for its task: launch 4, whose task has ended, may use the link.
    lines.begin(3);
    lines.begin(4);
    assert!(lines.ended(4, 0));
    assert_eq!(lines.next(0), Some((4, 0)));
    assert!(lines.ended(3, 0));
    assert_eq!(lines.next(0), Some((3, 0)), "the oldest first");
}

#[test]
fn circles_are_found() {
    let graph = graph();
    let orders = ORDERS.map(<[u32]>::to_vec);
    let mut all = all(&graph);
    // What task 1 needs behind what task 2 makes, over one link.
    all.insert(0, transfer(&graph, 0, Made::Task(2), (0, 2), &[]));
    let refused = Transfers::new(&graph, &orders, all).unwrap_err();
    assert_eq!(refused, Wrong::Circle(0));
}
