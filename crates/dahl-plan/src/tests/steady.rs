//! The bound of a step of a run, against runs of plans and of changed plans.

use dahl_sim::Options;

use super::graphs::{machine, planned, step, times};
use super::random::Dice;
use crate::expected::Expected;
use crate::graph_problem::GraphProblem;
use crate::problem::{Goal, Objective};
use crate::steady::steady_bound;

#[test]
fn no_run_beats_the_bound() {
    let mut dice = Dice::new(5);
    for (cores, gpu, layers) in [(1, false, 3), (2, false, 2), (2, true, 3), (3, true, 4)] {
        let (graph, machine) = (step(layers), machine(cores, gpu));
        let times = times(&graph, &machine);
        let problem = GraphProblem::new(&graph, &machine, &times).problem;
        for objective in [Objective::Energy, Objective::Time, Objective::Edp] {
            let goal = Goal {
                objective,
                deadline: None,
            };
            let (_, _, mut plan) = planned(&graph, &machine, objective);
            for in_flight in [1, 2, 3] {
                let bound =
                    steady_bound(&problem, &goal, in_flight, (300, 2000), &mut || true).unwrap();
                let bound = bound.plans;
                for _ in 0..4 {
                    let run = Options {
                        in_flight,
                        ..Options::default()
                    };
                    // Changed orders may contradict the graph.
                    let Ok(found) = Expected::of(&plan, &graph, &machine, &times, &run) else {
                        continue;
                    };
                    let cost = goal.cost(found.seconds.0, found.joules.0);
                    assert!(
                        cost >= bound.cost * (1.0 - 1e-9),
                        "{cores} {gpu} {layers} {objective} {in_flight}: {cost} {bound:?}"
                    );
                    let (a, b) = (dice.below(plan.units.len()), dice.below(plan.units.len()));
                    if let Some(task) = plan.units[a].order.pop() {
                        plan.units[b].order.push(task);
                    }
                    plan.transfers.clear();
                }
            }
        }
    }
}

#[test]
fn one_core_takes_as_long_as_its_work() {
    let (graph, machine) = (step(3), machine(1, false));
    let times = times(&graph, &machine);
    let problem = GraphProblem::new(&graph, &machine, &times).problem;
    let goal = Goal {
        objective: Objective::Time,
        deadline: None,
    };
    let (_, _, plan) = planned(&graph, &machine, Objective::Time);
    let run = Options::default();
    let found = Expected::of(&plan, &graph, &machine, &times, &run).unwrap();
    let bound = steady_bound(&problem, &goal, 2, (300, 2000), &mut || true)
        .unwrap()
        .plans;
    let gap = found.seconds.0 / bound.cost - 1.0;
    assert!((0.0..1e-6).contains(&gap), "{found:?} {bound:?}");
}
