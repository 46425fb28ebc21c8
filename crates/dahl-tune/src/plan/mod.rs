//! Planning a training step: which grain, where every task runs, and what that is better than.
//!
//! What counts is a step in the middle of a run, as it is expected to be. [Simple choices](choices) are simulated first:
//! the best of them is what a plan is compared with, and what it did is a plan, too. The planner's equations make others,
//! for a step alone, of the grains that promise most. The best of all of them by the expected run is
//! [improved](improve) by the simulator. Where none of these is cheaper than the cheapest simple choice, that one is the
//! plan, and order and unit are left to its policy. The clock decides only when to stop.

mod bound;
mod candidate;
mod choices;
mod clock;
mod cluster;
mod contender;
mod improve;
mod layout;
mod pool;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use dahl_core::report::{Report, Table};
use dahl_core::{Joules, Seconds, Stop, Watts};
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_nn::step::Lowered;
use dahl_plan::explain;
use dahl_plan::{
    Alternative, Goal, GraphProblem, Limits, Objective, PlanError, Progress, SteadyBounds,
};

use crate::error::TuneError;
use crate::follow::StepPlan;
use crate::grains::GrainSearch;
use crate::machine_model::MachineModel;
use crate::stages::Staging;

use candidate::Candidate;
use choices::{Choices, Rival};
use clock::{Clock, Watch};
pub use cluster::{ClusterPlan, NodeShare, plan_cluster};
use pool::{Found, Pool};

/// Tasks beyond which a grain is not looked at: planning would take longer than it saves.
const MOST_TASKS: usize = 20_000;

/// How many of the best simple choices are plans to begin with.
const ADOPTED: usize = 6;

/// How many grains the equations are solved for at most.
const SOLVED: usize = 3;

/// Iterations of the bound of a step of a run, and nodes of its branching over memories.
const BOUND: usize = 2000;
const NODES: usize = 100_000;

/// How long a plan is searched for that has to be there soon.
const QUICK: Duration = Duration::from_secs(5);

/// How hard to plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// What to minimise, and the latest end.
    pub goal: Goal,
    /// Whether the grain is searched; else it is the step's.
    pub search_grain: bool,
    /// Whether every task has its unit and its place beforehand; else order and unit may be left to a policy.
    pub fixed: bool,
    /// Stop when the plan is proven to be within this part of the optimum.
    pub gap: f64,
    /// Stop after this long.
    pub time_limit: Duration,
    /// Rounds of the local search in the steady state at most; each begins with other random numbers.
    pub rounds: u64,
    /// Of the search's random numbers.
    pub seed: u64,
    /// A pipeline of the step: the search begins with its order, and the plan is compared with it.
    pub pipeline: Option<Arc<Staging>>,
    /// Ends the search with the best plan so far.
    pub stop: Stop,
    /// How far the search has come, for another thread to look at.
    pub progress: Arc<Progress>,
}

impl Default for PlanOptions {
    /// The fewest joules, to a tenth of a percent or for twenty seconds.
    fn default() -> Self {
        PlanOptions {
            goal: Goal {
                objective: Objective::Energy,
                deadline: None,
            },
            search_grain: true,
            fixed: false,
            gap: 0.001,
            time_limit: Duration::from_secs(20),
            rounds: u64::MAX,
            seed: 1,
            pipeline: None,
            stop: Stop::new(),
            progress: Arc::default(),
        }
    }
}

impl PlanOptions {
    /// Whether to search on, where `until` is the latest.
    fn go_on(&self, since: &Watch<'_>, until: Duration) -> bool {
        since.elapsed() < until && !self.stop.is_requested()
    }

    fn limits(&self) -> Limits<'_> {
        Limits {
            gap: self.gap,
            seed: self.seed,
            rounds: u64::MAX,
            progress: Some(&self.progress),
            ..Limits::default()
        }
    }
}

/// A plan, and what it takes to look for others.
pub struct Planned {
    /// The plan.
    pub plan: StepPlan,
    /// Why nothing is expected of a run, where that is so.
    pub warning: Option<String>,
    /// Whether a request to stop ended the search: the plan is the best so far.
    pub stopped: bool,
    candidate: Candidate,
    /// Seconds and joules of the simple choices that were simulated.
    tried: Vec<(f64, f64)>,
    options: PlanOptions,
}

