//! The same grain gives the same bits: for any number of workers, any policy, and any interruption.

use std::ops::ControlFlow;

use dahl_core::DType;
use dahl_nn::checkpoint::{Checkpoint, CheckpointFolder};
use dahl_nn::train::Event;
use dahl_runtime::{Runtime, Temporaries};
use dahl_test_support::runs::{
    self, Case, How, Run, assert_close, case, cases, data, finish, run, run_on, session, start,
};

fn assert_same(name: &str, a: &Run, b: &Run) {
    assert!(a.weights == b.weights, "{name}: other weights");
    assert_eq!(a.epochs, b.epochs, "{name}: other losses");
    assert_eq!(
        a.evaluated, b.evaluated,
        "{name}: other losses in evaluation"
    );
}

#[test]
fn any_number_of_workers_and_any_policy() {
    for name in ["residual", "rectangles", "adamw", "averaged-parts"] {
        let case = case(name);
        for grain in ["auto", "sample=2,channel=2,height=2,width=2"] {
            for dtype in [DType::F32, DType::F64] {
                let how = How {
                    workers: 1,
                    grain,
                    dtype,
                    shuffle: true,
                    ..How::default()
                };
                let first = run(&case, &how);
                for workers in [1, 2, 3] {
                    for policy in ["eager", "ws", "dm", "dmda", "dmdas"] {
                        let other = run(
                            &case,
                            &How {
                                workers,
                                policy,
                                ..how.clone()
                            },
                        );
                        assert_same(
                            &format!("{name}, {grain}, {dtype}, {workers}, {policy}"),
                            &first,
                            &other,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn dropout_is_the_same_for_any_number_of_workers() {
    let mut case = case("decay");
    case.toml = case.toml.replace("p = 0.0", "p = 0.4");
    let first = run(
        &case,
        &How {
            workers: 1,
            ..How::default()
        },
    );
    let plain = run(&runs::case("decay"), &How::default());
    assert!(first.weights != plain.weights, "dropout does something");
    for workers in [2, 3] {
        assert_same(
            "dropout",
            &first,
            &run(
                &case,
                &How {
                    workers,
                    ..How::default()
                },
            ),
        );
    }
}

/// A copy of the checkpoint that is there after so many checkpoints.
fn checkpoint_after(case: &Case, how: &How, wanted: usize, name: &str) -> Checkpoint {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    let mut runtime = how.runtime();
    let mut session = start(case, how, &mut runtime);
    session.checkpoint_to(CheckpointFolder::new(&folder).every(2));
    let (mut seen, mut found) = (0, None);
    session
        .run(&mut runtime, data(case), None, &mut |progress| {
            if let Event::Checkpoint = progress.event {
                seen += 1;
                if seen == wanted {
                    found = Some(Checkpoint::load(&folder).expect("a checkpoint"));
                }
            }
            ControlFlow::Continue(())
        })
        .expect("a run");
    found.expect("as many checkpoints")
}

#[test]
fn going_on_from_a_checkpoint_is_as_if_nothing_had_happened() {
    for name in ["norm", "adam", "residual", "averaged", "accumulated-norm"] {
        let case = case(name);
        let how = How {
            shuffle: true,
            ..How::default()
        };
        let whole = run(&case, &how);
        let mut in_the_middle = 0;
        for wanted in 1..=4 {
            let checkpoint = checkpoint_after(&case, &how, wanted, name);
            in_the_middle += usize::from(checkpoint.batch_in_epoch > 0);
            let how = How {
                workers: 1 + wanted % 2,
                ..how.clone()
            };
            let mut runtime = how.runtime();
            let mut session = session(&case, &how);
            session
                .resume(&mut runtime, &checkpoint)
                .expect("the checkpoint fits");
            let mut rest = finish(&mut session, &mut runtime, &case);
            let mut epochs = whole.epochs[..checkpoint.epoch as usize].to_vec();
            epochs.append(&mut rest.epochs);
            rest.epochs = epochs;
            assert_same(&format!("{name}, checkpoint {wanted}"), &whole, &rest);
        }
        assert!(
            in_the_middle > 0,
            "{name}: no checkpoint in the middle of an epoch"
        );
    }
}

#[test]
fn checkpoints_of_another_run_are_refused() {
    let adam = case("adam");
    let how = How::default();
    let checkpoint = checkpoint_after(&adam, &how, 1, "refused");
    let mut runtime = how.runtime();
    let mut other = adam.clone();
    other.lr *= 2.0;
    assert!(
        session(&other, &how)
            .resume(&mut runtime, &checkpoint)
            .is_err(),
        "another learning rate"
    );
    assert!(
        session(&case("norm"), &how)
            .resume(&mut runtime, &checkpoint)
            .is_err(),
        "another model"
    );
    assert!(
        session(&adam, &how)
            .resume(&mut runtime, &checkpoint)
            .is_ok()
    );
}

#[test]
fn grains_differ_by_rounding_only() {
    for case in cases() {
        let auto = run(&case, &How::default());
        for grain in [
            "sample=4",
            "sample=2,channel=2,height=2,width=2",
            "channel=3",
            "width=64",
        ] {
            let other = run(
                &case,
                &How {
                    grain,
                    ..How::default()
                },
            );
            assert_close(
                &format!("{} with {grain}", case.name),
                &other.weights,
                &auto.weights,
                1e-10,
            );
        }
    }
}

#[test]
fn temporaries_allocated_one_by_one_change_no_bit() {
    for name in ["residual", "adamw"] {
        let case = case(name);
        let how = How {
            dtype: DType::F32,
            ..How::default()
        };
        let builder = Runtime::builder().workers(2).in_flight(1);
        let builder = builder.temporaries(Temporaries::Malloc);
        let mut runtime = builder.build().expect("a runtime");
        let other = run_on(&mut runtime, &mut session(&case, &how), &case);
        assert_same(name, &run(&case, &how), &other);
    }
}
