//! Programs on StarPU mean what they mean elsewhere, what goes wrong is said, and nothing is left behind.

mod common;

use std::sync::Arc;

use common::{alone, starpu};
use dahl_core::{
    Arena, Codelet, Graph, Machine, Param, Recorder, Task, TaskError, UnitKind, Vector,
};
use dahl_runtime::{HostDeviceSpec, RunError, Runtime, Schedule};
use dahl_starpu::StarPu;
use dahl_test_support::program::Program;
use dahl_test_support::scaled;

#[test]
fn random_programs_give_the_sequential_result() {
    let _alone = alone();
    for (workers, policy) in [
        (1, "eager"),
        (2, "lws"),
        (2, "dmdas"),
        (2, "prio"),
        (1, "ws"),
        (2, "dmda+data"),
        (1, "lws+data"),
    ] {
        let mut runtime = starpu(workers, policy, 2);
        for seed in 0..scaled(100) {
            let program = Program::random(seed, seed % 2 == 0);
            let arena = Arena::new();
            let (graph, handles) = program.record(&arena);
            let times = 1 + (seed % 3) as usize;
            let what = format!("{policy}, {workers} workers, seed {seed}");
            program.check_on(&graph, &handles, &mut runtime, times, &what);
        }
    }
}

/// Adds one; parameter 0 says what goes wrong: 1 an error, 2 a panic.
fn step() -> Arc<Codelet> {
    let body = |ops: &dahl_core::Operands<'_>| {
        match ops.int(0) {
            1 => return Err(TaskError("no luck".into())),
            2 => panic!("no luck at all"),
            _ => {}
        }
        ops.write::<f64>(0)
            .row([0, 0, 0])
            .iter_mut()
            .for_each(|v| *v += 1.0);
        Ok(())
    };
    Arc::new(Codelet::new("step / one").implement("reference", UnitKind::CPU, body))
}

/// Ten tasks in a row, of which the fourth goes wrong as told.
fn chain(x: &mut Vector<'_, f64>, wrong: i64) -> Arc<Graph> {
    let (recorder, step) = (Recorder::new(), step());
    for i in 0..10 {
        let params = [Param::Int(if i == 3 { wrong } else { 0 })];
        recorder.submit(Task::new(&step, &[x.read_write()]).params(&params));
    }
    recorder.finish().expect("a graph")
}

#[test]
fn failures_and_panics_are_told_and_the_runtime_goes_on() {
    let _alone = alone();
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 1>([8]).expect("memory");
    let graphs = [0, 1, 2].map(|wrong| chain(&mut x, wrong));
    let mut runtime = starpu(2, "eager", 2);
    for (wrong, said) in [(1, "no luck"), (2, "panicked: no luck at all")] {
        runtime.launch(&graphs[wrong]).expect("a launch");
        runtime.launch(&graphs[0]).ok();
        match runtime.wait() {
            Err(RunError::Task { task, message }) => {
                assert_eq!(message, said);
                assert!(
                    task.contains("task 3") && task.contains("step / one"),
                    "{task}"
                );
            }
            other => panic!("{other:?}"),
        }
        runtime.write(&mut x).expect("values").fill(0.0);
        runtime.launch(&graphs[0]).expect("a launch");
        assert_eq!(runtime.read(&x).expect("values")[5], 10.0);
        runtime.wait().expect("no failure");
    }
}

/// Bytes of the process that are in RAM.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split_whitespace().nth(1).expect("a second number");
    pages.parse::<usize>().expect("a number") * 4096
}

#[test]
fn memory_is_flat_and_starting_again_works() {
    let _alone = alone();
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 1>([8]).expect("memory");
    let graph = chain(&mut x, 0);
    for policy in ["lws", "dmda", "dmda+data"] {
        let mut runtime = starpu(2, policy, 2);
        let mut steps = |n: usize| {
            (0..n).for_each(|_| runtime.launch(&graph).expect("a launch"));
            runtime.wait().expect("no failure");
        };
        steps(500);
        let before = resident();
        (0..4).for_each(|_| steps(1000));
        let after = resident();
        // 40,000 tasks: a single one that is not given back, or a word of it, would show.
        assert!(
            after < before + (1 << 20),
            "{policy}: {before} to {after} bytes"
        );
    }
    assert_eq!(starpu(1, "lws", 2).read(&x).expect("values")[0], 135_000.0);
}

#[test]
fn traces_say_what_starpu_ran_where() {
    let _alone = alone();
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 1>([8]).expect("memory");
    let graph = chain(&mut x, 0);
    let builder = Runtime::builder().workers(2).trace(1 << 10);
    let engine = StarPu::new("ws").expect("a policy");
    let mut runtime = builder.engine(engine).build().expect("a runtime");
    (0..3).for_each(|_| runtime.launch(&graph).expect("a launch"));
    let trace = runtime.take_trace().expect("a trace");
    assert_eq!((trace.tasks.len(), trace.units.len()), (30, 2));
    assert!(runtime.busy().iter().map(|s| s.0).sum::<f64>() > 0.0);
}

fn refusal(builder: dahl_runtime::Builder, workers: usize) -> String {
    let engine = StarPu::new("eager").expect("a policy");
    match builder.workers(workers).engine(engine).build() {
        Ok(_) => panic!("it started"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn what_it_cannot_do_is_refused_in_words() {
    let _alone = alone();
    let error = StarPu::new("wss")
        .err()
        .expect("no such policy")
        .to_string();
    assert!(!error.contains("graph_test"), "{error}");
    for said in ["\"wss\"", "lws", "dmdas"] {
        assert!(error.contains(said), "{error}");
    }
    let many = refusal(Runtime::builder(), 5000);
    assert!(
        many.contains("at most") && many.contains("--enable-maxcpus=5000"),
        "{many}"
    );
    let first = starpu(1, "eager", 1);
    assert!(refusal(Runtime::builder(), 1).contains("runs already"));
    drop(first);
    let device = HostDeviceSpec {
        units: 1,
        capacity: dahl_core::Bytes(1 << 20),
        bandwidth: 1e9,
        latency: std::time::Duration::ZERO,
    };
    let devices = refusal(Runtime::builder().host_device(device), 1);
    assert!(devices.contains("devices and an engine"), "{devices}");
    let schedule = Schedule {
        graph: 0,
        order: vec![Vec::new(); Machine::cpus(1).units.len()],
        transfers: Vec::new(),
    };
    let planned = refusal(Runtime::builder().schedule(schedule), 1);
    assert!(planned.contains("schedule"), "{planned}");
}
