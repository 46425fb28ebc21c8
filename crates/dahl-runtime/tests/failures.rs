//! What goes wrong stops cleanly, says what it was, and leaves a runtime that works.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use common::POLICIES;
use dahl_core::{
    Arena, Codelet, Graph, Param, Recorder, Region, Task, TaskError, UnitKind, Vector,
};
use dahl_runtime::{RunError, Runtime};

fn build(workers: usize, policy: &str, main_works: bool) -> Runtime {
    let builder = Runtime::builder()
        .workers(workers)
        .policy(policy)
        .main_works(main_works);
    builder
        .pin(false)
        .watchdog(Duration::from_secs(30))
        .build()
        .unwrap()
}

/// Every way to wait: with and without the waiting thread's help, alone and with others.
fn every_kind(mut check: impl FnMut(&mut Runtime, &str)) {
    for policy in POLICIES {
        for (workers, main_works) in [(1, true), (1, false), (2, true), (3, false)] {
            let mut runtime = build(workers, policy, main_works);
            check(
                &mut runtime,
                &format!("{policy}, {workers} workers, main works: {main_works}"),
            );
        }
    }
}

/// Adds one; parameter 0 says what goes wrong: 1 an error, 2 a panic.
static STEP: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(
        Codelet::new("step").implement("reference", UnitKind::CPU, |ops| {
            match ops.int(0) {
                1 => return Err(TaskError("no luck".into())),
                2 => panic!("no {} at all", "luck"),
                _ => {}
            }
            let mut x = ops.write::<f64>(0);
            dahl_core::view::for_rows(x.dims(), |at| x.row(at).iter_mut().for_each(|v| *v += 1.0));
            Ok(())
        }),
    )
});

/// Tasks in a row over `x`, of which one goes wrong, and independent ones over `others`.
fn program(x: &mut Vector<'_, f64>, others: &mut [Vector<'_, f64>], wrong: i64) -> Arc<Graph> {
    let recorder = Recorder::new();
    recorder.section("the part that matters");
    let fine = [Param::Int(0)];
    for i in 0..6 {
        let params = [Param::Int(if i == 3 { wrong } else { 0 })];
        recorder.submit(Task::new(&STEP, &[x.read_write()]).params(&params));
    }
    for other in others {
        recorder.submit(Task::new(&STEP, &[other.read_write()]).params(&fine));
    }
    recorder.finish().unwrap()
}

/// Panics of tasks are expected here; anything else should still be seen.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.to_string().contains("no luck at all") {
                usual(info);
            }
        }));
    });
}

#[test]
fn a_failing_task_is_named_and_the_runtime_goes_on() {
    quiet();
    every_kind(|runtime, what| {
        let arena = Arena::new();
        let named = arena.alloc("weights", &[8], dahl_core::DType::F64).unwrap();
        let mut x = Vector::<f64>::from_handle(named).unwrap();
        let mut others: Vec<_> = (0..20).map(|_| arena.zeros([4]).unwrap()).collect();
        let good = program(&mut x, &mut others, 0);
        for (wrong, said) in [(1, "no luck"), (2, "panicked: no luck at all")] {
            let bad = program(&mut x, &mut others, wrong);
            runtime.launch(&bad).unwrap();
            let error = runtime.wait().unwrap_err();
            let RunError::Task { task, message } = &error else {
                panic!("{error}: {what}")
            };
            assert_eq!(message, said);
            assert_eq!(
                task, "task 3 in the part that matters, step(weights[0..8])",
                "{what}"
            );

            // Several in flight, the bad one in the middle.
            let _ = runtime.launch(&good);
            let results = [
                runtime.launch(&bad),
                runtime.launch(&good),
                runtime.launch(&good),
            ];
            let failed = results
                .into_iter()
                .chain([runtime.wait()])
                .filter(Result::is_err)
                .count();
            assert!(failed >= 1, "the error is told: {what}");

            runtime.write(&mut x).unwrap().fill(0.0);
            for _ in 0..3 {
                runtime.launch(&good).unwrap();
            }
            assert_eq!(runtime.read(&x).unwrap()[..], [18.0; 8], "{what}");
            runtime.wait().unwrap();
        }
    });
}

