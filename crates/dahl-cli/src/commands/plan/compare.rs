//! What a plan is compared with: each kind of unit alone, the fastest single unit, and `dmda` at run time.
//!
//! A plan is for a step among others: weights are where the last step left them. So the policy is
//! simulated for several steps, one in flight, and the first, which brings the weights, is left out. Batches
//! are brought in each of them, as plans do.

use dahl_core::{Joules, Machine, Seconds};
use dahl_sched::plan::file::Other;
use dahl_sched::plan::problem::{Goal, Problem};
use dahl_sched::plan::schedule::Schedule;
use dahl_sched::plan::solve::alone;
use dahl_sched::policy;
use dahl_sched::sim::{Options, simulate};

use super::grains::Candidate;

/// Steps that are simulated, beside the first.
const STEPS: usize = 3;

/// The others, as far as they are possible on this machine: with the plan's own cuts, and where `usual` is
/// another cut, the one that runs have by default, with that one too.
pub fn others(
    step: &Candidate,
    usual: Option<&Candidate>,
    machine: &Machine,
    goal: &Goal,
) -> Vec<Other> {
    let mut all = with_cuts(step, machine, goal);
    for mut other in usual.map_or(Vec::new(), |usual| with_cuts(usual, machine, goal)) {
        other.name.push_str(" at the default grain");
        all.push(other);
    }
    all
}

fn with_cuts(step: &Candidate, machine: &Machine, goal: &Goal) -> Vec<Other> {
    let problem = &step.lowered.problem;
    let mut all = Vec::new();
    let mut fastest: Option<Other> = None;
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
    all.extend(run_time(step, machine, "dmda"));
    all
}

fn other(name: String, s: &Schedule) -> Other {
    Other {
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

fn run_time(step: &Candidate, machine: &Machine, name: &str) -> Option<Other> {
    let run = |steps| {
        let policy = policy::by_name(name, machine).ok()?;
        let options = Options {
            steps,
            in_flight: 1,
            fed: true,
            ..Options::default()
        };
        simulate(&step.step.graph, machine, &step.times, &*policy, &options).ok()
    };
    let (first, all) = (run(1)?, run(1 + STEPS)?);
    let per_step = |all: f64, first: f64| (all - first) / STEPS as f64;
    Some(Other {
        name: format!("the policy {name} (simulated)"),
        seconds: Seconds(per_step(all.makespan.0, first.makespan.0)),
        joules: Joules(per_step(all.joules().0, first.joules().0)),
    })
}
