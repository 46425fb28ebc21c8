//! Whole training runs: on CPUs, on devices and on both, with the same losses and weights.
//!
//! On OpenCL's devices; skipped, and said so, where there is none. The test that wants two devices
//! starts this program again, since the library looks once.

use std::sync::Arc;

use dahl_core::{Bytes, DType};
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::{Device, GpuDriver, GpuMemory, Settings};
use dahl_nn::data::{DataError, Dataset};
use dahl_nn::model::Model;
use dahl_nn::optimizer::Optimizer;
use dahl_nn::schedule::Schedule;
use dahl_nn::train::{Event, Session, Training};
use dahl_nn::weights::{Data, Weights};
use dahl_runtime::{DeviceSpec, Runtime};

/// Images whose class shows in their stripes.
struct Stripes([usize; 3]);

impl Dataset for Stripes {
    fn name(&self) -> &str {
        "stripes"
    }

    fn len(&self) -> usize {
        12
    }

    fn classes(&self) -> usize {
        10
    }

    fn shape(&self) -> [usize; 3] {
        self.0
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        for (i, p) in pixels.iter_mut().enumerate() {
            *p = (i * (index % 10 + 1) * 7 % 251) as u8;
        }
        Ok(index % 10)
    }
}

/// What a run leaves.
struct Run {
    losses: Vec<f64>,
    weights: Weights,
    moved: u64,
    evictions: u64,
}

struct How {
    workers: usize,
    devices: usize,
    policy: &'static str,
    capacity: usize,
    steps: Option<u64>,
}

fn train(model: &str, optimizer: Optimizer, dtype: DType, how: &How) -> Run {
    let model = Model::from_toml(model, "model").unwrap();
    let data = Arc::new(Stripes(model.input));
    let mut builder = Runtime::builder().workers(how.workers).policy(how.policy);
    for i in 0..how.devices {
        let settings = Settings {
            limit: Some(how.capacity + (64 << 20)),
            ..Settings::default()
        };
        let device: Arc<dyn Device> = OpenClDevice::open(i, settings).unwrap();
        let memory = GpuMemory::measured(device.clone()).unwrap();
        let links = memory.links().map(|l| (l.bandwidth, l.latency));
        builder = builder.device(DeviceSpec {
            name: format!("gpu:{i}"),
            driver: Box::new(GpuDriver::new(device)),
            backing: Box::new(memory),
            capacity: Bytes(how.capacity as u64),
            links,
        });
    }
    let mut runtime = builder.build().unwrap();
    let training = Training {
        batch: 4,
        epochs: 2,
        steps: how.steps,
        rate: 0.01,
        schedule: Schedule::default(),
        optimizer,
        shuffle: false,
        seed: 5,
        dtype,
        grain: "auto".parse().unwrap(),
        clip: Some(1.0),
        profile: None,
        extra: (how.devices > 0)
            .then_some(|name: &str| dahl_gpu::device::implementation(name, None)),
    };
    let mut session = Session::new(model, training).unwrap();
    session.initialise(&mut runtime).unwrap();
    let mut losses = Vec::new();
    let run = session.run(&mut runtime, data, None, &mut |event| {
        if let Event::Epoch { train, .. } = event {
            losses.push(train.mean_loss());
        }
    });
    run.unwrap();
    let traffic = runtime.traffic();
    Run {
        losses,
        weights: session.weights(&mut runtime).unwrap(),
        moved: traffic.bytes_in,
        evictions: traffic.evictions,
    }
}

fn numbers(d: &Data) -> Vec<f64> {
    match d {
        Data::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::F64(v) => v.clone(),
        Data::I64(v) => v.iter().map(|&x| x as f64).collect(),
    }
}

fn assert_close(name: &str, a: &Run, b: &Run, tolerance: f64) {
    for (x, y) in a.losses.iter().zip(&b.losses) {
        assert!(
            (x - y).abs() <= tolerance * y.abs(),
            "{name}: losses {x} and {y}"
        );
    }
    for (key, want) in &b.weights {
        let (got, want) = (numbers(&a.weights[key].data), numbers(&want.data));
        let size = want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
        let worst = got
            .iter()
            .zip(&want)
            .fold(0f64, |m, (g, w)| m.max((g - w).abs()));
        assert!(
            worst <= tolerance * size,
            "{name}: {key} differs by {worst} of {size}"
        );
    }
}