#[test]
fn reading_after_a_failure_says_so() {
    let arena = Arena::new();
    let mut x = arena.zeros([4]).unwrap();
    let bad = program(&mut x, &mut [], 1);
    let mut runtime = build(2, "ws", true);
    runtime.launch(&bad).unwrap();
    assert!(matches!(
        runtime.read(&x).map(|g| g[0]),
        Err(RunError::Task { .. })
    ));
    assert!(
        matches!(runtime.wait(), Err(RunError::Task { .. })),
        "it stays until somebody waits"
    );
    assert_eq!(runtime.read(&x).unwrap().len(), 4);
}

/// Tasks that meet: each waits until as many run at the same time as there are workers.
#[test]
fn no_worker_is_lost() {
    quiet();
    let arena = Arena::new();
    let mut runtime = build(4, "eager", true);
    let mut x = arena.zeros([1]).unwrap();
    let bad = program(&mut x, &mut [], 2);
    for _ in 0..20 {
        runtime.launch(&bad).unwrap();
        runtime.wait().unwrap_err();
    }
    let met = Arc::new(AtomicUsize::new(0));
    let meet = {
        let met = met.clone();
        Arc::new(
            Codelet::new("meet").implement("reference", UnitKind::CPU, move |_| {
                met.fetch_add(1, Ordering::SeqCst);
                // The watchdog looks after those who wait in vain.
                while met.load(Ordering::SeqCst) < 4 {
                    std::thread::yield_now();
                }
                Ok(())
            }),
        )
    };
    let mut arrays: Vec<_> = (0..4)
        .map(|_| arena.zeros::<f64, 1>([1]).unwrap())
        .collect();
    let recorder = Recorder::new();
    for a in &mut arrays {
        recorder.submit(Task::new(&meet, &[a.write()]));
    }
    let graph = recorder.finish().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
}

/// Tasks one after another, in a graph that takes minutes, however long the test itself has to wait for its turn.
const LONG: usize = 40_000;

/// As many tasks of 5 ms each, and how many of them have run.
fn long(arena: &Arena) -> (Arc<Graph>, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let slow = Arc::new(
        Codelet::new("slow").implement("reference", UnitKind::CPU, move |_| {
            std::thread::sleep(Duration::from_millis(5));
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }),
    );
    let mut x = arena.zeros::<f64, 1>([64]).unwrap();
    let recorder = Recorder::new();
    for _ in 0..LONG {
        recorder.submit(Task::new(&slow, &[x.read_write()]));
    }
    (recorder.finish().unwrap(), ran)
}

#[test]
fn dropping_with_work_in_flight_leaves_the_rest_undone() {
    every_kind(|_, _| {}); // Also idle runtimes end.
    for (workers, main_works) in [(1, true), (2, true), (2, false)] {
        let arena = Arena::new();
        let (graph, ran) = long(&arena);
        let mut runtime = build(workers, "ws", main_works);
        runtime.launch(&graph).unwrap();
        runtime.launch(&graph).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        drop(runtime);
        let ran = ran.load(Ordering::Relaxed);
        assert!(ran < LONG, "{ran} tasks ran");
    }
}

#[test]
fn cancelling_ends_a_wait_and_leaves_the_rest_undone() {
    for main_works in [true, false] {
        let arena = Arena::new();
        let (graph, ran) = long(&arena);
        let mut runtime = build(2, "dmdas", main_works);
        let (canceller, begun) = (runtime.canceller(), ran.clone());
        let cancelled = std::thread::spawn(move || {
            while begun.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            canceller.cancel();
        });
        runtime.launch(&graph).unwrap();
        assert_eq!(runtime.wait(), Err(RunError::Cancelled));
        cancelled.join().unwrap();
        let ran = ran.load(Ordering::Relaxed);
        assert!(ran < LONG, "{ran} tasks ran");
        let mut y = arena.zeros([3]).unwrap();
        let good = program(&mut y, &mut [], 0);
        runtime.launch(&good).unwrap();
        assert_eq!(runtime.read(&y).unwrap()[..], [6.0; 3]);
    }
}

