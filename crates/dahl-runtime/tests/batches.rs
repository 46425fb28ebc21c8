//! Small copies of different arrays that one task needs travel as one batch: by cost, with the same bits,
//! visible in the trace, and failing as if each were alone. On devices made of host memory.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::frail::{self, Fate, Fault};
use common::watched::{self, Notes};
use dahl_core::trace::{Trace, Transfer};
use dahl_core::{Arena, Bytes, Codelet, Graph, Mode, Recorder, Task, UnitKind, Vector};
use dahl_runtime::memory::Direction;
use dahl_runtime::{DeviceSpec, HostDeviceSpec, RunError, Runtime, Schedule};

/// Before the first byte: long, so that a start more or less is seen in the times.
const LATENCY: Duration = Duration::from_millis(20);
const BANDWIDTH: f64 = 1e7;
/// Elements of an array that takes a twentieth of the latency on its way, and of one that takes twice
/// that.
const SMALL: usize = 2_500;
const LARGE: usize = 100_000;

/// The same as [`link`], with notes of what it copies.
fn watched(notes: &Arc<Notes>) -> DeviceSpec {
    watched::device(notes, 1 << 22, BANDWIDTH, LATENCY)
}

fn link() -> HostDeviceSpec {
    HostDeviceSpec {
        units: 1,
        capacity: Bytes(1 << 22),
        bandwidth: BANDWIDTH,
        latency: LATENCY,
    }
}

/// The last operand becomes the sum of the first elements of the others, after what is to be waited for.
fn sum(wait: impl Fn() + Send + Sync + 'static) -> Arc<Codelet> {
    let sum = Codelet::new("sum").implement("reference", UnitKind::CPU, move |ops| {
        let last = ops.len() - 1;
        let total = (0..last).map(|i| ops.read::<f32>(i).row([0, 0, 0])[0]);
        ops.write::<f32>(last).fill(total.sum());
        wait();
        Ok(())
    });
    Arc::new(sum)
}

/// `to` becomes the sum of the others.
fn submit(recorder: &Recorder, from: &[&Vector<'_, f32>], to: &Vector<'_, f32>) {
    submit_after(recorder, from, to, || ());
}

fn submit_after(
    recorder: &Recorder,
    from: &[&Vector<'_, f32>],
    to: &Vector<'_, f32>,
    wait: impl Fn() + Send + Sync + 'static,
) {
    let reads = from.iter().map(|x| x.handle().with(Mode::Read));
    let all: Vec<_> = reads.chain([to.handle().with(Mode::Write)]).collect();
    recorder.submit(Task::new(&sum(wait), &all));
}

/// Arrays of these sizes, filled with 1, 2, 4…
fn arrays<'a>(arena: &'a Arena, sizes: &[usize]) -> Vec<Vector<'a, f32>> {
    let sizes = sizes.iter().enumerate();
    let full = |(i, &n): (usize, &usize)| arena.full([n], (1 << i) as f32).unwrap();
    sizes.map(full).collect()
}

fn builder(workers: usize) -> dahl_runtime::Builder {
    let builder = Runtime::builder().workers(workers).policy("eager");
    let builder = builder.pin(false).main_works(false).trace(1 << 12);
    builder.watchdog(Duration::from_secs(30))
}

/// Tasks in their order on units: the CPU, then devices.
fn planned(graph: &Graph, order: &[&[u32]]) -> dahl_runtime::Builder {
    builder(1).schedule(Schedule {
        graph: graph.fingerprint(),
        transfers: Vec::new(),
        order: order.iter().map(|l| l.to_vec()).collect(),
    })
}

fn batches(trace: &Trace, way: (u16, u16)) -> Vec<u32> {
    let there = |t: &&Transfer| (t.from, t.to) == way;
    trace
        .transfers
        .iter()
        .filter(there)
        .map(|t| t.batch)
        .collect()
}

/// A task on the device alone that reads arrays of these sizes: the trace of it, and how often the link was
/// started.
fn read_by_one_task(sizes: &[usize]) -> (Trace, u64) {
    let arena = Arena::new();
    let from = arrays(&arena, sizes);
    let to = arena.zeros::<f32, 1>([1]).unwrap();
    let recorder = Recorder::new();
    submit(&recorder, &from.iter().collect::<Vec<_>>(), &to);
    let graph = recorder.finish().unwrap();
    let mut runtime = builder(0).host_device(link()).build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    let (traffic, trace) = (runtime.traffic(), runtime.take_trace().unwrap());
    assert_eq!(traffic.copies, sizes.len() as u64);
    let bytes: usize = sizes.iter().sum::<usize>() * 4;
    assert_eq!(traffic.bytes_in, bytes as u64);
    let want = (1 << sizes.len()) as f32 - 1.0;
    assert_eq!(runtime.read(&to).unwrap()[..], [want]);
    (trace, traffic.batches)
}

