//! Devices that fail in the middle of training: right weights, or a clear error and a checkpoint that
//! resumes. On OpenCL's first device; skipped where there is none.

mod common;

use common::{How, POCL, SMALL_CNN, assert_close, have_device, train, try_train};
use dahl_core::DType;
use dahl_gpu::Fault;
use dahl_nn::checkpoint::Checkpoint;
use dahl_test_support::skip;

const TOLERANCE: f64 = 1e-9;

/// Trains with every fault at many positions.
#[test]
fn training_survives_failures_or_resumes() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let want = train(SMALL_CNN, DType::F64, &How::on(2, 0, "ws"));
    let folder = std::env::temp_dir().join(format!("dahl-gpu-failures-{}", std::process::id()));
    let (mut ends, mut resumed) = ([[0; 3]; 4], 0);
    for (workers, policy) in [(0, "eager"), (2, "dmda")] {
        // Beside CPUs, how much a device does is a matter of load: that is not counted.
        let certain = usize::from(workers == 0);
        for fault in [Fault::Launch, Fault::Copy, Fault::Allocate, Fault::Wait] {
            for after in [0, 1, 3, 7, 15, 30, 50, 80, 120, 180] {
                let _ = std::fs::remove_dir_all(&folder);
                let how = How {
                    fault: Some((fault, after)),
                    checkpoints: Some(folder.clone()),
                    ..How::on(workers, 1, policy)
                };
                let what = format!("{fault:?} after {after}, {workers} workers");
                match try_train(SMALL_CNN, DType::F64, &how, None) {
                    Ok(run) => {
                        assert_close(&what, &run, &want, TOLERANCE);
                        let is_lost = !run.lost.is_empty();
                        assert!(!is_lost || fault != Fault::Allocate, "{what}");
                        assert!(run.lost.iter().all(|l| l.1.contains("injected")), "{what}");
                        ends[fault as usize][usize::from(is_lost)] += certain;
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(
                            text.contains("is lost") && text.contains("injected"),
                            "{text}"
                        );
                        assert!(text.contains("gpu:0"), "{text}");
                        ends[fault as usize][2] += certain;
                        let Ok(from) = Checkpoint::load(&folder) else {
                            // Alone, a device does not come so far before the first step has ended.
                            assert!(workers > 0 || after < 150, "{what}: no checkpoint");
                            continue;
                        };
                        resumed += 1;
                        let how = How::on(2, 0, "ws");
                        let run = try_train(SMALL_CNN, DType::F64, &how, Some(&from)).unwrap();
                        assert_close(&format!("{what}, resumed"), &run, &want, TOLERANCE);
                    }
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!("untouched, without the device, errors: {ends:?}; {resumed} resumed");
    assert!(resumed > 2, "{resumed} resumed");
    for fault in [Fault::Launch, Fault::Copy, Fault::Wait] {
        assert!(ends[fault as usize][2] > 2, "{fault:?}: {ends:?}");
    }
    assert!(ends.iter().map(|e| e[1]).sum::<usize>() > 2, "{ends:?}");
    let full = ends[Fault::Allocate as usize];
    assert_eq!(full[1] + full[2], 0, "running out is no loss");
}