/// A plan of the frontier between the fastest and the thriftiest.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct FrontierPoint {
    /// Time of a step.
    pub seconds: f64,
    /// Energy of a step.
    pub joules: f64,
    /// No plan that is as fast takes less.
    pub lower_bound_joules: f64,
}

impl FrontierPoint {
    /// Points under each other.
    pub fn table(points: &[FrontierPoint]) -> Table {
        let mut table = Table::new(">time|>energy|>no less than|>mean power");
        for p in points {
            table.row([
                Seconds(p.seconds).to_string(),
                Joules(p.joules).to_string(),
                Joules(p.lower_bound_joules).to_string(),
                Watts(p.joules / p.seconds.max(f64::MIN_POSITIVE)).to_string(),
            ]);
        }
        table
    }
}

/// Plans a step for a machine.
pub fn plan(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
) -> Result<Planned, TuneError> {
    plan_by(step, machine, options, None, &Clock::default())
}

/// Refuses steps that differ from each other.
fn all_alike(step: &Step) -> Result<(), TuneError> {
    if step.versions() > 1 {
        let text = "plans are for steps that are all alike, and weights with versions make steps that differ: plan a \
                    pipeline with a flush, such as 1f1b";
        return Err(TuneError::Option(text.into()));
    }
    Ok(())
}

/// The same by a clock, with the simple choices if they were simulated before.
fn plan_by(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
    known: Option<Choices>,
    clock: &Clock,
) -> Result<Planned, TuneError> {
    let begin = &clock.watch();
    all_alike(step)?;
    let (goal, limit) = (&options.goal, options.time_limit);
    let until = |part: f64| move || options.go_on(begin, limit.mul_f64(part));
    let choices = match known {
        Some(known) => known,
        None => Choices::of(step, machine, options, &mut until(0.3))?,
    };
    let mut pool = Pool::new(machine, options, choices);
    let first: Vec<_> = pool.choices.all.iter().take(ADOPTED).cloned().collect();
    let mut grains = Vec::new();
    for choice in &first {
        if pool.best.is_none() || until(0.4)() {
            pool.adopt(choice);
            let grain = &pool.choices.candidates[choice.candidate].step.grain;
            grains.push(grain.clone());
        }
    }
    if options.search_grain && until(0.4)() {
        grains.insert(0, search(step, machine, options, &until(0.5))?);
    }
    grains.push(step.grain.clone());
    let mut seen = Vec::new();
    grains.retain(|g| {
        !seen.contains(g) && {
            seen.push(g.clone());
            true
        }
    });
    let mut refused = None;
    let solved = grains.len().min(SOLVED);
    for (i, grain) in grains.iter().take(solved).enumerate() {
        let part = 0.5 + 0.3 * (i + 1) as f64 / solved as f64;
        // Why there is no plan is asked only where nobody has one.
        let none = pool.best.as_ref().is_none_or(|b| b.cost.is_infinite());
        if none || until(part)() {
            refused = pool.solve(grain, none, &mut until(part)).err().or(refused);
        }
    }
    let rivals = pool.choices.rivals(machine);
    if !options.fixed {
        rivals.iter().for_each(|rival| pool.leave_to(rival));
    }
    let late = pool.chosen().is_none_or(|b| b.cost.is_infinite());
    if let (true, Some(refused), Some(_)) = (late, refused, goal.deadline) {
        return Err(refused);
    }
    let bound = |pool: &Pool<'_>, part: f64| {
        let chosen = pool.chosen()?;
        let of = &pool.choices.candidates[chosen.candidate];
        Some((
            chosen.candidate,
            of.bound(goal, (BOUND, NODES), &mut until(part))?,
        ))
    };
    let known = bound(&pool, 0.88);
    let least = known.as_ref().map_or(0.0, |b| b.1.plans.cost);
    let enough = least / (1.0 - options.gap.clamp(0.0, 0.99));
    let mut round = 0;
    while round < options.rounds && pool.improve(enough, round, &mut until(0.95)) {
        round += 1;
    }
    let same = |known: &(usize, _)| pool.chosen().is_some_and(|c| c.candidate == known.0);
    let Some((_, steady)) = known.filter(same).or_else(|| bound(&pool, 1.0)) else {
        return Err(TuneError::Plan("no grain can be planned".into()));
    };
    let rivals = rivals.into_iter().map(|r| r.alternative).collect();
    finish(pool, rivals, steady)
}

