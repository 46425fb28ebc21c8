//! Temporaries allocated one by one: the same values as in a planned block, and all of them given back.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::POLICIES;
use dahl_core::split::{By, Split};
use dahl_core::{Arena, Bytes, Codelet, Graph, Param, Recorder, Task, TaskError, UnitKind, Vector};
use dahl_runtime::{Builder, HostDeviceSpec, RunError, Runtime, Temporaries};

/// `y = x · 0.5 + 1`, or a failure if parameter 0 says so.
fn halve() -> Arc<Codelet> {
    let body = |ops: &dahl_core::Operands<'_>| {
        if ops.int(0) == 1 {
            return Err(TaskError("as told".into()));
        }
        let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
        dahl_core::view::for_rows(y.dims(), |at| {
            let both = y.row(at).iter_mut().zip(x.row(at));
            both.for_each(|(y, x)| *y = x * 0.5 + 1.0);
        });
        Ok(())
    };
    Arc::new(Codelet::new("halve").implement("reference", UnitKind::CPU, body))
}

/// Adds all of `x`, in an order that shows in the last bits, to the first element of `y`.
fn total() -> Arc<Codelet> {
    let body = |ops: &dahl_core::Operands<'_>| {
        let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
        let sum: f32 = x.row([0, 0, 0]).iter().map(|v| v * 1.000_1).sum();
        y.row([0, 0, 0])[0] += sum;
        Ok(())
    };
    Arc::new(Codelet::new("total").implement("reference", UnitKind::CPU, body))
}

/// Stages through temporaries that are written by parts and read whole and by other parts, and a reduction of the last.
/// The task in the middle fails if told.
fn program(x: &Vector<'_, f32>, sum: &mut Vector<'_, f32>, fail: bool) -> Arc<Graph> {
    let (halve, total, n) = (halve(), total(), x.shape().len());
    let recorder = Recorder::new();
    let fine = [Param::Int(0)];
    let mut a = recorder.temporary::<f32, 1>([n]);
    recorder.submit(Task::new(&halve, &[x.read(), a.write()]).params(&fine));
    for stage in 0..6 {
        let split = Split::new().axis(0, By::Count(2 + stage % 3));
        let mut b = recorder.temporary::<f32, 1>([n]);
        let wrong = [Param::Int(i64::from(fail && stage == 3))];
        let from = a.split(&split).expect("parts");
        let mut to = b.split_mut(&split).expect("parts");
        for (from, to) in from.iter().zip(&mut to) {
            recorder.submit(Task::new(&halve, &[from.read(), to.write()]).params(&wrong));
        }
        drop((from, to));
        a = b;
    }
    for part in a.split(&Split::new().axis(0, By::Count(8))).expect("parts") {
        recorder.submit(Task::new(&total, &[part.read(), sum.reduce()]));
    }
    recorder.finish().expect("a graph")
}

fn builder(workers: usize, policy: &str) -> Builder {
    let builder = Runtime::builder().workers(workers).policy(policy);
    builder.pin(false).watchdog(Duration::from_secs(60))
}

#[test]
fn values_are_those_of_the_planned_block() {
    let arena = Arena::new();
    let x = arena.normal::<f32, 1>([4096], 3, 0.0, 2.0).expect("memory");
    let mut sum = arena.zeros::<f32, 1>([1]).expect("memory");
    let graph = program(&x, &mut sum, false);
    let mut run = |builder: Builder| {
        let mut runtime = builder.in_flight(3).build().expect("a runtime");
        runtime.write(&mut sum).expect("values").fill(0.1);
        (0..20).for_each(|_| runtime.launch(&graph).expect("a launch"));
        let value = runtime.read(&sum).expect("values")[0].to_bits();
        runtime.wait().expect("no failure");
        (value, runtime.temporary_bytes())
    };
    let (want, planned) = run(builder(1, "eager"));
    assert_eq!(planned as u64 % graph.memory.bytes, 0);
    for policy in POLICIES {
        for workers in [1, 2, 5] {
            let malloc = builder(workers, policy).temporaries(Temporaries::Malloc);
            let (got, most) = run(malloc);
            assert_eq!(got, want, "{policy}, {workers} workers");
            // Two stages and the accumulators at least; never more than all temporaries of all launches.
            let all = 3 * graph.memory.unshared as usize;
            assert!(
                (2 * 4096 * 4..=all).contains(&most),
                "{most} of {all} bytes"
            );
        }
    }
}

#[test]
fn failures_give_back_everything() {
    let arena = Arena::new();
    let x = arena.full([4096], 1.0f32).expect("memory");
    let mut sum = arena.zeros::<f32, 1>([1]).expect("memory");
    let (good, bad) = (program(&x, &mut sum, false), program(&x, &mut sum, true));
    let malloc = builder(2, "ws").temporaries(Temporaries::Malloc);
    let mut runtime = malloc.build().expect("a runtime");
    for _ in 0..100 {
        runtime.launch(&bad).expect("a launch");
        assert!(matches!(runtime.wait(), Err(RunError::Task { .. })));
        runtime.launch(&good).expect("a launch");
        runtime.wait().expect("no failure");
    }
    // What were not given back would add up.
    let most = runtime.temporary_bytes();
    assert!(most <= good.memory.unshared as usize, "{most} bytes");
}

#[test]
fn devices_need_the_planned_block() {
    let device = HostDeviceSpec {
        units: 1,
        capacity: Bytes(1 << 20),
        bandwidth: 1e9,
        latency: Duration::ZERO,
    };
    let malloc = builder(1, "ws").temporaries(Temporaries::Malloc);
    let error = malloc.host_device(device).build().err().expect("refused");
    assert!(error.to_string().contains("CPUs"), "{error}");
}
