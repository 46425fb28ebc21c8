//! What a plan is compared with: each kind of unit alone, the fastest single unit, and `dmda` at run time.
//!
//! A plan is for a step among others: weights are where the last step left them. So the policy is
//! simulated for several steps, one in flight, and the first, which brings the weights, is left out. Batches
//! are brought in each of them, as plans do. What policies do in the last of these steps is also what plans begin with.

use dahl_core::{Joules, Machine, Seconds};
use dahl_plan::Alternative;
use dahl_plan::Schedule;
use dahl_plan::WarmStart;
use dahl_plan::alone;
use dahl_plan::{Goal, Problem};
use dahl_sched::policy;
use dahl_sim::{Options, simulate};

use super::grains::Candidate;

/// Policies whose doings plans begin with: those that go by durations.
const POLICIES: [&str; 3] = [COMPARED, "dmdas", "dm"];

/// The policy that plans are compared with.
const COMPARED: &str = "dmda";

/// Steps that are simulated, beside the first.
const STEPS: usize = 3;

/// A cut of the layers, and what policies do with it.
pub struct Rivals {
    /// The cut.
    pub step: Candidate,
    /// What comes of it, as far as a plan is compared with that.
    run_time: Vec<Alternative>,
    /// What they do, for plans to begin with.
    pub seeds: Vec<WarmStart>,
}

impl Rivals {
    /// Simulates the policies.
    pub fn new(step: Candidate, machine: &Machine) -> Rivals {
        let (mut run_time, mut seeds) = (Vec::new(), Vec::new());
        for name in POLICIES {
            if let Some((other, seed)) = simulated(&step, machine, name) {
                run_time.extend((name == COMPARED).then_some(other));
                seeds.extend(seed);
            }
        }
        Rivals {
            step,
            run_time,
            seeds,
        }
    }
}

/// The others, as far as they are possible on this machine: with the plan's own cuts, and where `usual` is
/// another cut, the one that runs have by default, with that one too.
pub fn others(step: &Rivals, usual: Option<&Rivals>, goal: &Goal) -> Vec<Alternative> {
    let mut all = with_cuts(step, goal);
    for mut other in usual.map_or(Vec::new(), |usual| with_cuts(usual, goal)) {
        other.name.push_str(" at the default grain");
        all.push(other);
    }
    all
}

fn with_cuts(rivals: &Rivals, goal: &Goal) -> Vec<Alternative> {
    let problem = &rivals.step.lowered.problem;
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
    all.extend(rivals.run_time.iter().cloned());
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

/// What a policy comes to, and what it does in the last step.
fn simulated(
    step: &Candidate,
    machine: &Machine,
    name: &str,
) -> Option<(Alternative, Option<WarmStart>)> {
    let run = |steps| {
        let policy = policy::by_name(name, machine).ok()?;
        let options = Options {
            steps,
            in_flight: 1,
            new_inputs_each_step: true,
            record: steps > 1,
            ..Options::default()
        };
        simulate(&step.step.graph, machine, &step.times, &*policy, &options).ok()
    };
    let (first, all) = (run(1)?, run(1 + STEPS)?);
    let per_step = |all: f64, first: f64| (all - first) / STEPS as f64;
    let other = Alternative {
        name: format!("the policy {name} (simulated)"),
        seconds: Seconds(per_step(all.makespan.0, first.makespan.0)),
        joules: Joules(per_step(all.joules().0, first.joules().0)),
    };
    Some((other, WarmStart::of_run(&step.lowered, &all.runs)))
}
