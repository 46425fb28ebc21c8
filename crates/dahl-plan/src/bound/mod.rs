//! Lower bounds by Lagrangian duality: what no plan can beat, and why.
//!
//! The bound is the value of a linear relaxation in which a task may be divided between its execution modes. For
//! weights `w` of time and `v` of joules, with `p(i)` the expected time of task `i` under its division,
//!
//! ```text
//! minimise  w × T + v × Σ joules     subject to
//!   T ≥ Σ p(i) over the tasks of any path                                        (critical path)
//!   T ≥ h + q + Σ p(i on r) / units(r)  over tasks with head ≥ h and tail ≥ q     (work on r)
//! ```
//!
//! where heads and tails are the longest paths before and after a task at the shortest times. Transfers that the
//! division makes necessary add their joules, lengthen paths, and are work of their links.
//!
//! The constraints on `T` are relaxed with multipliers that add up to `w`. *Any* multipliers give a valid bound:
//! each task then takes its cheapest mode. Good ones are found by [fictitious play](dual). Iterations only make the
//! bound better, and stopping early never makes it wrong. A multiplier is the price of a task's time on a resource.

mod dual;
mod transfers;
mod windows;

pub(crate) use dual::{Cycle, DualBound, Steps, dual_ascent};
pub(crate) use transfers::PossibleTransfers;

use super::network::Network;
use super::problem::{Goal, Objective};

/// What a lower bound rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// No plan costs less.
    pub cost: f64,
    /// No plan is faster.
    pub seconds: f64,
    /// No plan (within the deadline) uses fewer joules.
    pub joules: f64,
    /// Part of the weight of time that rests on critical paths.
    pub path: f64,
    /// Part that rests on the work of each resource.
    pub work: Vec<f64>,
}

/// A valid cut: `joules ≥ value − price × T`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cut {
    /// The joules at `T = 0`.
    pub value: f64,
    /// How many a second more may save; not negative.
    pub price: f64,
}

impl Goal {
    /// How long a plan that costs less than `limit` can take, when it needs so many joules beside those that flow
    /// all the time.
    pub(super) fn longest(&self, limit: f64, standing: f64, joules: f64) -> f64 {
        match self.objective {
            Objective::Time => limit,
            Objective::Energy if standing <= 0.0 => f64::INFINITY,
            Objective::Energy => (limit - joules) / standing,
            // T × (standing × T + joules) = limit
            Objective::Edp if standing <= 0.0 => limit / joules,
            Objective::Edp => {
                ((joules * joules + 4.0 * standing * limit).sqrt() - joules) / (2.0 * standing)
            }
        }
    }

    /// The least cost of anything that takes at least `seconds` and lies above all cuts.
    pub(super) fn floor(&self, seconds: f64, cuts: &[Cut]) -> f64 {
        self.lowest(seconds, cuts).0
    }

    /// The same, and the seconds at which it is found.
    pub(super) fn lowest(&self, seconds: f64, cuts: &[Cut]) -> (f64, f64) {
        match self.objective {
            Objective::Time => (seconds, seconds),
            Objective::Energy => {
                let end = self.deadline.unwrap_or(f64::INFINITY);
                (joules(end, cuts), end)
            }
            // On each cut the product is concave in T, so it is least where cuts meet or T begins.
            Objective::Edp => {
                let mut least = (f64::INFINITY, seconds);
                let mut at = |t: f64| {
                    let cost = t * joules(t, cuts);
                    if cost < least.0 {
                        least = (cost, t);
                    }
                };
                at(seconds);
                for (i, a) in cuts.iter().enumerate() {
                    for b in &cuts[..i] {
                        let t = (a.value - b.value) / (a.price - b.price);
                        if t > seconds && t.is_finite() {
                            at(t);
                        }
                    }
                }
                let end = self.deadline.unwrap_or(f64::INFINITY).max(seconds);
                if end.is_finite() {
                    at(end);
                }
                least
            }
        }
    }
}

