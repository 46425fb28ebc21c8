//! What a plan costs, as a variable with bounds like all others.
//!
//! A plan of `T` seconds needs `E = standing × T + Σ joules`. For a weight `w` of a second, the
//! [dual bound](crate::bound) says `w × T + Σ joules ≥ value + Σ reduced costs` of the modes that tasks take, so with
//! what is known of `T`
//!
//! ```text
//! E ≥ value + Σ reduced costs + (standing − w) × T
//! ```
//!
//! and with a weight of 0, and joules in place of reduced costs, that is the definition. Each weight gives a *cut*.
//! Cuts raise the cost's lower bound; its upper bound rules out modes that would cost too much, and late ends.

use std::ops::Range;

use super::trail::{Conflict, Literal, Trail, Var};
use crate::bound;
use crate::problem::{Goal, Objective};

/// Most cuts.
pub(super) const CUTS: usize = 5;

/// A sum over the tasks on each cut.
type Sums = [f64; CUTS];

/// A mode of a task: that it is chosen, and what that costs on each cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// None if it is the only one.
    pub here: Option<Literal>,
    pub costs: Sums,
}

/// What modes that are out, or a transfer that is needed, add to a sum and on each cut, and which literals say so.
type Item = (f64, Sums, Range<usize>);

/// A cut; the first is that of joules, unless only time counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostCut {
    pub weight: f64,
    pub value: f64,
}

#[derive(Debug)]
pub(super) struct Budget {
    pub goal: Goal,
    /// The cost, and how much one is of it.
    pub cost: Var,
    pub unit: f64,
    /// The end of the plan, and the ticks of a second.
    pub end: Var,
    pub ticks: f64,
    pub standing_watts: f64,
    pub cuts: Vec<CostCut>,
    /// The cut by which modes are compared.
    pub main: usize,
    pub tasks: Vec<Vec<Price>>,
    /// Transfers that may be needed, and their joules, on the first cut.
    pub transfers: Vec<(Literal, f64)>,
    pub because: Vec<Literal>,
    /// Room for explanations.
    pub room: (Vec<Literal>, Vec<Item>),
}

/// What is known of the end.
#[derive(Clone, Copy)]
struct Ends {
    least: f64,
    most: f64,
}

