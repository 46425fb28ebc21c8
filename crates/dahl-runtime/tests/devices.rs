//! Memories other than the host's, proved with devices made of host memory: separate allocations,
//! explicit copies, a bandwidth and a capacity.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::known::known;
use common::{POLICIES, check};
use dahl_core::{Arena, Bytes, Codelet, Graph, MemoryId, Recorder, Task, UnitKind};
use dahl_runtime::{HostDeviceSpec, RunError, Runtime};
use dahl_test_support::program::Program;
use dahl_test_support::scaled;

fn fast(units: usize, capacity: u64) -> HostDeviceSpec {
    HostDeviceSpec {
        units,
        capacity: Bytes(capacity),
        bandwidth: 1e12,
        latency: Duration::ZERO,
    }
}

fn build(workers: usize, policy: &str, devices: &[HostDeviceSpec]) -> Runtime {
    let builder = Runtime::builder()
        .workers(workers)
        .policy(policy)
        .pin(false);
    let builder = builder.watchdog(Duration::from_secs(30));
    devices
        .iter()
        .fold(builder, |b, d| b.host_device(d.clone()))
        .build()
        .unwrap()
}

/// Bytes of the largest task's operands: the least a device must hold.
fn least(graph: &Graph) -> u64 {
    let need = |task: u32| {
        let storages = graph
            .accesses_of(task)
            .iter()
            .map(|a| graph.arrays[a.array as usize].storage);
        let distinct: std::collections::BTreeSet<u32> = storages.collect();
        distinct
            .iter()
            .map(|&s| graph.storages[s as usize].storage.bytes() as u64)
            .sum::<u64>()
    };
    (0..graph.len() as u32).map(need).max().unwrap_or(0)
}

#[test]
fn random_programs_mean_the_same_on_devices() {
    let layouts: &[(usize, &[usize])] =
        &[(0, &[1]), (1, &[1]), (2, &[2]), (0, &[1, 1]), (2, &[2, 1])];
    for &(workers, units) in layouts {
        let devices: Vec<_> = units.iter().map(|&u| fast(u, 1 << 20)).collect();
        let mut runtimes = POLICIES.map(|p| (p, build(workers, p, &devices)));
        for seed in 0..scaled(400) {
            let program = Program::random(seed, seed % 2 == 0);
            let arena = Arena::new();
            let (graph, handles) = program.record(&arena);
            for (policy, runtime) in &mut runtimes {
                let what = format!("{policy}, {workers} workers, devices {units:?}, seed {seed}");
                check(
                    &program,
                    &graph,
                    &handles,
                    runtime,
                    1 + (seed % 3) as usize,
                    &what,
                );
                // Everything is in the host now, but a runtime that could still write it back keeps it.
                runtime.wait().unwrap();
            }
        }
    }
}

#[test]
fn devices_that_hold_one_task_at_a_time_evict_and_stay_within_bounds() {
    let mut evictions = 0;
    for seed in 0..150 {
        let program = Program::random(seed, seed % 2 == 0);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        for policy in POLICIES {
            for (workers, units) in [(0, 1), (0, 2), (1, 2)] {
                let capacity = least(&graph);
                let mut runtime =
                    build(workers, policy, &[fast(units, capacity), fast(1, capacity)]);
                let what = format!("{policy}, {workers} + {units} units, seed {seed}");
                check(&program, &graph, &handles, &mut runtime, 2, &what);
                for memory in [1, 2] {
                    let (_, peak) = runtime.memory_usage(MemoryId(memory));
                    assert!(peak.0 <= capacity, "{peak} of {capacity} bytes: {what}");
                }
                evictions += runtime.traffic().evictions;
            }
        }
    }
    assert!(
        evictions > 1000,
        "only {evictions}: the capacities were not tight"
    );
}

/// Adds its first operand to its second; `f32`, any shape.
fn add() -> Arc<Codelet> {
    Arc::new(
        Codelet::new("add").implement("reference", UnitKind::CPU, |ops| {
            let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
            dahl_core::view::for_rows(y.dims(), |at| {
                y.row(at)
                    .iter_mut()
                    .zip(x.row(at))
                    .for_each(|(y, x)| *y += x);
            });
            Ok(())
        }),
    )
}

/// `n` tasks, each `y += x`.
fn chain(
    x: &dahl_core::Vector<'_, f32>,
    y: &mut dahl_core::Vector<'_, f32>,
    n: usize,
) -> Arc<Graph> {
    let add = add();
    let recorder = Recorder::new();
    for _ in 0..n {
        recorder.submit(Task::new(&add, &[x.read(), y.read_write()]));
    }
    recorder.finish().unwrap()
}

