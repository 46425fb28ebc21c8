//! Planning a training step: which grain, where every task runs, and what that is better than.
//!
//! The planner takes one graph. Here grains are searched first, with little effort each; policies are simulated, both
//! for comparison and as seeds of the search; the default grain gets a chance with as much effort as the best; and
//! what a run is expected to take is simulated last. The clock decides only when to stop.

mod baselines;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::Stop;
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_nn::step::Lowered;
use dahl_plan::{
    Expected, Goal, GraphProblem, Limits, Objective, Plan, PlanError, PlanFile, PlanTarget,
    Progress,
};
use dahl_sim::Options;

use crate::error::TuneError;
use crate::follow::StepPlan;
use crate::grains::GrainSearch;
use crate::machine_model::{Durations, MachineModel};
use crate::simulate::as_run;
use crate::stages::Staging;

use baselines::Contender;

/// Tasks beyond which a grain is not looked at: planning would take longer than it saves.
const MOST_TASKS: usize = 20_000;

/// How hard to plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// What to minimise, and the latest end.
    pub goal: Goal,
    /// Whether the grain is searched; else it is the step's.
    pub search_grain: bool,
    /// Stop when the plan is proven to be within this part of the optimum.
    pub gap: f64,
    /// Stop after this long.
    pub time_limit: Duration,
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
            gap: 0.001,
            time_limit: Duration::from_secs(20),
            seed: 1,
            pipeline: None,
            stop: Stop::new(),
            progress: Arc::default(),
        }
    }
}

