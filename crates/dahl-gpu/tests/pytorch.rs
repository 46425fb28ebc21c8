//! Training on devices against PyTorch: losses and weights of the models that come with the project, in both
//! precisions, on a device alone, on CPUs and a device, and on CPUs and two. Layers and losses that none of them has:
//! a run of each, on a device alone.
//!
//! The runs to compare with are fixtures of `dahl-nn`. On OpenCL's devices; skipped where there is none.

mod common;

use common::{How, POCL, again_with_two, have_device};
use dahl_core::DType;
use dahl_gpu::{Device, opencl};
use dahl_nn::weights;
use dahl_test_support::runs::{self, assert_as_kept, assert_close, fixtures, models, run_on};
use dahl_test_support::skip;

#[test]
fn devices_train_as_pytorch_does() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    // Tasks are dealt out where there is a choice, so that every unit has work.
    let layouts: &[_] = match opencl::devices().unwrap().len() {
        1 => &[("a device", 0, 1), ("CPUs and a device", 2, 1)],
        _ => &[("CPUs and two devices", 2, 2)],
    };
    for (case, dtype, tolerance) in models() {
        for &(units, workers, devices) in layouts {
            let name = format!("{} {dtype} on {units}", case.name);
            let how = runs::How {
                dtype,
                ..runs::How::default()
            };
            let mut session = runs::session(&case, &how);
            let units = How {
                planned: workers > 0,
                ..How::on(workers, devices, "eager")
            };
            let (mut runtime, opened) = common::runtime(&units, &session);
            let run = run_on(&mut runtime, &mut session, &case);
            assert_as_kept(&name, &run, &case, tolerance);
            assert!(runtime.lost_devices().is_empty() && runtime.traffic().elsewhere == 0);
            let ran: Vec<u64> = opened.iter().map(|d| d.stats().waits).collect();
            assert!(ran.iter().all(|&tasks| tasks > 0), "{name}: {ran:?}");
            println!("{name}: as PyTorch; tasks of devices: {ran:?}");
        }
    }
}

#[test]
fn devices_know_all_layers_and_losses() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    for name in [
        "activations",
        "layer-norm",
        "group-norm",
        "grouped",
        "transposed",
        "channels",
        "averaged-parts",
        "weighted",
        "regression",
        "l1",
        "several-classes",
    ] {
        let case = runs::case(name);
        let file = fixtures().join("runs").join(format!("{name}.safetensors"));
        let theirs = weights::read(&file).unwrap();
        for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 1e-4)] {
            let how = runs::How {
                dtype,
                ..runs::How::default()
            };
            let mut session = runs::session(&case, &how);
            let (mut runtime, opened) = common::runtime(&How::on(0, 1, "eager"), &session);
            let run = run_on(&mut runtime, &mut session, &case);
            let what = format!("{name} {dtype}");
            assert_close(&what, &run.weights, &theirs, tolerance);
            let loss = run.evaluated.mean_loss();
            let error = (loss - case.evaluated).abs();
            assert!(error < tolerance, "{what}: evaluated to {loss}: {error:e}");
            assert!(runtime.lost_devices().is_empty() && runtime.traffic().elsewhere == 0);
            assert!(opened.iter().all(|d| d.stats().waits > 0), "{what}");
        }
    }
}

#[test]
fn two_devices_train_as_pytorch_does() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let args = ["--exact", "devices_train_as_pytorch_does", "--nocapture"];
    let runs = models().len();
    again_with_two(&args, "on CPUs and two devices: as PyTorch", runs);
}
