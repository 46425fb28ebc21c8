//! One frequency state per unit and step, where changing it is not free.
//!
//! A change of state takes longer than most tasks, so units keep theirs through a step. A *setting* says how many units of
//! each group run in which state. With it, the units of a group that share a state are a group of their own with no
//! other, and what is left is an ordinary problem. So the search is one over settings, each planned with little effort
//! and the most promising with all of it.
//!
//! Where all settings are looked at, no plan costs less than the least of their lower bounds; else than the bound of the
//! problem in which states change freely.

use super::problem::{Goal, Group, Objective, PlanError, Problem};
use super::prove::Bounded;
use super::schedule::{Schedule, energy, verify};
use super::solve::{self, Attempt, Limits, Plan};
use super::warm_start::WarmStart;
use super::why;

/// Settings that are looked at, with much effort and with little.
const MOST: [usize; 2] = [48, 4];

/// Moves of the local search up to which a plan is one of little effort.
const LITTLE: u64 = 100;

/// Settings that get all of the effort.
const FINALISTS: usize = 4;

/// For every group, how many of its units are in each state.
type Setting = Vec<Vec<usize>>;

/// Whether states matter: some group has several and keeps one.
pub(super) fn are_kept(problem: &Problem) -> bool {
    let several =
        |(g, group): (usize, &Group)| problem.keeps_state(g) && group.busy_watts.len() > 1;
    problem.groups.iter().enumerate().any(several)
}

/// A problem with its states set, and where its groups come from.
struct Fixed {
    problem: Problem,
    /// For every group of it: the group that it is part of, the state, and the first of the units.
    parts: Vec<(usize, u8, usize)>,
}

impl Fixed {
    fn new(whole: &Problem, setting: &Setting) -> Fixed {
        let mut parts = Vec::new();
        let mut groups = Vec::new();
        for (g, (group, counts)) in whole.groups.iter().zip(setting).enumerate() {
            let mut first = 0;
            for (state, &units) in counts.iter().enumerate().filter(|(_, units)| **units > 0) {
                parts.push((g, state as u8, first));
                groups.push(Group {
                    units,
                    busy_watts: match free(whole, g) {
                        true => group.busy_watts.clone(),
                        false => vec![group.busy_watts[state]],
                    },
                    ..group.clone()
                });
                first += units;
            }
        }
        let mut problem = Problem {
            groups,
            one_state: Vec::new(),
            ..whole.clone()
        };
        for class in &mut problem.classes {
            let of = |&(g, state, _): &(usize, u8, usize)| match &class.seconds[g] {
                all if all.is_empty() || free(whole, g) => all.clone(),
                all => vec![all[usize::from(state)]],
            };
            class.seconds = parts.iter().map(of).collect();
        }
        Fixed { problem, parts }
    }

    /// The same plans to begin with, each task on the first part of its group.
    fn warm_starts(&self, given: &[WarmStart]) -> Vec<WarmStart> {
        let part = |g: &usize| self.parts.iter().position(|p| p.0 == *g);
        let translated = |start: &WarmStart| {
            let groups: Option<Vec<usize>> = start.groups.iter().map(part).collect();
            Some(WarmStart {
                groups: groups?,
                starts: start.starts.clone(),
            })
        };
        given.iter().filter_map(translated).collect()
    }

    /// A schedule of it as one of the whole problem.
    fn whole(&self, problem: &Problem, mut schedule: Schedule) -> Schedule {
        for run in &mut schedule.runs {
            let (group, state, first) = self.parts[usize::from(run.group)];
            run.group = group as u16;
            run.unit += first as u16;
            if !free(problem, group) {
                run.state = state;
            }
        }
        let Schedule {
            runs,
            moves,
            seconds,
            ..
        } = &schedule;
        schedule.energy = energy(problem, runs, moves, *seconds);
        schedule
    }

