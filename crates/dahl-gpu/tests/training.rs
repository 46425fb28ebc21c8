//! Whole training runs: on CPUs, on devices and on both, with the same losses and weights.
//!
//! On OpenCL's devices; skipped where there is none. The test that wants two devices
//! starts this program again, since the library looks once.

mod common;

use common::{
    How, LENET5, POCL, RESNET18, SMALL_CNN, VGG_SMALL, again_with_two, assert_close, have_device,
    train,
};
use dahl_core::DType;
use dahl_gpu::opencl;
use dahl_test_support::skip;

/// Compares a model on all units at hand: a device alone (twice, to the bit), CPUs and all devices by
/// policies, and by a plan (twice, to the bit). With two devices, only what needs two; deep models, less.
fn compare(name: &str, model: &str, how: &How, precisions: &[(DType, f64)]) {
    let all = opencl::devices().unwrap().len();
    let with = |workers, devices, policy| How {
        workers,
        devices,
        policy,
        ..how.clone()
    };
    for &(dtype, tolerance) in precisions {
        let want = train(model, dtype, &with(2, 0, "ws"));
        let close = |what: &str, how: &How, again: bool| {
            let got = train(model, dtype, how);
            let what = format!("{name} {dtype} on {what}");
            assert_close(&what, &got, &want, tolerance);
            assert!(got.lost.is_empty() && got.traffic.elsewhere == 0, "{what}");
            if again {
                let again = train(model, dtype, how);
                assert!(got.weights == again.weights, "{what}: other bits again");
            }
            println!("{what}: {} bytes moved", got.traffic.bytes_in);
        };
        let deep = how.steps.is_some();
        if all == 1 {
            close("a device", &with(0, 1, "eager"), !deep);
            if !deep {
                close("CPUs and a device, eager", &with(2, 1, "eager"), false);
            }
        }
        if !deep || all == 1 {
            let policy = format!("CPUs and {all} devices, dmda");
            close(&policy, &with(2, all, "dmda"), false);
        }
        let planned = How {
            planned: true,
            ..with(2, all, "ws")
        };
        let plan = format!("CPUs and {all} devices, planned");
        close(&plan, &planned, !deep || dtype == DType::F32);
    }
}

#[test]
fn devices_train_as_cpus_do() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    for (name, model) in [("small-cnn", SMALL_CNN), ("lenet5", LENET5)] {
        let how = How::on(2, 1, "ws");
        compare(name, model, &how, &[(DType::F64, 1e-9), (DType::F32, 2e-4)]);
    }
}

/// Winograd, batch normalisation and residual connections; on smaller images, for speed.
#[test]
fn devices_train_deep_models_as_cpus_do() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    for (name, model) in [("vgg-small", VGG_SMALL), ("resnet18-32", RESNET18)] {
        let how = How {
            steps: Some(1),
            batch: 2,
            ..How::on(2, 1, "ws")
        };
        let model = model.replace("[3, 32, 32]", "[3, 16, 16]");
        let precisions = [(DType::F64, 1e-7), (DType::F32, 2e-3)];
        compare(name, &model, &how, &precisions);
    }
}

#[test]
fn two_devices_train_as_one_does() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let args = ["as_cpus_do", "--nocapture", "--test-threads=1"];
    again_with_two(&args, "CPUs and 2 devices", 12);
}

/// Models that need more than the device has, one of them three times as much: copies are evicted and
/// fetched again, with the same result. The limit leaves little for scratch memory, which finds its room.
#[test]
fn a_model_three_times_the_device_trains() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let resnet = RESNET18.replace("[3, 32, 32]", "[3, 16, 16]");
    let cases = [
        ("lenet5", LENET5, 600 << 10, 600 << 10, None, 1.2),
        ("resnet18-32", &resnet, 40 << 20, 44 << 20, Some(1), 3.0),
    ];
    for (name, model, capacity, limit, steps, factor) in cases {
        let with = |capacity, limit| How {
            capacity,
            limit,
            steps,
            batch: 2,
            ..How::on(0, 1, "eager")
        };
        let roomy = train(model, DType::F32, &with(1 << 30, 2 << 30));
        let tight = train(model, DType::F32, &with(capacity, limit));
        let (t, r) = (tight.traffic, roomy.traffic);
        println!(
            "{name}: {} bytes needed, {} of {capacity} used: {} evictions, {} + {} bytes moved, {} + {} if there is room, {} tasks elsewhere",
            roomy.peak,
            tight.peak,
            t.evictions,
            t.bytes_in,
            t.bytes_out,
            r.bytes_in,
            r.bytes_out,
            t.elsewhere
        );
        assert!(roomy.peak as f64 >= factor * capacity as f64, "{name}");
        assert!(tight.peak <= capacity as u64, "{name}");
        assert!(r.evictions == 0 && t.evictions > 0 && t.bytes_in > r.bytes_in);
        match t.elsewhere {
            0 => assert!(roomy.weights == tight.weights, "{name}: other bits"),
            _ => assert_close(name, &tight, &roomy, 2e-3),
        }
    }
}
