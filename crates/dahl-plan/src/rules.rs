//! A search among dispatching rules.
//!
//! Where a plan says of each task where it runs, one task that moves elsewhere leaves a unit without work
//! or another with too much, and the plan becomes much worse. A [dispatch](super::dispatch) by another rule has
//! units choose anew, so its plan is about as good as the one before: easy to improve on where units are
//! unequal. Rules are changed at random, in their numbers and in the reduced costs that units assume for some tasks;
//! a change is kept if the plan is at most a little worse. The last percent is the
//! [local search](super::local_search)'s business.

use dahl_core::random::Random;

use super::bound::DualBound;
use super::dispatch::{Dispatch, Rule};
use super::first::Best;
use super::list::Lister;
use super::problem::Problem;

/// How much worse a plan may be, as a part.
const WORSE: f64 = 0.0005;

/// By how many costs of a mean task a belief changes at most, up or down.
const BELIEF: f64 = 0.1;

/// Rules to begin with: patient units and impatient ones, each way of looking at urgency; and where units
/// are unequal, rules by which the units whose time is worth most never wait.
fn first(problem: &Problem, dual: &DualBound) -> Vec<Rule> {
    let groups = problem.groups.len();
    let mut all = Vec::new();
    for limit in [0.0, 0.01, 0.03, 0.1, 0.3, 1.0] {
        for depth in [0.0, 1.1, 2.0] {
            all.push(Rule {
                limits: vec![limit; groups],
                depth,
                liking: 0.0,
            });
        }
    }
    let worth = |g: usize| dual.on_work[g] / problem.groups[g].units as f64;
    let dearest = (0..groups).max_by(|&a, &b| worth(a).total_cmp(&worth(b)));
    for limit in [0.03, 0.3] {
        for (depth, liking) in [(0.0, 0.0), (1.0, 0.1), (0.0, 10.0)] {
            let mut limits = vec![limit; groups];
            if let Some(g) = dearest.filter(|_| groups > 1) {
                limits[g] = f64::INFINITY;
                all.push(Rule {
                    limits,
                    depth,
                    liking,
                });
            }
        }
    }
    all
}

/// What steers the search for a rule.
pub(crate) struct Rules<'a, 'p> {
    /// Makes the plans.
    pub dispatch: &'a Dispatch<'a, 'p>,
    /// The problem.
    pub problem: &'a Problem,
    /// What was found of it.
    pub dual: &'a DualBound,
    /// What each mode of each task costs beyond its cheapest.
    pub reduced_costs: &'a [Vec<f64>],
    /// Which random numbers to use.
    pub seed: u64,
    /// How many changes to try.
    pub rounds: u64,
    /// Stops once a plan costs this little.
    pub enough: f64,
}

impl Rules<'_, '_> {
    /// Offers the plans of some rules; the best of these and its rank.
    pub(crate) fn begin(
        &self,
        best: &mut Best,
        lister: &mut Lister<'_, '_>,
    ) -> Option<(f64, Rule)> {
        let mut now: Option<(f64, Rule)> = None;
        for rule in first(self.problem, self.dual) {
            let Some((choice, nudge)) = self.dispatch.plan(&rule, self.reduced_costs) else {
                continue;
            };
            best.offer(lister, &choice, &[], 0.0);
            let most = now.as_ref().map_or(f64::INFINITY, |n| n.0);
            if let Some(rank) = best.offer(lister, &choice, &nudge, most)
                && rank < most
            {
                now = Some((rank, rule));
            }
        }
        now
    }

    /// Changes a rule of this rank and offers the plans that come of it, unless units are equal and have
    /// nothing to reduced cost.
    pub(crate) fn improve(
        &self,
        (mut rank, mut rule): (f64, Rule),
        best: &mut Best,
        lister: &mut Lister<'_, '_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) {
        if self.problem.groups.len() < 2 {
            return;
        }
        let random = Random::new(self.seed, 12);
        let mut reduced_costs = self.reduced_costs.to_vec();
        for round in 0..self.rounds {
            if best.cost() <= self.enough || !keep_going() {
                return;
            }
            let dice = Random::new(random.below(round, u64::MAX), 13);
            let mut next = rule.clone();
            let mut old = Vec::new();
            if dice.below(0, 4) == 0 {
                next.change(&dice);
            } else {
                old = self.believe(&dice, &mut reduced_costs);
            }
            let most = rank * (1.0 + WORSE * dice.uniform(1));
            let made = self.dispatch.plan(&next, &reduced_costs);
            match made.and_then(|(choice, nudge)| best.offer(lister, &choice, &nudge, most)) {
                Some(found) => (rank, rule) = (found, next),
                None => old.into_iter().for_each(|(t, was)| reduced_costs[t] = was),
            }
        }
    }

    /// Other beliefs about a few tasks, or about some tasks of a class; what was believed before.
    fn believe(&self, dice: &Random, reduced_costs: &mut [Vec<f64>]) -> Vec<(usize, Vec<f64>)> {
        let (n, most) = (reduced_costs.len(), BELIEF * self.dispatch.mean);
        let tasks = &self.problem.tasks;
        let task = dice.below(2, n as u64) as usize;
        let mut old = Vec::new();
        if dice.below(3, 3) == 0 {
            for k in 0..3 {
                let t = dice.below(10 + k, n as u64) as usize;
                let was = reduced_costs[t].clone();
                for (i, r) in reduced_costs[t].iter_mut().enumerate() {
                    let by = 2.0 * dice.uniform(100 * (k + 1) + i as u64) - 1.0;
                    *r = self.reduced_costs[t][i] + most * by;
                }
                old.push((t, was));
            }
        } else {
            let part = dice.uniform(4);
            let mode = dice.below(5, reduced_costs[task].len() as u64) as usize;
            let by = most * (2.0 * dice.uniform(6) - 1.0);
            let alike = |&t: &usize| tasks[t] == tasks[task];
            for t in (0..n).filter(alike) {
                if dice.uniform(1000 + t as u64) < part {
                    old.push((t, reduced_costs[t].clone()));
                    reduced_costs[t][mode] += by;
                }
            }
        }
        old
    }
}

impl Rule {
    /// Changes each number by a little.
    fn change(&mut self, dice: &Random) {
        let half = |k: u64| 2.0_f64.powf(dice.uniform(k) - 0.5);
        for (g, limit) in self.limits.iter_mut().enumerate() {
            *limit *= half(20 + g as u64);
        }
        self.liking *= half(10);
        self.depth += 0.3 * (dice.uniform(11) - 0.5);
    }
}