    fn attempt(
        &self,
        goal: &Goal,
        limits: &Limits<'_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Plan>, PlanError> {
        let warm_starts = self.warm_starts(limits.warm_starts);
        let limits = Limits {
            warm_starts: &warm_starts,
            progress: None,
            explain: false,
            ..*limits
        };
        match solve::attempt(&self.problem, goal, &limits, keep_going) {
            Ok(Attempt::Found(plan)) => Ok(Some(*plan)),
            // Another setting may be in time or have room.
            Ok(Attempt::None { .. }) | Err(PlanError::Infeasible(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a group's units change their state as they like.
fn free(problem: &Problem, group: usize) -> bool {
    !problem.keeps_state(group)
}

/// Finds a plan in which units keep their states.
pub(super) fn attempt(
    problem: &Problem,
    goal: &Goal,
    limits: &Limits<'_>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Attempt, PlanError> {
    let most = MOST[usize::from(limits.rounds <= LITTLE)];
    let light = Limits {
        rounds: limits.rounds.min(30),
        bound_iterations: limits.bound_iterations.min(100),
        exact_tasks: 0,
        ..*limits
    };
    let (settings, mut complete) = settings(problem, goal, most);
    // Plans by setting, so far; those without one are dropped.
    let mut tried: Vec<(Fixed, Plan)> = Vec::new();
    for setting in &settings {
        if !tried.is_empty() && !keep_going() {
            complete = false;
            break;
        }
        let fixed = Fixed::new(problem, setting);
        if let Some(plan) = fixed.attempt(goal, &light, keep_going)? {
            tell(limits, &plan);
            tried.push((fixed, plan));
        } else if limits.rounds > LITTLE
            && let Some(plan) = fixed.attempt(goal, limits, keep_going)?
        {
            tried.push((fixed, plan));
        }
    }
    let middle = Limits {
        rounds: limits.rounds.min(400),
        bound_iterations: limits.bound_iterations.min(600),
        exact_tasks: 0,
        ..*limits
    };
    if limits.rounds > LITTLE {
        improve(&mut tried, FINALISTS, goal, &middle, keep_going)?;
        improve(&mut tried, usize::MAX, goal, limits, keep_going)?;
    }
    let least = |bound: fn(&Plan) -> f64| {
        let all = tried.iter().map(|t| bound(&t.1));
        all.fold(f64::INFINITY, f64::min)
    };
    let floors = (complete && !tried.is_empty()).then(|| least(|p| p.lower_bound));
    let best = tried
        .into_iter()
        .min_by(|a, b| a.1.cost.total_cmp(&b.1.cost));
    let Some((fixed, best)) = best else {
        return Ok(Attempt::None { proven: complete });
    };
    let relaxed = Problem {
        one_state: Vec::new(),
        ..problem.clone()
    };
    let bounded = Bounded::new(&relaxed, goal, limits, keep_going)?;
    let bound = bounded.bound;
    let lower_bound = floors.map_or(bound.cost, |floor| floor.max(bound.cost));
    let lower_bound = lower_bound.min(best.cost);
    if let Some(progress) = limits.progress {
        progress.bounded(lower_bound);
    }
    let mut schedule = fixed.whole(problem, best.schedule);
    schedule.peak = verify(problem, &schedule).map_err(|rule| PlanError::Problem {
        what: "the plan that was found".into(),
        problem: format!("breaks a rule, which is a mistake of the planner: {rule}"),
    })?;
    let reason = match lower_bound > bound.cost {
        true => "every way to set the units' states was looked at".to_string(),
        false => why::bound(problem, goal, &bound),
    };
    Ok(Attempt::Found(Box::new(Plan {
        schedule,
        cost: best.cost,
        lower_bound,
        reason,
        gap: match best.cost > 0.0 {
            true => (best.cost - lower_bound) / best.cost,
            false => 0.0,
        },
        bound,
    })))
}

/// Plans the cheapest settings again, with more effort, as long as they may be better than the best.
fn improve(
    tried: &mut [(Fixed, Plan)],
    most: usize,
    goal: &Goal,
    limits: &Limits<'_>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<(), PlanError> {
    tried.sort_by(|a, b| a.1.cost.total_cmp(&b.1.cost));
    let mut best = f64::INFINITY;
    for (i, (fixed, plan)) in tried.iter_mut().enumerate().take(most) {
        if plan.lower_bound >= best * (1.0 - limits.gap) {
            continue;
        }
        if i > 0 && !keep_going() {
            break;
        }
        if let Some(better) = fixed.attempt(goal, limits, keep_going)? {
            let floor = better.lower_bound.max(plan.lower_bound);
            if better.cost < plan.cost {
                *plan = better;
            }
            plan.lower_bound = floor.min(plan.cost);
            tell(limits, plan);
        }
        best = best.min(plan.cost);
    }
    Ok(())
}

fn tell(limits: &Limits<'_>, plan: &Plan) {
    if let Some(progress) = limits.progress {
        progress.found(plan.cost);
    }
}

/// All units of a group in one state.
fn all_in(problem: &Problem, group: usize, state: usize) -> Vec<usize> {
    let g = &problem.groups[group];
    let mut counts = vec![0; g.busy_watts.len()];
    counts[state] = g.units;
    counts
}

/// Every group in one state.
fn uniform(problem: &Problem, state: impl Fn(usize) -> usize) -> Setting {
    let groups = 0..problem.groups.len();
    groups.map(|g| all_in(problem, g, state(g))).collect()
}

/// The settings to look at, and whether these are all that matter: uniform ones first.
fn settings(problem: &Problem, goal: &Goal, most: usize) -> (Vec<Setting>, bool) {
    let choices: Vec<Vec<Vec<usize>>> = (0..problem.groups.len())
        .map(|g| match free(problem, g) {
            true => vec![all_in(problem, g, 0)],
            false => divisions(problem, goal, g),
        })
        .collect();
    let count = choices.iter().try_fold(1_usize, |n, c| {
        n.checked_mul(c.len()).filter(|n| *n <= most)
    });
    if count.is_some() {
        let mut all: Vec<Setting> = vec![Vec::new()];
        for choice in &choices {
            let longer = |s: &Setting| {
                let s = s.clone();
                choice
                    .iter()
                    .map(move |c| [&s[..], std::slice::from_ref(c)].concat())
            };
            all = all.iter().flat_map(longer).collect();
        }
        return (all, true);
    }
    // All groups usual, all in the state that makes their work cheapest, then one group after the other in each of its
    // states beside usual and thrifty others.
    let thrifty: Vec<usize> = (0..problem.groups.len())
        .map(|g| thriftiest(problem, g))
        .collect();
    let mut all = vec![uniform(problem, |_| 0), uniform(problem, |g| thrifty[g])];
    for (g, choice) in choices.iter().enumerate() {
        for own in choice {
            for base in [uniform(problem, |_| 0), uniform(problem, |h| thrifty[h])] {
                let mut setting = base;
                setting[g].clone_from(own);
                all.push(setting);
            }
        }
    }
    let mut unique: Vec<Setting> = Vec::new();
    for setting in all {
        if unique.len() < most && !unique.contains(&setting) {
            unique.push(setting);
        }
    }
    (unique, false)
}

/// The ways to divide a group's units among its states; where only time counts, just the fastest.
fn divisions(problem: &Problem, goal: &Goal, group: usize) -> Vec<Vec<usize>> {
    let g = &problem.groups[group];
    let states = g.busy_watts.len();
    let fastest = (0..states).find(|&s| {
        let leads = |times: &Vec<f64>| times.iter().all(|t| times[s] <= *t);
        let mut able = problem.classes.iter().map(|c| &c.seconds[group]);
        able.all(|times| times.is_empty() || leads(times))
    });
    if let (Objective::Time, Some(fastest)) = (goal.objective, fastest) {
        return vec![all_in(problem, group, fastest)];
    }
    // Uniform ones first: where not all are looked at, these are.
    let mut all: Vec<Vec<usize>> = (0..states).map(|s| all_in(problem, group, s)).collect();
    if problem.alike {
        return all;
    }
    let mut counts = vec![0; states];
    spread(&mut counts, 0, g.units, &mut all);
    all
}

/// Adds every way to put `left` units into the states from `state` on, but for those with all in one.
fn spread(counts: &mut Vec<usize>, state: usize, left: usize, all: &mut Vec<Vec<usize>>) {
    /// More are never looked at.
    const ENOUGH: usize = 200;
    if all.len() > ENOUGH {
        return;
    }
    if state + 1 == counts.len() {
        counts[state] = left;
        if counts.iter().filter(|n| **n > 0).count() > 1 {
            all.push(counts.clone());
        }
        return;
    }
    for n in (0..=left).rev() {
        counts[state] = n;
        spread(counts, state + 1, left - n, all);
    }
    counts[state] = 0;
}

/// The state in which a group's work takes the fewest joules above idling, a share of what flows anyway included.
fn thriftiest(problem: &Problem, group: usize) -> usize {
    let g = &problem.groups[group];
    let share = problem.standing_watts() / problem.unit_count().max(1) as f64;
    let joules = |s: usize| -> f64 {
        let times = problem.tasks.iter().filter_map(|&class| {
            let times = &problem.classes[class as usize].seconds[group];
            times.get(s)
        });
        times.sum::<f64>() * (g.busy_watts[s] - g.idle_watts + share)
    };
    let states = 0..g.busy_watts.len();
    states
        .min_by(|a, b| joules(*a).total_cmp(&joules(*b)))
        .unwrap_or(0)
}