#[test]
fn small_operands_of_a_task_pay_the_latency_once() {
    let (trace, started) = read_by_one_task(&[SMALL; 6]);
    assert_eq!(started, 1, "six copies, one start");
    assert_eq!(batches(&trace, (0, 1)), [6; 6]);
    // In the trace they follow each other, and their times add up to that of the batch.
    let all = &trace.transfers;
    assert!(all.windows(2).all(|t| t[0].end == t[1].start), "{all:?}");
    let total: u64 = all.iter().map(|t| t.end - t.start).sum();
    let span = all[5].end - all[0].start;
    let alone = 6.0 * (LATENCY.as_secs_f64() + SMALL as f64 * 4.0 / BANDWIDTH);
    let together = alone - 5.0 * LATENCY.as_secs_f64();
    let took = total as f64 / 1e9;
    assert_eq!(total, span);
    assert!(
        took >= 0.999 * together,
        "{took} s; {together} s at least, {alone} s one by one"
    );
    assert!(all[0].end - all[0].start > 10 * (all[1].end - all[1].start));
}

#[test]
fn large_operands_travel_alone_and_small_ones_beside_them_together() {
    let (trace, started) = read_by_one_task(&[LARGE; 2]);
    assert_eq!((started, batches(&trace, (0, 1))), (2, vec![1, 1]));
    let (trace, started) = read_by_one_task(&[SMALL, LARGE, SMALL]);
    assert_eq!((started, batches(&trace, (0, 1))), (2, vec![2, 2, 1]));
    let (_, started) = read_by_one_task(&[SMALL]);
    assert_eq!(started, 1);
}

/// Three arrays made on the device are read by a task in the host, and three by one on another device.
#[test]
fn values_come_home_and_go_to_another_device_in_batches() {
    let arena = Arena::new();
    let from = arrays(&arena, &[SMALL]);
    let made = arrays(&arena, &[SMALL; 3]);
    let to = arena.zeros::<f32, 1>([1]).unwrap();
    let recorder = Recorder::new();
    made.iter().for_each(|m| submit(&recorder, &[&from[0]], m));
    submit(&recorder, &made.iter().collect::<Vec<_>>(), &to);
    let graph = recorder.finish().unwrap();
    let home = planned(&graph, &[&[3], &[0, 1, 2]]).host_device(link());
    let mut runtime = home.build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    assert_eq!(runtime.read(&to).unwrap()[..], [3.0]);
    assert_eq!(runtime.traffic().batches, 2, "in, and home");
    assert_eq!(batches(&runtime.take_trace().unwrap(), (1, 0)), [3; 3]);

    let there = planned(&graph, &[&[], &[0, 1, 2], &[3]]);
    let there = there.host_device(link()).host_device(link());
    let mut runtime = there.build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    assert_eq!(runtime.traffic().batches, 3, "in, home, and in again");
    let trace = runtime.take_trace().unwrap();
    assert_eq!(batches(&trace, (1, 0)), [3; 3]);
    assert_eq!(batches(&trace, (0, 2)), [3; 3]);
    assert_eq!(runtime.read(&to).unwrap()[..], [3.0]);
}

#[test]
fn operands_fetched_ahead_travel_together() {
    let arena = Arena::new();
    let (first, next) = (arrays(&arena, &[SMALL]), arrays(&arena, &[SMALL; 3]));
    let to = arrays(&arena, &[1, 1]);
    let recorder = Recorder::new();
    let notes = Arc::new(Notes::default());
    let seen = notes.clone();
    // The others' operands arrive meanwhile.
    submit_after(&recorder, &[&first[0]], &to[0], move || {
        seen.wait(Direction::In, 4);
    });
    submit(&recorder, &next.iter().collect::<Vec<_>>(), &to[1]);
    let graph = recorder.finish().unwrap();
    let mut runtime = builder(0).device(watched(&notes)).build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    let (t, trace) = (runtime.traffic(), runtime.take_trace().unwrap());
    assert_eq!((t.copies, t.batches), (4, 2));
    assert_eq!(t.bytes_prefetched, 3 * 4 * SMALL as u64);
    let ahead: Vec<_> = trace.transfers.iter().map(|t| (t.ahead, t.batch)).collect();
    assert_eq!(ahead, [(false, 1), (true, 3), (true, 3), (true, 3)]);
    assert_eq!(runtime.read(&to[1]).unwrap()[..], [7.0]);
}

