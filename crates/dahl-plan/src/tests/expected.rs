//! What a run that follows a plan is expected to take, where that is known by hand.

use crate::expected::Expected;
use crate::explain::sentences;
use crate::file::PlanFile;
use crate::problem::Objective;
use dahl_core::{Graph, Machine, Seconds, UnitId};
use dahl_sim::{Interruptions, Noise, Options};

use super::graphs::{machine, planned, step, times};

fn expected(plan: &PlanFile, graph: &Graph, machine: &Machine, run: &Options) -> Expected {
    Expected::of(plan, graph, machine, &times(graph, machine), run).unwrap()
}

/// Launched by the first unit, so many steps in flight.
fn run(in_flight: usize) -> Options {
    Options {
        in_flight,
        launcher: Some(UnitId(0)),
        ..Options::default()
    }
}

fn noise(sigma: f64) -> Option<Noise> {
    Some(Noise {
        seed: 1,
        sigma,
        unit_sigma: 0.0,
        interruptions: Interruptions::default(),
    })
}

fn near(a: f64, b: f64, by: f64) -> bool {
    (a - b).abs() <= by * b
}

#[test]
fn where_nothing_is_known_of_runs_they_take_what_the_equations_say() {
    for cores in [1, 2] {
        let (graph, machine) = (step(3), machine(cores, false));
        let (_, _, plan) = planned(&graph, &machine, Objective::Energy);
        let one = expected(&plan, &graph, &machine, &run(1));
        assert_eq!(one.seconds, one.alone);
        assert!(near(one.alone.0, plan.seconds.0, 1e-9), "{one:?}");
        assert!(near(one.joules.0, plan.joules.total.0, 1e-9), "{one:?}");
        for (works, unit) in one.works.iter().zip(&plan.units) {
            assert!(near(works.0, unit.busy.0, 1e-9), "{one:?}");
        }
    }
}

/// The first layers of three on one core, the last on the other; updates by turns.
fn by_turns(machine: &Machine) -> (std::sync::Arc<Graph>, PlanFile) {
    let graph = step(3);
    let (_, _, mut plan) = planned(&graph, machine, Objective::Time);
    plan.units[0].order = vec![0, 1, 3, 5];
    plan.units[1].order = vec![2, 4];
    for task in &mut plan.tasks {
        task.state = 0;
    }
    (graph, plan)
}

#[test]
fn every_handing_over_to_another_unit_is_noticed_late() {
    let mut machine = machine(2, false);
    let (graph, plan) = by_turns(&machine);
    // Two layers of two seconds, three updates of one; the second begins and ends on the other core.
    let prompt = expected(&plan, &graph, &machine, &run(2));
    assert!(near(prompt.seconds.0, 7.0, 1e-9), "{prompt:?}");
    for unit in &mut machine.units {
        unit.wake_latency = Seconds(0.25);
    }
    let late = expected(&plan, &graph, &machine, &run(2));
    assert!(near(late.seconds.0, 7.5, 1e-9), "{late:?}");
    assert!(near(late.alone.0, 7.5, 1e-9), "{late:?}");
    for unit in &mut machine.units {
        unit.overhead = Seconds(0.125);
    }
    let slow = expected(&plan, &graph, &machine, &run(2));
    // A task's overhead is part of the wake-up latency: five tasks in a row, two of them on a unit that slept.
    assert!(
        near(slow.seconds.0, 7.0 + 3.0 * 0.125 + 2.0 * 0.25, 1e-9),
        "{slow:?}"
    );
    assert_eq!(slow.works, [Seconds(6.0), Seconds(3.0)]);
}

#[test]
fn units_wait_for_the_slower_one_where_durations_vary() {
    let varying = Options {
        noise: noise(0.3),
        ..run(1)
    };
    let one = machine(1, false);
    let graph = step(3);
    let (_, _, plan) = planned(&graph, &one, Objective::Energy);
    let alone = expected(&plan, &graph, &one, &varying);
    assert!(near(alone.seconds.0, plan.seconds.0, 0.01), "{alone:?}");
    // Equal layers on either core: the longer of two is waited for.
    let two = machine(2, false);
    let graph = step(2);
    let (_, _, plan) = planned(&graph, &two, Objective::Time);
    assert_eq!(plan.units.iter().filter(|u| u.busy.0 >= 2.0).count(), 2);
    let both = expected(&plan, &graph, &two, &varying);
    // The mean of the larger of two lognormal ones is 1 + erf(sigma / 2) of theirs.
    let waited = 2.0 * 0.168;
    assert!(
        near(both.seconds.0, plan.seconds.0 + waited, 0.01),
        "{both:?}"
    );
    assert_eq!(both, expected(&plan, &graph, &two, &varying));
}

#[test]
fn what_is_expected_is_kept_and_told() {
    let machine = machine(2, false);
    let (graph, mut plan) = by_turns(&machine);
    assert!(!sentences(&plan).join(" ").contains("expected"));
    plan.expected = Some(expected(&plan, &graph, &machine, &run(2)));
    let read = PlanFile::from_json(&planned_text(&plan)).unwrap();
    assert_eq!(read.expected, plan.expected);
    let text = sentences(&plan).join(" ");
    assert!(text.contains("In a run that follows it, 7.00 s"), "{text}");
    assert!(!text.contains("miss"), "{text}");
    plan.target.deadline = Some(Seconds(6.9));
    let text = sentences(&plan).join(" ");
    assert!(
        text.contains("expected to miss the deadline of 6.90 s"),
        "{text}"
    );
}

/// The plan's text, tasks named by the units that have them in their orders.
fn planned_text(plan: &PlanFile) -> String {
    let mut plan = plan.clone();
    for (u, unit) in plan.units.iter().enumerate() {
        for &t in &unit.order {
            plan.tasks[t as usize].unit = u;
        }
    }
    plan.to_json()
}
