//! What a plan costs, as a number with bounds like all others.
//!
//! With the ways that are left, tasks need at least so many joules, and at the prices of the relaxation's
//! [bound](crate::plan::bound) every way has a regret: a plan costs at least the bound's value and the regrets of
//! its ways. That raises the cost's lower bound; its upper bound rules out ways that would cost too much, and late
//! ends.

use super::trail::{Conflict, Fact, Trail, Var};
use crate::plan::bound::Line;
use crate::plan::problem::{Goal, Objective};

/// A way of a task: that it is chosen, and what that costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// None if it is the only one.
    pub here: Option<Fact>,
    pub joules: f64,
    pub regret: f64,
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
    pub tasks: Vec<Vec<Price>>,
    /// Transfers that may be needed, and their joules.
    pub moves: Vec<(Fact, f64)>,
    /// The bound, and the price of a second in it beside the standing watts.
    pub value: f64,
    pub price: f64,
    pub because: Vec<Fact>,
}

/// Joules and regrets.
type Sums = [f64; 2];

impl Budget {
    /// No plan that is still of interest costs less.
    pub fn floor(&self, trail: &Trail) -> f64 {
        trail.least(self.cost) as f64 * self.unit
    }

    /// That a plan costs less than this.
    pub fn below(&self, cost: f64) -> Fact {
        let most = (cost / self.unit).ceil() as i64 - 1;
        self.cost.at_most(most)
    }

    /// What follows from ways and ends for the cost, and from the cost for them.
    pub fn check(&mut self, trail: &mut Trail) -> Result<(), Conflict> {
        let mut sums = [0.0; 2];
        for ways in &self.tasks {
            let least = least(trail, ways);
            sums = [sums[0] + least[0], sums[1] + least[1]];
        }
        for &(needed, joules) in &self.moves {
            if trail.holds(needed) {
                sums[0] += joules;
            }
        }
        let seconds = trail.least(self.end) as f64 / self.ticks;
        let cost = self.price_of(seconds, sums) / self.unit;
        if cost >= (trail.least(self.cost) + 1) as f64 {
            self.explain(trail, usize::MAX);
            trail.follow(self.cost.at_least(cost as i64), &self.because)?;
        }
        self.drop_ways(trail, seconds, sums)?;
        let latest = self.latest(self.limit(trail), sums[0]) * self.ticks;
        if latest < trail.most(self.end) as f64 {
            self.explain(trail, usize::MAX);
            self.because.push(self.cost.at_most(trail.most(self.cost)));
            trail.follow(self.end.at_most(latest.floor() as i64), &self.because)?;
        }
        Ok(())
    }

    /// Plans cost less than this.
    fn limit(&self, trail: &Trail) -> f64 {
        (trail.most(self.cost) + 1) as f64 * self.unit
    }

    /// Rules out ways that cost too much.
    fn drop_ways(&mut self, trail: &mut Trail, seconds: f64, sums: Sums) -> Result<(), Conflict> {
        let limit = self.limit(trail);
        for t in 0..self.tasks.len() {
            if self.tasks[t].len() < 2 {
                continue;
            }
            let own = least(trail, &self.tasks[t]);
            for k in 0..self.tasks[t].len() {
                let way = self.tasks[t][k];
                let with = [sums[0] - own[0] + way.joules, sums[1] - own[1] + way.regret];
                if let Some(here) = way.here
                    && !trail.fails(here)
                    && self.price_of(seconds, with) >= limit
                {
                    self.explain(trail, t);
                    self.because.push(self.cost.at_most(trail.most(self.cost)));
                    trail.follow(!here, &self.because)?;
                }
            }
        }
        Ok(())
    }

    /// No plan that ends no earlier and needs no less costs less.
    fn price_of(&self, seconds: f64, [joules, regret]: Sums) -> f64 {
        let energy = self.standing_watts * seconds + joules;
        let worth = self.value + regret;
        match self.goal.objective {
            Objective::Time => seconds.max(worth),
            Objective::Energy if self.price == 0.0 => energy.max(worth),
            _ => {
                let lines = [(energy, 0.0), (worth, self.price)];
                let lines = lines.map(|(value, price)| Line { value, price });
                self.goal.floor(seconds, &lines)
            }
        }
    }

    /// The latest end of a plan that costs less than a limit and needs so many joules.
    fn latest(&self, limit: f64, joules: f64) -> f64 {
        let watts = self.standing_watts;
        match self.goal.objective {
            Objective::Time => limit,
            _ if watts <= 0.0 => f64::INFINITY,
            Objective::Energy => (limit - joules) / watts,
            // T × (watts × T + joules) = limit
            Objective::Edp => {
                ((joules * joules + 4.0 * watts * limit).sqrt() - joules) / (2.0 * watts)
            }
        }
    }

    /// Why it costs what it does, but for one task's ways.
    fn explain(&mut self, trail: &Trail, but: usize) {
        self.because.clear();
        self.because.push(self.end.at_least(trail.least(self.end)));
        let timed = self.goal.objective == Objective::Time;
        for (_, ways) in self.tasks.iter().enumerate().filter(|(t, _)| *t != but) {
            let [joules, regret] = least(trail, ways);
            for way in ways {
                let cheaper = way.regret < regret || !timed && way.joules < joules;
                if let Some(here) = way.here
                    && cheaper
                {
                    self.because.push(!here);
                }
            }
        }
        if !timed {
            let needed = self.moves.iter().filter(|m| trail.holds(m.0));
            self.because.extend(needed.map(|m| m.0));
        }
    }
}

/// The least joules and the least regret of the ways that are left.
fn least(trail: &Trail, ways: &[Price]) -> Sums {
    let mut least = [f64::INFINITY; 2];
    for way in ways {
        if way.here.is_none_or(|h| !trail.fails(h)) {
            least = [least[0].min(way.joules), least[1].min(way.regret)];
        }
    }
    least
}