#[test]
fn a_graph_from_before_a_reset_is_refused() {
    let mut arena = Arena::new();
    let mut runtime = build(2, "ws", true);
    let graph = {
        let mut x = arena.zeros([4]).unwrap();
        program(&mut x, &mut [], 0)
    };
    runtime.launch(&graph).unwrap();
    arena.reset();
    let error = runtime.launch(&graph).unwrap_err();
    assert!(matches!(error, RunError::Stale(_)), "{error}");
    runtime.wait().unwrap();
    let mut y = arena.zeros([4]).unwrap();
    let handle = y.handle().clone();
    let fresh = program(&mut y, &mut [], 0);
    runtime.launch(&fresh).unwrap();
    assert_eq!(runtime.read(&y).unwrap()[0], 6.0);
    arena.reset();
    let stale = runtime.read_handle::<f64>(&handle).map(|g| g[0]);
    assert!(matches!(stale, Err(RunError::Stale(_))), "{stale:?}");
}

#[test]
fn an_array_belongs_to_one_runtime_at_a_time() {
    let arena = Arena::new();
    let (mut first, mut second) = (build(1, "ws", false), build(1, "ws", false));
    let gate = Arc::new(AtomicBool::new(false));
    let held = {
        let gate = gate.clone();
        Arc::new(
            Codelet::new("held").implement("reference", UnitKind::CPU, move |ops| {
                while !gate.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                ops.write::<f64>(0).fill(5.0);
                Ok(())
            }),
        )
    };
    let mut x = arena.zeros::<f64, 1>([2]).unwrap();
    let recorder = Recorder::new();
    recorder.submit(Task::new(&held, &[x.write()]));
    let graph = recorder.finish().unwrap();
    first.launch(&graph).unwrap();
    let refused = second.launch(&graph).unwrap_err();
    assert!(matches!(refused, RunError::InUse(_)), "{refused}");
    assert!(matches!(
        second.read(&x).map(|g| g[0]),
        Err(RunError::InUse(_))
    ));
    gate.store(true, Ordering::Release);
    first.wait().unwrap();
    second.launch(&graph).unwrap();
    assert_eq!(second.read(&x).unwrap()[0], 5.0);
}

#[test]
fn a_task_that_nobody_can_run_is_refused_at_launch() {
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 1>([2]).unwrap();
    let ghost = Arc::new(Codelet::new("ghost"));
    let recorder = Recorder::new();
    recorder.submit(Task::new(&STEP, &[x.read_write()]).params(&[Param::Int(0)]));
    recorder.submit(Task::new(&ghost, &[x.read_write()]));
    let graph = recorder.finish().unwrap();
    let mut runtime = build(1, "ws", true);
    for _ in 0..2 {
        let error = runtime.launch(&graph).unwrap_err();
        assert!(error.to_string().starts_with("task 1, ghost("), "{error}");
    }
    assert_eq!(runtime.read(&x).unwrap()[0], 0.0, "nothing of it was run");
}

#[test]
fn temporaries_and_wrong_types_cannot_be_read() {
    let arena = Arena::new();
    let x = arena.zeros::<f64, 2>([2, 3]).unwrap();
    let recorder = Recorder::new();
    let t = recorder.temporary::<f64, 1>([4]);
    let mut runtime = build(1, "ws", true);
    assert!(matches!(
        runtime.read(&t).map(|g| g[0]),
        Err(RunError::Temporary(_))
    ));
    assert!(matches!(
        runtime.read_handle::<f32>(x.handle()).map(|g| g[0]),
        Err(RunError::WrongType { .. })
    ));
    let column = x
        .handle()
        .part(&Region::new([0, 0, 0, 1], [1, 1, 2, 2]).unwrap());
    assert!(matches!(
        runtime.write_handle::<f64>(&column).map(|_| ()),
        Err(RunError::Gaps(_))
    ));
    assert_eq!(
        runtime.read_handle::<f64>(&column).unwrap()[..],
        [0.0, 0.0],
        "reading packs it"
    );
}

