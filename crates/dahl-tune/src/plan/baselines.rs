//! Baselines: what a plan is compared with, and where its search begins.
//!
//! Each kind of unit alone, the fastest single unit, and `dmda` at run time. A plan is for a step among others: weights
//! are where the last step left them. So policies are simulated for several steps, one in flight, and the first, which
//! brings the weights, is left out. Every step has new inputs, as plans assume. The schedules of the last step are
//! warm starts of the search.

use std::sync::Arc;

use dahl_core::{Joules, Seconds};
use dahl_plan::{Alternative, Goal, Limits, Plan, PlanError, Problem, Schedule, WarmStart, alone};
use dahl_sched::policy::{self, Policy};
use dahl_sim::{Options, simulate};

use super::Candidate;
use crate::machine_model::MachineModel;
use crate::stages::Staging;

/// Policies whose simulated schedules are warm starts of the search: those that estimate durations.
const POLICIES: [&str; 3] = [COMPARED, "dmdas", "dm"];

/// The policy that plans are compared with.
const COMPARED: &str = "dmda";

/// Steps that are simulated, beside the first.
const STEPS: usize = 3;

/// A grain, and what policies make of it.
pub(super) struct Contender {
    pub candidate: Candidate,
    /// What comes of the policy that plans are compared with.
    compared: Vec<Alternative>,
    /// Where plans begin.
    pub warm_starts: Vec<WarmStart>,
}

impl Contender {
    /// Simulates the policies, and the pipeline if there is one.
    pub(super) fn new(
        candidate: Candidate,
        machine: &MachineModel,
        pipeline: Option<&Arc<Staging>>,
    ) -> Contender {
        let (mut compared, mut warm_starts) = (Vec::new(), Vec::new());
        for name in POLICIES {
            let policy = || policy::by_name(name, &machine.machine).ok();
            let text = format!("the policy {name} (simulated)");
            if let Some((other, start)) = simulated(&candidate, machine, text, &policy) {
                compared.extend((name == COMPARED).then_some(other));
                warm_starts.extend(start);
            }
        }
        if let Some(staging) = pipeline {
            let graph = &candidate.lowered.graph;
            let policy = || staging.policy(graph, &machine.machine).ok();
            let text = format!("the pipeline {} (simulated)", staging.pipeline());
            if let Some((other, start)) = simulated(&candidate, machine, text, &policy) {
                compared.push(other);
                warm_starts.extend(start);
            }
        }
        Contender {
            candidate,
            compared,
            warm_starts,
        }
    }

    /// What the planner solves.
    fn problem(&self) -> &Problem {
        &self.candidate.problem.problem
    }

    /// Plans it, from what policies do.
    pub(super) fn solve(
        &self,
        goal: &Goal,
        limits: Limits<'_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Plan, PlanError> {
        let limits = Limits {
            warm_starts: &self.warm_starts,
            ..limits
        };
        dahl_plan::plan(self.problem(), goal, &limits, keep_going)
    }
}

/// The baselines, as far as they are possible on this machine: with the plan's own grain, and where `usual` is another
/// one, with the default grain, too.
pub(super) fn alternatives(
    best: &Contender,
    usual: Option<&Contender>,
    goal: &Goal,
) -> Vec<Alternative> {
    let mut all = with_grain(best, goal);
    for mut other in usual.map_or(Vec::new(), |usual| with_grain(usual, goal)) {
        other.name.push_str(" at the default grain");
        all.push(other);
    }
    all
}

fn with_grain(contender: &Contender, goal: &Goal) -> Vec<Alternative> {
    let problem = contender.problem();
    let mut all = Vec::new();
    let mut fastest: Option<Alternative> = None;
    for (g, group) in problem.groups.iter().enumerate() {
        if group.units > 1
            && let Some(s) = alone(problem, goal, g)
        {
            all.push(other(
                format!("the {} units like {} alone", group.units, group.name),
                &s,
            ));
        }
        if let Some(s) = alone(&single(problem, g), goal, g)
            && fastest.as_ref().is_none_or(|f| s.seconds < f.seconds.0)
        {
            fastest = Some(other(format!("{} alone", group.name), &s));
        }
    }
    all.extend(fastest);
    all.extend(contender.compared.iter().cloned());
    all
}

fn other(name: String, s: &Schedule) -> Alternative {
    Alternative {
        name,
        seconds: Seconds(s.seconds),
        joules: Joules(s.energy.total()),
    }
}

/// The problem with one unit of a group; the rest of the group idles on.
fn single(problem: &Problem, group: usize) -> Problem {
    let mut p = problem.clone();
    let g = &mut p.groups[group];
    p.base_watts += (g.units - 1) as f64 * g.idle_watts;
    g.units = 1;
    p
}

/// What a policy comes to, and what it does in the last step. Durations have what a run adds, but the machine is
/// the one described: overheads of units are no part of a plan's equations.
fn simulated(
    candidate: &Candidate,
    machine: &MachineModel,
    name: String,
    policy: &dyn Fn() -> Option<Box<dyn Policy>>,
) -> Option<(Alternative, Option<WarmStart>)> {
    let (graph, machine) = (&candidate.lowered.graph, &machine.machine);
    let run = |steps| {
        let policy = policy()?;
        let options = Options {
            steps,
            in_flight: 1,
            new_inputs_each_step: true,
            record: steps > 1,
            ..Options::default()
        };
        simulate(
            graph,
            machine,
            &candidate.durations.times,
            &*policy,
            &options,
        )
        .ok()
    };
    let (first, all) = (run(1)?, run(1 + STEPS)?);
    let per_step = |all: f64, first: f64| (all - first) / STEPS as f64;
    let other = Alternative {
        name,
        seconds: Seconds(per_step(all.makespan.0, first.makespan.0)),
        joules: Joules(per_step(all.joules().0, first.joules().0)),
    };
    Some((other, WarmStart::of_run(&candidate.problem, &all.runs)))
}
