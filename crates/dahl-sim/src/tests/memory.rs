//! Transfers, links and limited memories, computed by hand. Links move a byte per second.

use dahl_core::{Mode, NodeId};

use dahl_sched::policy::Fixed;

use super::super::SimError;
use super::*;

/// All tasks on the last unit, in order.
fn on_device(graph: &Graph, machine: &Machine) -> Result<Prediction, SimError> {
    let mut order = vec![Vec::new(); machine.units.len()];
    order[machine.units.len() - 1] = (0..graph.len() as u32).collect();
    fixed(graph, machine, order)
}

/// Every unit's tasks in this order.
pub(super) fn fixed(
    graph: &Graph,
    machine: &Machine,
    order: Vec<Vec<u32>>,
) -> Result<Prediction, SimError> {
    let options = Options {
        record: true,
        ..Options::default()
    };
    let policy = Fixed::new(graph.len(), order).unwrap();
    simulate(graph, machine, &times(graph, machine), &policy, &options)
}

#[test]
fn data_travels_once_and_results_come_back_when_needed() {
    let arena = Arena::new();
    let (a, b) = (array(&arena, "a", 8), array(&arena, "b", 4));
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::Read), b.with(Mode::Write)]);
    task(&r, 1, &[a.with(Mode::Read), b.with(Mode::ReadWrite)]);
    task(&r, 1, &[b.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    let machine = with_device(100);
    // Two on the device: a in (8 s), 1 s, 1 s. Then b out (4 s) and 1 s on the CPU.
    let prediction = fixed(&graph, &machine, vec![vec![2], vec![0, 1]]).unwrap();
    assert_eq!(
        when(&prediction),
        [(1, 8.0, 9.0), (1, 9.0, 10.0), (0, 14.0, 15.0)]
    );
    assert_eq!(prediction.links[0].bytes, Bytes(8));
    assert_eq!(prediction.links[1].bytes, Bytes(4));
    assert_eq!(prediction.memories[1].peak, Bytes(12));
    assert_eq!(prediction.units[1].waited, Seconds(8.0));
    assert_eq!(prediction.units[0].waited, Seconds(4.0));
    assert_eq!(prediction.units[1].busy, Seconds(2.0));
}

#[test]
fn the_next_task_fetches_while_one_runs() {
    let arena = Arena::new();
    let (a, b) = (array(&arena, "a", 4), array(&arena, "b", 4));
    let r = Recorder::new();
    task(&r, 10, &[a.with(Mode::ReadWrite)]);
    task(&r, 10, &[b.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    let prediction = on_device(&graph, &device_only(100)).unwrap();
    assert_eq!(when(&prediction), [(0, 4.0, 14.0), (0, 14.0, 24.0)]);
    let ahead: Vec<(bool, f64)> = prediction
        .transfers
        .iter()
        .map(|t| (t.ahead, t.start.0))
        .collect();
    assert_eq!(ahead, [(false, 0.0), (true, 4.0)]);
}

/// Two devices that share one link from the host, as two units of one memory.
#[test]
fn transfers_stand_in_line_for_a_link() {
    let arena = Arena::new();
    let (a, b) = (array(&arena, "a", 4), array(&arena, "b", 4));
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::Read)]);
    task(&r, 1, &[b.with(Mode::Read)]);
    let graph = r.finish().unwrap();
    let mut machine = device_only(100);
    let second = Unit::new("gpu:1", UnitKind::GPU, MemoryId(1));
    machine.units.push(second);
    let order = vec![vec![0], vec![1]];
    let prediction = fixed(&graph, &machine, order.clone()).unwrap();
    assert_eq!(when(&prediction), [(0, 4.0, 5.0), (1, 8.0, 9.0)]);
    assert_eq!(prediction.links[0].busy, Seconds(8.0));
    machine.links[0].at_once = 2;
    let prediction = fixed(&graph, &machine, order).unwrap();
    assert_eq!(when(&prediction), [(0, 4.0, 5.0), (1, 4.0, 5.0)]);
}

#[test]
fn two_units_that_want_the_same_data_wait_for_one_transfer() {
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::Read)]);
    task(&r, 1, &[a.with(Mode::Read)]);
    let graph = r.finish().unwrap();
    let mut machine = device_only(100);
    machine
        .units
        .push(Unit::new("gpu:1", UnitKind::GPU, MemoryId(1)));
    let prediction = fixed(&graph, &machine, vec![vec![0], vec![1]]).unwrap();
    assert_eq!(prediction.links[0].transfers, 1);
    assert_eq!(prediction.makespan, Seconds(5.0));
}

#[test]
fn a_full_memory_gives_up_what_was_needed_longest_ago() {
    let arena = Arena::new();
    let (a, b, c) = (
        array(&arena, "a", 8),
        array(&arena, "b", 8),
        array(&arena, "c", 8),
    );
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::ReadWrite)]);
    task(&r, 1, &[b.with(Mode::Read)]);
    task(&r, 1, &[c.with(Mode::Read)]);
    task(&r, 1, &[a.with(Mode::Read)]);
    let graph = r.finish().unwrap();
    // Room for two: c throws out a, which was changed and is written back first.
    let prediction = on_device(&graph, &device_only(16)).unwrap();
    let runs = when(&prediction);
    assert_eq!(runs[0], (0, 8.0, 9.0));
    // b is fetched ahead from 8 to 16.
    assert_eq!(runs[1], (0, 16.0, 17.0));
    // c does not fit beside a and b, so it is not fetched ahead: a goes out until 25, c comes until 33.
    assert_eq!(runs[2], (0, 33.0, 34.0));
    // a comes again, in b's place, which was not changed.
    assert_eq!(runs[3], (0, 42.0, 43.0));
    assert_eq!(prediction.memories[1].peak, Bytes(16));
    assert_eq!(prediction.memories[1].evictions, 2);
    assert_eq!(prediction.links[1].bytes, Bytes(8));
    assert_eq!(prediction.links[0].bytes, Bytes(32));
}

