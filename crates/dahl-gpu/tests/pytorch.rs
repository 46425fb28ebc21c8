//! Training on devices against PyTorch: losses and weights of the models that come with the project, in both
//! precisions, on a device alone, on CPUs and a device, and on CPUs and two.
//!
//! The runs to compare with are fixtures of `dahl-nn`. On OpenCL's devices; skipped where there is none.

mod common;
#[path = "../../dahl-nn/tests/support/mod.rs"]
mod support;

use common::{How, POCL, again_with_two, have_device};
use dahl_gpu::{Device, opencl};
use dahl_test_support::skip;
use support::{assert_as_kept, models, run_on};

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
            let how = support::How {
                dtype,
                ..support::How::default()
            };
            let mut session = support::session(&case, &how);
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
fn two_devices_train_as_pytorch_does() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let args = ["--exact", "devices_train_as_pytorch_does", "--nocapture"];
    again_with_two(&args, "on CPUs and two devices: as PyTorch", 8);
}
