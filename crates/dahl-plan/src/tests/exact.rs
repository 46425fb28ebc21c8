//! The exact solver against trying everything.

use crate::bound::{PossibleTransfers, bound};
use crate::exact;
use crate::network::{ExecMode, Frame, Network};
use crate::problem::{Goal, Problem};
use crate::reduced_cost::fix_modes;
use crate::schedule::{Schedule, verify};
use crate::timeline::Timeline;

use super::random::{self, Dice};

/// Tries every mode of every task and every set of starts at every end. Cuts off only what already costs
/// as much as the best. `None` if that takes too many steps.
struct Everything<'a> {
    goal: &'a Goal,
    best: f64,
    steps: u32,
}

const MOST_STEPS: u32 = 150_000;

impl Everything<'_> {
    fn assign(&mut self, frame: &Frame<'_>, chosen: &mut Vec<ExecMode>) {
        let p = frame.problem;
        if self.steps > MOST_STEPS {
            return;
        }
        if chosen.len() == p.tasks.len() {
            let memory: Vec<usize> = chosen
                .iter()
                .map(|w| p.groups[usize::from(w.resource)].memory)
                .collect();
            if let Some(mut net) = frame.network(&memory) {
                for (a, w) in net.activities.iter_mut().zip(chosen.iter()) {
                    a.modes = vec![*w];
                }
                let joules: f64 = net.activities.iter().map(|a| a.modes[0].joules).sum();
                if let Some(t) = Timeline::new(&net) {
                    self.order(&net, &t, 0, joules);
                }
            }
            return;
        }
        let class = &p.classes[p.tasks[chosen.len()] as usize];
        for (g, times) in class.seconds.iter().enumerate() {
            for (s, &seconds) in times.iter().enumerate() {
                let group = &p.groups[g];
                let joules = (group.busy_watts[s] - group.idle_watts) * seconds;
                chosen.push(ExecMode {
                    resource: g as u16,
                    state: s as u8,
                    seconds,
                    joules,
                });
                self.assign(frame, chosen);
                chosen.pop();
            }
        }
    }

    fn order(&mut self, net: &Network, t: &Timeline<'_>, first: u32, joules: f64) {
        self.steps += 1;
        let cost = self
            .goal
            .cost(t.makespan, net.standing_watts * t.makespan + joules);
        if !self.goal.in_time(t.makespan) || cost >= self.best || self.steps > MOST_STEPS {
            return;
        }
        if t.is_complete() {
            self.best = cost;
            return;
        }
        for a in first..net.activities.len() as u32 {
            if t.is_ready(a) && t.is_free_for(a, 0) && t.fits(a) {
                let mut next = t.clone();
                next.start(a, 0);
                self.order(net, &next, a + 1, joules);
            }
        }
        let mut next = t.clone();
        if next.advance(&mut Vec::new()) {
            self.order(net, &next, 0, joules);
        }
    }
}

pub fn exhaustive(problem: &Problem, goal: &Goal) -> Option<f64> {
    let frame = Frame::new(problem).unwrap();
    let mut all = Everything {
        goal,
        best: f64::INFINITY,
        steps: 0,
    };
    all.assign(&frame, &mut Vec::new());
    (all.steps <= MOST_STEPS).then_some(all.best)
}

