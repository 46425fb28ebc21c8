//! From a problem to a plan with a proof of how good it is.
//!
//! [First](super::first) plans, changes by [`search`](super::search), and where the problem is small enough
//! the proof by [`exact`]. The [bound] is found first and decides when to stop.
//!
//! No clock is read: whoever calls says through `keep_going` when it has been long enough.

use super::bound::{self, Bound, Carries, Game};
use super::construct::greedy;
use super::dispatch;
use super::even::even;
use super::exact::{self, Hint};
use super::first::{First, rounded};
use super::fix::fix;
use super::list::{Candidate, Lister};
use super::network::Frame;
use super::problem::{Goal, Objective, PlanError, Problem};
use super::schedule::{Schedule, verify};
use super::search::Search;
use super::seed::Seed;
use super::slack;
use super::timeline::Started;
use super::why;

/// Tries to make equal units end together.
const EVENED: usize = 300;

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
    let mut frame = Frame::new(problem)?;
    if goal.objective == Objective::Time {
        frame.keep_fastest();
    }
    let relaxed = frame.relaxed();
    let carries = Carries::new(&frame);
    let (bound, game) = bound::bound(&relaxed, &carries, goal, effort.bound_rounds, keep_going);
    if !goal.in_time(bound.seconds * (1.0 - 1e-9)) {
        return Err(PlanError::Infeasible(why::too_slow(problem, goal, &bound)));
    }
    let enough = bound.cost / (1.0 - effort.gap.clamp(0.0, 0.99)) * (1.0 + 1e-9);
    let joules = f64::from(u8::from(goal.objective != Objective::Time));
    let regrets = dispatch::regrets(&frame, &game, joules);
    let mut lister = Lister::new(&frame, *goal);
    let small = problem.tasks.len() <= effort.exact;
    let first = First {
        frame: &frame,
        relaxed: &relaxed,
        game: &game,
        regrets: &regrets,
        seeds,
        seed: effort.seed,
        rounds: effort.rounds,
        enough,
    };
    let starts = first.best(small, &mut lister, keep_going);
    let search = Search {
        frame: &frame,
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
            start = slack::spend(&frame, &mut lister, start);
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
        known.even(&frame, goal, rounded, enough, keep_going);
    }
    if small
        && known
            .plan
            .as_ref()
            .is_none_or(|p| p.0 > enough && keep_going())
        && let Some(fixed) = known.prove(&frame, goal, effort, (&bound, &game), keep_going)
    {
        frame = fixed;
    }
    let Known {
        plan,
        proven,
        floor,
    } = known;
    let Some((_, memory, log)) = plan else {
        return Ok(Attempt::None { proven });
    };
    let schedule = complete(frame, &memory, &log)?;
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
        why::bound(problem, goal, &bound)
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
        bound,
    })))
}

/// What is known of a problem.
struct Known {
    /// The best plan: its cost, each task's memory, and what starts when.
    plan: Option<(f64, Vec<usize>, Vec<Started>)>,
    /// Whether nothing is better, but for the gap that is allowed.
    proven: bool,
    /// No plan costs less.
    floor: f64,
}

impl Known {
    /// Makes equal units end together, in the best plan and in another one.
    fn even(
        &mut self,
        frame: &Frame<'_>,
        goal: &Goal,
        other: Option<Candidate>,
        enough: f64,
        keep_going: &mut dyn FnMut() -> bool,
    ) {
        let starts = self.plan.clone().into_iter();
        let starts = starts.chain(other.map(|o| (o.cost, o.memory, o.log)));
        for (_, memory, log) in starts.collect::<Vec<_>>() {
            let known = self.plan.as_ref().map_or(f64::INFINITY, |p| p.0);
            if known > enough
                && let Some(net) = frame.network(&memory)
                && let Some((cost, log)) = even(&net, goal, &log, enough, EVENED, keep_going)
                && cost < known
            {
                self.plan = Some((cost, memory, log));
            }
        }
    }

    /// Looks for the proof, or a better plan; if there is one, the frame it is a plan of.
    fn prove<'p>(
        &mut self,
        frame: &Frame<'p>,
        goal: &Goal,
        effort: &Effort,
        known: (&Bound, &Game),
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Option<Frame<'p>> {
        let beat = self.plan.as_ref().map_or(f64::INFINITY, |p| p.0);
        let limit = beat * (1.0 - effort.gap.max(1e-9));
        let rounds = effort.bound_rounds;
        let Some((fixed, tighter)) = fix(frame, goal, limit, rounds, known, keep_going) else {
            (self.proven, self.floor) = (true, limit);
            return None;
        };
        let hint = self.plan.as_ref();
        let hint = hint.and_then(|(_, memory, log)| Hint::new(frame, memory, log));
        let exact = exact::solve(&fixed, goal, beat, hint.as_ref(), effort.gap, keep_going);
        self.proven = exact.proven;
        self.floor = self.floor.max(tighter.cost.min(limit)).max(exact.floor);
        let (memory, log) = exact.found?;
        self.plan = Some((exact.cost, memory, log));
        Some(fixed)
    }
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
