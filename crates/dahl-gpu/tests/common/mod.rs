//! Training runs on any units, for tests: what they leave, and how far two of them are apart.

#![allow(dead_code)] // Each test file uses its own part.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dahl_core::{Bytes, DType, MemoryId, Seconds};
use dahl_data::{DataError, Dataset};
use dahl_gpu::Fault;
use dahl_gpu::LinkSpeed;
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::{Device, GpuDriver, GpuError, GpuMemory, Settings};
use dahl_nn::checkpoint::{Checkpoint, CheckpointFolder};
use dahl_nn::model::Model;
use dahl_nn::optim::{Optimizer, Sgd};
use dahl_nn::step::Step;
use dahl_nn::train::{Session, TrainError, Training};
use dahl_nn::weights::{Data, Weights};
use dahl_runtime::{DeviceSpec, Runtime, Traffic};
use dahl_test_support::plans;

/// Images whose class shows in their stripes.
pub struct Stripes(pub [usize; 3]);

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
#[derive(Debug)]
pub struct Run {
    pub losses: Vec<f64>,
    pub weights: Weights,
    pub traffic: Traffic,
    /// Most bytes of copies on the first device.
    pub peak: u64,
    /// Devices taken out, with the reason.
    pub lost: Vec<(String, String)>,
}

/// How a run is executed.
#[derive(Clone)]
pub struct How {
    pub workers: usize,
    pub devices: usize,
    pub policy: &'static str,
    /// Most bytes of copies on a device.
    pub capacity: usize,
    /// Most bytes of a device in all.
    pub limit: usize,
    pub steps: Option<u64>,
    pub batch: usize,
    /// Deals tasks to units beforehand, and decides what moves when.
    pub planned: bool,
    /// What fails on the first device, after so many went well.
    pub fault: Option<(Fault, u32)>,
    /// Where a checkpoint is kept after every step.
    pub checkpoints: Option<PathBuf>,
}

impl How {
    pub fn on(workers: usize, devices: usize, policy: &'static str) -> How {
        How {
            workers,
            devices,
            policy,
            capacity: 1 << 30,
            limit: 2 << 30,
            steps: None,
            batch: 4,
            planned: false,
            fault: None,
            checkpoints: None,
        }
    }
}

pub fn sgd() -> Optimizer {
    let (momentum, weight_decay) = (0.9, 0.001);
    Sgd {
        momentum,
        weight_decay,
        ..Sgd::default()
    }
    .into()
}

pub fn session(model: &str, dtype: DType, how: &How) -> Session {
    let step = Step::new(Model::from_toml(model, "model").unwrap())
        .batch(how.batch)
        .dtype(dtype)
        .optimizer(sgd())
        .clip_norm(1.0)
        .seed(5);
    let training = Training {
        epochs: 2,
        steps: how.steps,
        rate: Some(0.01),
        shuffle: false,
        ..Training::default()
    };
    Session::new(step, training).unwrap()
}

/// A runtime, and its devices.
pub fn runtime(how: &How, session: &Session) -> (Runtime, Vec<Arc<OpenClDevice>>) {
    let mut builder = Runtime::builder()
        .workers(how.workers)
        .policy(how.policy)
        .watchdog(Duration::from_secs(120));
    let mut devices = Vec::new();
    for i in 0..how.devices {
        let settings = Settings {
            limit: Some(how.limit),
            ..Settings::default()
        };
        let device = OpenClDevice::open(i, settings).unwrap();
        devices.push(device.clone());
        let device: Arc<dyn Device> = device;
        // A fixed speed: to measure it for every run would take longer than many runs.
        let link = LinkSpeed {
            bandwidth: 5e9,
            latency: Seconds(20e-6),
        };
        let memory = GpuMemory::new(device.clone(), [link; 2]);
        let links = memory.links().map(|l| (l.bandwidth, l.latency));
        builder = builder.device(DeviceSpec {
            name: format!("gpu:{i}"),
            driver: Box::new(GpuDriver::new(device)),
            backing: Box::new(memory),
            capacity: Bytes(how.capacity as u64),
            links,
        });
    }
    if how.planned {
        let graph = session.lowered().unwrap();
        // Any plan will do that is the same next time; data moves as it says, too.
        let capacity = how.capacity as u64;
        let machine = plans::machine(how.workers, how.devices, capacity, 1e9);
        let plan = plans::plan(&graph, &machine, 3);
        builder = builder.schedule(plans::schedule(&graph, &plan));
    }
    (builder.build().unwrap(), devices)
}

