//! Training on StarPU gives the bits of our own runtime.

mod common;

use common::{alone, starpu};
use dahl_core::{DType, Executor, Handle};
use dahl_nn::{Step, models};
use dahl_runtime::Runtime;
use dahl_test_support::arrays::read;
use dahl_test_support::runs::{How, case, run, run_on, session};

/// The bits of all weights and of the losses, after some steps.
fn bits(step: &Step, steps: usize, runtime: &mut Runtime) -> Vec<u64> {
    let lowered = step.lower().expect("a graph");
    step.rehearse(runtime, &lowered).expect("first values");
    (0..steps).for_each(|_| Executor::launch(runtime, &lowered.graph).expect("a launch"));
    let mut bits = Vec::new();
    let mut keep = |array: &Handle| bits.extend(read(runtime, array).into_iter().map(f64::to_bits));
    lowered.state.params.iter().flatten().for_each(&mut keep);
    keep(&lowered.io.losses);
    runtime.wait().expect("no failure");
    bits
}

/// Three policies of StarPU's on 1 and 2 workers against ours, in both precisions; and one that sees the data.
fn same_bits(model: &str, batch: usize, steps: usize) {
    let _alone = alone();
    for dtype in [DType::F32, DType::F64] {
        let model = models::by_name(model).expect("a shipped model");
        let step = Step::new(model).batch(batch).dtype(dtype);
        let mut ours = Runtime::builder().workers(2).build().expect("a runtime");
        let want = bits(&step, steps, &mut ours);
        assert!(want.iter().any(|b| *b != 0));
        for (workers, policy) in [(1, "eager"), (2, "lws"), (2, "dmdas"), (2, "dmda+data")] {
            let mut runtime = starpu(workers, policy, 2);
            let got = bits(&step, steps, &mut runtime);
            assert!(
                got == want,
                "{dtype}, {policy}, {workers} workers: other bits"
            );
        }
    }
}

#[test]
fn small_cnn() {
    same_bits("small-cnn", 32, 20);
}

#[test]
fn lenet5() {
    same_bits("lenet5", 32, 20);
}

#[test]
fn vgg_small() {
    same_bits("vgg-small", 16, 3);
}

#[test]
fn resnet18() {
    same_bits("resnet18-32", 2, 2);
}

#[test]
fn sessions_with_two_graphs_in_turns() {
    let _alone = alone();
    for name in ["residual", "clipped"] {
        let case = case(name);
        for dtype in [DType::F32, DType::F64] {
            let how = How {
                dtype,
                grain: "sample=2",
                ..How::default()
            };
            let want = run(&case, &how);
            for (workers, policy) in [(1, "eager"), (2, "dmda"), (2, "prio"), (2, "dmdas+data")] {
                let mut runtime = starpu(workers, policy, 1);
                let got = run_on(&mut runtime, &mut session(&case, &how), &case);
                let what = format!("{name}, {dtype}, {policy}");
                assert!(got.weights == want.weights, "{what}: other weights");
                assert_eq!(got.epochs, want.epochs, "{what}");
                assert_eq!(got.evaluated, want.evaluated, "{what}");
            }
        }
    }
}
