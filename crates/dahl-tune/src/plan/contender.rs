//! A grain that is planned by the planner's equations, from what policies do in a simulation.
//!
//! The equations price a step alone whose weights are where the last step left them. So policies are simulated for
//! several steps, one in flight, and what they do in the last is a warm start of the search.

use std::sync::Arc;

use dahl_plan::{Alternative, Expected, Goal, Limits, Plan, PlanError, PlanFile, WarmStart};
use dahl_sched::policy::{self, Policy};
use dahl_sim::{Options, simulate};

use super::candidate::Candidate;
use crate::error::TuneError;
use crate::stages::Staging;

/// Policies whose simulated schedules are warm starts of the search: those that estimate durations.
const POLICIES: [&str; 3] = ["dmda", "dmdas", "dm"];

/// Steps that are simulated.
const STEPS: usize = 4;

/// Plans a grain.
pub(super) fn solve(
    candidate: &Candidate,
    goal: &Goal,
    limits: Limits<'_>,
    pipeline: Option<&Arc<Staging>>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Plan, PlanError> {
    let machine = &candidate.durations.machine;
    let policies = POLICIES
        .iter()
        .filter_map(|p| policy::by_name(p, machine).ok());
    let staged = pipeline.and_then(|s| s.policy(&candidate.lowered.graph, machine).ok());
    let starts = policies
        .chain(staged)
        .filter_map(|p| warm_start(candidate, &*p));
    let warm_starts: Vec<WarmStart> = starts.collect();
    let limits = Limits {
        warm_starts: &warm_starts,
        ..limits
    };
    dahl_plan::plan(&candidate.problem.problem, goal, &limits, keep_going)
}

/// The plan as a file, with what a run that follows it is expected to take.
pub(super) fn file(
    candidate: &Candidate,
    machine: &str,
    goal: &Goal,
    solution: &Plan,
) -> Result<PlanFile, TuneError> {
    let (graph, d) = (&candidate.lowered.graph, &candidate.durations);
    let target = candidate.target(machine, goal)?;
    let problem = &candidate.problem;
    Ok(PlanFile::new(
        target,
        graph,
        &d.machine,
        problem,
        solution,
        Vec::new(),
    ))
}

/// What a run of a pipeline is expected to take.
pub(super) fn pipelined(candidate: &Candidate, staging: &Arc<Staging>) -> Option<Alternative> {
    let (graph, d) = (&candidate.lowered.graph, &candidate.durations);
    let run = candidate.run();
    let mut simulated = |steps, in_flight| {
        let policy = staging.policy(graph, &d.machine).map_err(|_| ())?;
        let options = Options {
            steps,
            in_flight,
            ..run.clone()
        };
        simulate(graph, &d.machine, &d.times, &*policy, &options).map_err(|_| ())
    };
    let found = Expected::of_runs(graph, &d.machine, &run, &mut simulated).ok()?;
    Some(Alternative {
        name: format!("the pipeline {}", staging.pipeline()),
        seconds: found.seconds,
        joules: found.joules,
    })
}

fn warm_start(candidate: &Candidate, policy: &dyn Policy) -> Option<WarmStart> {
    let (graph, d) = (&candidate.lowered.graph, &candidate.durations);
    let options = Options {
        steps: STEPS,
        in_flight: 1,
        new_inputs_each_step: true,
        record: true,
        ..Options::default()
    };
    let run = simulate(graph, &d.machine, &d.times, policy, &options).ok()?;
    WarmStart::of_run(&candidate.problem, &run.runs)
}
