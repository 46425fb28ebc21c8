//! Bounds never lie above the optimum, and quick looks at plans see what the plans are.

use crate::bound::{PossibleTransfers, bound};
use crate::dispatch::{Dispatch, Rule, reduced_costs};
use crate::list::Lister;
use crate::network::Frame;
use crate::problem::{Goal, Objective, Problem};
use crate::quick::Quick;

use super::exact::exhaustive;
use super::random::{self, Dice};

#[test]
fn bounds_with_transfers_hold_and_help() {
    let (mut compared, mut limited, mut helped) = (0, 0, 0);
    for seed in 0..1500 {
        let mut dice = Dice::new(40_000 + seed);
        let tasks = 2 + dice.below(5);
        let (problem, goal) = random::problem(&mut dice, tasks);
        let Some(best) = exhaustive(&problem, &goal).filter(|b| b.is_finite()) else {
            continue;
        };
        let frame = Frame::new(&problem).unwrap();
        let relaxed = frame.relaxed();
        let with = bound(
            &relaxed,
            &PossibleTransfers::new(&frame),
            &goal,
            400,
            &mut || true,
        )
        .0
        .cost;
        let without = bound(
            &relaxed,
            &PossibleTransfers::default(),
            &goal,
            400,
            &mut || true,
        )
        .0
        .cost;
        assert!(
            with <= best * (1.0 + 1e-9),
            "seed {seed}: bound {with}, but a plan costs {best}\n{problem:#?} {goal:?}"
        );
        compared += 1;
        limited += usize::from(frame.copies);
        helped += usize::from(with > without * 1.01);
    }
    println!(
        "{compared} compared, {limited} with limited memory, {helped} bounds at least 1 % higher"
    );
    assert!(compared >= 1000 && limited >= 100 && helped >= 60);
}

/// Sketches of some random choices against their plans: how many there were, and how many of them move data.
pub fn sketched(problem: &Problem, goal: &Goal, dice: &mut Dice, seed: u64) -> (usize, usize) {
    let (mut compared, mut moving) = (0, 0);
    let frame = Frame::new(problem).unwrap();
    let tasks = problem.tasks.len();
    let mut quick = Quick::new(&frame, *goal).unwrap();
    let mut lister = Lister::new(&frame, *goal);
    for _ in 0..4 {
        let choice = problem.tasks.iter();
        let choice: Vec<u16> = choice
            .map(|&c| dice.below(frame.modes[c as usize].len()) as u16)
            .collect();
        let nudge: Vec<f64> = (0..tasks)
            .map(|_| dice.below(100) as f64 / 50.0 - 1.0)
            .collect();
        let plan = lister.plan(&choice, &nudge);
        let sketch = quick.sketch(&choice, &nudge, f64::INFINITY);
        let (Some(plan), Some(sketch)) = (&plan, &sketch) else {
            assert!(plan.is_none() && sketch.is_none(), "seed {seed}");
            continue;
        };
        let cost = goal.cost(sketch.seconds, sketch.joules);
        let makespan = plan.log.iter().map(|s| s.end).fold(0.0, f64::max);
        assert_eq!(makespan, sketch.seconds, "seed {seed}");
        assert!((plan.cost - cost).abs() <= 1e-9 * cost, "seed {seed}");
        // A limit below the cost refuses it, one above does not.
        assert!(quick.sketch(&choice, &nudge, 0.99 * cost).is_none() || cost == 0.0);
        assert!(quick.sketch(&choice, &nudge, 1.01 * cost).is_some());
        compared += 1;
        moving += usize::from(sketch.log.len() > tasks);
    }
    (compared, moving)
}

#[test]
fn sketches_are_the_plans_they_stand_for() {
    let (mut compared, mut moving) = (0, 0);
    for seed in 0..600 {
        let mut dice = Dice::new(50_000 + seed);
        let (mut problem, _) = random::problem(&mut dice, 14);
        problem.memories.iter_mut().for_each(|m| m.capacity = None);
        let goal = Goal {
            objective: [Objective::Energy, Objective::Time, Objective::Edp][dice.below(3)],
            deadline: None,
        };
        let (here, there) = sketched(&problem, &goal, &mut dice, seed);
        (compared, moving) = (compared + here, moving + there);
    }
    assert!(compared >= 2000 && moving >= 500, "{compared} {moving}");
}

#[test]
fn dispatched_choices_are_plans() {
    let mut planned = 0;
    for seed in 0..200 {
        let mut dice = Dice::new(60_000 + seed);
        let (problem, goal) = random::problem(&mut dice, 12);
        let frame = Frame::new(&problem).unwrap();
        let relaxed = frame.relaxed();
        let dual = bound(
            &relaxed,
            &PossibleTransfers::new(&frame),
            &goal,
            100,
            &mut || true,
        )
        .1;
        let reduced_costs = reduced_costs(&frame, &dual, 1.0);
        let dispatch = Dispatch::new(&frame, &relaxed, &dual);
        for (limit, liking) in [(0.0, 0.0), (1.0, 10.0), (f64::INFINITY, 1.0)] {
            let rule = Rule {
                limits: vec![limit; problem.groups.len()],
                depth: 1.0,
                liking,
            };
            let Some((choice, nudge)) = dispatch.plan(&rule, &reduced_costs) else {
                continue;
            };
            assert!(
                (choice.iter().zip(&problem.tasks))
                    .all(|(&k, &c)| usize::from(k) < frame.modes[c as usize].len())
            );
            let free = Goal {
                deadline: None,
                ..goal
            };
            planned += usize::from(Lister::new(&frame, free).plan(&choice, &nudge).is_some());
        }
    }
    assert!(planned >= 300, "{planned}");
}