#[test]
fn the_volume_moved_is_what_the_graph_needs() {
    let arena = Arena::new();
    let x = arena.full([1000], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 1>([1000]).unwrap();
    let graph = chain(&x, &mut y, 5);
    let mut runtime = build(0, "eager", &[fast(1, 1 << 20)]);
    for launch in 1..=3 {
        runtime.launch(&graph).unwrap();
        runtime.wait().unwrap();
        let t = runtime.traffic();
        assert_eq!(
            (t.bytes_in, t.bytes_out, t.copies),
            (8000, 0, 2),
            "launch {launch}: both come once"
        );
    }
    assert_eq!(runtime.read(&y).unwrap()[999], 15.0);
    assert_eq!(
        runtime.traffic().bytes_out,
        4000,
        "only what was written goes back"
    );
    let _ = runtime.read(&y).unwrap();
    assert_eq!(runtime.traffic().bytes_out, 4000, "and once");
    runtime.write(&mut y).unwrap()[0] = 100.0;
    runtime.launch(&graph).unwrap();
    assert_eq!(runtime.read(&y).unwrap()[..2], [105.0, 20.0]);
    assert_eq!(
        runtime.traffic().bytes_in,
        12_000,
        "what the host changed comes again"
    );
}

#[test]
fn parts_travel_alone() {
    let arena = Arena::new();
    let x = arena.full([10, 100], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 2>([10, 100]).unwrap();
    let row = dahl_core::Region::new([0, 0, 3, 0], [1, 1, 4, 100]).unwrap();
    let recorder = Recorder::new();
    let (from, to) = (x.handle().part(&row), y.handle().part(&row));
    let operands = [
        from.with(dahl_core::Mode::Read),
        to.with(dahl_core::Mode::ReadWrite),
    ];
    recorder.submit(Task::new(&add(), &operands));
    let graph = recorder.finish().unwrap();
    let mut runtime = build(0, "eager", &[fast(1, 1 << 20)]);
    runtime.launch(&graph).unwrap();
    assert_eq!(
        runtime.read(&y).unwrap()[299..401].iter().sum::<f32>(),
        100.0
    );
    let t = runtime.traffic();
    assert_eq!((t.bytes_in, t.bytes_out), (800, 400));
    let _ = &mut y;
}

#[test]
fn dmda_leaves_data_where_it_is() {
    let volume = |policy: &str| {
        let arena = Arena::new();
        let x = arena.full([50_000], 1.0f32).unwrap();
        let mut y = arena.zeros::<f32, 1>([50_000]).unwrap();
        let graph = chain(&x, &mut y, 40);
        let link = |bandwidth| HostDeviceSpec {
            units: 1,
            capacity: Bytes(1 << 30),
            bandwidth,
            latency: Duration::from_micros(200),
        };
        let builder = || {
            let builder = Runtime::builder().workers(0).policy(policy).pin(false);
            builder.host_device(link(2e9)).host_device(link(2e9))
        };
        let machine = builder().build().unwrap().machine().clone();
        let model = known(&graph, &machine, |_, _| 1e-4);
        let mut runtime = builder().perf_model(model).build().unwrap();
        runtime.launch(&graph).unwrap();
        assert_eq!(runtime.read(&y).unwrap()[7], 40.0);
        let t = runtime.traffic();
        t.bytes_in + t.bytes_out
    };
    let (dm, dmda) = (volume("dm"), volume("dmda"));
    assert!(
        dmda <= 3 * 200_000,
        "dmda moved {dmda} bytes: x and y there, y back"
    );
    assert!(dm >= dmda, "dm moved {dm} bytes, dmda {dmda}");
}

#[test]
fn a_task_larger_than_the_memory_runs_in_the_hosts() {
    let arena = Arena::new();
    let x = arena.full([1000], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 1>([1000]).unwrap();
    let a = arena.full([10], 1.0f32).unwrap();
    let mut b = arena.zeros::<f32, 1>([10]).unwrap();
    let (large, small) = (chain(&x, &mut y, 2), chain(&a, &mut b, 2));
    let said = Arc::new(std::sync::Mutex::new(vec![]));
    let heard = said.clone();
    let builder = Runtime::builder().workers(0).policy("ws").trace(64);
    let builder = builder.host_device(fast(2, 6000));
    let builder = builder.on_no_room(move |name, needed, has| {
        let said = (name.to_string(), needed.0, has.0);
        heard.lock().unwrap().push(said);
    });
    let mut runtime = builder.build().unwrap();
    let device = runtime.machine().memories[1].name.clone();
    for _ in 0..3 {
        runtime.launch(&large).unwrap();
        runtime.launch(&small).unwrap();
        runtime.wait().unwrap();
    }
    assert_eq!(runtime.read(&y).unwrap()[999], 6.0);
    assert_eq!(runtime.read(&b).unwrap()[9], 6.0);
    assert_eq!(runtime.traffic().elsewhere, 6, "the large ones alone");
    assert_eq!(runtime.traffic().needed, 8000, "two arrays of 4000 bytes");
    assert_eq!(*said.lock().unwrap(), [(device, 8000, 6000)], "once");
    let trace = runtime.take_trace().unwrap();
    assert_eq!(trace.tasks.len(), 12);
    for run in &trace.tasks {
        // The large graph was launched first, and every other time.
        assert_eq!(run.fell_back, run.id.launch.is_multiple_of(2), "{run:?}");
        let kind = trace.units[usize::from(run.unit)].kind;
        assert_eq!(
            trace.kind_of(run),
            if run.fell_back { UnitKind::CPU } else { kind }
        );
    }
    assert_eq!(runtime.traffic().bytes_in, 80);
}

/// Two units of one device, together needing more than it holds: each waits for the other.
#[test]
fn units_that_share_a_memory_take_turns() {
    let arena = Arena::new();
    let count = Arc::new(AtomicUsize::new(0));
    let slow = {
        let count = count.clone();
        Arc::new(
            Codelet::new("slow").implement("reference", UnitKind::CPU, move |ops| {
                count.fetch_add(1, Ordering::Relaxed);
                ops.write::<f32>(1).fill(2.0);
                Ok(())
            }),
        )
    };
    let x: Vec<_> = (0..16)
        .map(|_| arena.full([100], 1.0f32).unwrap())
        .collect();
    let mut y: Vec<_> = (0..16)
        .map(|_| arena.zeros::<f32, 1>([100]).unwrap())
        .collect();
    let recorder = Recorder::new();
    for (x, y) in x.iter().zip(&mut y) {
        recorder.submit(Task::new(&slow, &[x.read(), y.write()]));
    }
    let graph = recorder.finish().unwrap();
    let mut runtime = build(0, "ws", &[fast(2, 1200)]);
    for _ in 0..3 {
        runtime.launch(&graph).unwrap();
    }
    runtime.wait().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 48);
    assert!(y.iter().all(|y| runtime.read(y).unwrap()[0] == 2.0));
    assert!(runtime.memory_usage(MemoryId(1)).1.0 <= 1200);
}

#[test]
fn values_survive_the_runtime_and_others_cannot_see_old_ones() {
    let arena = Arena::new();
    let x = arena.full([100], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 1>([100]).unwrap();
    let graph = chain(&x, &mut y, 5);
    let mut first = build(0, "eager", &[fast(1, 1 << 20)]);
    let second = build(1, "eager", &[]);
    first.launch(&graph).unwrap();
    first.wait().unwrap();
    let refused = second.read(&y).map(|g| g[0]);
    assert!(
        matches!(refused, Err(RunError::InUse(_))),
        "{refused:?}: the values are on the device"
    );
    let _ = first.read(&y).unwrap();
    assert_eq!(second.read(&y).unwrap()[0], 5.0);
    first.launch(&graph).unwrap();
    first.wait().unwrap();
    drop(first);
    assert_eq!(second.read(&y).unwrap()[0], 10.0);
}

/// A reset while a device holds the only current copy: the bytes it will be written back to are not
/// handed out again.
#[test]
fn an_arena_reset_under_a_device_corrupts_nothing() {
    let mut arena = Arena::new();
    let add = add();
    let keep = Arena::new();
    let mut sum = keep.zeros::<f32, 1>([500]).unwrap();
    let mut runtime = build(1, "ws", &[fast(1, 4200)]);
    for round in 0..60 {
        let x = arena.full([500], round as f32).unwrap();
        let mut y = arena.full([500], 1.0f32).unwrap();
        let recorder = Recorder::new();
        recorder.submit(Task::new(&add, &[x.read(), y.read_write()]));
        recorder.submit(Task::new(&add, &[y.read(), sum.read_write()]));
        let graph = recorder.finish().unwrap();
        drop((x, y));
        runtime.launch(&graph).unwrap();
        drop(graph);
        arena.reset();
    }
    runtime.wait().unwrap();
    let want: f32 = (0..60).map(|r| r as f32 + 1.0).sum();
    assert!(runtime.read(&sum).unwrap().iter().all(|&v| v == want));
    assert!(arena.reserved() < 64 << 20, "{} bytes", arena.reserved());
}
