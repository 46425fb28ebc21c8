//! The whole runtime under random schedules: submit, execute, replay, cancel, fail, drop.
//! `cargo test -p dahl-runtime --features shuttle --test shuttle`.
//!
//! Every thread switch happens where the schedule says, so a lost wake-up or a circular wait shows as a
//! deadlock, at once and with the schedule that leads to it.

#[path = "common/frail.rs"]
mod frail;
#[path = "common/gpu.rs"]
mod gpu;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use dahl_core::{
    Arena, Bytes, Codelet, Executor, Graph, Mode, Param, Recorder, Region, Task, TaskError,
    UnitKind, Vector,
};
use dahl_runtime::network::{LinkSpeed, LocalNode, Member, local_cluster};
use dahl_runtime::{HostDeviceSpec, RunError, Runtime, Schedule};
use dahl_sched::transfers::{PlannedTransfer, Producer};
use frail::{Fate, Fault};
use shuttle::Config;
use shuttle::scheduler::{PctScheduler, RandomScheduler};

/// Runs a body under many random schedules, and under many with few, well-chosen switches.
fn explore(iterations: usize, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config
    };
    let again = body.clone();
    shuttle::Runner::new(RandomScheduler::new(iterations), config()).run(move || again());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config()).run(move || body());
}

/// Adds parameter 0 to operand 0; with operand 1, that too. Fails if parameter 1 says so.
static BUMP: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(
        Codelet::new("bump").implement("reference", UnitKind::CPU, |ops| {
            // Somebody else may come in the middle of a task.
            shuttle::thread::yield_now();
            if ops.params().len() > 1 && ops.int(1) > 0 {
                return Err(TaskError("told to".into()));
            }
            let mut more = ops.float(0);
            if ops.len() > 1 {
                more += ops.read::<f64>(1).row([0, 0, 0])[0];
            }
            let mut x = ops.write::<f64>(0);
            dahl_core::view::for_rows(x.dims(), |at| x.row(at).iter_mut().for_each(|v| *v += more));
            Ok(())
        }),
    )
});

/// A diamond over three arrays: x; y and z of x; x of z. `fail` makes the third task fail.
fn diamond(arrays: &mut [Vector<'_, f64>], fail: bool) -> Arc<Graph> {
    let [x, y, z] = arrays else {
        panic!("three arrays")
    };
    let recorder = Recorder::new();
    let one = [Param::Float(1.0)];
    recorder.submit(Task::new(&BUMP, &[x.read_write()]).params(&one));
    recorder.submit(Task::new(&BUMP, &[y.read_write(), x.read()]).params(&one));
    let maybe = [Param::Float(1.0), Param::Int(i64::from(fail))];
    recorder.submit(Task::new(&BUMP, &[z.read_write(), x.read()]).params(&maybe));
    recorder.submit(Task::new(&BUMP, &[x.read_write(), z.read()]).params(&one));
    recorder.finish().unwrap()
}

/// What `launches` of the diamond leave.
fn expected(launches: usize) -> [f64; 3] {
    let [mut x, mut y, mut z] = [0.0; 3];
    for _ in 0..launches {
        x += 1.0;
        y += 1.0 + x;
        z += 1.0 + x;
        x += 1.0 + z;
    }
    [x, y, z]
}

fn arrays(arena: &Arena) -> Vec<Vector<'_, f64>> {
    (0..3).map(|_| arena.zeros([2]).unwrap()).collect()
}

fn runtime(workers: usize, policy: &str, main_works: bool) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy(policy)
        .main_works(main_works)
        .pin(false)
        .build()
        .unwrap()
}

