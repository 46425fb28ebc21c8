//! From a problem to a plan with a proof of how good it is.
//!
//! [First](super::first) plans, changes by [`search`](super::search), and where the problem is small enough
//! the proof by [`exact`](super::exact). The [bound](super::bound) is found first and decides when to stop.
//!
//! No clock is read: whoever calls says through `keep_going` when it has been long enough.

use super::bound::Bound;
use super::construct::greedy;
use super::dispatch;
use super::first::{First, rounded};
use super::list::{Candidate, Lister};
use super::network::Frame;
use super::problem::{Goal, Objective, PlanError, Problem};
use super::prove::{Bounded, Known};
use super::schedule::{Schedule, verify};
use super::search::Search;
use super::seed::Seed;
use super::slack;
use super::timeline::Started;
use super::why;

/// How long and how hard to look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Stop when the plan is proven to be within this part of the optimum.
    pub gap: f64,
    /// Random numbers.
    pub seed: u64,
    /// Changes to try at most.
    pub rounds: u64,
    /// Rounds of the bound's game.
    pub bound_rounds: usize,
    /// Problems of at most this many tasks are solved exactly.
    pub exact: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            gap: 0.0,
            seed: 1,
            rounds: 20_000,
            bound_rounds: 4000,
            exact: 128,
        }
    }
}

impl Effort {
    /// What a plan may cost at most to be good enough, where none costs less than a bound.
    pub(super) fn enough(&self, bound: f64) -> f64 {
        bound / (1.0 - self.gap.clamp(0.0, 0.99)) * (1.0 + 1e-9)
    }

    /// Tries to make equal units end together: far dearer than a change.
    pub(super) fn evened(&self) -> usize {
        (self.rounds / 6).min(300) as usize
    }
}

/// A plan and how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The plan.
    pub schedule: Schedule,
    /// What it costs, in the unit of the objective.
    pub cost: f64,
    /// No plan costs less.
    pub lower_bound: f64,
    /// Why none does.
    pub reason: String,
    /// How much of the cost may be saved at most: `(cost − lower bound) / cost`.
    pub gap: f64,
    /// What the bound rests on.
    pub bound: Bound,
}

