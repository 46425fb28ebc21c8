//! Policies that estimate learn, while they run, how long tasks really take, and go by what is known.

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::known::known;
use dahl_core::{Arena, Bytes, Codelet, Graph, Recorder, Task, UnitKind, Vector};
use dahl_runtime::perf_store::PerfStore;
use dahl_runtime::{Builder, HostDeviceSpec, Runtime};

const POLICIES: [&str; 3] = ["dm", "dmda", "dmdas"];
const TASKS: usize = 22;

/// Where tasks ran: by the CPU, by the device.
type Ran = Arc<[AtomicUsize; 2]>;

/// Milliseconds that a task takes at least, by unit.
const TAKES: [u64; 2] = [1, 10];

/// Which of the two this thread works for: that of the device's unit has this name.
fn unit() -> usize {
    usize::from(std::thread::current().name() == Some("dahl-1"))
}

/// Takes ten times as long on the device's unit.
fn uneven(ran: &Ran) -> Arc<Codelet> {
    let ran = ran.clone();
    Arc::new(
        Codelet::new("uneven").implement("reference", UnitKind::CPU, move |ops| {
            ran[unit()].fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(TAKES[unit()]));
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

/// Launches, and counts the tasks of both units.
fn launch(runtime: &mut Runtime, graph: &Arc<Graph>, ran: &Ran) -> [usize; 2] {
    let before = [0, 1].map(|i| ran[i].load(Ordering::Relaxed));
    runtime.launch(graph).unwrap();
    runtime.wait().unwrap();
    [0, 1].map(|i| ran[i].load(Ordering::Relaxed) - before[i])
}

#[test]
fn tasks_go_where_they_are_known_to_be_fast() {
    for policy in POLICIES {
        let arena = Arena::new();
        let ran = Ran::default();
        let mut arrays: Vec<_> = (0..TASKS).map(|_| arena.zeros([4]).unwrap()).collect();
        let graph = independent(&uneven(&ran), &mut arrays);
        let machine = two_units(policy).build().unwrap().machine().clone();
        let model = known(&graph, &machine, |_, unit| match unit.memory.0 {
            0 => 1e-3,
            _ => 1e-2,
        });
        let mut runtime = two_units(policy).perf_model(model).build().unwrap();
        let [cpu, device] = launch(&mut runtime, &graph, &ran);
        // Ten on the CPU take as long as one on the device; the sooner the CPU is done the fewer go there.
        assert!(device <= 2, "{policy}: {cpu} and {device}");
        assert_eq!(cpu + device, TASKS);
    }
}

#[test]
fn what_ran_is_learnt() {
    for policy in POLICIES {
        let arena = Arena::new();
        let ran = Ran::default();
        let mut arrays: Vec<_> = (0..TASKS).map(|_| arena.zeros([4]).unwrap()).collect();
        let graph = independent(&uneven(&ran), &mut arrays);
        let mut runtime = two_units(policy).build().unwrap();
        (0..3).for_each(|_| _ = launch(&mut runtime, &graph, &ran));
        let model = runtime.perf_model().unwrap();
        let mut known = 0;
        for (key, _, history) in model.iter() {
            let device = usize::from(key.unit != "cpu");
            let figures = history.summary().unwrap();
            let least = TAKES[device] as f64 / 1e3;
            assert!(figures.min >= least, "{policy}, {}: {figures:?}", key.unit);
            known += 1;
        }
        let worked = ran.iter().filter(|n| n.load(Ordering::Relaxed) > 1);
        assert_eq!(known, worked.count(), "one record per unit");
        assert!(!runtime.take_samples().is_empty());
    }
}

/// A file for a test, which goes with it.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let name = format!("dahl-{name}-{}.json", std::process::id());
        File(std::env::temp_dir().join(name))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("json.lock"));
    }
}

#[test]
fn what_was_learnt_is_kept() {
    let file = File::new("learning");
    let arena = Arena::new();
    let ran = Ran::default();
    let mut arrays: Vec<_> = (0..TASKS).map(|_| arena.zeros([4]).unwrap()).collect();
    let graph = independent(&uneven(&ran), &mut arrays);
    let (store, warning) = PerfStore::open(&file.0, 0).unwrap();
    assert!(warning.is_none() && store.model().is_empty());
    let mut runtime = two_units("dm").perf_model(store).build().unwrap();
    launch(&mut runtime, &graph, &ran);
    assert!(runtime.save_perf_model().unwrap().is_none());
    let figures = |runtime: &Runtime| -> Vec<_> {
        let all = runtime.perf_model().unwrap().iter();
        all.map(|(key, _, history)| (key, history.summary()))
            .collect()
    };
    let learnt = figures(&runtime);
    assert!(!learnt.is_empty());
    drop(runtime);
    let (store, _) = PerfStore::open(&file.0, 0).unwrap();
    let again = two_units("dm").perf_model(store).build().unwrap();
    assert_eq!(
        figures(&again),
        learnt,
        "the next run begins with what this one knew"
    );
}

/// Whatever a unit does the first time (compile, allocate, touch memory) is in no estimate, also not in a
/// later process that knows the task already.
#[test]
fn first_uses_are_not_learnt() {
    let file = File::new("first-use");
    let mut learnable = [0, 0];
    for run in 0..2 {
        // Each run is like a new process: the first task of each unit takes long again.
        let ran = Ran::default();
        let slow = ran.clone();
        let codelet = Codelet::new("compiled").implement("reference", UnitKind::CPU, move |ops| {
            let new = slow[unit()].fetch_add(1, Ordering::Relaxed) == 0;
            std::thread::sleep(Duration::from_millis(if new { 100 } else { 1 }));
            ops.write::<f64>(0).fill(1.0);
            Ok(())
        });
        let arena = Arena::new();
        let mut arrays: Vec<_> = (0..12).map(|_| arena.zeros([4]).unwrap()).collect();
        let graph = independent(&Arc::new(codelet), &mut arrays);
        let (store, _) = PerfStore::open(&file.0, 1).unwrap();
        let mut runtime = two_units("dmda").perf_model(store).build().unwrap();
        (0..3).for_each(|_| _ = launch(&mut runtime, &graph, &ran));
        for (all, n) in learnable.iter_mut().zip(&*ran) {
            *all += n.load(Ordering::Relaxed).saturating_sub(1);
        }
        let model = runtime.perf_model().unwrap();
        assert!(!model.is_empty());
        for (key, _, history) in model.iter() {
            let figures = history.summary().unwrap();
            let most = learnable[usize::from(key.unit != "cpu")];
            let seen = figures.count + figures.rejected;
            assert!(seen <= most as u64, "run {run}: {key:?} {figures:?}");
        }
        runtime.save_perf_model().unwrap();
    }
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
