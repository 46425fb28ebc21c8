//! The steady state: after the first step a device is asked for no memory, compiles nothing, and nobody
//! waits for it more often than once per task; a thousand steps leave nothing behind.

mod common;

use std::sync::Arc;

use common::{How, POCL, SMALL_CNN, have_device, runtime, session};
use dahl_core::{Arena, DType, Recorder, Task};
use dahl_gpu::Device;
use dahl_test_support::skip;

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
    for (workers, policy, each) in [(0, "eager", 200), (1, "ws", 40)] {
        let how = How::on(workers, 1, policy);
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
            let per = |a: usize, f: fn(&dahl_gpu::store::Stats) -> u64| {
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

/// Tasks over large arrays of their own: those of the next travel while one runs.
#[test]
fn operands_travel_while_kernels_run() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let how = How::on(0, 1, "eager");
    let (mut runtime, _) = runtime(&how, &session(SMALL_CNN, DType::F32, &how));
    let arena = Arena::new();
    let mut arrays: Vec<_> = (0..12)
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
    assert!(t.bytes_prefetched >= 6 << 20, "{t:?}");
    for a in &arrays {
        assert!(runtime.read(a).unwrap().iter().all(|&v| v == 3.0));
    }
}
