//! Policies that estimate learn, while they run, how long tasks really take.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dahl_core::{Arena, Bytes, Codelet, Graph, Recorder, Task, UnitKind, Vector};
use dahl_runtime::perf_store::PerfStore;
use dahl_runtime::{Builder, HostDeviceSpec, Runtime};

/// Where tasks ran: by the CPU, by the device.
type Ran = Arc<[AtomicUsize; 2]>;

/// Takes ten times as long on the device's unit, whose thread has this name.
fn uneven(ran: &Ran) -> Arc<Codelet> {
    let ran = ran.clone();
    Arc::new(
        Codelet::new("uneven").implement("reference", UnitKind::CPU, move |ops| {
            let device = std::thread::current().name() == Some("dahl-1");
            ran[usize::from(device)].fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(if device { 10 } else { 1 }));
            ops.write::<f64>(0).fill(1.0);
            Ok(())
        }),
    )
}

fn independent(codelet: &Arc<Codelet>, arrays: &mut [Vector<'_, f64>]) -> Arc<Graph> {
    let recorder = Recorder::new();
    for a in arrays {
        recorder.submit(Task::new(codelet, &[a.write()]));
    }
    recorder.finish().unwrap()
}

/// One CPU and one device as good as it by all that is known beforehand.
fn two_units(policy: &str) -> Builder {
    let device = HostDeviceSpec {
        units: 1,
        capacity: Bytes(1 << 20),
        bandwidth: 1e12,
        latency: Duration::ZERO,
    };
    Runtime::builder()
        .workers(1)
        .policy(policy)
        .pin(false)
        .host_device(device)
}

fn launch(runtime: &mut Runtime, graph: &Arc<Graph>, ran: &Ran) -> [usize; 2] {
    let before = [0, 1].map(|i| ran[i].load(Ordering::Relaxed));
    runtime.launch(graph).unwrap();
    runtime.wait().unwrap();
    [0, 1].map(|i| ran[i].load(Ordering::Relaxed) - before[i])
}

#[test]
fn tasks_go_where_they_are_fast() {
    for policy in ["dm", "dmda", "dmdas"] {
        let arena = Arena::new();
        let ran = Ran::default();
        let mut arrays: Vec<_> = (0..22).map(|_| arena.zeros([4]).unwrap()).collect();
        let graph = independent(&uneven(&ran), &mut arrays);
        let mut runtime = two_units(policy).build().unwrap();
        let first = launch(&mut runtime, &graph, &ran);
        assert!(
            first[1] >= 8,
            "{policy}: {first:?}: nothing is known yet, so both get a half"
        );
        for _ in 0..3 {
            launch(&mut runtime, &graph, &ran);
        }
        let last = launch(&mut runtime, &graph, &ran);
        assert!(last[0] >= 17, "{policy}: {last:?}: about ten to one");
        assert!(
            runtime.perf_model().is_some_and(|m| m.iter().count() == 2),
            "one record per unit"
        );
        assert!(!runtime.take_samples().is_empty());
    }
}

#[test]
fn what_was_learnt_is_kept() {
    let file = std::env::temp_dir().join(format!("dahl-learning-{}.json", std::process::id()));
    struct Remove(PathBuf);
    impl Drop for Remove {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
            let _ = std::fs::remove_file(self.0.with_extension("json.lock"));
        }
    }
    let _remove = Remove(file.clone());
    let arena = Arena::new();
    let ran = Ran::default();
    let mut arrays: Vec<_> = (0..22).map(|_| arena.zeros([4]).unwrap()).collect();
    let graph = independent(&uneven(&ran), &mut arrays);
    for run in 0..2 {
        let (store, warning) = PerfStore::open(&file, 0).unwrap();
        assert!(warning.is_none());
        let mut runtime = two_units("dm").perf_model(store).build().unwrap();
        let first = launch(&mut runtime, &graph, &ran);
        if run == 1 {
            assert!(
                first[0] >= 17,
                "{first:?}: the second run knows what the first has learnt"
            );
        }
        (0..3).for_each(|_| _ = launch(&mut runtime, &graph, &ran));
        assert!(runtime.save_perf_model().unwrap().is_none());
    }
}

/// Whatever a unit does the first time (compile, allocate, touch memory) is in no estimate, also not in a
/// later process that knows the task already.
#[test]
fn first_uses_are_not_learnt() {
    let file = std::env::temp_dir().join(format!("dahl-first-use-{}.json", std::process::id()));
    for run in 0..2 {
        // Each run is like a new process: the first task of each unit takes long again.
        let first = Ran::default();
        let slow = first.clone();
        let codelet = Codelet::new("compiled").implement("reference", UnitKind::CPU, move |ops| {
            let device = std::thread::current().name() == Some("dahl-1");
            let new = slow[usize::from(device)].fetch_add(1, Ordering::Relaxed) == 0;
            std::thread::sleep(Duration::from_millis(if new { 1000 } else { 1 }));
            ops.write::<f64>(0).fill(1.0);
            Ok(())
        });
        let arena = Arena::new();
        let mut arrays: Vec<_> = (0..12).map(|_| arena.zeros([4]).unwrap()).collect();
        let graph = independent(&Arc::new(codelet), &mut arrays);
        let (store, _) = PerfStore::open(&file, 1).unwrap();
        let mut runtime = two_units("dmda").perf_model(store).build().unwrap();
        (0..3).for_each(|_| _ = launch(&mut runtime, &graph, &first));
        assert!(
            first.iter().all(|n| n.load(Ordering::Relaxed) > 1),
            "both ran"
        );
        let model = runtime.perf_model().unwrap();
        for (key, _, history) in model.iter() {
            let known = history.summary().unwrap();
            let (unit, mean, std) = (&key.unit, known.mean, known.std);
            assert!(
                mean < 0.05 && std < 0.1,
                "run {run}, {unit}: {mean} ± {std} s"
            );
        }
        runtime.save_perf_model().unwrap();
    }
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_file(file.with_extension("json.lock"));
}

#[test]
fn others_are_not_timed() {
    let arena = Arena::new();
    let ran = Ran::default();
    let mut arrays: Vec<_> = (0..2).map(|_| arena.zeros([4]).unwrap()).collect();
    let graph = independent(&uneven(&ran), &mut arrays);
    let mut runtime = two_units("ws").build().unwrap();
    launch(&mut runtime, &graph, &ran);
    assert!(runtime.perf_model().is_none() && runtime.take_samples().is_empty());
}