fn check(runtime: &Runtime, arrays: &[Vector<'_, f64>], launches: usize) {
    for (array, want) in arrays.iter().zip(expected(launches)) {
        assert_eq!(runtime.read(array).unwrap()[..], [want, want]);
    }
}

fn replays(policy: &'static str, main_works: bool) {
    explore(7000, move || {
        let arena = Arena::new();
        let mut arrays = arrays(&arena);
        let graph = diamond(&mut arrays, false);
        let mut runtime = runtime(2, policy, main_works);
        for _ in 0..3 {
            runtime.launch(&graph).unwrap();
        }
        // A reader in the middle of it all waits for its producers.
        assert_eq!(runtime.read(&arrays[1]).unwrap()[0], expected(3)[1]);
        runtime.wait().unwrap();
        check(&runtime, &arrays, 3);
    });
}

#[test]
fn replays_eager() {
    replays("eager", true);
    replays("eager", false);
}

#[test]
fn replays_ws() {
    replays("ws", true);
    replays("ws", false);
}

#[test]
fn replays_dm() {
    replays("dm", true);
    replays("dmdas", false);
}

#[test]
fn a_failing_task_stops_its_launches_and_nothing_else() {
    explore(7000, || {
        let arena = Arena::new();
        let mut arrays = arrays(&arena);
        let bad = diamond(&mut arrays, true);
        let good = diamond(&mut arrays, false);
        let mut runtime = runtime(2, "ws", false);
        runtime.launch(&bad).unwrap();
        // Either the failure is found here, or it is found by the wait.
        let error = match runtime.launch(&good) {
            Ok(()) => runtime.wait().unwrap_err(),
            Err(error) => error,
        };
        assert!(
            matches!(&error, RunError::Task { message, .. } if message == "told to"),
            "{error}"
        );
        for array in &mut arrays {
            runtime.write(array).unwrap().fill(0.0);
        }
        runtime.launch(&good).unwrap();
        runtime.wait().unwrap();
        check(&runtime, &arrays, 1);
    });
}

#[test]
fn cancelling_from_another_thread_ends_the_wait() {
    explore(7000, || {
        let arena = Arena::new();
        let mut arrays = arrays(&arena);
        let graph = diamond(&mut arrays, false);
        let mut runtime = runtime(2, "ws", true);
        let canceller = runtime.canceller();
        let other = shuttle::thread::spawn(move || canceller.cancel());
        let ran = runtime.launch(&graph).and_then(|()| runtime.wait());
        assert!(matches!(ran, Ok(()) | Err(RunError::Cancelled)), "{ran:?}");
        other.join().unwrap();
        let _ = runtime.wait();
        for array in &mut arrays {
            runtime.write(array).unwrap().fill(0.0);
        }
        runtime.launch(&graph).unwrap();
        runtime.wait().unwrap();
        check(&runtime, &arrays, 1);
    });
}

#[test]
fn dropping_with_work_in_flight_ends() {
    explore(7000, || {
        let arena = Arena::new();
        let mut arrays = arrays(&arena);
        let graph = diamond(&mut arrays, false);
        let mut first = runtime(2, "eager", false);
        first.launch(&graph).unwrap();
        first.launch(&graph).unwrap();
        drop(first);
        // The arrays are free again.
        let mut second = runtime(1, "ws", true);
        for array in &mut arrays {
            second.write(array).unwrap().fill(0.0);
        }
        second.launch(&graph).unwrap();
        check(&second, &arrays, 1);
    });
}

/// A reduction has accumulators: temporaries, one set per launch in flight.
#[test]
fn reductions_of_overlapping_launches() {
    explore(700, || {
        let arena = Arena::new();
        let mut sum = arena.zeros::<f64, 1>([2]).unwrap();
        let recorder = Recorder::new();
        for i in 0..4 {
            let value = [Param::Float(f64::from(1 << i))];
            recorder.submit(Task::new(&BUMP, &[sum.reduce()]).params(&value));
        }
        let graph = recorder.finish().unwrap();
        let mut runtime = runtime(2, "ws", true);
        for _ in 0..3 {
            runtime.launch(&graph).unwrap();
        }
        assert_eq!(runtime.read(&sum).unwrap()[..], [45.0, 45.0]);
    });
}

/// Transfers, prefetches and evictions: a device that holds two arrays of three.
#[test]
fn devices_share_and_evict() {
    // Operands travel one by one, or by this latency together.
    let (alone, together) = (Duration::ZERO, Duration::from_micros(1));
    for (policy, latency) in [("eager", together), ("ws", alone), ("dmda", together)] {
        explore(700, move || {
            let arena = Arena::new();
            let mut arrays = arrays(&arena);
            let graph = diamond(&mut arrays, false);
            let device = HostDeviceSpec {
                units: 1,
                capacity: Bytes(32),
                bandwidth: 1e12,
                latency,
            };
            let builder = Runtime::builder().workers(1).policy(policy).pin(false);
            let mut runtime = builder.host_device(device).build().unwrap();
            runtime.launch(&graph).unwrap();
            runtime.launch(&graph).unwrap();
            check(&runtime, &arrays, 2);
        });
    }
}

/// A schedule followed by units that stand in for each other, and to the letter.
#[test]
fn replays_of_a_schedule() {
    for (alike, main_works) in [(vec![0, 0], true), (vec![0, 0], false), (vec![], true)] {
        explore(3000, move || {
            let arena = Arena::new();
            let mut arrays = arrays(&arena);
            let graph = diamond(&mut arrays, false);
            let schedule = Schedule {
                graph: graph.fingerprint(),
                order: vec![vec![0, 2], vec![1, 3]],
                transfers: Vec::new(),
            };
            let builder = Runtime::builder().workers(2).schedule(schedule);
            let builder = builder.alike(alike.clone()).main_works(main_works);
            let mut runtime = builder.pin(false).build().unwrap();
            for _ in 0..3 {
                runtime.launch(&graph).unwrap();
            }
            assert_eq!(runtime.read(&arrays[1]).unwrap()[0], expected(3)[1]);
            runtime.wait().unwrap();
            check(&runtime, &arrays, 3);
        });
    }
}

/// A schedule of the diamond with its transfers, both ways over the link of a device: the arrays that are
/// made in the middle cross over, or the first one does, there and back, or both.
fn crossing(graph: &Graph, which: usize) -> Schedule {
    let whole = Region::new([0; 4], [1, 1, 1, 2]).unwrap();
    let storage = |task: u32, operand: usize| {
        let array = graph.accesses_of(task)[operand].array;
        graph.arrays[array as usize].storage
    };
    let transfer = |storage, made, from, to, readers: &[u32]| PlannedTransfer {
        storage,
        parts: vec![whole],
        producer: made,
        from,
        to,
        readers: readers.to_vec(),
    };
    let (x, z) = (storage(0, 0), storage(2, 0));
    let (order, transfers) = match which {
        0 => (
            vec![vec![0, 3], vec![1, 2]],
            vec![
                transfer(x, Producer::Task(0), 0, 1, &[1, 2]),
                transfer(z, Producer::Task(2), 1, 0, &[3]),
            ],
        ),
        1 => (
            vec![vec![1, 2, 3], vec![0]],
            vec![
                transfer(x, Producer::LastStep(3), 0, 1, &[0]),
                transfer(x, Producer::Task(0), 1, 0, &[1, 2, 3]),
            ],
        ),
        // Task 1 waits for what stands in line behind what is made later.
        _ => (
            vec![vec![1, 3], vec![0, 2]],
            vec![
                transfer(x, Producer::LastStep(3), 0, 1, &[0]),
                transfer(z, Producer::Task(2), 1, 0, &[3]),
                transfer(x, Producer::Task(0), 1, 0, &[1, 3]),
            ],
        ),
    };
    Schedule {
        graph: graph.fingerprint(),
        order,
        transfers,
    }
}

/// Transfers that were planned: followed launch by launch, given up when a task fails, when the run is
/// cancelled, when the device is lost, and where room lacks.
#[test]
fn planned_transfers_hang_nobody() {
    for which in 0..3 {
        // Enough room, and too little for what is to come beside what is there.
        for capacity in [1 << 10, 32] {
            explore(700, move || {
                let arena = Arena::new();
                let mut arrays = arrays(&arena);
                let graph = diamond(&mut arrays, false);
                let device = HostDeviceSpec {
                    units: 1,
                    capacity: Bytes(capacity),
                    bandwidth: 1e12,
                    latency: Duration::ZERO,
                };
                let schedule = crossing(&graph, which);
                let builder = Runtime::builder().workers(1).schedule(schedule).pin(false);
                let mut runtime = builder.host_device(device).build().unwrap();
                for _ in 0..3 {
                    runtime.launch(&graph).unwrap();
                }
                check(&runtime, &arrays, 3);
                runtime.launch(&graph).unwrap();
                runtime.canceller().cancel();
                let _ = runtime.wait();
                runtime.launch(&graph).unwrap();
            });
        }
        explore(700, move || {
            let arena = Arena::new();
            let mut arrays = arrays(&arena);
            let graph = diamond(&mut arrays, true);
            let fate = Fate::new(Fault::Copy, -1);
            let device = frail::device("frail", &fate, 1 << 10, Duration::ZERO);
            let schedule = crossing(&graph, which);
            let builder = Runtime::builder().workers(1).schedule(schedule).pin(false);
            let mut runtime = builder.device(device).build().unwrap();
            for _ in 0..2 {
                let _ = runtime.launch(&graph);
            }
            assert!(matches!(
                runtime.wait(),
                Err(RunError::Task { .. }) | Ok(())
            ));
        });
        for after in 0..4 {
            explore(300, move || {
                let arena = Arena::new();
                let mut arrays = arrays(&arena);
                let graph = diamond(&mut arrays, false);
                let fate = Fate::new(Fault::Copy, after);
                let device = frail::device("frail", &fate, 1 << 10, Duration::ZERO);
                let schedule = crossing(&graph, which);
                let builder = Runtime::builder().workers(1).schedule(schedule).pin(false);
                let mut runtime = builder.device(device).build().unwrap();
                let launched: Vec<_> = (0..2).map(|_| runtime.launch(&graph)).collect();
                let read = runtime.read(&arrays[0]).map(|v| v[0]);
                if let (Ok(value), true) = (read, launched.iter().all(Result::is_ok)) {
                    assert_eq!(value, expected(2)[0]);
                }
                let _ = runtime.wait();
            });
        }
    }
}

/// Parts that travel along for later tasks: one launch writes an element on the CPU while the next sends
/// its neighbour to a device where both are wanted, and then the host writes it.
#[test]
fn parts_travel_together_while_others_write() {
    let body = |ops: &dahl_core::Operands<'_>| {
        shuttle::thread::yield_now();
        let value = ops.read::<f64>(0).row([0, 0, 0])[0];
        ops.write::<f64>(1).fill(value);
        Ok(())
    };
    let there = Codelet::new("there").implement("reference", UnitKind::GPU, body);
    let both = Codelet::new("both").implement("reference", UnitKind::CPU, body);
    let both = both.implement("reference", UnitKind::GPU, body);
    let (there, both) = (Arc::new(there), Arc::new(both));
    let element = |i: usize| Region::new([0, 0, 0, i], [1, 1, 1, i + 1]).unwrap();
    for policy in ["eager", "ws"] {
        let (there, both) = (there.clone(), both.clone());
        explore(2000, move || {
            let arena = Arena::new();
            let x = arena.zeros::<f64, 1>([3]).unwrap();
            let y = arena.zeros::<f64, 1>([3]).unwrap();
            let recorder = Recorder::new();
            let second = x.handle().part(&element(1));
            let one = [Param::Float(1.0)];
            recorder.submit(Task::new(&BUMP, &[second.with(Mode::ReadWrite)]).params(&one));
            let bump = recorder.finish().unwrap();
            let copies = |of: &[(&Arc<Codelet>, usize)]| {
                let recorder = Recorder::new();
                for &(copy, i) in of {
                    let (from, to) = (x.handle().part(&element(i)), y.handle().part(&element(i)));
                    let operands = [from.with(Mode::Read), to.with(Mode::Write)];
                    recorder.submit(Task::new(copy, &operands));
                }
                recorder.finish().unwrap()
            };
            let all = copies(&[(&there, 0), (&there, 1), (&both, 2)]);
            let last = copies(&[(&there, 2)]);
            let builder = Runtime::builder().workers(1).policy(policy).pin(false);
            let gpu = gpu::gpu(1e9, Duration::from_millis(1));
            let mut runtime = builder.device(gpu).build().unwrap();
            runtime.launch(&bump).unwrap();
            runtime.launch(&all).unwrap();
            let third = x.handle().part(&element(2));
            runtime.write_handle::<f64>(&third).unwrap()[0] = 5.0;
            runtime.launch(&last).unwrap();
            assert_eq!(runtime.read(&y).unwrap()[..], [0.0, 1.0, 5.0]);
        });
    }
}

