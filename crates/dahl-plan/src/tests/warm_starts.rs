//! Plans that the planner is given to begin with.

use crate::graph_problem::GraphProblem;
use crate::problem::{Goal, Objective};
use crate::schedule::{Schedule, verify};
use crate::solve::{Limits, plan};
use crate::warm_start::WarmStart;
use dahl_sched::policy;
use dahl_sim::{Options, simulate};

use super::graphs::{machine, step, times};
use super::random::{self, Dice};

/// First plans alone.
fn first() -> Limits<'static> {
    Limits {
        rounds: 0,
        bound_iterations: 100,
        exact_tasks: 0,
        ..Limits::default()
    }
}

fn seed_of(plan: &Schedule) -> WarmStart {
    WarmStart {
        groups: plan.runs.iter().map(|r| usize::from(r.group)).collect(),
        starts: plan.runs.iter().map(|r| r.start).collect(),
    }
}

#[test]
fn plans_are_no_worse_than_what_policies_do() {
    for (parts, cores) in [(3, 1), (6, 2), (9, 3), (14, 2)] {
        let (graph, machine) = (step(parts), machine(cores, true));
        let times = times(&graph, &machine);
        let graph_problem = GraphProblem::new(&graph, &machine, &times);
        for name in ["eager", "dm", "dmda", "dmdas"] {
            let run = |steps| {
                let options = Options {
                    steps,
                    in_flight: 1,
                    new_inputs_each_step: true,
                    record: true,
                    ..Options::default()
                };
                let policy = policy::by_name(name, &machine).unwrap();
                simulate(&graph, &machine, &times, &*policy, &options).unwrap()
            };
            let (before, all) = (run(3), run(4));
            let seed = WarmStart::of_run(&graph_problem, &all.runs).unwrap();
            assert_eq!(seed.groups.len(), graph.len());
            for objective in [Objective::Time, Objective::Energy] {
                let goal = Goal {
                    objective,
                    deadline: None,
                };
                let seconds = all.makespan.0 - before.makespan.0;
                let simulated = goal.cost(seconds, all.joules().0 - before.joules().0);
                let seeds = [seed.clone()];
                let problem = &graph_problem.problem;
                let plan = plan(
                    problem,
                    &goal,
                    &Limits {
                        warm_starts: &seeds,
                        ..first()
                    },
                    &mut || true,
                )
                .unwrap();
                assert!(
                    plan.cost <= simulated * (1.0 + 1e-9),
                    "{parts} parts, {cores} cores, {name}, {objective}: {} {simulated}",
                    plan.cost
                );
            }
        }
    }
}

#[test]
fn good_seeds_help_and_others_do_no_harm() {
    let mut helped = 0;
    for seed in 0..30 {
        let mut dice = Dice::new(90_000 + seed);
        let (p, g) = random::problem(&mut dice, 8);
        let best = Limits {
            rounds: 300,
            bound_iterations: 100,
            ..Limits::default()
        };
        let Ok(best) = plan(&p, &g, &best, &mut || true) else {
            continue;
        };
        let Ok(without) = plan(&p, &g, &first(), &mut || true) else {
            continue;
        };
        let foreign = WarmStart {
            groups: vec![0; p.tasks.len() + 1],
            starts: vec![0.0; p.tasks.len() + 1],
        };
        let nowhere = WarmStart {
            groups: vec![p.groups.len(); p.tasks.len()],
            starts: vec![0.0; p.tasks.len()],
        };
        let useless = [foreign, nowhere];
        let same = plan(
            &p,
            &g,
            &Limits {
                warm_starts: &useless,
                ..first()
            },
            &mut || true,
        )
        .unwrap();
        assert_eq!(same, without, "seed {seed}");
        let seeds = [seed_of(&best.schedule)];
        let with = plan(
            &p,
            &g,
            &Limits {
                warm_starts: &seeds,
                ..first()
            },
            &mut || true,
        )
        .unwrap();
        verify(&p, &with.schedule).unwrap();
        let cost = without.cost;
        assert!(with.cost <= cost * (1.0 + 1e-9), "seed {seed}");
        assert!(with.cost >= best.cost * (1.0 - 1e-9), "seed {seed}");
        helped += usize::from(with.cost < cost * (1.0 - 1e-9));
    }
    assert!(helped >= 3, "{helped}");
}