/// The plan that leaves a step with a grain to a simple choice.
fn plan_of_choice(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
    (grain, rival): (&Grain, &Rival),
    alternatives: Vec<Alternative>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Planned, TuneError> {
    let candidate = Candidate::new(step, grain, machine)?;
    let mut rival = rival.clone();
    rival.choice.candidate = 0;
    let steady = candidate.bound(&options.goal, (BOUND, 0), keep_going);
    let choices = Choices {
        candidates: vec![candidate],
        all: vec![rival.choice.clone()],
        considered: 1,
    };
    let mut pool = Pool::new(machine, options, choices);
    pool.leave_to(&rival);
    let steady = steady.ok_or_else(|| TuneError::Plan("no grain can be planned".into()))?;
    finish(pool, alternatives, steady)
}

/// Says what the best plan is compared with, and how far from the optimum it may be.
fn finish(
    mut pool: Pool<'_>,
    mut rivals: Vec<Alternative>,
    bounds: SteadyBounds,
) -> Result<Planned, TuneError> {
    let options = pool.options;
    let Some(Found {
        candidate,
        mut file,
        ..
    }) = pool.take()
    else {
        return Err(TuneError::Plan("no grain can be planned".into()));
    };
    file.alternatives.append(&mut rivals);
    if let Some(staging) = &options.pipeline {
        let of = &pool.choices.candidates[candidate];
        file.alternatives.extend(contender::pipelined(of, staging));
    }
    let unknown = file.expected.is_none();
    if !unknown {
        file.bounded(match file.policy {
            Some(_) => bounds.any,
            None => bounds.plans,
        });
    }
    options.progress.bounded(file.lower_bound);
    let tried = pool.choices.all.iter();
    let tried: Vec<(f64, f64)> = tried
        .map(|c| (c.takes.seconds.0, c.takes.joules.0))
        .collect();
    let candidate = pool.choices.candidates.swap_remove(candidate);
    let guessed = candidate.durations.guessed(&candidate.lowered.graph);
    let guess = (guessed > 0).then(|| {
        format!(
            "{guessed} of {} durations of this cut are guesses, from other shapes: `dahl calibrate` with this grain \
             measures them",
            candidate.lowered.graph.len()
        )
    });
    Ok(Planned {
        plan: StepPlan::new(file, candidate.step.clone()),
        warning: pool.warning.filter(|_| unknown).or(guess),
        stopped: options.stop.is_requested(),
        candidate,
        tried,
        options: options.clone(),
    })
}

/// The grain with the cheapest plan, each planned with little effort.
fn search(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
    keep_going: &dyn Fn() -> bool,
) -> Result<Grain, TuneError> {
    let mut refused = None;
    let best = {
        let mut cost = |_: &Grain, lowered: &Lowered| {
            if lowered.graph.len() > MOST_TASKS {
                return Ok(None);
            }
            let d = machine.durations(&lowered.graph, "plan")?;
            let problem = GraphProblem::new(&lowered.graph, &d.machine, &d.times);
            match quick_cost(&problem, &options.goal) {
                Ok(cost) => Ok(Some(cost)),
                // Another grain may fit where this one does not.
                Err(error) => {
                    refused = Some(error);
                    Ok(None)
                }
            }
        };
        let mut keep_going = keep_going;
        let mut search = GrainSearch::new(step, 1e-6, &mut cost, &mut keep_going);
        search.whole_model((2 * machine.machine.units.len()).clamp(4, 64))?;
        search.by_layer()?;
        search.best()
    };
    match (best, refused) {
        (Some((_, grain)), _) => Ok(grain),
        (None, Some(error)) => Err(TuneError::Plan(format!("no grain can be planned: {error}"))),
        (None, None) => Err(TuneError::Plan(format!(
            "no grain can be planned: each has more than {MOST_TASKS} tasks"
        ))),
    }
}

/// What a plan costs that was made with little effort.
fn quick_cost(graph: &GraphProblem, goal: &Goal) -> Result<f64, PlanError> {
    let limits = Limits {
        rounds: 30,
        bound_iterations: 60,
        exact_tasks: 0,
        ..Limits::default()
    };
    let problem = &graph.problem;
    let cost = |goal: &Goal| dahl_plan::plan(problem, goal, &limits, &mut || true).map(|s| s.cost);
    if goal.deadline.is_none() {
        return cost(goal);
    }
    // Whether it can be in time is known sooner from the fastest plan than from looking for another one in vain.
    // With more effort it may be in time after all: the faster, the likelier.
    let seconds = cost(&Goal {
        objective: Objective::Time,
        deadline: None,
    })?;
    let late = 1e30 * seconds;
    if !goal.in_time(seconds) {
        return Ok(late);
    }
    let quiet = Limits {
        explain: false,
        ..limits
    };
    let found = dahl_plan::plan(problem, goal, &quiet, &mut || true);
    Ok(found.map_or(late, |s| s.cost))
}

impl Planned {
    /// What a run is expected to take, beside alternatives, and the plan in words; finding it has taken so long.
    pub fn report(&self, taken: Duration) -> Report {
        let mut out = Report::default();
        let (plan, step) = (&self.plan.file, &self.plan.step);
        let (seconds, joules) = plan.per_step();
        out.line(format!("expected of a run: {} and {} per step; lower bound {}, gap {:.2} % ({}); grain {}; {:.1} s",
            Seconds(seconds),
            Joules(joules),
            plan.target.objective.show(plan.lower_bound),
            100.0 * plan.gap,
            plan.target.objective,
            step.grain.in_short(),
            taken.as_secs_f64()));
        if let Some(best) = plan.alternatives.first() {
            out.line(format!(
                "{}: {} and {} per step",
                best.name, best.seconds, best.joules
            ));
        }
        if let Some(policy) = &plan.policy {
            out.line(format!(
                "the best is a simple choice: this plan leaves order and unit to {} at run time",
                policy.name
            ));
        }
        out.line("");
        out.parts.extend(explain::report(plan).parts);
        out
    }

    /// Plans from the fastest to the thriftiest, as runs that follow them are expected to be: those of the same grain
    /// by the equations, simple choices, and the plan itself.
    pub fn frontier(&self, time_limit: Duration) -> Result<Vec<FrontierPoint>, TuneError> {
        /// Plans between the two ends.
        const POINTS: usize = 9;
        let clock = Clock::default();
        let begin = clock.watch();
        let light = Limits {
            rounds: 1500,
            bound_iterations: 500,
            exact_tasks: 0,
            progress: None,
            ..self.options.limits()
        };
        let of = &self.candidate;
        let deadline = self.options.goal.deadline;
        let mut keep_going = || self.options.go_on(&begin, time_limit);
        let plans = dahl_plan::frontier(
            &of.problem.problem,
            deadline,
            POINTS,
            &light,
            &mut keep_going,
        )?;
        let mut points = self.tried.clone();
        points.push(self.plan.file.per_step());
        for plan in &plans {
            let machine = &self.plan.file.target.machine;
            let mut file = contender::file(of, machine, &self.options.goal, plan)?;
            file.expected = Some(of.expected(&file)?);
            points.push(file.per_step());
        }
        points.retain(|p| self.options.goal.in_time(p.0));
        Ok(pareto(points, |seconds| {
            let goal = Goal {
                objective: Objective::Energy,
                deadline: Some(seconds),
            };
            of.bound(&goal, (BOUND / 10, 0), &mut || true)
                .map_or(0.0, |b| b.any.joules)
        }))
    }
}

/// Those of which none is both faster and thriftier, the fastest first, each with its bound.
fn pareto(mut points: Vec<(f64, f64)>, bound: impl Fn(f64) -> f64) -> Vec<FrontierPoint> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut least = f64::INFINITY;
    points.retain(|&(_, joules)| {
        let better = joules < least * (1.0 - 1e-9);
        least = if better { joules } else { least };
        better
    });
    let point = |(seconds, joules)| FrontierPoint {
        seconds,
        joules,
        lower_bound_joules: bound(seconds).min(joules),
    };
    points.into_iter().map(point).collect()
}

/// The fastest plan with an order that is found in a few seconds, with the step's own grain.
pub fn quick_plan(step: &Step, machine: &MachineModel) -> Result<StepPlan, TuneError> {
    let options = PlanOptions {
        goal: Goal {
            objective: Objective::Time,
            deadline: None,
        },
        search_grain: false,
        fixed: true,
        time_limit: QUICK,
        ..PlanOptions::default()
    };
    Ok(plan(step, machine, &options)?.plan)
}