#[test]
fn a_device_that_fails_is_usable_again() {
    explore(700, || {
        let arena = Arena::new();
        let mut arrays = arrays(&arena);
        let (bad, good) = (diamond(&mut arrays, true), diamond(&mut arrays, false));
        let device = HostDeviceSpec {
            units: 2,
            capacity: Bytes(32),
            bandwidth: 1e12,
            latency: Duration::ZERO,
        };
        let builder = Runtime::builder().workers(0).policy("ws").pin(false);
        let mut runtime = builder.host_device(device).build().unwrap();
        runtime.launch(&bad).unwrap();
        let error = runtime.wait().unwrap_err();
        assert!(matches!(error, RunError::Task { .. }), "{error}");
        for array in &mut arrays {
            runtime.write(array).unwrap().fill(0.0);
        }
        runtime.launch(&good).unwrap();
        check(&runtime, &arrays, 1);
    });
}

/// Whatever fails and whenever, beside a CPU or alone: right values or an error that says so, and the
/// runtime goes on in the host's memory.
#[test]
fn a_device_that_is_lost_hangs_nobody() {
    for (workers, policy) in [(0, "eager"), (1, "ws"), (1, "dmda")] {
        for fault in [
            Fault::Execute,
            Fault::Copy,
            Fault::Allocate,
            Fault::NoScratch,
        ] {
            // The first, or one of those that travel together.
            for (after, micros) in [(0, 0), (1, 1), (2, 1)] {
                explore(120, move || {
                    let arena = Arena::new();
                    let mut arrays = arrays(&arena);
                    let graph = diamond(&mut arrays, false);
                    let fate = Fate::new(fault, after);
                    let builder = Runtime::builder().workers(workers).policy(policy);
                    let device = frail::device("frail", &fate, 32, Duration::from_micros(micros));
                    let mut runtime = builder.pin(false).device(device).build().unwrap();
                    let mut lost = runtime.launch(&graph).is_err();
                    lost |= runtime.launch(&graph).is_err();
                    match runtime.wait() {
                        Err(RunError::Lost { .. }) => lost = true,
                        other => other.unwrap(),
                    }
                    lost |= arrays.iter().any(|a| runtime.read(a).is_err());
                    if !lost {
                        check(&runtime, &arrays, 2);
                    }
                    for array in &mut arrays {
                        runtime.write(array).unwrap().fill(0.0);
                    }
                    fate.left.store(-1, std::sync::atomic::Ordering::Relaxed);
                    runtime.launch(&graph).unwrap();
                    runtime.wait().unwrap();
                    check(&runtime, &arrays, 1);
                });
            }
        }
    }
}

