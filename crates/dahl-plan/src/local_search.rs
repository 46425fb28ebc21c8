//! Better plans from good ones: small changes, kept when they help or hurt little.
//!
//! Record-to-record travel (Dueck, 1993): a change is kept if the plan is then at most a small part worse
//! than the best so far. That part shrinks in the course of a cycle; each cycle is twice as long as the last. Half of the changes aim at the chain of activities that decides on the makespan.
//! The same seed and number of rounds give the same plan.

use dahl_core::random::Random;

use super::list::{Candidate, Lister};
use super::network::{ExecMode, Frame};
use super::progress::Progress;

/// Rounds of the first cycle, and rounds without a better plan after which the search returns to the best.
const CYCLE: u64 = 4000;

/// How much worse than the best a plan may be at the end of a cycle, and how much more at its beginning.
const COLD: f64 = 0.0005;
const WARM: f64 = 0.01;

/// What steers an improvement.
pub(crate) struct LocalSearch<'a, 'p> {
    /// The problem.
    pub frame: &'a Frame<'p>,
    /// How much the relaxation uses each mode of each task.
    pub shares: &'a [Vec<f64>],
    /// What each mode of each task costs beyond its cheapest, at the dual prices.
    pub reduced_costs: &'a [Vec<f64>],
    /// Which random numbers to use.
    pub seed: u64,
    /// How many changes to try.
    pub rounds: u64,
    /// Stops once a plan costs this little.
    pub enough: f64,
    /// Where to say what was found.
    pub progress: Option<&'a Progress>,
}

struct Dice(Random, u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        self.0.below(self.1, n.max(1) as u64) as usize
    }

    fn uniform(&mut self) -> f64 {
        self.1 += 1;
        self.0.uniform(self.1)
    }
}

