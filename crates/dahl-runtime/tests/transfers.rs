//! Following a plan's transfers: made ahead of the tasks and in the plan's order, with the same values,
//! whatever else happens.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::check;
use common::watched::{self, Notes};
use dahl_core::trace::Trace;
use dahl_core::{Arena, Bytes, Codelet, Graph, Recorder, Region, Task, UnitKind};
use dahl_runtime::memory::Direction;
use dahl_runtime::{Builder, HostDeviceSpec, RunError, Runtime, Schedule};
use dahl_sched::transfers::{PlannedTransfer, Producer};
use dahl_test_support::plans::{machine, plan, schedule};
use dahl_test_support::program::Program;

fn device(capacity: u64, bandwidth: f64, latency: Duration) -> HostDeviceSpec {
    HostDeviceSpec {
        units: 1,
        capacity: Bytes(capacity),
        bandwidth,
        latency,
    }
}

fn builder(workers: usize) -> Builder {
    let builder = Runtime::builder().workers(workers).pin(false);
    builder.watchdog(Duration::from_secs(30)).trace(1 << 12)
}

/// The planned copies of a trace over a link in a launch: bytes, and the task each was for.
fn ahead(trace: &Trace, launch: u32, from: u16, to: u16) -> Vec<(u64, u32)> {
    let all = trace.transfers.iter();
    let here = all.filter(|t| t.ahead && (t.from, t.to) == (from, to));
    let of = here.filter(|t| t.for_task.launch == launch);
    of.map(|t| (t.bytes, t.for_task.task)).collect()
}

#[test]
fn random_programs_mean_the_same_and_transfers_keep_the_order() {
    let (mut planned, mut made) = (0, 0);
    for seed in 0..240 {
        let (workers, devices) = [(1, 1), (2, 1), (1, 2), (0, 1)][seed as usize % 4];
        let program = Program::random(seed, seed % 2 == 0);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        let machine = machine(workers, devices, 1 << 20, 1.0);
        let plan = plan(&graph, &machine, seed);
        let transfers = plan.checked_transfers(&graph, &machine).unwrap();
        // Every third run lacks the room that the plan counts on.
        let bytes = |e: &Vec<usize>| 8 * e.iter().product::<usize>() as u64;
        let all: u64 = program.arrays.iter().map(bytes).sum();
        let capacity = if seed % 3 == 0 { all } else { 1 << 20 };
        let latency = Duration::from_micros(20 * (seed % 5));
        let mut builder = builder(workers).schedule(schedule(&graph, &plan));
        for _ in 0..devices {
            builder = builder.host_device(device(capacity, 1e9, latency));
        }
        let mut runtime = builder.build().unwrap();
        let what = format!("seed {seed}, {workers} workers, {devices} devices");
        let launches = 4;
        check(&program, &graph, &handles, &mut runtime, launches, &what);
        let trace = runtime.take_trace().unwrap();
        for launch in 0..launches as u32 {
            for (unit, order) in plan.units.iter().enumerate() {
                let on = trace.tasks.iter();
                let on = on.filter(|t| t.id.launch == launch && usize::from(t.unit) == unit);
                let ran: Vec<u32> = on.map(|t| t.id.task).collect();
                assert_eq!(ran, order.order, "{what}, launch {launch}, unit {unit}");
            }
            // In the first launch not all is where a step leaves it, and where room lacks not all goes.
            if launch == 0 || capacity == all {
                continue;
            }
            for (from, to) in transfers.links() {
                let over = transfers.all().iter().enumerate();
                let mut over = over.filter(|(_, t)| (t.from, t.to) == (from, to));
                for (bytes, task) in ahead(&trace, launch, from, to) {
                    let is = |(i, t): (usize, &PlannedTransfer)| {
                        let most: usize = t.parts.iter().map(|p| 8 * p.len()).sum();
                        most as u64 >= bytes && transfers.awaited_by(i as u32).contains(&task)
                    };
                    let what = format!("{what}, launch {launch}, from {from} to {to}");
                    assert!(over.any(is), "{what}: {bytes} bytes for task {task}");
                    made += 1;
                }
            }
            planned += transfers.all().len();
        }
    }
    assert!(
        planned > 2000 && made > 3 * planned / 4,
        "{made} of {planned}"
    );
}

/// One more than its first operand, once as many copies were made as there are operands.
fn more(notes: &Arc<Notes>) -> Arc<Codelet> {
    let notes = notes.clone();
    let more = Codelet::new("more").implement("reference", UnitKind::CPU, move |ops| {
        notes.wait(Direction::In, 4);
        let (x, mut y) = (ops.read::<f64>(0), ops.write::<f64>(1));
        dahl_core::view::for_rows(y.dims(), |at| {
            let pairs = y.row(at).iter_mut().zip(x.row(at));
            pairs.for_each(|(y, x)| *y = x + 1.0);
        });
        Ok(())
    });
    Arc::new(more)
}

