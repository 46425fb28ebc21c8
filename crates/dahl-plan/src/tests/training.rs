//! Training steps on cores and a card: proofs that come soon, counted in questions and not by a clock.

use crate::exact;
use crate::network::Frame;
use crate::problem::*;
use crate::schedule::{Schedule, verify};

/// A training step of so many samples through so many layers, on three cores and a card with a memory of its
/// own, which holds so many bytes.
fn training(layers: u32, samples: u32, capacity: Option<u64>) -> Problem {
    let mut p = Problem {
        base_watts: 20.0,
        ..Problem::default()
    };
    for (name, units, memory, idle_watts, watts) in
        [("core", 3, 0, 1.0, 6.0), ("card", 1, 1, 10.0, 115.0)]
    {
        p.groups.push(Group {
            name: name.into(),
            units,
            memory,
            idle_watts,
            busy_watts: vec![watts],
        });
        p.memories.push(Memory {
            name: name.into(),
            capacity: capacity.filter(|_| memory == 1),
        });
        p.links.push(Link {
            from: memory,
            to: 1 - memory,
            bandwidth: 12e9,
            latency: 5e-6,
            joules_per_byte: 3e-10,
            channels: 1,
            shared: Vec::new(),
        });
    }
    // Layers forward, the loss, layers backward; each sample goes through all, each layer ends in an update.
    let rows = 2 * layers + 1;
    let row = |r: u32| r.min(rows - 1 - r);
    for r in 0..rows {
        let work = match row(r) == layers {
            true => 5e-5,
            false => 1e-3 * f64::from(3 + 7 * row(r) % 5) * if r < layers { 0.2 } else { 0.4 },
        };
        p.classes.push(Class {
            name: format!("row {r}"),
            seconds: vec![vec![2e-5 + work], vec![2e-5 + work / 40.0]],
        });
        p.tasks.extend((0..samples).map(|_| r));
    }
    p.classes.push(Class {
        name: "update".into(),
        seconds: vec![vec![1.2e-4], vec![2.3e-5]],
    });
    p.tasks.extend((0..layers).map(|_| rows));
    for r in 0..rows {
        for s in 0..samples {
            let task = r * samples + s;
            let mut readers: Vec<u32> = Vec::new();
            readers.extend((r + 1 < rows).then_some(task + samples));
            readers.extend((r < layers).then(|| (rows - 1 - r) * samples + s));
            readers.extend((r > layers).then(|| rows * samples + rows - 1 - r));
            let bytes = 40_000 * u64::from(1 + row(r) % 3);
            p.data.push(Datum {
                bytes,
                origin: Origin::Task(task),
                readers,
                replaces: None,
                kept: false,
            });
        }
    }
    p
}

/// How many contradictions, in eights, the proof of the best plan may need.
fn proven_within(asks: usize, problem: &Problem, objective: Objective) -> f64 {
    let goal = Goal {
        objective,
        deadline: None,
    };
    let frame = Frame::new(problem).unwrap();
    let mut left = asks;
    let exact = exact::solve(&frame, &goal, f64::INFINITY, None, 1e-6, &mut || {
        left = left.saturating_sub(1);
        left > 0
    });
    assert!(exact.proven, "{objective}: {exact:?}");
    let (memory, log) = exact.found.unwrap();
    let mut frame = frame;
    frame.copies = true;
    let plan = Schedule::new(problem, &frame.network(&memory).unwrap(), &log, &[]);
    verify(problem, &plan).unwrap();
    exact.cost
}

#[test]
fn training_steps_on_cores_and_a_card_are_proven_soon() {
    let whole = training(4, 4, None);
    assert_eq!(whole.tasks.len(), 40);
    for objective in [Objective::Energy, Objective::Time, Objective::Edp] {
        proven_within(3000, &whole, objective);
    }
}

#[test]
fn a_small_memory_makes_the_best_plan_slower() {
    let objective = Objective::Time;
    let small = proven_within(2000, &training(2, 2, Some(200_000)), objective);
    let large = proven_within(2000, &training(2, 2, None), objective);
    assert!(small > large * 1.001, "{small} and {large}");
}