/// Finds a plan.
pub fn solve(
    problem: &Problem,
    goal: &Goal,
    effort: &Effort,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Solution, PlanError> {
    solve_from(problem, goal, effort, &[], keep_going)
}

/// Finds a plan that costs no more than any of the seeds does, once transfers are decided.
pub fn solve_from(
    problem: &Problem,
    goal: &Goal,
    effort: &Effort,
    seeds: &[Seed],
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Solution, PlanError> {
    match attempt(problem, goal, effort, seeds, keep_going)? {
        Attempt::Found(solution) => Ok(*solution),
        Attempt::None { proven } => Err(PlanError::Infeasible(why::nothing_found(
            problem, goal, effort, proven,
        ))),
    }
}

/// The same for whoever does not ask why there is none: that takes longer than looking.
pub fn look_from(
    problem: &Problem,
    goal: &Goal,
    effort: &Effort,
    seeds: &[Seed],
    keep_going: &mut dyn FnMut() -> bool,
) -> Option<Solution> {
    match attempt(problem, goal, effort, seeds, keep_going) {
        Ok(Attempt::Found(solution)) => Some(*solution),
        _ => None,
    }
}

/// What came of looking for a plan.
pub(super) enum Attempt {
    /// A plan.
    Found(Box<Solution>),
    /// None.
    None {
        /// Whether there is none at all.
        proven: bool,
    },
}

/// Looks for a plan, without asking why there is none.
pub(super) fn attempt(
    problem: &Problem,
    goal: &Goal,
    effort: &Effort,
    seeds: &[Seed],
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Attempt, PlanError> {
    let whole = Bounded::new(problem, goal, effort, keep_going)?;
    let Bounded { frame, bound, game } = &whole;
    let relaxed = frame.relaxed();
    if !goal.in_time(bound.seconds * (1.0 - 1e-9)) {
        return Err(PlanError::Infeasible(why::too_slow(problem, goal, bound)));
    }
    let enough = effort.enough(bound.cost);
    let joules = f64::from(u8::from(goal.objective != Objective::Time));
    let regrets = dispatch::regrets(frame, game, joules);
    let mut lister = Lister::new(frame, *goal);
    let small = problem.tasks.len() <= effort.exact;
    let first = First {
        frame,
        relaxed: &relaxed,
        game,
        regrets: &regrets,
        seeds,
        seed: effort.seed,
        rounds: effort.rounds,
        enough,
    };
    let starts = first.best(small, &mut lister, keep_going);
    let search = Search {
        frame,
        shares: &game.shares,
        regrets: &regrets,
        seed: effort.seed,
        rounds: if small {
            effort.rounds.min(28_000)
        } else {
            effort.rounds
        },
        enough,
    };
    let mut best: Option<Candidate> = None;
    for mut start in starts {
        if goal.deadline.is_some() && goal.objective != Objective::Time {
            start = slack::spend(frame, &mut lister, start);
        }
        let found = search.improve(&mut lister, start, keep_going);
        if best.as_ref().is_none_or(|b| found.rank < b.rank) {
            best = Some(found);
        }
    }
    let mut known = Known {
        plan: None,
        proven: false,
        floor: bound.cost,
    };
    if let Some(best) = best.filter(|b| b.cost.is_finite()) {
        let rounded = (best.cost > enough)
            .then(|| lister.plan(&rounded(&game.shares), &best.nudge))
            .flatten();
        known.plan = Some((best.cost, best.memory, best.log));
        let until = (enough, effort.evened());
        known.even(frame, goal, rounded, until, keep_going);
    }
    let mut fixed = None;
    if small
        && known
            .plan
            .as_ref()
            .is_none_or(|p| p.0 > enough && keep_going())
    {
        fixed = known.prove(&whole, goal, effort, keep_going);
    }
    let Known {
        plan,
        proven,
        floor,
    } = known;
    let Some((_, memory, log)) = plan else {
        return Ok(Attempt::None { proven });
    };
    let schedule = complete(fixed.unwrap_or_else(|| frame.clone()), &memory, &log)?;
    let cost = goal.cost(schedule.seconds, schedule.energy.total());
    // What is proven to a gap of zero is proven.
    let lower_bound = if proven && effort.gap == 0.0 {
        cost
    } else {
        floor.min(cost)
    };
    let reason = if proven {
        "every other plan was tried or ruled out".to_string()
    } else if floor > bound.cost {
        "every plan that could be cheaper was tried or ruled out".to_string()
    } else {
        why::bound(problem, goal, bound)
    };
    let gap = if cost > 0.0 {
        (cost - lower_bound) / cost
    } else {
        0.0
    };
    Ok(Attempt::Found(Box::new(Solution {
        schedule,
        cost,
        lower_bound,
        reason,
        gap,
        bound: bound.clone(),
    })))
}

/// The plan with its peaks, checked against every rule.
fn complete(
    mut frame: Frame<'_>,
    memory: &[usize],
    log: &[Started],
) -> Result<Schedule, PlanError> {
    frame.copies = true;
    let broken = |rule: String| PlanError::Problem {
        what: "the plan that was found".into(),
        problem: format!("breaks a rule, which is a mistake of the planner: {rule}"),
    };
    let net = frame
        .network(memory)
        .ok_or_else(|| broken("data cannot be moved".into()))?;
    let mut schedule = Schedule::new(frame.problem, &net, log, &[]);
    schedule.peak = verify(frame.problem, &schedule).map_err(broken)?;
    Ok(schedule)
}

/// The plan in which every task that can runs on one group, at its cheapest for the objective; the others
/// run where they can. What a plan is compared with.
pub fn alone(problem: &Problem, goal: &Goal, group: usize) -> Option<Schedule> {
    let frame = Frame::new(problem).ok()?;
    let relaxed = frame.relaxed();
    let free = Goal {
        deadline: None,
        ..*goal
    };
    let mut lister = Lister::new(&frame, free);
    let mut best: Option<Candidate> = None;
    for weight in [0.0, 0.3, 1.0, 3.0, 1e6] {
        let watts = problem.standing_watts().max(1e-9) * weight;
        let choice = greedy(&frame, &relaxed, watts, &|_, _, w| {
            usize::from(w.resource) == group
        });
        if let Some(c) = lister.plan(&choice, &[])
            && best.as_ref().is_none_or(|b| c.rank < b.rank)
        {
            best = Some(c);
        }
    }
    let best = best?;
    complete(frame, &best.memory, &best.log).ok()
}
