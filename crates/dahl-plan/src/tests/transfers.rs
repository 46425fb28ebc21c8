//! A plan's transfers: what files say of them, and the simulator following them.

use std::sync::Arc;

use crate::file::{FileError, PlanFile};
use crate::problem::Objective;
use dahl_core::{Graph, Link, Machine, Memory, MemoryId, Seconds, Unit, UnitKind};
use dahl_sched::policy::Fixed;
use dahl_sched::transfers::Producer;
use dahl_sim::{Options, Prediction, simulate};

use super::graphs::{machine, planned, step, times};

/// Two cores and a card whose link takes a while to start.
fn with_card() -> Machine {
    let mut machine = machine(2, true);
    for link in &mut machine.links {
        link.latency = Seconds(0.125);
    }
    machine
}

/// The same with a second card, which is reached by way of the host.
fn with_two_cards() -> Machine {
    let mut machine = with_card();
    let device = MemoryId(2);
    machine.memories.push(Memory::new("other", None));
    let unit = Unit::new("gpu:1", UnitKind::GPU, device);
    machine.units.push(unit);
    for (from, to) in [(MemoryId::HOST, device), (device, MemoryId::HOST)] {
        machine.links.push(Link::new(from, to, 32.0, Seconds(0.0)));
    }
    machine
}

/// Follows a plan for some steps, one after the other.
pub fn follow(plan: &PlanFile, graph: &Graph, machine: &Machine, steps: usize) -> Prediction {
    let fixed = Fixed::new(graph.len(), plan.orders()).unwrap();
    let options = Options {
        steps,
        in_flight: 1,
        new_inputs_each_step: true,
        states: plan.states(),
        transfers: Some(Arc::new(plan.checked_transfers(graph, machine).unwrap())),
        record: true,
        ..Options::default()
    };
    simulate(graph, machine, &times(graph, machine), &fixed, &options).unwrap()
}

#[test]
fn a_step_that_follows_them_takes_what_the_equations_say() {
    let mut moved = 0;
    for machine in [with_card(), with_two_cards()] {
        for parts in 2..6 {
            for objective in [Objective::Time, Objective::Energy] {
                let graph = step(parts);
                let (_, _, plan) = planned(&graph, &machine, objective);
                let out = follow(&plan, &graph, &machine, 4);
                // Weights come to their places in the first step.
                for (begin, end) in &out.launches[1..] {
                    let seconds = end.0 - begin.0;
                    let late = seconds / plan.seconds.0 - 1.0;
                    let what = format!("{parts} parts, {objective}: {seconds} s, {plan:?}");
                    assert!(late.abs() < 1e-9, "{what}");
                }
                moved += plan.transfers.len();
            }
        }
    }
    assert!(moved > 50, "{moved}: nothing was tried");
}

#[test]
fn they_go_ahead_of_their_tasks_and_in_the_plans_order() {
    let (graph, machine) = (step(5), with_card());
    let (_, _, plan) = planned(&graph, &machine, Objective::Time);
    let out = follow(&plan, &graph, &machine, 3);
    for launch in 1..3 {
        for (number, link) in machine.links.iter().enumerate() {
            let name = |m: MemoryId| machine.memories[usize::from(m.0)].name.as_str();
            let over = (name(link.from), name(link.to));
            let here = |t: &&crate::transfers::TransferEntry| (&*t.from, &*t.to) == over;
            let wanted: Vec<_> = plan.transfers.iter().filter(here).collect();
            let made = out
                .transfers
                .iter()
                .filter(|t| usize::from(t.link) == number && t.for_task.unwrap().launch == launch);
            let made: Vec<_> = made.collect();
            assert_eq!(made.len(), wanted.len(), "launch {launch}, {over:?}");
            let begin = out.launches[launch].0.0;
            for (made, wanted) in made.iter().zip(&wanted) {
                assert!(made.ahead);
                assert_eq!(made.bytes, wanted.bytes);
                assert_eq!(made.for_task.unwrap().task, wanted.readers[0]);
                assert!(made.start.0 - begin <= wanted.start.0 + 1e-9, "{wanted:?}");
            }
        }
    }
}

