//! Devices that fail in the middle: the result is right or there is a clear error, whatever fails and
//! whenever; never a hang, never a wrong value; and the runtime can be used again.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::frail::{Fate, Fault, device};
use dahl_core::{Arena, Graph, MemoryId, UnitKind};
use dahl_runtime::{RunError, Runtime, Schedule};
use dahl_test_support::plans;
use dahl_test_support::program::Program;

const FAULTS: [Fault; 5] = [
    Fault::Execute,
    Fault::Copy,
    Fault::Allocate,
    Fault::Full,
    Fault::NoScratch,
];

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Right, and the fault has not struck.
    Untouched,
    /// Right all the same.
    Right,
    /// An error that names the loss.
    Error,
}

/// A policy of its own: tasks dealt to units beforehand.
const PLAN: &str = "plan";

/// The same with transfers that were decided beforehand, too.
const TRANSFERS: &str = "plan with transfers";

fn plan(graph: &Graph, units: usize) -> Schedule {
    let mut order = vec![Vec::new(); units];
    for task in 0..graph.len() {
        order[task % units].push(task as u32);
    }
    Schedule {
        graph: graph.fingerprint(),
        transfers: Vec::new(),
        order,
    }
}

/// Copies of certain cases that shared a start with another.
static SHARED: AtomicU64 = AtomicU64::new(0);

struct Case {
    seed: u64,
    workers: usize,
    /// Whether there is a second device, which never fails.
    second: bool,
    policy: &'static str,
    capacity: u64,
}

impl Case {
    /// Whether one unit runs everything, so that no load decides where tasks go. Only these are counted.
    fn is_certain(&self) -> bool {
        self.workers == 0 && !self.second
    }
}

fn run(case: &Case, fault: Fault, after: i64) -> End {
    let what = format!(
        "seed {}, {} workers, {}, {} bytes, {fault:?} after {after}",
        case.seed, case.workers, case.policy, case.capacity
    );
    // By this latency all that a task needs travels together.
    let latency = Duration::from_nanos(200 * (case.seed / 2 % 2));
    let (frail, sound) = (Fate::new(fault, after), Fate::new(fault, -1));
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = told.clone();
    let program = Program::random(case.seed, case.seed.is_multiple_of(2));
    let arena = Arena::new();
    let (graph, handles) = program.record(&arena);
    let mut builder = Runtime::builder().workers(case.workers);
    builder = match case.policy {
        PLAN => builder.schedule(plan(&graph, case.workers + 1 + usize::from(case.second))),
        TRANSFERS => {
            let devices = 1 + usize::from(case.second);
            let machine = plans::machine(case.workers, devices, case.capacity, 1.0);
            let plan = plans::plan(&graph, &machine, case.seed);
            builder.schedule(plans::schedule(&graph, &plan))
        }
        policy => builder.policy(policy),
    };
    let mut builder = builder
        .pin(false)
        .watchdog(Duration::from_secs(30))
        .on_device_lost(move |name, why| {
            list.lock().unwrap().push(format!("{name}: {why}"));
        })
        .device(device("frail", &frail, case.capacity, latency));
    if case.second {
        builder = builder.device(device("sound", &sound, 1 << 20, latency));
    }
    let mut runtime = builder.build().unwrap();
    let begin = |runtime: &mut Runtime| {
        for (handle, values) in handles.iter().zip(program.initial()) {
            let mut array = runtime.write_handle::<f64>(handle).unwrap();
            array.copy_from_slice(&values);
        }
    };
    begin(&mut runtime);
    let want = program.sequential(2);
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(runtime.launch(&graph).err());
    }
    for (i, (handle, want)) in handles.iter().zip(&want).enumerate() {
        match runtime.read_handle::<f64>(handle) {
            // Once an error was returned, what the stopped launches left is anything.
            Ok(_) if !errors.is_empty() => {}
            Ok(got) => assert_eq!(&got[..], &want[..], "array {i}, {what}"),
            Err(e) => errors.push(e),
        }
    }
    errors.extend(runtime.wait().err());
    let traffic = runtime.traffic();
    if case.is_certain() {
        let shared = traffic.copies.saturating_sub(traffic.batches);
        SHARED.fetch_add(shared, Ordering::Relaxed);
    }
    let struck = frail.left.load(Ordering::Relaxed) < 0;
    let lost = frail.lost.load(Ordering::Relaxed);
    for e in &errors {
        let named = e.to_string().contains("frail") && e.to_string().contains("as told");
        assert!(
            lost && matches!(e, RunError::Lost { .. }) && named,
            "{e}: {what}"
        );
    }
    let losses = runtime.lost_devices();
    assert_eq!(losses.len(), usize::from(lost), "{what}: {losses:?}");
    assert_eq!(told.lock().unwrap().len(), losses.len(), "{what}");
    if lost {
        assert_eq!(runtime.memory_usage(MemoryId(1)).0.0, 0, "{what}");
    }
    // It goes on, without the device if that is lost; no more faults.
    frail.left.store(-1, Ordering::Relaxed);
    begin(&mut runtime);
    (0..2).for_each(|_| runtime.launch(&graph).unwrap());
    for (handle, want) in handles.iter().zip(&want) {
        let got = runtime.read_handle::<f64>(handle).unwrap();
        assert_eq!(&got[..], &want[..], "again, {what}");
    }
    runtime.wait().unwrap();
    match (errors.is_empty(), struck) {
        (false, _) => End::Error,
        (true, true) => End::Right,
        (true, false) => End::Untouched,
    }
}

