//! What is recorded is what happened: every task once, after those it waits for, one at a time on a unit,
//! and the task named as having released another is one that it waited for.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{POLICIES, check};
use dahl_core::trace::{NOBODY, TaskId, TaskRun, Trace};
use dahl_core::{Arena, Bytes};
use dahl_runtime::{Builder, HostDeviceSpec, Runtime};
use dahl_test_support::program::Program;

fn builder(workers: usize, policy: &str) -> Builder {
    let builder = Runtime::builder()
        .workers(workers)
        .policy(policy)
        .pin(false);
    builder.watchdog(Duration::from_secs(30))
}

/// Nanoseconds by which clocks of two cores may differ.
const SKEW: u64 = 1000;

/// Checks everything that holds for any trace; `launches` of one graph.
fn consistent(trace: &Trace, launches: usize, what: &str) {
    let mut runs: HashMap<TaskId, TaskRun> = HashMap::new();
    for run in &trace.tasks {
        assert!(run.ready <= run.taken, "{what}: {run:?}");
        assert!(run.taken <= run.start && run.start <= run.end, "{what}");
        assert!(run.end <= trace.end, "{what}: {run:?} after the end");
        assert!(runs.insert(run.id, *run).is_none(), "{what}: twice {run:?}");
    }
    assert_eq!(trace.launches.len(), launches, "{what}");
    for launch in 0..launches as u32 {
        let graph = trace.graph_of(launch);
        for task in 0..graph.tasks.len() as u32 {
            let run = runs[&TaskId { launch, task }];
            let mut waits = graph
                .successors_of(task)
                .iter()
                .map(|&s| runs[&TaskId { launch, task: s }]);
            assert!(waits.all(|s| s.ready + SKEW >= run.end), "{what}: {run:?}");
            let by = run.released_by;
            if by.task == NOBODY {
                continue;
            }
            assert!(run.ready.abs_diff(runs[&by].end) <= SKEW, "{what}: {run:?}");
            if by.launch == launch {
                assert!(graph.successors_of(by.task).contains(&task), "{what}");
            } else {
                assert!(by.launch < launch, "{what}: released by a later launch");
                let storages = 0..graph.storages.len() as u32;
                let earlier = trace.graph_of(by.launch);
                let mut edges = storages.flat_map(|s| earlier.edges_to(s, graph, s));
                assert!(edges.any(|e| e == (by.task, task)), "{what}: {run:?}");
            }
        }
    }
    for unit in 0..trace.units.len() as u16 {
        let on = trace.tasks.iter().filter(|t| t.unit == unit);
        on.fold(0, |free, t| {
            assert!(t.start >= free, "{what}: two tasks at a time on {unit}");
            t.end
        });
    }
}

#[test]
fn random_programs_leave_consistent_traces() {
    for workers in [1, 2, 5] {
        for policy in POLICIES {
            let mut runtime = builder(workers, policy).trace(4096).build().unwrap();
            for seed in 0..60 {
                let program = Program::random(seed, seed % 2 == 0);
                let arena = Arena::new();
                let (graph, handles) = program.record(&arena);
                let times = 1 + (seed % 3) as usize;
                let what = format!("{policy}, {workers} workers, seed {seed}");
                check(&program, &graph, &handles, &mut runtime, times, &what);
                let trace = runtime.take_trace().unwrap();
                consistent(&trace, times, &what);
                assert_eq!(trace.dropped, 0);
                assert_eq!(trace.tasks.len(), times * graph.len());
            }
        }
    }
}

#[test]
fn a_full_ring_keeps_the_newest_and_says_how_many_went() {
    let program = Program::random(4, true);
    let arena = Arena::new();
    let (graph, _) = program.record(&arena);
    let room = (2 * graph.len()).next_power_of_two();
    let mut runtime = builder(1, "ws").trace(room).build().unwrap();
    let launches = 10;
    for _ in 0..launches {
        runtime.launch(&graph).unwrap();
    }
    let trace = runtime.take_trace().unwrap();
    // What releases tasks of the next launch takes room too.
    assert!(trace.tasks.len() <= room && trace.tasks.len() > graph.len());
    let ran = launches * graph.len() as u64;
    assert!(
        trace.dropped >= ran - room as u64,
        "{} dropped",
        trace.dropped
    );
    let last = trace.tasks.iter().map(|t| t.id.launch).max();
    assert_eq!(last, Some(launches as u32 - 1), "the newest are kept");
    let oldest = trace.tasks.iter().map(|t| t.id.launch).min();
    assert!(
        oldest >= Some(launches as u32 / 2),
        "not the oldest: {oldest:?}"
    );
    assert_eq!(runtime.take_trace().unwrap().tasks.len(), 0);
}

#[test]
fn transfers_are_those_that_were_counted() {
    let device = HostDeviceSpec {
        units: 1,
        capacity: Bytes(1 << 20),
        bandwidth: 1e9,
        latency: Duration::from_micros(5),
    };
    for seed in 0..20 {
        let program = Program::random(seed, false);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        let builder = builder(1, "dmda").trace(4096).host_device(device.clone());
        let mut runtime = builder.build().unwrap();
        check(&program, &graph, &handles, &mut runtime, 2, "device");
        let (trace, traffic) = (runtime.take_trace().unwrap(), runtime.traffic());
        consistent(&trace, 2, "device");
        let bytes = |to_host: bool| -> u64 {
            let there = trace.transfers.iter().filter(|t| (t.to == 0) == to_host);
            there.map(|t| t.bytes).sum()
        };
        assert_eq!(
            (bytes(false), bytes(true)),
            (traffic.bytes_in, traffic.bytes_out)
        );
        let latency = 5_000;
        // Those of a batch pay it together.
        let mut alone = trace.transfers.iter().filter(|t| t.batch == 1);
        assert!(alone.all(|t| t.end - t.start >= latency / 2));
        let total: u64 = trace.transfers.iter().map(|t| t.end - t.start).sum();
        assert!(total >= traffic.batches * latency / 2);
        assert_eq!(traffic.copies, trace.transfers.len() as u64);
        let most = trace.memory.iter().map(|m| m.bytes).max().unwrap_or(0);
        assert_eq!(most, runtime.memory_usage(dahl_core::MemoryId(1)).1.0);
    }
}

#[test]
fn units_count_the_time_they_work() {
    let program = Program::random(7, true);
    let arena = Arena::new();
    let (graph, _) = program.record(&arena);
    let mut runtime = builder(2, "ws").build().unwrap();
    let start = std::time::Instant::now();
    for _ in 0..200 {
        runtime.launch(&graph).unwrap();
    }
    runtime.wait().unwrap();
    let (elapsed, busy) = (start.elapsed().as_secs_f64(), runtime.busy());
    assert_eq!(busy.len(), 2);
    assert!(busy.iter().any(|b| b.0 > 0.0));
    assert!(
        busy.iter().all(|b| b.0 <= elapsed * 1.1),
        "{busy:?} of {elapsed}"
    );
    assert!(runtime.take_trace().is_none(), "nobody asked for one");
}
