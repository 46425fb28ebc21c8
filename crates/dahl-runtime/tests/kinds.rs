//! A kind of unit that nothing in the workspace knows: its driver owns its kernels, and the core needs no edit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dahl_core::{
    Arena, Bytes, Codelet, DType, Element, Graph, Kernel, KernelSet, Recorder, Seconds, Task,
    TaskError, UnitKind,
};
use dahl_runtime::driver::{Code, Driver, DriverError, Job};
use dahl_runtime::memory::HostDevice;
use dahl_runtime::{DeviceSpec, RunError, Runtime};

const FPGA: UnitKind = UnitKind::new("fpga");

/// Doubles arrays of single precision, and knows nothing else.
struct Fpga {
    kernels: KernelSet,
    runs: Arc<AtomicUsize>,
}

impl Driver for Fpga {
    fn kind(&self) -> UnitKind {
        FPGA
    }

    fn kernels(&self) -> Option<&KernelSet> {
        Some(&self.kernels)
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        let Code::Kernel(0) = job.code else {
            return Err(TaskError(format!("{:?} is not mine", job.code)).into());
        };
        assert!(scratch.is_empty(), "kernels ask for no host memory");
        let array = &job.arrays[job.accesses[0].array as usize];
        let all = array.base.cast::<f32>();
        for i in 0..array.shape.len() {
            // SAFETY: by the contract of `execute`; this device's memory is the host's.
            unsafe { *all.add(i) *= 2.0 };
        }
        self.runs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn device(name: &str, kernel: &'static str, runs: &Arc<AtomicUsize>) -> DeviceSpec {
    let single = Kernel {
        supports: |call| call.dtype == DType::F32,
        ..Kernel::new("double", kernel)
    };
    DeviceSpec {
        name: name.into(),
        driver: Box::new(Fpga {
            kernels: [single].into_iter().collect(),
            runs: runs.clone(),
        }),
        backing: Box::new(HostDevice::new(1e9, Duration::ZERO)),
        capacity: Bytes(1 << 20),
        links: [(1e9, Seconds(0.0)); 2],
    }
}

/// Adds one on a CPU, then doubles, which no CPU can.
fn program<T: Element>(x: &mut dahl_core::Vector<'_, T>) -> Arc<Graph> {
    let one = Codelet::new("one").implement("reference", UnitKind::CPU, |ops| {
        let mut x = ops.write::<f32>(0);
        dahl_core::view::for_rows(x.dims(), |at| x.row(at).iter_mut().for_each(|v| *v += 1.0));
        Ok(())
    });
    let (one, double) = (Arc::new(one), Arc::new(Codelet::new("double")));
    let recorder = Recorder::new();
    recorder.submit(Task::new(&one, &[x.read_write()]));
    recorder.submit(Task::new(&double, &[x.read_write()]));
    recorder.finish().unwrap()
}

#[test]
fn a_third_kind_of_device_runs_its_own_kernels() {
    for policy in ["eager", "ws", "dm", "dmda", "dmdas"] {
        let runs = Arc::new(AtomicUsize::new(0));
        let arena = Arena::new();
        let mut x = arena.zeros::<f32, 1>([5]).unwrap();
        let graph = program(&mut x);
        let mut runtime = Runtime::builder()
            .workers(2)
            .policy(policy)
            .trace(64)
            .watchdog(Duration::from_secs(60))
            .device(device("fpga:0", "bitstream", &runs))
            .build()
            .unwrap();
        for _ in 0..3 {
            runtime.launch(&graph).unwrap();
        }
        assert_eq!(*runtime.read(&x).unwrap(), [14.0; 5], "{policy}");
        assert_eq!(runs.load(Ordering::Relaxed), 3, "{policy}");
        let trace = runtime.take_trace().unwrap();
        for run in &trace.tasks {
            let kind = trace.units[usize::from(run.unit)].kind;
            let by = (
                trace.class_of(run.id).codelet.as_str(),
                trace.implementation_of(run),
            );
            let want = match kind {
                FPGA => ("double", "bitstream"),
                _ => ("one", "reference"),
            };
            assert_eq!(by, want, "{policy}");
        }
        assert_eq!(trace.tasks.len(), 6);
    }
}

#[test]
fn calls_that_its_kernels_do_not_support_are_refused_at_launch() {
    let runs = Arc::new(AtomicUsize::new(0));
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 1>([5]).unwrap();
    let graph = program(&mut x);
    let mut runtime = Runtime::builder()
        .workers(1)
        .device(device("fpga:0", "bitstream", &runs))
        .build()
        .unwrap();
    let refused = runtime.launch(&graph);
    let Err(RunError::NoImplementation(task)) = refused else {
        panic!("{refused:?}");
    };
    assert!(task.contains("double"), "{task}");
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[test]
fn units_of_one_kind_must_have_the_same_kernels() {
    let runs = Arc::new(AtomicUsize::new(0));
    let with = |second| {
        Runtime::builder()
            .workers(1)
            .device(device("fpga:0", "bitstream", &runs))
            .device(device("fpga:1", second, &runs))
            .build()
            .map(drop)
    };
    with("bitstream").unwrap();
    let refused = with("another").unwrap_err().to_string();
    assert!(
        refused.contains("fpga:1") && refused.contains("kind of its own"),
        "{refused}"
    );
}
