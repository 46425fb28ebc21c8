//! Ports and switches: plans against trying everything, bounds, sketches, checks, and the simulator following plans.

use std::sync::Arc;

use crate::bound::{PossibleTransfers, bound};
use crate::list::Lister;
use crate::network::Frame;
use crate::problem::{Goal, Objective, Problem};
use crate::schedule::{Schedule, verify};
use dahl_core::{Machine, Memory, MemoryId, Node, NodeId, Port, Seconds, Switch, Unit, UnitKind};

use super::bounds::sketched;
use super::exact::{agreed, exhaustive};
use super::graphs::{planned, step};
use super::random::{self, Dice};
use super::transfers::follow;

/// The same with links that share nothing: a relaxation.
fn apart(problem: &Problem) -> Problem {
    let mut apart = problem.clone();
    apart.shared.clear();
    apart.links.iter_mut().for_each(|l| l.shared.clear());
    apart
}

#[test]
fn best_plans_through_ports_equal_exhaustive_search_and_bounds_hold() {
    let (mut compared, mut moving, mut dearer, mut helped) = (0, 0, 0, 0);
    for seed in 0..500 {
        let mut dice = Dice::new(90_000 + seed);
        let tasks = 3 + dice.below(4);
        let (problem, goal) = random::network(&mut dice, tasks);
        let Some((best, moves)) = agreed(&problem, &goal, seed) else {
            continue;
        };
        compared += 1;
        moving += usize::from(moves > 1);
        let relaxed = apart(&problem);
        let Some(least) = exhaustive(&relaxed, &goal) else {
            continue;
        };
        assert!(least <= best * (1.0 + 1e-9), "seed {seed}: {least} {best}");
        dearer += usize::from(least < best * (1.0 - 1e-9));
        let floor = |p: &Problem| {
            let frame = Frame::new(p).unwrap();
            let transfers = PossibleTransfers::new(&frame);
            let (found, _) = bound(&frame.relaxed(), &transfers, &goal, 200, &mut || true);
            found.cost
        };
        let with = floor(&problem);
        assert!(
            with <= best * (1.0 + 1e-9),
            "seed {seed}: bound {with}, but a plan costs {best}\n{problem:#?} {goal:?}"
        );
        helped += usize::from(with > floor(&relaxed) * 1.001);
    }
    println!(
        "{compared} compared, {moving} move more than one datum, {dearer} cost more than apart, {helped} bounds higher"
    );
    assert!(compared >= 300 && moving >= 200 && dearer >= 50);
}

#[test]
fn sketches_go_through_ports_as_plans_do() {
    let (mut compared, mut moving, mut slower) = (0, 0, 0);
    for seed in 0..300 {
        let mut dice = Dice::new(91_000 + seed);
        let (mut problem, _) = random::network(&mut dice, 14);
        problem.memories.iter_mut().for_each(|m| m.capacity = None);
        let goal = Goal {
            objective: [Objective::Energy, Objective::Time, Objective::Edp][dice.below(3)],
            deadline: None,
        };
        let (here, there) = sketched(&problem, &goal, &mut dice, seed);
        (compared, moving) = (compared + here, moving + there);
        // A plan made for links apart breaks the rule where transfers overlap, and the check says on which port.
        let choice = vec![0; 14];
        let (free, frame) = (apart(&problem), Frame::new(&problem).unwrap());
        let relaxed = Frame::new(&free).unwrap();
        let made = |frame: &Frame<'_>| {
            let plan = Lister::new(frame, goal).plan(&choice, &[]).unwrap();
            let net = frame.network(&plan.memory).unwrap();
            Schedule::new(frame.problem, &net, &plan.log, &[])
        };
        verify(&problem, &made(&frame)).unwrap();
        let plan = made(&relaxed);
        verify(&free, &plan).unwrap();
        if let Err(broken) = verify(&problem, &plan) {
            assert!(broken.contains("at once"), "{broken}");
            assert!(broken.starts_with("port") || broken.starts_with("switch"));
            slower += 1;
        }
    }
    assert!(compared >= 1000 && moving >= 400, "{compared} {moving}");
    assert!(slower >= 30, "{slower}");
}

/// A node with cores and three with a fast unit each, all joined by a switch.
fn cluster(backplane: Option<f64>) -> Machine {
    let mut machine = super::graphs::machine(1, false);
    machine.switches.push(Switch {
        name: "switch".into(),
        bandwidth: backplane,
        latency: Seconds(0.0),
        joules_per_byte: None,
    });
    for m in 1..4 {
        machine.memories.push(Memory {
            node: NodeId(m),
            ..Memory::new(format!("m{m}"), None)
        });
        let unit = Unit::new(format!("gpu:{m}"), UnitKind::GPU, MemoryId(m));
        machine.units.push(unit);
        machine.nodes.push(Node::new(format!("node {m}")));
    }
    for node in &mut machine.nodes {
        node.port = Some(Port {
            bandwidth: 256.0,
            latency: Seconds(0.015625),
            joules_per_byte: None,
        });
    }
    let pairs = (0..4).flat_map(|a| (0..4).map(move |b| (MemoryId(a), MemoryId(b))));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        let link = machine.way(from, to, &[0]);
        machine.links.push(link);
    }
    machine
}

#[test]
fn the_simulator_follows_plans_through_ports_to_the_predicted_end() {
    let (mut moved, mut waited) = (0, 0);
    for machine in [cluster(None), cluster(Some(256.0)), cluster(Some(520.0))] {
        machine.check().unwrap();
        for parts in 3..7 {
            for objective in [Objective::Time, Objective::Energy] {
                let graph: Arc<_> = step(parts);
                let (problem, _, plan) = planned(&graph, &machine, objective);
                let out = follow(&plan, &graph, &machine, 4);
                for (begin, end) in &out.launches[1..] {
                    let late = (end.0 - begin.0) / plan.seconds.0 - 1.0;
                    let what = format!("{parts} parts, {objective}: {late}, {plan:?}");
                    assert!(late.abs() < 1e-9, "{what}");
                }
                moved += plan.transfers.len();
                // What the same plan would take if links were apart.
                let mut free = machine.clone();
                free.nodes.iter_mut().for_each(|n| n.port = None);
                free.links.iter_mut().for_each(|l| l.via.clear());
                let out = follow(&plan, &graph, &free, 4);
                let end = out.launches[3].1.0 - out.launches[3].0.0;
                assert!(end <= plan.seconds.0 * (1.0 + 1e-9));
                waited += usize::from(end < plan.seconds.0 * (1.0 - 1e-9));
                assert!(!problem.problem.shared.is_empty());
            }
        }
    }
    assert!(
        moved > 50 && waited > 2,
        "{moved} {waited}: nothing was tried"
    );
}