/// Four arrays that a device makes four others of, all of them brought in this order while the first is made.
fn four(
    arena: &Arena,
    order: [u32; 4],
    notes: &Arc<Notes>,
) -> (Arc<Graph>, Schedule, Vec<dahl_core::Handle>) {
    let (more, recorder) = (more(notes), Recorder::new());
    let mut sums = Vec::new();
    for i in 0..4 {
        let x = arena.full([1000], f64::from(i)).unwrap();
        let mut y = arena.zeros::<f64, 1>([1000]).unwrap();
        recorder.submit(Task::new(&more, &[x.read(), y.write()]));
        sums.push(y.handle().clone());
    }
    let graph = recorder.finish().unwrap();
    let x = |task: u32| {
        let array = graph.accesses_of(task)[0].array;
        graph.arrays[array as usize].storage
    };
    let whole = Region::whole(&graph.storages[0].storage.shape);
    let transfer = |task: u32| PlannedTransfer {
        storage: x(task),
        parts: vec![whole],
        producer: Producer::Before,
        from: 0,
        to: 1,
        readers: vec![task],
    };
    let schedule = Schedule {
        graph: graph.fingerprint(),
        order: vec![vec![], vec![0, 1, 2, 3]],
        transfers: order.map(transfer).to_vec(),
    };
    (graph, schedule, sums)
}

#[test]
fn copies_are_made_in_the_order_that_was_decided_and_before_their_tasks() {
    for order in [[0, 1, 2, 3], [0, 3, 2, 1]] {
        let arena = Arena::new();
        let notes = Arc::new(Notes::default());
        let (graph, schedule, sums) = four(&arena, order, &notes);
        let device = watched::device(&notes, 1 << 20, 1e9, Duration::from_millis(1));
        let builder = builder(1).schedule(schedule).device(device);
        let mut runtime = builder.build().unwrap();
        runtime.launch(&graph).unwrap();
        runtime.wait().unwrap();
        let trace = runtime.take_trace().unwrap();
        let went: Vec<u32> = ahead(&trace, 0, 0, 1).iter().map(|t| t.1).collect();
        assert_eq!(went, order);
        // The first task has waited until all were made. When each ended is noted after that, by another thread, so
        // only their beginnings are certain to come before the second task's.
        let starts = trace.transfers.iter().filter(|t| t.ahead).map(|t| t.start);
        let second = trace.tasks.iter().find(|t| t.id.task == 1).unwrap();
        assert!(starts.max().unwrap() < second.start);
        for (i, sum) in sums.iter().enumerate() {
            let sum = runtime.read_handle::<f64>(sum).unwrap();
            assert!(sum.iter().all(|&v| v == 1.0 + i as f64));
        }
    }
}

#[test]
fn a_run_that_is_cancelled_or_fails_waits_for_no_transfer() {
    for seed in 0..40 {
        let program = Program::random(seed, false);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        let plan = plan(&graph, &machine(1, 1, 1 << 20, 1.0), seed);
        let builder = builder(1).schedule(schedule(&graph, &plan));
        let slow = device(1 << 20, 1e8, Duration::from_micros(200));
        let mut runtime = builder.host_device(slow).build().unwrap();
        for _ in 0..2 {
            runtime.launch(&graph).unwrap();
        }
        std::thread::sleep(Duration::from_micros(100 * (seed % 8)));
        runtime.canceller().cancel();
        assert!(matches!(runtime.wait(), Err(RunError::Cancelled) | Ok(())));
        // And goes on with the next.
        let what = format!("seed {seed}, after it was cancelled");
        check(&program, &graph, &handles, &mut runtime, 2, &what);
        runtime.launch(&graph).unwrap();
        drop(runtime);
    }
}

#[test]
fn transfers_that_cannot_be_followed_are_refused() {
    let arena = Arena::new();
    let (graph, schedule, _) = four(&arena, [0, 1, 2, 3], &Arc::default());
    let build = |schedule: Schedule| {
        let device = device(1 << 20, 1e9, Duration::ZERO);
        builder(1).schedule(schedule).host_device(device).build()
    };
    let mut elsewhere = schedule.clone();
    elsewhere.transfers[2].to = 7;
    match build(elsewhere).err() {
        Some(RunError::Start(message)) => assert!(message.contains("transfer 2"), "{message}"),
        other => panic!("{other:?} instead of a refusal"),
    }
    let mut nothing = schedule.clone();
    nothing.transfers[1].storage = 99;
    let mut runtime = build(nothing).unwrap();
    for _ in 0..2 {
        match runtime.launch(&graph) {
            Err(RunError::Start(message)) => assert!(message.contains("transfer 1"), "{message}"),
            other => panic!("{other:?} instead of a refusal"),
        }
    }
}
