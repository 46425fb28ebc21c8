//! Every codelet on every OpenCL device against the CPU's reference, and the PTX of every kernel.
//!
//! Skipped without an OpenCL device. PoCL gives one device on any CPU, and
//! two if asked; the test that asks starts this program again, since the library looks once.

mod common;

use std::sync::Arc;

use common::{POCL, have_device};
use dahl_check::{Outcome, Subject, check, check_all};
use dahl_core::view::for_rows;
use dahl_core::{Codelet, DType, Operands, Seconds, UnitKind};
use dahl_gpu::LinkSpeed;
use dahl_gpu::Tuning;
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::{Device, GpuDriver, GpuMemory, Settings};
use dahl_test_support::skip;

/// Calls `f` with a device as conformance checks see it.
fn subject<R>(device: &Arc<dyn Device>, f: impl FnOnce(Subject<'_>) -> R) -> R {
    let link = LinkSpeed {
        bandwidth: 1e9,
        latency: Seconds(0.0),
    };
    f(Subject {
        driver: &GpuDriver::new(device.clone()),
        memory: &GpuMemory::new(device.clone(), [link; 2]),
    })
}

/// All devices.
fn open(settings: &Settings) -> Vec<Arc<OpenClDevice>> {
    let all = 0..opencl::devices().unwrap().len();
    all.map(|i| OpenClDevice::open(i, settings.clone()).unwrap())
        .collect()
}

#[test]
fn every_codelet_agrees_with_the_reference() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let settings = Settings {
        limit: Some(1 << 30),
        ..Settings::default()
    };
    let devices = open(&settings);
    if let Ok(want) = std::env::var("DAHL_TEST_DEVICES") {
        assert_eq!(devices.len().to_string(), want, "devices");
    }
    for (i, device) in devices.into_iter().enumerate() {
        let device: Arc<dyn Device> = device;
        for dtype in [DType::F32, DType::F64] {
            let outcomes = subject(&device, |s| check_all(s, dtype, 17 + i as u64));
            let failed = |o: &Outcome| o.failure.clone();
            let failures: Vec<String> = outcomes.iter().filter_map(failed).collect();
            let cases: usize = outcomes.iter().map(|o| o.cases).sum();
            println!(
                "{} {dtype}: {} codelets, {cases} cases",
                device.name(),
                outcomes.len()
            );
            assert!(failures.is_empty(), "{}", failures.join("\n"));
        }
        let usage = device.usage();
        assert!(usage.peak > 0 && usage.reserved <= usage.limit, "{usage:?}");
    }
}

/// The graph's own codelets, which join operands 1, 2, … with operand 0.
#[test]
fn accumulators_merge_as_on_the_host() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    type Join = fn(f64, f64) -> f64;
    let joins: [(&str, Join); 3] = [
        ("merge", |a, b| a + b),
        ("merge_min", dahl_core::graph::smaller),
        ("merge_max", dahl_core::graph::larger),
    ];
    for device in open(&Settings::default()) {
        let device: Arc<dyn Device> = device;
        for (name, join) in joins {
            let body = move |ops: &Operands<'_>| {
                let mut to = ops.write::<f64>(0);
                for i in 1..ops.len() {
                    let part = ops.read::<f64>(i);
                    for_rows(to.dims(), |at| {
                        let pairs = to.row(at).iter_mut().zip(part.row(at));
                        pairs.for_each(|(a, &b)| *a = join(*a, b));
                    });
                }
                Ok(())
            };
            let codelet = Codelet::new(name).implement("reference", UnitKind::CPU, body);
            let outcome = subject(&device, |s| check(s, &codelet, DType::F64, 3));
            assert_eq!((outcome.failure, outcome.cases > 0), (None, true), "{name}");
        }
    }
}

#[test]
fn two_devices_agree_too() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let program = std::env::current_exe().unwrap();
    let run = std::process::Command::new(program)
        .args(["--exact", "every_codelet_agrees_with_the_reference"])
        .env("POCL_DEVICES", "pthread pthread")
        .env("DAHL_TEST_DEVICES", "2")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

/// Devices differ in the size of their groups; the kernels must not mind.
#[test]
fn small_groups_agree_too() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    for group in [100, 20, 1] {
        let settings = Settings {
            group: Some(group),
            ..Settings::default()
        };
        let device: Arc<dyn Device> = open(&settings).remove(0);
        assert!(device.tuning().group <= group && device.tuning().side.pow(2) <= group);
        let outcomes = subject(&device, |s| check_all(s, DType::F32, 23));
        let failures: Vec<String> = outcomes.into_iter().filter_map(|o| o.failure).collect();
        assert!(failures.is_empty(), "{group}: {}", failures.join("\n"));
    }
}

#[test]
fn every_kernel_compiles_to_ptx() {
    if let Err(e) = dahl_gpu::cuda::compiler_present() {
        skip!(
            e,
            "pip install nvidia-cuda-nvrtc-cu12, and name its libnvrtc.so in DAHL_NVRTC"
        );
    }
    for (items, local) in [(1024, 48 << 10), (64, 16 << 10)] {
        let tuning = Tuning::new(items, local, true);
        for dtype in [DType::F32, DType::F64] {
            let text = dahl_gpu::cuda::ptx(dtype, &tuning, (7, 5)).unwrap();
            for kernel in dahl_gpu::source::kernels() {
                let entry = format!(".entry {kernel}(");
                assert!(text.contains(&entry), "{kernel} {dtype}");
            }
        }
    }
}
