//! Random programs over overlapping, nested, multi-axis regions mean what running their tasks one
//! after another means, on any number of workers.

mod common;

use common::{POLICIES, check, runtime};
use dahl_core::Arena;
use dahl_test_support::program::{MIX, Program, Use};
use dahl_test_support::scaled;

#[test]
fn any_policy_and_number_of_workers_gives_the_sequential_result() {
    let mut runtimes: Vec<_> = POLICIES
        .iter()
        .flat_map(|p| [1, 2, 5].map(|n| (format!("{p}, {n} workers"), runtime(n, p))))
        .collect();
    for seed in 0..scaled(1000) {
        let program = Program::random(seed, seed % 2 == 0);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        for (what, runtime) in &mut runtimes {
            // Two launches in a row: the second depends on the first by the graph's boundary.
            check(
                &program,
                &graph,
                &handles,
                runtime,
                1 + (seed % 3) as usize,
                &format!("{what}, seed {seed}"),
            );
        }
    }
}

#[test]
fn launches_of_different_graphs_follow_each_other() {
    let mut runtimes: Vec<_> = POLICIES.iter().map(|p| runtime(3, p)).collect();
    for seed in 0..scaled(100) {
        let arena = Arena::new();
        let first = Program::random(seed, true);
        let (graph, handles) = first.record(&arena);
        // A second program over the same arrays.
        let mut second = Program::random(seed + 100_000, false);
        second.arrays = first.arrays.clone();
        let same = |u: &Use| {
            u.array < first.arrays.len()
                && u.shape.iter().product::<usize>()
                    == first.arrays[u.array].iter().product::<usize>()
        };
        second.steps.iter_mut().for_each(|s| s.uses.retain(same));
        let recorder = dahl_core::Recorder::new();
        for step in &second.steps {
            let parts: Vec<_> = step
                .uses
                .iter()
                .map(|u| {
                    (
                        handles[u.array].reshape(&u.shape).unwrap().part(&u.region),
                        u.mode,
                    )
                })
                .collect();
            let operands: Vec<_> = parts.iter().map(|(h, m)| h.with(*m)).collect();
            let params = [dahl_core::Param::Int(step.salt)];
            recorder.submit(dahl_core::Task::new(&MIX, &operands).params(&params));
        }
        let other = recorder.finish().unwrap();
        let mut all = first.clone();
        all.steps.extend(second.steps.clone());
        all.steps.extend(first.steps.clone());
        let want = all.sequential(1);
        for runtime in &mut runtimes {
            for (h, v) in handles.iter().zip(first.initial()) {
                runtime.write_handle::<f64>(h).unwrap().copy_from_slice(&v);
            }
            runtime.launch(&graph).unwrap();
            runtime.launch(&other).unwrap();
            runtime.launch(&graph).unwrap();
            for (h, want) in handles.iter().zip(&want) {
                assert_eq!(
                    &runtime.read_handle::<f64>(h).unwrap()[..],
                    &want[..],
                    "seed {seed}"
                );
            }
            runtime.wait().unwrap();
        }
    }
}