#[test]
fn a_reader_waits_for_its_producers_only() {
    for (workers, main_works) in [(2, true), (2, false), (3, true)] {
        let arena = Arena::new();
        let (gate, started) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let held = {
            let (gate, started) = (gate.clone(), started.clone());
            Arc::new(
                Codelet::new("held").implement("reference", UnitKind::CPU, move |_| {
                    started.store(true, Ordering::Release);
                    while !gate.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    Ok(())
                }),
            )
        };
        let mut slow = arena.zeros::<f64, 1>([2]).unwrap();
        let mut x = arena.zeros([2]).unwrap();
        let blocking = {
            let recorder = Recorder::new();
            recorder.submit(Task::new(&held, &[slow.read_write()]));
            recorder.finish().unwrap()
        };
        let quick = program(&mut x, &mut [], 0);
        let mut runtime = build(workers, "ws", main_works);
        runtime.launch(&blocking).unwrap();
        // Until the other worker is in it: were this thread to take it, nobody could open the gate.
        while !started.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for launch in 1..=50 {
            runtime.launch(&quick).unwrap();
            let values = runtime.read(&x).unwrap();
            assert_eq!(values[0], 6.0 * f64::from(launch));
            // Two guards at once, and of two arrays.
            let again = runtime.read(&x).unwrap();
            assert_eq!(values[..], again[..]);
            assert!(
                !gate.load(Ordering::Acquire),
                "the long task is still running"
            );
        }
        gate.store(true, Ordering::Release);
        runtime.wait().unwrap();
    }
}

#[test]
fn a_writer_waits_for_readers_too() {
    let arena = Arena::new();
    let x = arena.full([1], 1.0f64).unwrap();
    let mut y = arena.zeros::<f64, 1>([1]).unwrap();
    let copy = Arc::new(
        Codelet::new("copy").implement("reference", UnitKind::CPU, |ops| {
            std::thread::sleep(Duration::from_millis(2));
            let v = ops.read::<f64>(0).row([0, 0, 0])[0];
            ops.write::<f64>(1).fill(v);
            Ok(())
        }),
    );
    let recorder = Recorder::new();
    recorder.submit(Task::new(&copy, &[x.read(), y.write()]));
    let graph = recorder.finish().unwrap();
    let mut runtime = build(2, "ws", false);
    for round in 2..30 {
        runtime.launch(&graph).unwrap();
        runtime.write_handle::<f64>(x.handle()).unwrap()[0] = f64::from(round);
        assert_eq!(
            runtime.read(&y).unwrap()[0],
            f64::from(round - 1),
            "the reader saw the old value"
        );
    }
}

/// A worker is kept busy, the others sleep: what is dealt to the busy one's queue is taken by them.
#[test]
fn work_dealt_to_a_busy_worker_is_taken_by_a_sleeping_one() {
    for policy in ["eager", "ws"] {
        let arena = Arena::new();
        let (gate, started) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let held = {
            let (gate, started) = (gate.clone(), started.clone());
            Arc::new(
                Codelet::new("held").implement("reference", UnitKind::CPU, move |_| {
                    started.store(true, Ordering::Release);
                    while !gate.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    Ok(())
                }),
            )
        };
        let mut busy = arena.zeros::<f64, 1>([1]).unwrap();
        let mut x = arena.zeros([1]).unwrap();
        let recorder = Recorder::new();
        recorder.submit(Task::new(&held, &[busy.read_write()]));
        let blocking = recorder.finish().unwrap();
        let quick = program(&mut x, &mut [], 0);
        let mut runtime = build(3, policy, false);
        runtime.launch(&blocking).unwrap();
        while !started.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for launch in 1..=20 {
            // Long enough for the idle ones to fall asleep.
            std::thread::sleep(Duration::from_millis(3));
            runtime.launch(&quick).unwrap();
            assert_eq!(
                runtime.read(&x).unwrap()[0],
                6.0 * f64::from(launch),
                "{policy}"
            );
        }
        gate.store(true, Ordering::Release);
        runtime.wait().unwrap();
    }
}