const MODELS: [(&str, &str); 2] = [
    ("small-cnn", include_str!("../../../models/small-cnn.toml")),
    ("lenet5", include_str!("../../../models/lenet5.toml")),
];

const DEEP: [(&str, &str); 2] = [
    ("vgg-small", include_str!("../../../models/vgg-small.toml")),
    (
        "resnet18-32",
        include_str!("../../../models/resnet18-32.toml"),
    ),
];

const SGD: Optimizer = Optimizer::Sgd {
    momentum: 0.9,
    nesterov: false,
    weight_decay: 0.001,
};

fn have(devices: usize) -> bool {
    let found = opencl::devices().map_or(0, |d| d.len());
    if found < devices {
        eprintln!("SKIPPED: {found} OpenCL devices, {devices} needed");
    }
    found >= devices
}

#[test]
fn devices_train_as_cpus_do() {
    if !have(1) {
        return;
    }
    let all = opencl::devices().unwrap().len();
    for (name, model) in MODELS {
        for (dtype, tolerance) in [(DType::F64, 1e-9), (DType::F32, 2e-4)] {
            let how = |workers, devices, policy| How {
                workers,
                devices,
                policy,
                capacity: 512 << 20,
                steps: None,
            };
            let want = train(model, SGD, dtype, &how(2, 0, "ws"));
            let alone = train(model, SGD, dtype, &how(0, 1, "eager"));
            assert_close(
                &format!("{name} {dtype} on a device"),
                &alone,
                &want,
                tolerance,
            );
            let again = train(model, SGD, dtype, &how(0, 1, "eager"));
            assert!(
                alone.weights == again.weights,
                "{name}: other bits when run again"
            );
            for policy in ["eager", "dmda"] {
                let both = train(model, SGD, dtype, &how(2, all, policy));
                let what = format!("{name} {dtype} on CPUs and {all} devices, {policy}");
                assert_close(&what, &both, &want, tolerance);
                println!("{what}: {} bytes moved", both.moved);
            }
        }
    }
}

#[test]
fn two_devices_train_as_one_does() {
    if !have(1) {
        return;
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "devices_train_as_cpus_do", "--nocapture"])
        .env("POCL_DEVICES", "pthread pthread")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && text.contains("CPUs and 2 devices"),
        "{text}"
    );
}

/// Winograd, batch normalisation and residual connections: one step.
#[test]
fn deep_models_train_on_a_device() {
    if !have(1) {
        return;
    }
    for (name, model) in DEEP {
        let how = |workers, devices| How {
            workers,
            devices,
            policy: "eager",
            capacity: 2 << 30,
            steps: Some(1),
        };
        let want = train(model, SGD, DType::F64, &how(2, 0));
        let got = train(model, SGD, DType::F64, &how(0, 1));
        assert_close(name, &got, &want, 1e-7);
    }
}

/// A device too small for the model: copies are evicted and fetched again, with the same result.
#[test]
fn a_model_larger_than_the_device_trains() {
    if !have(1) {
        return;
    }
    let (name, model) = MODELS[1];
    let how = |capacity| How {
        workers: 0,
        devices: 1,
        policy: "eager",
        capacity,
        steps: None,
    };
    let roomy = train(model, SGD, DType::F32, &how(512 << 20));
    let tight = train(model, SGD, DType::F32, &how(600 << 10));
    assert!(
        roomy.evictions == 0 && tight.evictions > 0,
        "{name}: evictions"
    );
    assert!(tight.moved > roomy.moved, "{name}: bytes moved");
    assert!(roomy.weights == tight.weights, "{name}: other bits");
    println!(
        "{name}: {} evictions, {} against {} bytes in",
        tight.evictions, tight.moved, roomy.moved
    );
}
