//! From a problem to a plan with a lower bound or a proof: the one entry of the planner.
//!
//! [Initial](super::first) plans, [local search](super::local_search), and where the problem is small enough branch
//! and bound ([`exact`](super::exact)). The [lower bound](super::bound) is found first and decides when to stop.
//!
//! No clock is read: the caller says through `keep_going` when it has been long enough.

use super::bound::Bound;
use super::dispatch;
use super::first::{First, rounded};
use super::list::{Candidate, Lister};
use super::local_search::LocalSearch;
use super::network::Frame;
use super::problem::{Goal, Objective, PlanError, Problem};
use super::progress::Progress;
use super::prove::{Bounded, Incumbent};
use super::schedule::{Schedule, verify};
use super::slack;
use super::states;
use super::timeline::Started;
use super::warm_start::WarmStart;
use super::why;

/// How long and how hard to look, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Stop when the plan is proven to be within this part of the optimum.
    pub gap: f64,
    /// Of the random numbers.
    pub seed: u64,
    /// Moves of the local search at most.
    pub rounds: u64,
    /// Iterations of the dual bound.
    pub bound_iterations: usize,
    /// Problems of at most this many tasks are solved exactly.
    pub exact_tasks: usize,
    /// Schedules to begin with: the plan costs no more than any of them, once transfers are decided.
    pub warm_starts: &'a [WarmStart],
    /// Whether the error says why there is no plan. That may take longer than looking for one.
    pub explain: bool,
    /// Where to say how far the search has come.
    pub progress: Option<&'a Progress>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits {
            gap: 0.0,
            seed: 1,
            rounds: 20_000,
            bound_iterations: 4000,
            exact_tasks: 128,
            warm_starts: &[],
            explain: true,
            progress: None,
        }
    }
}

impl Limits<'_> {
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
pub struct Plan {
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

/// Finds a plan, or says why there is none. Stops early, with the best so far, once `keep_going` says no.
pub fn plan(
    problem: &Problem,
    goal: &Goal,
    limits: &Limits<'_>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Plan, PlanError> {
    match attempt(problem, goal, limits, keep_going)? {
        Attempt::Found(plan) => Ok(*plan),
        Attempt::None { proven } => Err(PlanError::Infeasible(match limits.explain {
            true => why::nothing_found(problem, goal, limits, proven),
            false => "no plan was found".into(),
        })),
    }
}

/// What came of looking for a plan.
pub(super) enum Attempt {
    /// A plan.
    Found(Box<Plan>),
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
    limits: &Limits<'_>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Attempt, PlanError> {
    if states::are_kept(problem) {
        return states::attempt(problem, goal, limits, keep_going);
    }
    let whole = Bounded::new(problem, goal, limits, keep_going)?;
    let Bounded { frame, bound, dual } = &whole;
    let relaxed = frame.relaxed();
    if !goal.in_time(bound.seconds * (1.0 - 1e-9)) {
        return Err(PlanError::Infeasible(why::too_slow(problem, goal, bound)));
    }
    if let Some(progress) = limits.progress {
        progress.bounded(bound.cost);
    }
    let enough = limits.enough(bound.cost);
    let joules = f64::from(u8::from(goal.objective != Objective::Time));
    let reduced_costs = dispatch::reduced_costs(frame, dual, joules);
    let mut lister = Lister::new(frame, *goal);
    let small = problem.tasks.len() <= limits.exact_tasks;
    let first = First {
        frame,
        relaxed: &relaxed,
        dual,
        reduced_costs: &reduced_costs,
        warm_starts: limits.warm_starts,
        seed: limits.seed,
        rounds: limits.rounds,
        enough,
    };
    let starts = first.best(small, &mut lister, keep_going);
    let search = LocalSearch {
        frame,
        shares: &dual.shares,
        reduced_costs: &reduced_costs,
        seed: limits.seed,
        rounds: if small {
            limits.rounds.min(28_000)
        } else {
            limits.rounds
        },
        enough,
        progress: limits.progress,
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
    let mut known = Incumbent {
        plan: None,
        proven: false,
        floor: bound.cost,
    };
    if let Some(best) = best.filter(|b| b.cost.is_finite()) {
        let rounded = (best.cost > enough)
            .then(|| lister.plan(&rounded(&dual.shares), &best.nudge))
            .flatten();
        known.plan = Some((best.cost, best.memory, best.log));
        let until = (enough, limits.evened());
        known.level_loads(frame, goal, rounded, until, keep_going);
    }
    let mut fixed = None;
    if small
        && known
            .plan
            .as_ref()
            .is_none_or(|p| p.0 > enough && keep_going())
    {
        fixed = known.prove(&whole, goal, limits, keep_going);
    }
    let Incumbent {
        plan,
        proven,
        floor,
    } = known;
    if let (Some(progress), Some(plan)) = (limits.progress, &plan) {
        progress.found(plan.0);
        progress.bounded(floor);
    }
    let Some((_, memory, log)) = plan else {
        return Ok(Attempt::None { proven });
    };
    let schedule = complete(fixed.unwrap_or_else(|| frame.clone()), &memory, &log)?;
    let cost = goal.cost(schedule.seconds, schedule.energy.total());
    // What is proven to a gap of zero is proven.
    let lower_bound = if proven && limits.gap == 0.0 {
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
    Ok(Attempt::Found(Box::new(Plan {
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