/// The cost of a best plan by trying everything, if that does not take too long, and how much the exact solver's moves;
/// both must agree, and its plan must hold.
pub fn agreed(problem: &Problem, goal: &Goal, seed: u64) -> Option<(f64, usize)> {
    let expected = exhaustive(problem, goal)?;
    let mut frame = Frame::new(problem).unwrap();
    let exact = exact::solve(&frame, goal, f64::INFINITY, None, 0.0, &mut || true);
    assert!(exact.proven);
    let same = (exact.cost - expected).abs() <= 1e-8 * expected || exact.cost == expected;
    assert!(
        same,
        "seed {seed}: {} but everything gives {expected}\n{problem:#?} {goal:?}",
        exact.cost
    );
    let Some((memory, log)) = exact.found else {
        return Some((expected, 0));
    };
    frame.copies = true;
    let net = frame.network(&memory).unwrap();
    let plan = Schedule::new(problem, &net, &log, &[]);
    verify(problem, &plan).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{problem:#?}"));
    let cost = goal.cost(plan.seconds, plan.energy.total());
    assert!(
        (cost - expected).abs() <= 1e-8 * expected.abs().max(1e-9),
        "seed {seed}"
    );
    Some((expected, plan.moves.len()))
}

#[test]
fn equals_exhaustive_search() {
    let mut compared = [0; 9];
    let (mut infeasible, mut limited, mut moving, mut late) = (0, 0, 0, 0);
    let mut seed = 0;
    while compared.iter().sum::<usize>() < 2400 {
        seed += 1;
        let mut dice = Dice::new(seed);
        let tasks = 2 + dice.below(7);
        let (problem, goal) = random::problem(&mut dice, tasks);
        let Some((expected, moves)) = agreed(&problem, &goal, seed) else {
            continue;
        };
        compared[tasks] += 1;
        infeasible += usize::from(expected.is_infinite());
        limited += usize::from(Frame::new(&problem).unwrap().copies);
        late += usize::from(goal.deadline.is_some());
        moving += usize::from(moves > 0);
    }
    println!(
        "by tasks {compared:?}; infeasible {infeasible}, limited {limited}, with transfers {moving}, deadline {late}"
    );
    // The cases mean something: all sizes, and enough of each difficulty.
    assert!(compared[2..].iter().all(|&n| n >= 50) && infeasible >= 50);
    assert!(limited >= 300 && moving >= 200 && late >= 500);
}

#[test]
fn what_is_ruled_out_holds_no_better_plan() {
    let (mut compared, mut dropped) = (0, 0);
    for seed in 0..700 {
        let mut dice = Dice::new(60_000 + seed);
        let tasks = 3 + dice.below(5);
        let (problem, goal) = random::problem(&mut dice, tasks);
        let Some(best) = exhaustive(&problem, &goal).filter(|b| b.is_finite()) else {
            continue;
        };
        let frame = Frame::new(&problem).unwrap();
        // Ways are dropped for the sake of plans that cost less than a little more than the best.
        let limit = best * (1.0 + 0.01 * dice.below(5) as f64) + 1e-9 * best;
        let (known, prices) = bound(
            &frame.relaxed(),
            &PossibleTransfers::new(&frame),
            &goal,
            200,
            &mut || true,
        );
        let fixed = fix_modes(&frame, &goal, limit, 200, (&known, &prices), &mut || true);
        let (fixed, bound) = fixed.expect("there is such a plan");
        dropped += usize::from(fixed.modes != frame.modes);
        assert!(bound.cost <= best * (1.0 + 1e-9), "seed {seed}");
        let exact = exact::solve(&fixed, &goal, f64::INFINITY, None, 0.0, &mut || true);
        assert!(
            (exact.cost - best).abs() <= 1e-8 * best,
            "seed {seed}: {} after fixing, {best} before\n{problem:#?} {goal:?}",
            exact.cost
        );
        compared += 1;
    }
    println!("{compared} compared, {dropped} with fewer modes");
    assert!(compared >= 300 && dropped >= 100);
}

#[test]
fn a_search_that_is_stopped_has_proven_no_more_than_it_may() {
    let (mut compared, mut raised) = (0, 0);
    for seed in 0..120 {
        let mut dice = Dice::new(70_000 + seed);
        let (problem, goal) = random::problem(&mut dice, 18);
        let frame = Frame::new(&problem).unwrap();
        let solve = |asks: usize| {
            let mut left = asks;
            exact::solve(&frame, &goal, f64::INFINITY, None, 0.0, &mut || {
                left = left.saturating_sub(1);
                left > 0
            })
        };
        let whole = solve(1500);
        let part = solve(1 + dice.below(3));
        if !whole.proven || whole.cost.is_infinite() || part.proven {
            continue;
        }
        compared += 1;
        raised += usize::from(part.floor > 0.0);
        assert!(part.floor <= whole.cost * (1.0 + 1e-9), "seed {seed}");
        assert!(part.cost >= whole.cost * (1.0 - 1e-9), "seed {seed}");
    }
    println!("{compared} stopped, {raised} of them with a bound of their own");
    assert!(compared >= 5);
}
