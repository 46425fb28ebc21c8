//! The steady state: after the first steps a device is asked for no memory, compiles nothing, and nobody
//! waits for it more often than once per task; a thousand steps leave nothing behind.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::{How, POCL, SMALL_CNN, have_device, runtime, session};
use dahl_core::{Arena, Bytes, DType, KernelSet, Recorder, Seconds, Task, UnitKind};
use dahl_gpu::LinkSpeed;
use dahl_gpu::opencl::OpenClDevice;
use dahl_gpu::{Device, GpuDriver, GpuMemory, Settings};
use dahl_runtime::driver::{Driver, DriverError, Job};
use dahl_runtime::{DeviceSpec, Runtime};
use dahl_test_support::skip;

/// The memory of the process is counted here, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes of this process in memory.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(not(target_os = "linux"))]
fn resident() -> usize {
    0
}

#[test]
fn a_thousand_steps_leave_nothing_behind() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (workers, policy, each) in [(0, "eager", 200), (1, "plan", 40)] {
        // Beside a CPU by a plan: the device is then given the same tasks in every step.
        let how = How {
            planned: workers > 0,
            ..How::on(workers, 1, "eager")
        };
        let mut session = session(SMALL_CNN, DType::F32, &how);
        let (mut runtime, devices) = runtime(&how, &session);
        session.initialise(&mut runtime).unwrap();
        let (device, graph) = (&devices[0], session.lowered().unwrap());
        let mut steps = |n: usize| {
            for _ in 0..n {
                runtime.launch(&graph).unwrap();
            }
            runtime.wait().unwrap();
            let traffic = runtime.traffic();
            (device.stats(), device.usage(), traffic, resident())
        };
        steps(4);
        let parts: Vec<_> = (0..5).map(|_| steps(each)).collect();
        let (warm, end) = (&parts[0], &parts[4]);
        println!("{policy}: {:?}, then {:?}", warm.0, end.0);
        assert_eq!(warm.0.buffers, end.0.buffers, "memory asked for");
        assert_eq!(warm.0.programs, end.0.programs, "programs made");
        assert_eq!(warm.1.reserved, end.1.reserved, "buffers");
        assert_eq!(end.2.evictions, 0);
        if workers == 0 {
            // Everything stays there, and every step is as the one before.
            assert_eq!(warm.1, end.1, "memory in use");
            assert_eq!(warm.2, end.2, "bytes moved");
            let per = |a: usize, f: fn(&dahl_gpu::Stats) -> u64| {
                (f(&parts[a + 1].0) - f(&parts[a].0)) / each as u64
            };
            for part in 0..4 {
                assert_eq!(per(part, |s| s.waits), graph.len() as u64, "waits per step");
                assert_eq!(per(part, |s| s.launches), per(0, |s| s.launches));
                assert_eq!(per(part, |s| s.copies), 0);
            }
        }
        let grown = end.3.saturating_sub(warm.3);
        println!(
            "{policy}: {grown} bytes more in memory after {} steps",
            4 * each
        );
        assert!(grown < 8 << 20, "{grown} bytes more");
    }
}

/// A device whose every task goes on until the operands of the next have come.
struct Patient {
    driver: GpuDriver,
    device: Arc<OpenClDevice>,
    begun: AtomicU64,
}

/// Tasks over arrays of their own, which read one array in common.
const TASKS: u64 = 12;

impl Driver for Patient {
    fn kind(&self) -> UnitKind {
        self.driver.kind()
    }

    fn kernels(&self) -> Option<&KernelSet> {
        self.driver.kernels()
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        let task = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        // SAFETY: passed on to the caller.
        unsafe { self.driver.execute(job, scratch)? };
        // The watchdog looks after those that wait in vain.
        let next = (task + 1).min(TASKS);
        while self.device.stats().copies < 1 + next {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Tasks over large arrays of their own: those of the next travel while one runs.
#[test]
fn operands_travel_while_kernels_run() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = OpenClDevice::open(0, Settings::default()).unwrap();
    let link = LinkSpeed {
        bandwidth: 5e9,
        latency: Seconds(20e-6),
    };
    let driver = Patient {
        driver: GpuDriver::new(device.clone()),
        device: device.clone(),
        begun: AtomicU64::new(0),
    };
    let spec = DeviceSpec {
        name: "gpu:0".into(),
        driver: Box::new(driver),
        backing: Box::new(GpuMemory::new(device, [link; 2])),
        capacity: Bytes(1 << 30),
        links: [(link.bandwidth, link.latency); 2],
    };
    let builder = Runtime::builder().workers(0).policy("eager").device(spec);
    let builder = builder.watchdog(Duration::from_secs(120));
    let mut runtime = builder.build().unwrap();
    let arena = Arena::new();
    let mut arrays: Vec<_> = (0..TASKS)
        .map(|_| arena.full([1 << 18], 2.0f32).unwrap())
        .collect();
    let double: Arc<_> = dahl_ops::elementwise::ADD_ASSIGN.clone();
    let recorder = Recorder::new();
    let one = arena.full([1 << 18], 1.0f32).unwrap();
    for a in &mut arrays {
        recorder.submit(Task::new(&double, &[one.read(), a.read_write()]));
    }
    let graph = recorder.finish().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    let t = runtime.traffic();
    println!(
        "{} of {} bytes fetched ahead",
        t.bytes_prefetched, t.bytes_in
    );
    assert_eq!(t.bytes_in, 13 << 20);
    assert_eq!(t.bytes_prefetched, 11 << 20, "all but the first task's");
    for a in &arrays {
        assert!(runtime.read(a).unwrap().iter().all(|&v| v == 3.0));
    }
}
