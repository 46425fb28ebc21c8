//! Problems that fall into parts, solved part by part, against trying everything.

use crate::problem::*;
use crate::schedule::verify;
use crate::solve::{Limits, plan};

use super::exact::exhaustive;
use super::random::{self, Dice};

/// A random problem in one memory, where some tasks wait for all before them and all after them wait for these.
fn in_parts(dice: &mut Dice) -> (Problem, Goal) {
    let tasks = 4 + dice.below(4);
    let (mut p, goal) = random::problem(dice, tasks);
    p.groups.iter_mut().for_each(|g| g.memory = 0);
    p.memories[0].capacity = None;
    p.data.clear();
    let cuts: Vec<usize> = (0..1 + dice.below(3))
        .map(|_| 1 + dice.below(tasks - 1))
        .collect();
    for cut in cuts {
        for after in cut..tasks {
            p.edges.extend((0..cut).map(|b| (b as u32, after as u32)));
        }
    }
    (p, goal)
}

#[test]
fn parts_together_are_the_best_plan() {
    // One first plan without improvements: what is better is found by the proof.
    let limits = Limits {
        rounds: 0,
        bound_iterations: 100,
        ..Limits::default()
    };
    let (mut sums, mut products, mut deadlines, mut late) = (0, 0, 0, 0);
    for seed in 0..240 {
        let (problem, goal) = in_parts(&mut Dice::new(50_000 + seed));
        let Some(expected) = exhaustive(&problem, &goal) else {
            continue;
        };
        match (goal.objective, goal.deadline) {
            (Objective::Edp, _) => products += 1,
            (Objective::Energy, Some(_)) => deadlines += 1,
            _ => sums += 1,
        }
        match plan(&problem, &goal, &limits, &mut || true) {
            Ok(found) => {
                verify(&problem, &found.schedule).unwrap();
                let near = (found.cost - expected).abs() <= 1e-8 * expected;
                assert!(
                    near && found.gap < 1e-8,
                    "seed {seed}: {found:?}, {expected}"
                );
            }
            Err(e) => {
                late += 1;
                assert!(expected.is_infinite(), "seed {seed}: {e}, {expected}");
            }
        }
    }
    println!("sums {sums}, products {products}, deadlines {deadlines}; nothing in time {late}");
    assert!(sums >= 100 && products >= 60 && deadlines >= 20 && late >= 15);
}