/// What only the device knows when the runtime goes is brought home at once.
#[test]
fn a_runtime_that_goes_brings_everything_home_in_one_batch() {
    let arena = Arena::new();
    let (from, made) = (arrays(&arena, &[SMALL]), arrays(&arena, &[SMALL; 4]));
    let recorder = Recorder::new();
    made.iter().for_each(|m| submit(&recorder, &[&from[0]], m));
    let graph = recorder.finish().unwrap();
    let notes = Arc::new(Notes::default());
    let mut runtime = builder(0).device(watched(&notes)).build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    drop(runtime);
    assert_eq!(notes.all(), [(Direction::In, 1), (Direction::Out, 4)]);
    let after = Runtime::builder().workers(1).pin(false).build().unwrap();
    for m in &made {
        assert!(after.read(m).unwrap().iter().all(|&v| v == 1.0));
    }
}

/// A device fails at one of the operands that travel to it together: the task runs elsewhere, and nothing
/// that reached the device counts.
#[test]
fn a_batch_that_fails_on_its_way_in_is_as_if_not_sent() {
    for after in 0..4 {
        let arena = Arena::new();
        let from = arrays(&arena, &[8; 4]);
        let to = arena.zeros::<f32, 1>([1]).unwrap();
        let recorder = Recorder::new();
        submit(&recorder, &from.iter().collect::<Vec<_>>(), &to);
        let graph = recorder.finish().unwrap();
        let fate = Fate::new(Fault::Copy, after);
        let device = frail::device("frail", &fate, 1 << 20, Duration::from_micros(50));
        let mut runtime = builder(0).device(device).build().unwrap();
        runtime.launch(&graph).unwrap();
        runtime.wait().unwrap();
        assert_eq!(runtime.read(&to).unwrap()[..], [15.0], "after {after}");
        for (i, x) in from.iter().enumerate() {
            let want = (1 << i) as f32;
            assert!(runtime.read(x).unwrap().iter().all(|&v| v == want));
        }
        let t = runtime.traffic();
        assert_eq!((t.copies, t.batches), (after as u64, 1), "after {after}");
        assert_eq!((t.elsewhere, runtime.lost_devices().len()), (1, 1));
        assert_eq!(runtime.memory_usage(dahl_core::MemoryId(1)).0.0, 0);
    }
}

/// A device fails while it sends several arrays home: those before are saved, those after are gone with it.
#[test]
fn a_batch_that_fails_on_its_way_home_keeps_what_has_arrived() {
    for saved in 0..3 {
        let arena = Arena::new();
        let from = arrays(&arena, &[8]);
        let made = arrays(&arena, &[8; 3]);
        let to = arena.zeros::<f32, 1>([1]).unwrap();
        let recorder = Recorder::new();
        made.iter().for_each(|m| submit(&recorder, &[&from[0]], m));
        submit(&recorder, &made.iter().collect::<Vec<_>>(), &to);
        let graph = recorder.finish().unwrap();
        let fate = Fate::new(Fault::Copy, 1 + saved);
        let device = frail::device("frail", &fate, 1 << 20, Duration::from_micros(50));
        let builder = planned(&graph, &[&[3], &[0, 1, 2]]).device(device);
        let mut runtime = builder.build().unwrap();
        runtime.launch(&graph).unwrap();
        let error = runtime.wait().unwrap_err();
        assert!(matches!(error, RunError::Lost { .. }), "{error}");
        assert!(
            error.to_string().contains("frail: Copy, as told"),
            "{error}"
        );
        for (i, m) in made.iter().enumerate() {
            let read = runtime.read(m).map(|values| values.to_vec());
            match i < saved as usize {
                true => assert_eq!(read.unwrap(), [1.0; 8], "array {i} of {saved}"),
                false => assert!(matches!(read, Err(RunError::Lost { .. })), "array {i}"),
            }
        }
        assert_eq!(runtime.traffic().batches, 2, "in, and the one that failed");
    }
}
