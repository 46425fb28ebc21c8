//! The same bits on any number of workers: reductions whose sums depend on their order.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::POLICIES;
use dahl_core::split::{By, Split};
use dahl_core::{Arena, Codelet, Graph, Recorder, Task, UnitKind, Vector};
use dahl_runtime::Runtime;

/// Adds the sums over the rows of operand 0, each scaled so that order matters, into operand 1.
fn fold() -> Arc<Codelet> {
    Arc::new(
        Codelet::new("fold").implement("reference", UnitKind::CPU, |ops| {
            let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
            let sum = y.row([0, 0, 0]);
            dahl_core::view::for_rows(x.dims(), |at| {
                for (i, v) in x.row(at).iter().enumerate() {
                    sum[i % sum.len()] += v * v * 1.000_1 + v;
                }
            });
            Ok(())
        }),
    )
}

/// 64 tasks reduce into one vector, 64 into its halves, and their result is reduced once more.
fn program(
    x: &dahl_core::Matrix<'_, f32>,
    y: &mut Vector<'_, f32>,
    z: &mut Vector<'_, f32>,
) -> Arc<Graph> {
    let fold = fold();
    let recorder = Recorder::new();
    let rows = Split::new().axis(0, By::Count(64));
    for row in x.split(&rows).unwrap() {
        recorder.submit(Task::new(&fold, &[row.read(), y.reduce()]));
    }
    for half in &mut y.split_mut(&Split::new().axis(0, By::Count(2))).unwrap() {
        for row in x.split(&rows).unwrap() {
            recorder.submit(Task::new(&fold, &[row.read(), half.reduce()]));
        }
    }
    for part in y.split(&Split::new().axis(0, By::Size(1))).unwrap() {
        recorder.submit(Task::new(&fold, &[part.read(), z.reduce()]));
    }
    recorder.finish().unwrap()
}

#[test]
fn a_hundred_runs_give_identical_bits() {
    let arena = Arena::new();
    let x = arena.normal::<f32, 2>([512, 37], 5, 0.0, 3.0).unwrap();
    let mut y = arena.zeros::<f32, 1>([10]).unwrap();
    let mut z = arena.zeros::<f32, 1>([3]).unwrap();
    let graph = program(&x, &mut y, &mut z);
    let mut first: Option<Vec<u32>> = None;
    let mut runs = 0;
    for workers in 1..=8 {
        for policy in POLICIES {
            let builder = Runtime::builder()
                .workers(workers)
                .policy(policy)
                .pin(false);
            let mut runtime = builder.watchdog(Duration::from_secs(30)).build().unwrap();
            for _ in 0..3 {
                runtime.write(&mut y).unwrap().fill(0.1);
                runtime.write(&mut z).unwrap().fill(0.3);
                // The second launch builds on the first while it may still be under way.
                runtime.launch(&graph).unwrap();
                runtime.launch(&graph).unwrap();
                let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                let mut got = bits(&runtime.read(&y).unwrap());
                got.extend(bits(&runtime.read(&z).unwrap()));
                runs += 1;
                match &first {
                    Some(first) => {
                        assert_eq!(&got, first, "run {runs}: {workers} workers, {policy}")
                    }
                    None => first = Some(got),
                }
            }
        }
    }
    assert!(runs >= 100, "{runs} runs");
}

/// The test above could not fail if the sums were the same in every order.
#[test]
fn the_order_of_these_sums_matters() {
    let run = |accumulators: usize| {
        let arena = Arena::new();
        let x = arena.normal::<f32, 2>([512, 37], 5, 0.0, 3.0).unwrap();
        let mut y = arena.zeros::<f32, 1>([10]).unwrap();
        let recorder = Recorder::new().with_accumulators(accumulators);
        let fold = fold();
        for row in x.split(&Split::new().axis(0, By::Count(64))).unwrap() {
            recorder.submit(Task::new(&fold, &[row.read(), y.reduce()]));
        }
        let graph = recorder.finish().unwrap();
        let mut runtime = Runtime::builder().workers(2).build().unwrap();
        runtime.launch(&graph).unwrap();
        runtime
            .read(&y)
            .unwrap()
            .iter()
            .map(|v| v.to_bits())
            .collect::<Vec<_>>()
    };
    assert_ne!(run(1), run(4));
    assert_eq!(run(4), run(4));
}