/// The least joules of anything that takes so long and lies above all cuts.
pub(super) fn joules(seconds: f64, cuts: &[Cut]) -> f64 {
    let under = |l: &Cut| match l.price {
        0.0 => l.value,
        price => l.value - price * seconds,
    };
    cuts.iter().map(under).fold(0.0, f64::max)
}

/// The bound of a network for a goal, lower than it could be if `keep_going` says no.
pub(crate) fn bound(
    net: &Network,
    transfers: &PossibleTransfers,
    goal: &Goal,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> (Bound, DualBound) {
    let of = (net, transfers, Steps::Alone);
    let (bound, duals) = bound_above(of, 0.0, goal, rounds, keep_going);
    let dual = match goal.objective {
        Objective::Time => duals.time,
        _ => duals.energy,
    };
    (bound, dual)
}

/// The multipliers that bound time, and those that bound joules at the price of time that is best for the goal.
pub(crate) struct Duals {
    pub time: DualBound,
    pub energy: DualBound,
}

/// The same for some steps, no faster than `least_seconds` in any case.
pub(crate) fn bound_above(
    (net, transfers, steps): (&Network, &PossibleTransfers, Steps<'_>),
    least_seconds: f64,
    goal: &Goal,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> (Bound, Duals) {
    let standing = net.standing_watts;
    let time = dual_ascent(net, transfers, (1.0, 0.0), steps, rounds, keep_going);
    let seconds = time.value.max(least_seconds);
    let mut energy = dual_ascent(net, transfers, (standing, 1.0), steps, rounds, keep_going);
    let least = energy.value.max(standing * seconds + least_joules(net));
    let mut cuts = vec![Cut {
        value: least,
        price: 0.0,
    }];
    // Prices of time beside the standing watts. Which one is best depends on what the deadline or the
    // product is worth; the bound is concave in the price, so a coarse search and a finer one do.
    if goal.deadline.is_some() || goal.objective == Objective::Edp {
        let unit = standing
            .max(least / seconds.max(f64::MIN_POSITIVE))
            .max(1e-9);
        let mut best = (goal.floor(seconds, &cuts), 0.0);
        let mut at = |price: f64, cuts: &mut Vec<Cut>, best: &mut (f64, f64)| {
            if !keep_going() {
                return;
            }
            let weights = (standing + price, 1.0);
            let rounds = rounds / 4 + 1;
            let mut dual = dual_ascent(net, transfers, weights, steps, rounds, keep_going);
            dual.price = price;
            cuts.push(Cut {
                value: dual.value,
                price,
            });
            let floor = goal.floor(seconds, cuts);
            if floor > best.0 {
                *best = (floor, price);
                energy = dual;
            }
        };
        for power in -3..=5 {
            at(unit * 2.0_f64.powi(power), &mut cuts, &mut best);
        }
        for step in [1.4, 1.2, 1.1] {
            let centre = best.1;
            at(centre * step, &mut cuts, &mut best);
            at(centre / step, &mut cuts, &mut best);
        }
    }
    let joules = Goal {
        objective: Objective::Energy,
        ..*goal
    }
    .floor(seconds, &cuts);
    let cost = goal.floor(seconds, &cuts);
    let dual = match goal.objective {
        Objective::Time => &time,
        _ => &energy,
    };
    let bound = Bound {
        cost,
        seconds,
        joules,
        path: dual.on_path,
        work: dual.on_work.clone(),
    };
    (bound, Duals { time, energy })
}

/// What the tasks cost when each takes its cheapest mode.
pub(crate) fn least_joules(net: &Network) -> f64 {
    let least = |i: usize| {
        net.activities[i]
            .modes
            .iter()
            .map(|w| w.joules)
            .fold(f64::INFINITY, f64::min)
    };
    (0..net.activities.len()).map(least).sum()
}