impl Budget {
    /// Numbers on which it depends.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Var> {
        let modes = self.tasks.iter().flatten().filter_map(|w| w.here);
        let literals = modes.chain(self.transfers.iter().map(|m| m.0));
        literals.map(|f| f.var).chain([self.end, self.cost])
    }

    /// No plan that is still of interest costs less.
    pub(super) fn floor(&self, trail: &Trail) -> f64 {
        trail.least(self.cost) as f64 * self.unit
    }

    /// That a plan costs less than this.
    pub(super) fn below(&self, cost: f64) -> Literal {
        self.cost.at_most((cost / self.unit).ceil() as i64 - 1)
    }

    /// What follows from modes and ends for the cost, and from the cost for them.
    pub(super) fn check(&mut self, trail: &mut Trail) -> Result<(), Conflict> {
        let mut sums = [0.0; CUTS];
        for modes in &self.tasks {
            add(&mut sums, &least(trail, modes), 1.0);
        }
        if self.goal.objective != Objective::Time {
            let needed = self.transfers.iter().filter(|m| trail.holds(m.0));
            sums[0] += needed.map(|m| m.1).sum::<f64>();
        }
        let ends = Ends {
            least: trail.least(self.end) as f64 / self.ticks,
            most: trail.most(self.end) as f64 / self.ticks,
        };
        let limit = self.limit(trail);
        let (cost, cut) = self.price_of(ends, &sums, limit);
        if cost >= limit {
            self.explain(trail, usize::MAX, cut, (ends, sums));
            return Err(trail.refuse(&self.because));
        }
        // What follows in all plans is kept: the floor.
        let floor = (cost / self.unit) as i64;
        if trail.level() == 0 && floor > trail.least(self.cost) {
            trail.follow(self.cost.at_least(floor), &[])?;
        }
        self.drop_modes(trail, ends, &sums)?;
        self.end_in_time(trail, ends, &sums)
    }

    /// Rules out late ends.
    fn end_in_time(&mut self, trail: &mut Trail, ends: Ends, sums: &Sums) -> Result<(), Conflict> {
        let limit = self.limit(trail);
        if self.goal.objective == Objective::Time {
            let latest = (limit * self.ticks).floor() as i64;
            let below = self.cost.at_most(trail.most(self.cost));
            return trail.follow(self.end.at_most(latest), &[below]);
        }
        for (k, sum) in sums.iter().enumerate().take(self.cuts.len()) {
            let latest = self.latest(limit, k, self.cuts[k].value + sum) * self.ticks;
            if latest < trail.most(self.end) as f64 {
                // From there on it costs too much.
                let latest = latest.floor() as i64;
                let least = (latest + 1) as f64 / self.ticks;
                self.explain(trail, usize::MAX, Some(k), (Ends { least, ..ends }, *sums));
                self.because.retain(|f| f.var != self.end);
                trail.follow(self.end.at_most(latest), &self.because)?;
            }
        }
        Ok(())
    }

    /// Plans cost less than this.
    fn limit(&self, trail: &Trail) -> f64 {
        (trail.most(self.cost) + 1) as f64 * self.unit
    }

    /// Rules out modes that cost too much.
    fn drop_modes(&mut self, trail: &mut Trail, ends: Ends, sums: &Sums) -> Result<(), Conflict> {
        let limit = self.limit(trail);
        // Where the product is least now: if it is below the limit there, it is at its least.
        let within = Goal {
            deadline: Some(ends.most),
            ..self.goal
        };
        let all = self.range(None);
        let lowest = match self.goal.objective {
            Objective::Edp => {
                let cuts = self.under(all.clone(), ends, sums);
                within.lowest(ends.least, &cuts[..all.len()]).1
            }
            _ => 0.0,
        };
        for t in 0..self.tasks.len() {
            if self.tasks[t].len() < 2 {
                continue;
            }
            let mut others = *sums;
            add(&mut others, &least(trail, &self.tasks[t]), -1.0);
            for k in 0..self.tasks[t].len() {
                let mode = self.tasks[t][k];
                let Some(here) = mode.here.filter(|&h| !trail.fails(h)) else {
                    continue;
                };
                let mut with = others;
                add(&mut with, &mode.costs, 1.0);
                if lowest > 0.0 {
                    let cuts = self.under(all.clone(), ends, &with);
                    if lowest * bound::joules(lowest, &cuts[..all.len()]) < limit {
                        continue;
                    }
                }
                let (cost, cut) = self.price_of(ends, &with, limit);
                if cost >= limit {
                    self.explain(trail, t, cut, (ends, with));
                    trail.follow(!here, &self.because)?;
                }
            }
        }
        Ok(())
    }

    /// No plan with such an end, and such sums at least, costs less; and the cut that says so, if it is one: one
    /// that suffices for `limit` if there is such a cut.
    fn price_of(&self, ends: Ends, sums: &Sums, limit: f64) -> (f64, Option<usize>) {
        let mut best = (0.0, None);
        for k in 0..self.cuts.len() {
            let price = self.price_by(Some(k), ends, sums);
            if price > best.0 {
                best = (price, Some(k));
            }
        }
        // The less it takes to say why, the more is learned.
        match self.goal.objective == Objective::Edp && best.0 < limit {
            true => (self.price_by(None, ends, sums), None),
            false => best,
        }
    }

    /// The same by one cut, or by all of them.
    fn price_by(&self, cut: Option<usize>, ends: Ends, sums: &Sums) -> f64 {
        let standing = self.standing_watts;
        let worth = |k: usize| self.cuts[k].value + sums[k];
        let cuts = self.range(cut);
        let energy = |k: usize| {
            let weight = self.cuts[k].weight;
            let end = match weight <= standing {
                true => ends.least,
                false => ends.most,
            };
            worth(k) + (standing - weight) * end
        };
        let most = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::max);
        match self.goal.objective {
            Objective::Time => most(&mut cuts.map(worth)).max(ends.least),
            Objective::Energy => most(&mut cuts.map(energy)),
            Objective::Edp => {
                let within = Goal {
                    deadline: Some(ends.most),
                    ..self.goal
                };
                let count = cuts.len();
                within.floor(ends.least, &self.under(cuts, ends, sums)[..count])
            }
        }
    }

    /// One cut, or all of them.
    fn range(&self, cut: Option<usize>) -> Range<usize> {
        match cut {
            Some(k) => k..k + 1,
            None => 0..self.cuts.len(),
        }
    }

    /// Cuts under the joules of plans, by their seconds.
    fn under(&self, cuts: Range<usize>, ends: Ends, sums: &Sums) -> [bound::Cut; CUTS] {
        let mut all = [bound::Cut {
            value: 0.0,
            price: 0.0,
        }; CUTS];
        for (cut, k) in all.iter_mut().zip(cuts) {
            let weight = self.cuts[k].weight - self.standing_watts;
            // Where a second is worth less than it costs, the earliest end counts.
            *cut = bound::Cut {
                value: self.cuts[k].value + sums[k] - weight.min(0.0) * ends.least,
                price: weight.max(0.0),
            };
        }
        all
    }

    /// The latest end of a plan that costs less than a limit, by a cut on which it is worth so much.
    fn latest(&self, limit: f64, cut: usize, worth: f64) -> f64 {
        // Where a second is worth more than it costs, later ends are no dearer by that cut.
        match self.standing_watts - self.cuts[cut].weight {
            watts if watts > 0.0 => self.goal.longest(limit, watts, worth),
            _ => f64::INFINITY,
        }
    }

    /// Why plans with such ends and sums cost too much by a cut, or by all of them, but for one task's modes: as few
    /// literals as suffice for that, without those that make least of a difference.
    fn explain(
        &mut self,
        trail: &Trail,
        but: usize,
        cut: Option<usize>,
        (mut ends, mut sums): (Ends, Sums),
    ) {
        let limit = self.limit(trail);
        let cuts = self.range(cut);
        let (mut why, mut items) = std::mem::take(&mut self.room);
        why.clear();
        items.clear();
        self.because.clear();
        let size = |worth: &Sums| cuts.clone().map(|k| worth[k]).sum::<f64>();
        for (_, modes) in self.tasks.iter().enumerate().filter(|(t, _)| *t != but) {
            let now = least(trail, modes);
            let is_cheaper = |w: &Price| cuts.clone().any(|k| w.costs[k] < now[k]);
            if !modes.iter().any(is_cheaper) {
                continue;
            }
            let always = |w: &&Price| w.here.is_none_or(|h| trail.level_of(!h) > 0);
            let mut worth = now;
            let before = modes.iter().filter(|w| is_cheaper(w)).filter(always);
            let before = before.fold(now, |a, w| std::array::from_fn(|k| a[k].min(w.costs[k])));
            add(&mut worth, &before, -1.0);
            let from = why.len();
            let cheaper = modes.iter().filter(|w| is_cheaper(w));
            why.extend(cheaper.filter_map(|w| w.here).map(|h| !h));
            items.push((size(&worth), worth, from..why.len()));
        }
        if self.goal.objective != Objective::Time && cuts.start == 0 {
            for &(needed, joules) in self.transfers.iter().filter(|m| trail.holds(m.0)) {
                let mut worth = [0.0; CUTS];
                worth[0] = joules;
                items.push((joules, worth, why.len()..why.len() + 1));
                why.push(needed);
            }
        }
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, worth, literals) in &items {
            let mut without = sums;
            add(&mut without, worth, -1.0);
            if self.price_by(cut, ends, &without) >= limit {
                sums = without;
            } else {
                self.because.extend_from_slice(&why[literals.clone()]);
            }
        }
        self.because.push(self.cost.at_most(trail.most(self.cost)));
        let (first, last) = trail.always(self.end);
        let always = Ends {
            least: first as f64 / self.ticks,
            most: last as f64 / self.ticks,
        };
        let enough = |ends: Ends| self.price_by(cut, ends, &sums) >= limit;
        if !enough(Ends {
            least: always.least,
            ..ends
        }) {
            let least = halve(always.least, ends.least, |least| {
                enough(Ends { least, ..ends })
            });
            // Rounded so that it is enough, and known.
            let ticks = ((least * self.ticks).ceil() as i64).min(trail.least(self.end));
            ends.least = ticks as f64 / self.ticks;
            self.because.push(self.end.at_least(ticks));
        } else {
            ends.least = always.least;
        }
        let enough = |ends: Ends| self.price_by(cut, ends, &sums) >= limit;
        if !enough(Ends {
            most: always.most,
            ..ends
        }) {
            self.because.push(self.end.at_most(trail.most(self.end)));
        }
        self.room = (why, items);
    }
}

/// Between what is not enough and what is: as little as is enough.
fn halve(mut less: f64, mut enough: f64, is_enough: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..24 {
        let middle = 0.5 * (less + enough);
        match is_enough(middle) {
            true => enough = middle,
            false => less = middle,
        }
    }
    enough
}

fn add(sums: &mut Sums, more: &Sums, times: f64) {
    sums.iter_mut().zip(more).for_each(|(s, m)| *s += times * m);
}

/// The least that the modes that are left cost on each cut.
fn least(trail: &Trail, modes: &[Price]) -> Sums {
    let mut least = [f64::INFINITY; CUTS];
    for mode in modes {
        if mode.here.is_none_or(|h| !trail.fails(h)) {
            let each = least.iter_mut().zip(mode.costs);
            each.for_each(|(l, cost)| *l = l.min(cost));
        }
    }
    least
}