/// Trains, from a checkpoint if one is given.
pub fn try_train(
    model: &str,
    dtype: DType,
    how: &How,
    from: Option<&Checkpoint>,
) -> Result<Run, TrainError> {
    let mut session = session(model, dtype, how);
    let data = Arc::new(Stripes(session.model().input));
    let (mut runtime, devices) = runtime(how, &session);
    if let (Some((fault, after)), Some(device)) = (how.fault, devices.first()) {
        device.inject(fault, after);
    }
    if let Some(folder) = &how.checkpoints {
        session.checkpoint_to(CheckpointFolder::new(folder).every(1));
    }
    match from {
        Some(checkpoint) => session.resume(&mut runtime, checkpoint)?,
        None => session.initialise(&mut runtime)?,
    }
    let mut losses = Vec::new();
    session.run(&mut runtime, data, None, &mut |progress| {
        losses.extend(progress.epoch().map(|e| e.train.mean_loss()));
        ControlFlow::Continue(())
    })?;
    Ok(Run {
        losses,
        weights: session.weights(&mut runtime)?,
        traffic: runtime.traffic(),
        peak: runtime.memory_usage(MemoryId(1)).1.0,
        lost: runtime.lost_devices(),
    })
}

pub fn train(model: &str, dtype: DType, how: &How) -> Run {
    try_train(model, dtype, how, None).unwrap()
}

fn numbers(d: &Data) -> Vec<f64> {
    match d {
        Data::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::F64(v) => v.clone(),
        Data::I64(v) => v.iter().map(|&x| x as f64).collect(),
    }
}

pub fn assert_close(name: &str, a: &Run, b: &Run, tolerance: f64) {
    let tail = b.losses.len() - a.losses.len().min(b.losses.len());
    for (x, y) in a.losses.iter().zip(&b.losses[tail..]) {
        assert!(
            (x - y).abs() <= tolerance * y.abs(),
            "{name}: losses {x} and {y}"
        );
    }
    for (key, want) in &b.weights {
        let (got, want) = (numbers(&a.weights[key].data), numbers(&want.data));
        let size = want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
        let apart = got.iter().zip(&want).map(|(g, w)| (g - w).abs());
        // What is not a number is as far away as can be.
        let worst = apart.fold(0f64, |m, d| if d <= m { m } else { d });
        assert!(
            worst <= tolerance * size,
            "{name}: {key} differs by {worst} of {size}"
        );
    }
}

pub const SMALL_CNN: &str = include_str!("../../../dahl-nn/models/small-cnn.toml");
pub const LENET5: &str = include_str!("../../../dahl-nn/models/lenet5.toml");
pub const VGG_SMALL: &str = include_str!("../../../dahl-nn/models/vgg-small.toml");
pub const RESNET18: &str = include_str!("../../../dahl-nn/models/resnet18-32.toml");

/// What to do where there is no device.
pub const POCL: &str = "apt install pocl-opencl-icd ocl-icd-libopencl1";

/// Whether OpenCL has a device; a library that fails is no excuse.
pub fn have_device() -> bool {
    match opencl::devices() {
        Ok(all) => !all.is_empty(),
        Err(GpuError::NoLibrary { .. }) => false,
        Err(e) => panic!("{e}"),
    }
}

/// Starts this program again with two devices, since the library looks once, and these arguments; all must go
/// well, and print `line` so many times.
pub fn again_with_two(args: &[&str], line: &str, times: usize) {
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(args)
        .env("POCL_DEVICES", "pthread pthread")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && text.matches(line).count() == times,
        "{text}{error}"
    );
}
