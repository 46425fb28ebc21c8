//! What no run of many steps can beat: the bound of a step in the steady state.
//!
//! Steps overlap, so what precedes a task within a step does not keep its unit idle: another step's tasks run there.
//! What holds the time from the end of one step to the end of the next, `T`, is
//!
//! ```text
//! T ≥ work of a group or link per step / how many it does at once       (tasks may be divided between modes)
//! T ≥ length of a path from a task that reads what the step before left to the task that leaves it
//! T ≥ h + q + work of a group between the two, of tasks that are no nearer than h to its begin and q to its end
//! T ≥ longest path / steps in flight
//! ```
//!
//! The second is the cycle through the weights: a layer's next forward pass waits for its update. Its paths include the
//! transfers that no placement avoids ([`critical_cycle`](super::critical_cycle)). Small transfers may travel together, so
//! latencies are no work of links; but whoever waits for a transfer waits for its latency. For plans, which keep each task in
//! one memory, [branching](super::branching) over the memories raises the bound.

use super::bound::{PossibleTransfers, Steps, bound_above};
use super::branching::{Branched, Root};
use super::critical_cycle::{Cycles, Placements};
use super::delays::Delays;
use super::network::Frame;
use super::problem::{Goal, Objective, PlanError, Problem};
use super::why;

/// Tasks up to which the bound is raised by branching over memories: with more of them too little is decided in time.
const BRANCHED: usize = 128;

/// Lower bounds of a step in a long run, and why they hold.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyBound {
    /// No plan costs less per step, in the unit of the objective.
    pub cost: f64,
    /// None is faster.
    pub seconds: f64,
    /// None (within the deadline) uses fewer joules.
    pub joules: f64,
    /// What the bound rests on.
    pub reason: String,
}

/// Bounds of a step in a long run.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyBounds {
    /// For any run, whoever decides.
    pub any: SteadyBound,
    /// For plans: each task runs in the same memory in all steps.
    pub plans: SteadyBound,
}

/// The bounds of a step among others, of which so many are in flight: so many iterations of the dual bound, and so many nodes of
/// the one that branches over memories. With none of these both bounds are the same.
pub fn steady_bound(
    problem: &Problem,
    goal: &Goal,
    in_flight: usize,
    (iterations, nodes): (usize, usize),
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<SteadyBounds, PlanError> {
    let delays = Delays::new(problem);
    let mut problem = problem.clone();
    problem.links.iter_mut().for_each(|l| l.latency = 0.0);
    let mut frame = Frame::new(&problem)?;
    if goal.objective == Objective::Time {
        frame.keep_fastest();
    }
    let net = frame.relaxed();
    let transfers = PossibleTransfers::overlapping(&frame, &delays);
    let placements = Placements::new(&frame, &net, &delays);
    let cycles = Cycles::new(&frame, &net);
    let (round_trip, cycle) = cycles.critical(&placements);
    let least = round_trip.max(placements.longest() / in_flight.max(1) as f64);
    let of = (&net, &transfers, Steps::Overlapping(&cycle));
    let (bound, duals) = bound_above(of, least, goal, iterations, keep_going);
    let mut reason = why::bound(&problem, goal, &bound);
    if bound.seconds <= least || bound.path > 0.01 {
        reason.push_str("; a layer's next forward pass waits for its update");
    }
    let any = SteadyBound {
        cost: bound.cost,
        seconds: bound.seconds,
        joules: bound.joules,
        reason,
    };
    let mut found = SteadyBounds {
        plans: any.clone(),
        any,
    };
    if nodes > 0 && (2..=64).contains(&delays.memories()) && problem.tasks.len() <= BRANCHED {
        let root = Root {
            frame: &frame,
            net: &net,
            transfers: &transfers,
            placements: &placements,
            cycles: &cycles,
            duals: &duals,
            in_flight,
            goal,
        };
        found.raise(root.branch(nodes, keep_going));
    }
    Ok(found)
}

impl SteadyBounds {
    fn raise(&mut self, branched: Branched) {
        let plans = &mut self.plans;
        if branched.cost > plans.cost {
            let tried = format!("; {} choices of memories were looked at", branched.nodes);
            plans.reason.push_str(&tried);
        }
        plans.cost = plans.cost.max(branched.cost);
        plans.seconds = plans.seconds.max(branched.seconds);
        plans.joules = plans.joules.max(branched.joules);
    }
}