impl LocalSearch<'_, '_> {
    /// Improves a plan.
    pub(crate) fn improve(
        &self,
        lister: &mut Lister<'_, '_>,
        start: Candidate,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Candidate {
        let n = start.choice.len();
        let mut dice = Dice(Random::new(self.seed, 11), 0);
        let filled = |plan: &Candidate| {
            let mut nudge = plan.nudge.clone();
            nudge.resize(n, 0.0);
            nudge
        };
        let mut nudge = filled(&start);
        let mut now = start.clone();
        let mut best = start.clone();
        let first = start;
        let mut chain = self.chain(&now);
        let same = self.same_class();
        let after = &self.followers();
        let mut since = 0_u64;
        // Short searches cool too.
        let mut cycle = (self.rounds / 4).clamp(20, CYCLE);
        let mut cools = cycle;
        for round in 0..self.rounds {
            if best.cost <= self.enough || n == 0 || !keep_going() {
                break;
            }
            // Back to the best from time to time.
            since += 1;
            if since > CYCLE {
                since = 0;
                now = best.clone();
                nudge = filled(&best);
                chain = self.chain(&now);
            }
            let task = if dice.below(2) == 0 && !chain.is_empty() {
                chain[dice.below(chain.len())] as usize
            } else {
                dice.below(n)
            };
            let mut choice = now.choice.clone();
            match dice.below(10) {
                0..3 => choice[task] = self.other(&mut dice, task, choice[task]),
                3 => {
                    // A sample through some layers, all to the same kind of unit.
                    let to = self.other(&mut dice, task, choice[task]);
                    let resource = self.modes(task)[usize::from(to)].resource;
                    let many = 2 + dice.below(12);
                    for t in follow(after, task).take(many) {
                        let there = self.modes(t).iter().position(|w| w.resource == resource);
                        choice[t] = there.map_or(choice[t], |k| k as u16);
                    }
                }
                4 => {
                    let class = &same[self.frame.problem.tasks[task] as usize];
                    let other = class[dice.below(class.len())] as usize;
                    choice.swap(task, other);
                }
                5 => {
                    let class = &same[self.frame.problem.tasks[task] as usize];
                    let to = self.other(&mut dice, task, choice[task]);
                    let at = class.partition_point(|&t| (t as usize) < task);
                    let many = 2 + dice.below(7);
                    for &t in class[at..].iter().take(many) {
                        choice[t as usize] = to;
                    }
                }
                6..8 => self.exchange(&mut dice, &mut choice),
                _ => {}
            }
            let mut old: Vec<(usize, f64)> = Vec::new();
            if choice == now.choice {
                let most = [0.05, 0.3, 1.5][dice.below(3)];
                let by = most * (dice.uniform() - 0.5);
                // One task, or the tasks that follow it one after another: a sample through its layers.
                let many = if dice.below(2) == 0 { 1 } else { n };
                for t in follow(after, task).take(many) {
                    old.push((t, nudge[t]));
                    nudge[t] += by;
                }
            }
            if round == cools {
                cycle *= 2;
                cools = round + cycle;
            }
            let warm = (cools - round) as f64 / cycle as f64;
            let slack = 1.0 + (COLD + WARM * warm * warm) * dice.uniform();
            let most = (best.rank * slack).max(now.rank);
            match lister.rough(&choice, &nudge, most) {
                Some(next) if next.rank <= most => {
                    if next.rank < best.rank * (1.0 - 1e-12) {
                        best = next.clone();
                        if let Some(progress) = self.progress {
                            progress.found(best.cost);
                        }
                        since = 0;
                    }
                    now = next;
                    chain = self.chain(&now);
                }
                _ => old.into_iter().for_each(|(t, by)| nudge[t] = by),
            }
        }
        // With each task's memory and unit, which the search does without.
        let whole = lister.plan(&best.choice, &best.nudge);
        whole.filter(|w| w.rank <= first.rank).unwrap_or(first)
    }

    fn modes(&self, task: usize) -> &[ExecMode] {
        &self.frame.modes[self.frame.problem.tasks[task] as usize]
    }

    /// Of a few tasks, the one that has the highest reduced cost takes its best one; most often another task then
    /// makes room for it.
    fn exchange(&self, dice: &mut Dice, choice: &mut [u16]) {
        let n = choice.len();
        let reduced_cost = |t: usize, k: u16| self.reduced_costs[t][usize::from(k)];
        let least = |t: usize, from: &dyn Fn(&ExecMode) -> bool| {
            let modes = self.modes(t);
            let some = (0..modes.len()).filter(|&k| from(&modes[k]));
            let by = |a: &usize, b: &usize| {
                self.reduced_costs[t][*a].total_cmp(&self.reduced_costs[t][*b])
            };
            some.min_by(by).map(|k| k as u16)
        };
        let few: Vec<usize> = (0..8).map(|_| dice.below(n)).collect();
        let sorry = |&a: &usize, &b: &usize| {
            reduced_cost(a, choice[a]).total_cmp(&reduced_cost(b, choice[b]))
        };
        let Some(task) = few.into_iter().max_by(sorry) else {
            return;
        };
        let resource = |t: usize, k: u16| self.modes(t)[usize::from(k)].resource;
        let left = resource(task, choice[task]);
        let Some(best) = least(task, &|_| true) else {
            return;
        };
        choice[task] = best;
        let entered = resource(task, best);
        if entered == left || dice.below(4) == 0 {
            return;
        }
        let back = (0..8)
            .map(|_| dice.below(n))
            .filter(|&t| t != task && resource(t, choice[t]) == entered)
            .filter_map(|t| Some((t, least(t, &|w| w.resource == left)?)))
            .min_by(|a, b| reduced_cost(a.0, a.1).total_cmp(&reduced_cost(b.0, b.1)));
        if let Some((t, k)) = back {
            choice[t] = k;
        }
    }

    /// Another mode of a task, most often one that the relaxation uses.
    fn other(&self, dice: &mut Dice, task: usize, not: u16) -> u16 {
        let shares = &self.shares[task];
        let used = |k: usize| shares[k] > 0.01 && k != usize::from(not);
        let good = (0..shares.len()).filter(|&k| used(k)).count();
        if good > 0 && dice.below(4) > 0 {
            let nth = dice.below(good);
            let found = (0..shares.len()).filter(|&k| used(k)).nth(nth);
            return found.unwrap_or(0) as u16;
        }
        dice.below(shares.len()) as u16
    }

    /// For each task the first that waits for it.
    fn followers(&self) -> Vec<u32> {
        let mut after = vec![u32::MAX; self.frame.problem.tasks.len()];
        for &(a, b) in self.frame.edges.iter().rev() {
            after[a as usize] = b;
        }
        after
    }

    fn same_class(&self) -> Vec<Vec<u32>> {
        let p = self.frame.problem;
        let mut same = vec![Vec::new(); p.classes.len()];
        for (t, &c) in p.tasks.iter().enumerate() {
            same[c as usize].push(t as u32);
        }
        same
    }

    /// Tasks that decide on the makespan: back from the last end to whatever ended as each one started.
    fn chain(&self, plan: &Candidate) -> Vec<u32> {
        let tasks = plan.choice.len() as u32;
        let mut ends: Vec<(f64, usize)> = plan
            .log
            .iter()
            .enumerate()
            .map(|(k, s)| (s.end, k))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut chain = Vec::new();
        let Some(&(mut at, mut k)) = ends.last() else {
            return chain;
        };
        // Each step goes back in time or, among activities of no length, in the order of the log.
        loop {
            let s = &plan.log[k];
            if s.activity < tasks {
                chain.push(s.activity);
            }
            let before = ends.partition_point(|e| e.0 <= s.start);
            match before.checked_sub(1).map(|b| ends[b]) {
                Some((end, next)) if end == s.start && (end < at || next < k) => {
                    (at, k) = (end, next)
                }
                _ => return chain,
            }
        }
    }
}

/// A task and those that follow it.
fn follow(after: &[u32], task: usize) -> impl Iterator<Item = usize> + '_ {
    std::iter::successors(Some(task), |&t| {
        after.get(after[t] as usize).map(|_| after[t] as usize)
    })
}