#[test]
fn without_room_tasks_fetch_for_themselves() {
    let (graph, mut machine) = (step(4), with_card());
    let (_, _, plan) = planned(&graph, &machine, Objective::Time);
    // Two or three arrays of 16 bytes for a task, and no more.
    machine.memories[1].capacity = Some(dahl_core::Bytes(48));
    let out = follow(&plan, &graph, &machine, 2);
    assert!(out.memories[1].peak.0 <= 48);
    assert!(out.transfers.iter().any(|t| !t.ahead));
}

#[test]
fn several_steps_in_flight_bring_the_next_inputs_early() {
    let (graph, machine) = (step(4), with_card());
    let (_, _, plan) = planned(&graph, &machine, Objective::Time);
    let fixed = Fixed::new(graph.len(), plan.orders()).unwrap();
    let options = Options {
        steps: 6,
        new_inputs_each_step: true,
        states: plan.states(),
        transfers: Some(Arc::new(plan.checked_transfers(&graph, &machine).unwrap())),
        ..Options::default()
    };
    let out = simulate(&graph, &machine, &times(&graph, &machine), &fixed, &options).unwrap();
    let per_step = (out.launches[5].1.0 - out.launches[1].1.0) / 4.0;
    assert!(per_step < plan.seconds.0, "{per_step} of {}", plan.seconds);
}

#[test]
fn files_that_name_what_is_not_there_are_refused() {
    let (graph, machine) = (step(4), with_card());
    let (_, _, plan) = planned(&graph, &machine, Objective::Time);
    assert!(!plan.transfers.is_empty());
    let read = PlanFile::from_json(&plan.to_json()).unwrap();
    assert_eq!(read, plan);
    assert_eq!(read.refusal(&graph, &machine), None);

    let mut other = plan.clone();
    other.transfers[0].to = "attic".into();
    let refused = PlanFile::from_json(&other.to_json()).unwrap_err();
    assert!(matches!(refused, FileError::Memory { transfer: 0, .. }));
    assert!(refused.to_string().contains("\"attic\""), "{refused}");

    type Change = fn(&mut PlanFile);
    let refusal = |change: Change| {
        let mut plan = plan.clone();
        change(&mut plan);
        let read = PlanFile::from_json(&plan.to_json()).unwrap();
        read.refusal(&graph, &machine).unwrap()
    };
    let cases: [(Change, &str); 8] = [
        (|p| p.transfers[1].storage = 99, "transfer 1: array 99 of 9"),
        (|p| p.transfers[0].parts[0][1][3] = 9, "is not in"),
        (|p| p.transfers[0].parts[0][1][3] = 0, "is no part of"),
        (|p| p.transfers[0].parts.clear(), "transfer 0: no part of"),
        (|p| p.transfers[0].bytes.0 += 1, "17 B"),
        (
            |p| p.transfers[0].producer = Producer::Task(77),
            "task 77, which is to make it",
        ),
        (
            |p| p.transfers[0].readers.push(77),
            "task 77, which is to wait for it",
        ),
        (
            |p| p.transfers[0].to = p.transfers[0].from.clone(),
            "stays where it is",
        ),
    ];
    for (change, says) in cases {
        let said = refusal(change);
        assert!(said.contains(says), "{said}, not {says}");
    }
}

#[test]
fn transfers_that_would_wait_for_ever_are_refused() {
    let (graph, machine) = (step(4), with_card());
    let (_, _, plan) = planned(&graph, &machine, Objective::Time);
    // What the card makes leaves before what it makes it from arrives.
    let into = plan.transfers.iter().position(|t| !t.readers.is_empty());
    let mut plan = plan.clone();
    let first = plan.transfers[into.unwrap()].clone();
    let task = first.readers[0];
    let accesses = graph.accesses_of(task);
    let output = accesses.iter().find(|a| a.mode.writes()).unwrap();
    let mut back = first.clone();
    back.storage = graph.arrays[output.array as usize].storage;
    (back.producer, back.readers) = (Producer::Task(task), Vec::new());
    plan.transfers.insert(0, back);
    let refusal = plan.refusal(&graph, &machine).unwrap();
    assert!(refusal.contains("could never begin"), "{refusal}");
}
