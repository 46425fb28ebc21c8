//! Lowering the level of a process. Alone in its file: the level is the whole process's.

use dahl_core::{Arena, Recorder};
use dahl_ops::KernelIdentity;
use dahl_ops::api::{Transposed, matmul_into};
use dahl_ops::simd::{Level, LevelError, check, level, set_level};
use dahl_runtime::Runtime;

/// A product of fractions whose sums are rounded, on two workers.
fn product() -> Vec<f32> {
    let (n, arena) = (40, Arena::new());
    let numbers: Vec<f32> = (0..n * n)
        .map(|i| ((i * 7919) % 1009) as f32 / 1009.0)
        .collect();
    let a = arena.from_slice([n, n], &numbers).unwrap();
    let mut c = arena.zeros::<f32, 2>([n, n]).unwrap();
    let recorder = Recorder::new();
    matmul_into(&recorder, &a, &a, Transposed::NONE, &mut c);
    let graph = recorder.finish().unwrap();
    let mut runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.read(&c).unwrap().to_vec()
}

#[test]
fn a_process_computes_at_the_level_that_it_is_given() {
    let best = check().unwrap();
    assert_eq!(level(), best);
    let before = product();

    set_level(Level::Portable).unwrap();
    assert_eq!(level(), Level::Portable);
    assert_eq!(KernelIdentity::here().level, Level::Portable);
    let lowered = product();
    assert_eq!(lowered == before, best == Level::Portable);

    // Up again is no different, as far as the machine goes.
    set_level(best).unwrap();
    assert!(product() == before);
    for above in Level::ALL.into_iter().filter(|&l| l > best) {
        let error = set_level(above).unwrap_err();
        assert!(matches!(error, LevelError::Above { asked, .. } if asked == above));
        assert_eq!(level(), best);
    }
}