impl PlanOptions {
    /// Whether to search on at a moment, where `until` is the latest.
    fn go_on(&self, begin: Instant, until: Duration) -> bool {
        begin.elapsed() < until && !self.stop.is_requested()
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
    solution: Plan,
    candidate: Candidate,
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

/// The step with one grain, as the planner sees it.
pub(crate) struct Candidate {
    step: Step,
    lowered: Lowered,
    /// With what following a plan adds.
    durations: Durations,
    problem: GraphProblem,
}

impl Candidate {
    fn new(step: &Step, grain: &Grain, machine: &MachineModel) -> Result<Candidate, TuneError> {
        let step = step.clone().grain(grain.clone());
        let lowered = step.lower()?;
        let durations = machine.durations(&lowered.graph, "plan")?;
        let problem = GraphProblem::new(&lowered.graph, &durations.machine, &durations.times);
        Ok(Candidate {
            step,
            lowered,
            durations,
            problem,
        })
    }
}

/// Plans a step for a machine.
pub fn plan(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
) -> Result<Planned, TuneError> {
    let begin = Instant::now();
    let (goal, limit) = (&options.goal, options.time_limit);
    let grain = match options.search_grain {
        true => search(step, machine, options, begin)?,
        false => step.grain.clone(),
    };
    if step.versions() > 1 {
        let text = "plans are for steps that are all alike, and weights with versions make steps that differ: plan a \
                    pipeline with a flush, such as 1f1b";
        return Err(TuneError::Option(text.into()));
    }
    let pipeline = options.pipeline.as_ref();
    let mut best = Contender::new(Candidate::new(step, &grain, machine)?, machine, pipeline);
    let mut usual = match grain {
        Grain::Auto => None,
        _ => {
            let usual = Candidate::new(step, &Grain::Auto, machine)?;
            Some(Contender::new(usual, machine, pipeline))
        }
    };
    // Grains were compared with little effort each; the default one gets a chance with as much as the best.
    let compete = usual.is_some() && options.search_grain;
    let first = if compete { limit * 2 / 3 } else { limit };
    let limits = options.limits();
    let mut solution = best.solve(goal, limits, &mut || options.go_on(begin, first))?;
    let quiet = Limits {
        explain: false,
        ..limits
    };
    if let Some(rival) = usual
        .as_mut()
        .filter(|_| compete && !options.stop.is_requested())
        && let Ok(better) = rival.solve(goal, quiet, &mut || options.go_on(begin, limit))
        && better.cost < solution.cost
    {
        solution = better;
        std::mem::swap(rival, &mut best);
    }
    let stopped = options.stop.is_requested();
    // Where the default grain won, there is no other to compare with.
    usual = usual.filter(|_| best.candidate.step.grain != Grain::Auto);
    let alternatives = baselines::alternatives(&best, usual.as_ref(), goal);
    let candidate = best.candidate;
    let (graph, planned) = (&candidate.lowered.graph, &candidate.problem);
    let target = target(&candidate, machine, goal)?;
    let mut file = PlanFile::new(
        target,
        graph,
        &machine.machine,
        planned,
        &solution,
        alternatives,
    );
    let mut warning = None;
    match candidate.expected(&file) {
        Ok(expected) => file.expected = Some(expected),
        Err(error) => warning = Some(format!("what a run takes is unknown: {error}")),
    }
    Ok(Planned {
        plan: StepPlan::new(file, candidate.step.clone()),
        warning,
        stopped,
        solution,
        candidate,
        options: options.clone(),
    })
}

impl Candidate {
    /// What a run is expected to take, with what was measured of runs of the machine if it is this one.
    fn expected(&self, plan: &PlanFile) -> Result<Expected, TuneError> {
        let (graph, d) = (&*self.lowered.graph, &self.durations);
        let run = Options {
            noise: d.adds.map(|adds| adds.variation.noise(0)),
            ..as_run(graph, &d.machine)
        };
        Ok(Expected::of(plan, graph, &d.machine, &d.times, &run)?)
    }
}

fn target(
    candidate: &Candidate,
    machine: &MachineModel,
    goal: &Goal,
) -> Result<PlanTarget, TuneError> {
    let (step, graph) = (&candidate.step, &candidate.lowered.graph);
    let title = format!("{}, batch {}, {}", step.model.name, step.batch, step.dtype);
    let text = serde_json::to_value(step);
    let text = text.map_err(|e| TuneError::Plan(format!("the step cannot be written: {e}")))?;
    Ok(PlanTarget::new(title, text, graph, &machine.machine, goal))
}

/// The grain with the cheapest plan, each planned with little effort.
fn search(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
    begin: Instant,
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
                Ok(cost) => {
                    // With a deadline, plans that are late have a cost that is none.
                    if options.goal.deadline.is_none() {
                        options.progress.found(cost);
                    }
                    Ok(Some(cost))
                }
                // Another grain may fit where this one does not.
                Err(error) => {
                    refused = Some(error);
                    Ok(None)
                }
            }
        };
        let mut keep_going = || options.go_on(begin, options.time_limit / 3);
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
    /// Plans of the same grain from the fastest to the thriftiest, the plan itself among them.
    pub fn frontier(&self, time_limit: Duration) -> Result<Vec<FrontierPoint>, TuneError> {
        /// Plans between the two ends.
        const POINTS: usize = 9;
        let begin = Instant::now();
        let light = Limits {
            rounds: 1500,
            bound_iterations: 500,
            exact_tasks: 0,
            progress: None,
            ..self.options.limits()
        };
        let problem = &self.candidate.problem.problem;
        let deadline = self.options.goal.deadline;
        let mut keep_going = || self.options.go_on(begin, time_limit);
        let all = dahl_plan::frontier(problem, deadline, POINTS, &light, &mut keep_going)?;
        let point = |s: &Plan| FrontierPoint {
            seconds: s.schedule.seconds,
            joules: s.schedule.energy.total(),
            lower_bound_joules: s.bound.joules,
        };
        let mut points: Vec<FrontierPoint> = all.iter().map(point).collect();
        let own = point(&self.solution);
        let beats = |p: &FrontierPoint| p.seconds <= own.seconds && p.joules <= own.joules;
        if !points.iter().any(beats) {
            points.retain(|p| p.seconds < own.seconds || p.joules < own.joules);
            points.push(own);
            points.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        }
        Ok(points)
    }
}