/// Runs a case with every fault at many positions; counts how it ended, if that is certain.
fn explore(case: &Case, ends: &mut [[usize; 3]; 5]) {
    for fault in FAULTS {
        for after in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
            let end = run(case, fault, after);
            ends[fault as usize][end as usize] += usize::from(case.is_certain());
            if end == End::Untouched {
                break;
            }
        }
    }
}

#[test]
fn failures_end_in_right_results_or_clear_errors() {
    let mut ends = [[0; 3]; 5];
    for seed in 0..240 {
        let [eager, ws, dm, dmda, dmdas] = common::POLICIES;
        let policies = [eager, ws, dm, dmda, dmdas, PLAN, TRANSFERS];
        explore(
            &Case {
                seed,
                workers: (seed % 3) as usize,
                second: seed % 4 == 1,
                policy: policies[seed as usize % policies.len()],
                capacity: 1 << 20,
            },
            &mut ends,
        );
    }
    println!("untouched, right, error: {ends:?}");
    let shared = SHARED.load(Ordering::Relaxed);
    println!("{shared} copies travelled with others");
    assert!(shared > 500, "only {shared} copies travelled with others");
    for fault in [Fault::Execute, Fault::Copy, Fault::Allocate] {
        let [_, right, error] = ends[fault as usize];
        assert!(right > 50 && error > 20, "{fault:?}: {ends:?}");
    }
    for fault in [Fault::Full, Fault::NoScratch] {
        let [_, right, error] = ends[fault as usize];
        assert!(right > 50 && error == 0, "{fault:?}: {ends:?}");
    }
}

/// With eviction going on: copies both ways at all times.
#[test]
fn failures_under_pressure_end_well_too() {
    let mut ends = [[0; 3]; 5];
    for seed in 0..60 {
        let program = Program::random(seed, seed % 2 == 0);
        let bytes = |e: &Vec<usize>| 8 * e.iter().product::<usize>() as u64;
        let all: u64 = program.arrays.iter().map(bytes).sum();
        explore(
            &Case {
                seed,
                workers: (seed % 2) as usize,
                second: false,
                policy: ["eager", "ws", "dmda"][seed as usize % 3],
                capacity: all / 2,
            },
            &mut ends,
        );
    }
    println!("untouched, right, error: {ends:?}");
    assert!(ends.iter().all(|[_, right, _]| *right > 20), "{ends:?}");
}

/// What a device took with it reads as an error, and is not-a-number to later writers.
#[test]
fn lost_values_are_not_numbers() {
    let arena = Arena::new();
    let mut x = arena.full([4], 1.0f64).unwrap();
    let recorder = dahl_core::Recorder::new();
    let step =
        Arc::new(
            dahl_core::Codelet::new("step").implement("reference", UnitKind::CPU, |ops| {
                ops.write::<f64>(0).fill(7.0);
                Ok(())
            }),
        );
    recorder.submit(dahl_core::Task::new(&step, &[x.read_write()]));
    let graph = recorder.finish().unwrap();
    let start = |after| {
        let fate = Fate::new(Fault::Copy, after);
        let builder = Runtime::builder()
            .workers(0)
            .watchdog(Duration::from_secs(30));
        builder
            .device(device("frail", &fate, 1000, Duration::ZERO))
            .build()
            .unwrap()
    };
    // In is the first copy, back to the host the second.
    let mut runtime = start(1);
    runtime.launch(&graph).unwrap();
    let error = runtime.read(&x).map(|g| g[0]).unwrap_err();
    assert!(matches!(error, RunError::Lost { .. }), "{error}");
    assert!(error.to_string().contains("Copy"), "{error}");
    runtime.wait().unwrap();
    assert!(runtime.write(&mut x).unwrap()[0].is_nan());
    runtime.write(&mut x).unwrap().fill(2.0);
    runtime.launch(&graph).unwrap();
    assert_eq!(runtime.read(&x).unwrap()[3], 7.0, "in the host's memory");
    drop(runtime);
    // Nobody looks before the runtime goes.
    let mut runtime = start(1);
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    drop(runtime);
    let after = start(-1);
    assert!(after.read(&x).unwrap().iter().all(|v| v.is_nan()));
}
