//! What a plan costs, as a number with bounds like all others.
//!
//! A plan of `T` seconds needs `E = standing × T + Σ joules`. For a weight `w` of a second, the relaxation's
//! [bound](crate::plan::bound) says `w × T + Σ joules ≥ value + Σ regrets` of the ways that tasks take, so with what is
//! known of `T`
//!
//! ```text
//! E ≥ value + Σ regrets + (standing − w) × T
//! ```
//!
//! and with a weight of 0, and joules in place of regrets, that is the definition. Each weight gives a *line*. They raise
//! the cost's lower bound; its upper bound rules out ways that would cost too much, and late ends.

use super::trail::{Conflict, Fact, Trail, Var};
use crate::plan::bound;
use crate::plan::problem::{Goal, Objective};

/// Most lines.
pub(super) const LINES: usize = 5;

/// A sum over the tasks on each line.
type Sums = [f64; LINES];

/// A way of a task: that it is chosen, and what that costs on each line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// None if it is the only one.
    pub here: Option<Fact>,
    pub costs: Sums,
}

/// A line; the first is that of joules, unless only time counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub weight: f64,
    pub value: f64,
}

/// See the module.
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
    pub lines: Vec<Line>,
    /// The line by which ways are compared.
    pub main: usize,
    pub tasks: Vec<Vec<Price>>,
    /// Transfers that may be needed, and their joules, on the first line.
    pub moves: Vec<(Fact, f64)>,
    pub because: Vec<Fact>,
}

/// What is known of the end.
#[derive(Clone, Copy)]
struct Ends {
    least: f64,
    most: f64,
}

impl Budget {
    /// No plan that is still of interest costs less.
    pub fn floor(&self, trail: &Trail) -> f64 {
        trail.least(self.cost) as f64 * self.unit
    }

    /// That a plan costs less than this.
    pub fn below(&self, cost: f64) -> Fact {
        self.cost.at_most((cost / self.unit).ceil() as i64 - 1)
    }

    /// What follows from ways and ends for the cost, and from the cost for them.
    pub fn check(&mut self, trail: &mut Trail) -> Result<(), Conflict> {
        let mut sums = [0.0; LINES];
        for ways in &self.tasks {
            add(&mut sums, &least(trail, ways), 1.0);
        }
        if self.goal.objective != Objective::Time {
            let needed = self.moves.iter().filter(|m| trail.holds(m.0));
            sums[0] += needed.map(|m| m.1).sum::<f64>();
        }
        let ends = Ends {
            least: trail.least(self.end) as f64 / self.ticks,
            most: trail.most(self.end) as f64 / self.ticks,
        };
        let (cost, line) = self.price_of(ends, &sums, self.limit(trail));
        let cost = cost / self.unit;
        if cost >= (trail.least(self.cost) + 1) as f64 {
            self.explain(trail, usize::MAX, line);
            trail.follow(self.cost.at_least(cost as i64), &self.because)?;
        }
        self.drop_ways(trail, ends, &sums)?;
        self.end_in_time(trail, &sums)
    }

    /// Rules out late ends.
    fn end_in_time(&mut self, trail: &mut Trail, sums: &Sums) -> Result<(), Conflict> {
        let limit = self.limit(trail);
        let below = self.cost.at_most(trail.most(self.cost));
        if self.goal.objective == Objective::Time {
            let latest = (limit * self.ticks).floor() as i64;
            return trail.follow(self.end.at_most(latest), &[below]);
        }
        for (k, sum) in sums.iter().enumerate().take(self.lines.len()) {
            let latest = self.latest(limit, k, self.lines[k].value + sum) * self.ticks;
            if latest < trail.most(self.end) as f64 {
                self.explain(trail, usize::MAX, Some(k));
                self.because.push(below);
                trail.follow(self.end.at_most(latest.floor() as i64), &self.because)?;
            }
        }
        Ok(())
    }

    /// Plans cost less than this.
    fn limit(&self, trail: &Trail) -> f64 {
        (trail.most(self.cost) + 1) as f64 * self.unit
    }

    /// Rules out ways that cost too much.
    fn drop_ways(&mut self, trail: &mut Trail, ends: Ends, sums: &Sums) -> Result<(), Conflict> {
        let limit = self.limit(trail);
        for t in 0..self.tasks.len() {
            if self.tasks[t].len() < 2 {
                continue;
            }
            let mut others = *sums;
            add(&mut others, &least(trail, &self.tasks[t]), -1.0);
            for k in 0..self.tasks[t].len() {
                let way = self.tasks[t][k];
                let Some(here) = way.here.filter(|&h| !trail.fails(h)) else {
                    continue;
                };
                let mut with = others;
                add(&mut with, &way.costs, 1.0);
                let (cost, line) = self.price_of(ends, &with, limit);
                if cost >= limit {
                    self.explain(trail, t, line);
                    self.because.push(self.cost.at_most(trail.most(self.cost)));
                    trail.follow(!here, &self.because)?;
                }
            }
        }
        Ok(())
    }