/// A node of a cluster whose tasks are dealt to the nodes in turns.
fn member(transport: LocalNode, policy: &str, main_works: bool) -> Member {
    let nodes = 2;
    let runtime = Runtime::builder()
        .workers(1)
        .policy(policy)
        .main_works(main_works)
        .pin(false)
        .network(Box::new(transport), Duration::from_secs(600))
        .build()
        .unwrap();
    let deal = move |graph: &Graph| (0..graph.len()).map(|t| (t % nodes) as u16).collect();
    Member::new(runtime, Box::new(deal)).unwrap()
}

/// Two nodes at once, each with the program that `node` is.
fn on_two_nodes(
    iterations: usize,
    policy: &'static str,
    main_works: bool,
    node: fn(Member, [Vector<'_, f64>; 3], &Arc<Graph>),
) {
    explore(iterations, move || {
        let run = move |transport: LocalNode| {
            let arena = Arena::new();
            let mut all = arrays(&arena);
            let graph = diamond(&mut all, false);
            let all = all.try_into().unwrap();
            node(member(transport, policy, main_works), all, &graph);
        };
        let threads: Vec<_> = local_cluster(2, LinkSpeed::UNLIMITED)
            .into_iter()
            .map(|transport| shuttle::thread::spawn(move || run(transport)))
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// Who takes the progress engine, who finds it taken and who sleeps: no message is forgotten.
#[test]
fn messages_between_nodes_are_not_lost() {
    for (policy, main_works) in [("ws", true), ("eager", false), ("dmda", true)] {
        on_two_nodes(400, policy, main_works, |mut member, arrays, graph| {
            for _ in 0..3 {
                member.launch(graph).unwrap();
            }
            for (array, want) in arrays.iter().zip(expected(3)) {
                let mut see = |v: dahl_core::Values<'_>| assert_eq!(v.get(0), want);
                member.read(array.handle(), &mut see).unwrap();
            }
            member.finish().unwrap();
        });
    }
}

/// The node that stays is told, whoever looks at the time.
#[test]
fn a_node_that_leaves_does_not_leave_the_other_waiting() {
    on_two_nodes(400, "ws", true, |mut member, arrays, graph| {
        let ran = member.launch(graph).and_then(|()| {
            if member.node() == 1 {
                return Err("leaves".into());
            }
            member.launch(graph)?;
            member.read(arrays[0].handle(), &mut |_| ())?;
            member.wait()
        });
        let error = ran.unwrap_err().to_string();
        assert!(
            error == "leaves" || error.ends_with("it has left the cluster"),
            "{error}"
        );
    });
}