#[test]
fn what_never_fits_is_an_error() {
    let arena = Arena::new();
    let (a, b) = (array(&arena, "a", 8), array(&arena, "b", 8));
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::Read), b.with(Mode::Write)]);
    let graph = r.finish().unwrap();
    let error = on_device(&graph, &device_only(15)).unwrap_err().to_string();
    assert_eq!(
        error,
        "task 0, any(a[0..2], b[0..2]): needs 16 B in memory \"device\", which has 15 B"
    );
    let mut machine = Machine::cpus(1);
    machine.memories[0].capacity = Some(Bytes(15));
    let error = on_device(&graph, &machine).unwrap_err().to_string();
    assert!(
        error.ends_with("needs 16 B in memory \"host\", which has 15 B"),
        "{error}"
    );
}

#[test]
fn temporaries_leave_devices_after_their_last_use() {
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    let t = r.temporary_handle("t", &[2], DType::F32);
    let u = r.temporary_handle("u", &[2], DType::F32);
    task(&r, 1, &[t.with(Mode::Write)]);
    task(&r, 1, &[t.with(Mode::Read), u.with(Mode::Write)]);
    task(&r, 1, &[u.with(Mode::Read), a.with(Mode::Write)]);
    let graph = r.finish().unwrap();
    let prediction = on_device(&graph, &device_only(100)).unwrap();
    // Nothing is brought in, for nothing is read that was not made there.
    assert_eq!(prediction.makespan, Seconds(3.0));
    assert_eq!(prediction.links.iter().map(|l| l.transfers).sum::<u64>(), 0);
    assert_eq!(prediction.memories[1].peak, Bytes(16));
    assert_eq!(
        prediction.memories[1].curve.last(),
        Some(&(Seconds(3.0), Bytes(4)))
    );
}

#[test]
fn parts_travel_alone() {
    let arena = Arena::new();
    let a = array(&arena, "a", 16);
    let part = |lo, hi| a.part(&dahl_core::Region::new([0, 0, 0, lo], [1, 1, 1, hi]).unwrap());
    let (left, right) = (part(0, 1), part(1, 4));
    let r = Recorder::new();
    task(&r, 1, &[left.with(Mode::ReadWrite)]);
    task(&r, 1, &[right.with(Mode::ReadWrite)]);
    task(&r, 1, &[a.with(Mode::Read)]);
    let graph = r.finish().unwrap();
    // The left part (4 bytes) on the device, the right one on the CPU; then the whole on the CPU.
    let prediction = fixed(&graph, &with_device(100), vec![vec![1, 2], vec![0]]).unwrap();
    assert_eq!(
        when(&prediction),
        [(1, 4.0, 5.0), (0, 0.0, 1.0), (0, 9.0, 10.0)]
    );
    assert_eq!(prediction.links[0].bytes, Bytes(4));
    assert_eq!(prediction.links[1].bytes, Bytes(4));
}

#[test]
fn data_goes_from_node_to_node_by_way_of_the_hosts() {
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    let mut machine = device_only(100);
    machine.nodes.push(dahl_core::Node::new("far"));
    machine.memories[1].node = NodeId(1);
    // host - far host - far device
    machine.memories.push(Memory {
        node: NodeId(1),
        ..Memory::new("card", None)
    });
    machine.units[0].memory = MemoryId(2);
    for (from, to) in [(1, 2), (2, 1)] {
        let link = Link::new(MemoryId(from), MemoryId(to), 2.0, Seconds(1.0));
        machine.links.push(link);
    }
    let prediction = on_device(&graph, &machine).unwrap();
    // 4 s over the network, then 1 + 2 s to the card.
    assert_eq!(when(&prediction), [(0, 7.0, 8.0)]);
    machine.links.remove(0);
    let error = on_device(&graph, &machine).unwrap_err().to_string();
    assert!(
        error.starts_with("no link leads from memory \"host\" to \"card\""),
        "{error}"
    );
}

#[test]
fn dmda_minds_where_data_is() {
    let arena = Arena::new();
    let a = array(&arena, "a", 400);
    let r = Recorder::new();
    for _ in 0..3 {
        task(&r, 8, &[a.with(Mode::ReadWrite)]);
    }
    let graph = r.finish().unwrap();
    let mut machine = with_device(1000);
    machine.units[1].rated = Some(dahl_core::Rated {
        flops: 4.0,
        flops_f64: 4.0,
        bandwidth: 1.0,
    });
    // Four times as fast on the device, and 400 s to get there.
    assert_eq!(run(&graph, &machine, "dmda", 1).makespan, Seconds(24.0));
    assert_eq!(run(&graph, &machine, "dm", 1).makespan, Seconds(406.0));
}

#[test]
fn what_the_host_writes_before_each_launch_travels_again() {
    let arena = Arena::new();
    let (batch, weights) = (array(&arena, "batch", 8), array(&arena, "weights", 4));
    let r = Recorder::new();
    task(
        &r,
        1,
        &[batch.with(Mode::Read), weights.with(Mode::ReadWrite)],
    );
    let graph = r.finish().unwrap();
    let machine = device_only(100);
    let bytes = |new_inputs_each_step: bool| {
        let options = Options {
            steps: 3,
            in_flight: 1,
            new_inputs_each_step,
            ..Options::default()
        };
        run_with(&graph, &machine, "eager", &options).links[0].bytes
    };
    assert_eq!(bytes(false), Bytes(8 + 4));
    assert_eq!(bytes(true), Bytes(3 * 8 + 4));
}