    /// No plan with such an end, and such sums at least, costs less; and the line that says so, if it is one: one
    /// that suffices for `limit` if there is such a line.
    fn price_of(&self, ends: Ends, sums: &Sums, limit: f64) -> (f64, Option<usize>) {
        let standing = self.standing_watts;
        let lines = self.lines.iter().zip(sums);
        let worths = lines.map(|(l, sum)| (l.weight, l.value + sum));
        let most = |all: &mut dyn Iterator<Item = f64>| {
            let each = all.enumerate().map(|(k, v)| (v, Some(k)));
            each.fold((0.0, None), |a, b| if b.0 > a.0 { b } else { a })
        };
        match self.goal.objective {
            Objective::Time => {
                let (worth, line) = most(&mut worths.map(|(_, worth)| worth));
                match worth > ends.least {
                    true => (worth, line),
                    // The end alone: the first line explains it, too.
                    false => (ends.least, Some(0)),
                }
            }
            Objective::Energy => most(&mut worths.map(|(weight, worth)| {
                let end = if weight <= standing {
                    ends.least
                } else {
                    ends.most
                };
                worth + (standing - weight) * end
            })),
            Objective::Edp => {
                let mut all = [bound::Line {
                    value: 0.0,
                    price: 0.0,
                }; LINES];
                for (line, (weight, worth)) in all.iter_mut().zip(worths) {
                    *line = match weight <= standing {
                        true => bound::Line {
                            value: worth + (standing - weight) * ends.least,
                            price: 0.0,
                        },
                        false => bound::Line {
                            value: worth,
                            price: weight - standing,
                        },
                    };
                }
                let within = Goal {
                    deadline: Some(ends.most),
                    ..self.goal
                };
                let all = &all[..self.lines.len()];
                let mut alone = all.iter().map(|l| within.floor(ends.least, &[*l]));
                let (cost, line) = most(&mut alone);
                // The less it takes to say why, the more is learned.
                match cost >= limit {
                    true => (cost, line),
                    false => (within.floor(ends.least, all), None),
                }
            }
        }
    }

    /// The latest end of a plan that costs less than a limit, by a line on which it is worth so much.
    fn latest(&self, limit: f64, line: usize, worth: f64) -> f64 {
        // Where a second is worth more than it costs, later ends are no dearer by that line.
        match self.standing_watts - self.lines[line].weight {
            watts if watts > 0.0 => self.goal.longest(limit, watts, worth),
            _ => f64::INFINITY,
        }
    }

    /// Why it costs what it does by a line, or by all of them, but for one task's ways.
    fn explain(&mut self, trail: &Trail, but: usize, line: Option<usize>) {
        self.because.clear();
        self.because.push(self.end.at_least(trail.least(self.end)));
        let timed = self.goal.objective == Objective::Time;
        if !timed && line.is_none_or(|k| self.lines[k].weight > self.standing_watts) {
            self.because.push(self.end.at_most(trail.most(self.end)));
        }
        let lines = match line {
            Some(k) => k..k + 1,
            None => 0..self.lines.len(),
        };
        for (_, ways) in self.tasks.iter().enumerate().filter(|(t, _)| *t != but) {
            let least = least(trail, ways);
            for way in ways {
                let is_cheaper = |k: usize| way.costs[k] < least[k];
                if let Some(here) = way.here
                    && lines.clone().any(is_cheaper)
                {
                    self.because.push(!here);
                }
            }
        }
        if !timed && lines.start == 0 {
            let needed = self.moves.iter().filter(|m| trail.holds(m.0));
            self.because.extend(needed.map(|m| m.0));
        }
    }
}

fn add(sums: &mut Sums, more: &Sums, times: f64) {
    sums.iter_mut().zip(more).for_each(|(s, m)| *s += times * m);
}

/// The least that the ways that are left cost on each line.
fn least(trail: &Trail, ways: &[Price]) -> Sums {
    let mut least = [f64::INFINITY; LINES];
    for way in ways {
        if way.here.is_none_or(|h| !trail.fails(h)) {
            let each = least.iter_mut().zip(way.costs);
            each.for_each(|(l, cost)| *l = l.min(cost));
        }
    }
    least
}
