//! Plans that the planner is given to begin with.

use dahl_plan::lowered::Lowered;
use dahl_plan::problem::{Goal, Objective};
use dahl_plan::schedule::{Schedule, verify};
use dahl_plan::seed::Seed;
use dahl_plan::solve::{Effort, solve, solve_from};
use dahl_sched::policy;
use dahl_sim::{Options, simulate};

use crate::graphs::{machine, step, times};
use crate::random::{self, Dice};

/// First plans alone.
fn first() -> Effort {
    Effort {
        rounds: 0,
        bound_rounds: 100,
        exact: 0,
        ..Effort::default()
    }
}

fn seed_of(plan: &Schedule) -> Seed {
    Seed {
        groups: plan.runs.iter().map(|r| usize::from(r.group)).collect(),
        starts: plan.runs.iter().map(|r| r.start).collect(),
    }
}

#[test]
fn plans_are_no_worse_than_what_policies_do() {
    for (parts, cores) in [(3, 1), (6, 2), (9, 3), (14, 2)] {
        let (graph, machine) = (step(parts), machine(cores, true));
        let times = times(&graph, &machine);
        let lowered = Lowered::new(&graph, &machine, &times);
        for name in ["eager", "dm", "dmda", "dmdas"] {
            let run = |steps| {
                let options = Options {
                    steps,
                    in_flight: 1,
                    fed: true,
                    record: true,
                    ..Options::default()
                };
                let policy = policy::by_name(name, &machine).unwrap();
                simulate(&graph, &machine, &times, &*policy, &options).unwrap()
            };
            let (before, all) = (run(3), run(4));
            let seed = Seed::of_run(&lowered, &all.runs).unwrap();
            assert_eq!(seed.groups.len(), graph.len());
            for objective in [Objective::Time, Objective::Energy] {
                let goal = Goal {
                    objective,
                    deadline: None,
                };
                let seconds = all.makespan.0 - before.makespan.0;
                let simulated = goal.cost(seconds, all.joules().0 - before.joules().0);
                let seeds = [seed.clone()];
                let problem = &lowered.problem;
                let plan = solve_from(problem, &goal, &first(), &seeds, &mut || true).unwrap();
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
        let best = Effort {
            rounds: 300,
            bound_rounds: 100,
            ..Effort::default()
        };
        let Ok(best) = solve(&p, &g, &best, &mut || true) else {
            continue;
        };
        let Ok(without) = solve(&p, &g, &first(), &mut || true) else {
            continue;
        };
        let foreign = Seed {
            groups: vec![0; p.tasks.len() + 1],
            starts: vec![0.0; p.tasks.len() + 1],
        };
        let nowhere = Seed {
            groups: vec![p.groups.len(); p.tasks.len()],
            starts: vec![0.0; p.tasks.len()],
        };
        let useless = [foreign, nowhere];
        let same = solve_from(&p, &g, &first(), &useless, &mut || true).unwrap();
        assert_eq!(same, without, "seed {seed}");
        let seeds = [seed_of(&best.schedule)];
        let with = solve_from(&p, &g, &first(), &seeds, &mut || true).unwrap();
        verify(&p, &with.schedule).unwrap();
        let cost = without.cost;
        assert!(with.cost <= cost * (1.0 + 1e-9), "seed {seed}");
        assert!(with.cost >= best.cost * (1.0 - 1e-9), "seed {seed}");
        helped += usize::from(with.cost < cost * (1.0 - 1e-9));
    }
    assert!(helped >= 3, "{helped}");
}
