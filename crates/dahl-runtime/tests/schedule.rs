//! Following a schedule: every task on its unit, in its order, launch after launch; the values are those of
//! the sequential program; other graphs run beside it.

mod common;

use std::time::Duration;

use common::check;
use dahl_core::Arena;
use dahl_runtime::{RunError, Runtime, Schedule};
use dahl_test_support::program::{Dice, Program};

/// A random schedule that the dependencies allow: tasks in program order, dealt to units.
fn random(tasks: usize, units: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut dice = Dice::new(seed);
    let mut order = vec![Vec::new(); units];
    for task in 0..tasks as u32 {
        order[dice.below(units)].push(task);
    }
    order
}

#[test]
fn tasks_run_where_and_in_the_order_that_was_decided() {
    for seed in 0..150 {
        let units = 1 + (seed % 3) as usize;
        let program = Program::random(seed, seed % 2 == 0);
        let other = Program::random(seed + 1000, true);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        let (beside, _) = other.record(&arena);
        let order = random(graph.len(), units, seed);
        let schedule = Schedule {
            graph: graph.fingerprint(),
            transfers: Vec::new(),
            order: order.clone(),
        };
        let builder = Runtime::builder().workers(units).pin(false);
        let builder = builder.watchdog(Duration::from_secs(30));
        let mut runtime = builder.trace(1 << 12).schedule(schedule).build().unwrap();
        let what = format!("seed {seed}, {units} units");
        let launches = 3;
        check(&program, &graph, &handles, &mut runtime, launches, &what);
        runtime.launch(&beside).unwrap();
        let trace = runtime.take_trace().unwrap();
        for launch in 0..launches as u32 {
            for (unit, planned) in order.iter().enumerate() {
                let on = trace.tasks.iter();
                let on = on.filter(|t| t.id.launch == launch && usize::from(t.unit) == unit);
                let ran: Vec<u32> = on.map(|t| t.id.task).collect();
                assert_eq!(ran, *planned, "{what}, launch {launch}, unit {unit}");
            }
        }
        let last = launches as u32;
        let ran = trace.tasks.iter().filter(|t| t.id.launch == last).count();
        assert_eq!(ran, beside.len(), "{what}: the graph that nobody planned");
    }
}

/// Of three units the first two stand in for each other: values are those of the sequential program, and the third runs its
/// own tasks in its order.
#[test]
fn units_that_stand_in_change_no_value() {
    for seed in 0..60 {
        let program = Program::random(seed, seed % 2 == 0);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        let order = random(graph.len(), 3, seed);
        let schedule = Schedule {
            graph: graph.fingerprint(),
            transfers: Vec::new(),
            order: order.clone(),
        };
        let builder = Runtime::builder()
            .workers(3)
            .pin(false)
            .alike(vec![0, 0, 1]);
        let builder = builder.watchdog(Duration::from_secs(30));
        let mut runtime = builder.trace(1 << 12).schedule(schedule).build().unwrap();
        let what = format!("seed {seed}");
        check(&program, &graph, &handles, &mut runtime, 3, &what);
        let trace = runtime.take_trace().unwrap();
        for launch in 0..3 {
            let on = trace.tasks.iter();
            let on = on.filter(|t| t.id.launch == launch && t.unit == 2);
            let ran: Vec<u32> = on.map(|t| t.id.task).collect();
            assert_eq!(ran, order[2], "{what}, launch {launch}");
        }
    }
}

#[test]
fn schedules_that_cannot_be_followed_are_refused() {
    let build = |order: Vec<Vec<u32>>| {
        let builder = Runtime::builder().workers(2).pin(false);
        builder
            .schedule(Schedule {
                graph: 1,
                order,
                transfers: Vec::new(),
            })
            .build()
            .err()
    };
    for (order, says) in [
        (vec![vec![0, 1]], "for 1 units, there are 2"),
        (vec![vec![0], vec![0]], "twice"),
        (vec![vec![0], vec![2]], "names task 2"),
    ] {
        match build(order) {
            Some(RunError::Start(message)) => assert!(message.contains(says), "{message}"),
            other => panic!("{other:?} instead of a refusal"),
        }
    }
}

#[test]
fn orders_that_wait_for_each_other_are_refused_before_anything_runs() {
    let program = Program::random(3, true);
    let arena = Arena::new();
    let (graph, _) = program.record(&arena);
    assert!(graph.edges().count() > 0);
    let order: Vec<u32> = (0..graph.len() as u32).rev().collect();
    let schedule = Schedule {
        graph: graph.fingerprint(),
        transfers: Vec::new(),
        order: vec![order],
    };
    let builder = Runtime::builder().workers(1).pin(false);
    let mut runtime = builder.schedule(schedule).build().unwrap();
    match runtime.launch(&graph).err() {
        Some(RunError::Start(message)) => assert!(
            message.contains("cannot be executed") && message.contains("waits for"),
            "{message}"
        ),
        other => panic!("{other:?} instead of a refusal"),
    }
}
