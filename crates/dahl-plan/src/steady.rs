//! What no run of many steps can beat: the bound of a step in the steady state.
//!
//! Steps overlap, so what precedes a task within a step does not keep its unit idle: another step's tasks run there.
//! What holds the time from the end of one step to the end of the next, `T`, is
//!
//! ```text
//! T ≥ work of a group or link per step / how many it does at once       (tasks may be divided between modes)
//! T ≥ length of a path from a task that reads what the step before left to the task that leaves it
//! T ≥ longest path / steps in flight
//! ```
//!
//! The second is the cycle through the weights: a layer's next forward pass waits for its update. Small transfers may
//! travel together, so latencies of links count nothing. The bound is for plans: every step does the same.

use super::bound::{Cycle, PossibleTransfers, Steps, bound_above};
use super::network::{Frame, Network};
use super::problem::{Goal, Objective, Origin, PlanError, Problem};
use super::why;

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

/// The bound of a step among others, of which so many are in flight.
pub fn steady_bound(
    problem: &Problem,
    goal: &Goal,
    in_flight: usize,
    iterations: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<SteadyBound, PlanError> {
    let mut problem = problem.clone();
    problem.links.iter_mut().for_each(|l| l.latency = 0.0);
    let mut frame = Frame::new(&problem)?;
    if goal.objective == Objective::Time {
        frame.keep_fastest();
    }
    let net = frame.relaxed();
    let transfers = PossibleTransfers::new(&frame);
    let (round_trip, cycle) = round_trip(&problem, &net);
    let least = round_trip.max(longest(&net) / in_flight.max(1) as f64);
    let of = (&net, &transfers, Steps::Overlapping(&cycle));
    let (bound, _) = bound_above(of, least, goal, iterations, keep_going);
    let mut reason = why::bound(&problem, goal, &bound);
    if bound.seconds <= least || bound.path > 0.01 {
        reason.push_str("; a layer's next forward pass waits for its update");
    }
    Ok(SteadyBound {
        cost: bound.cost,
        seconds: bound.seconds,
        joules: bound.joules,
        reason,
    })
}

fn longest(net: &Network) -> f64 {
    let shortest = net.shortest();
    let heads = net.heads(&shortest);
    let ends = heads.iter().zip(&shortest).map(|(h, s)| h + s);
    ends.fold(0.0, f64::max)
}

/// The longest path from a task that reads what the step before left to the one that leaves it, at the shortest times,
/// and all paths between the two.
fn round_trip(problem: &Problem, net: &Network) -> (f64, Cycle) {
    let shortest = net.shortest();
    let count = net.activities.len();
    let mut readers: Vec<(u32, u32)> = Vec::new();
    for datum in &problem.data {
        if let Origin::LeftBy(last) = datum.origin
            && let Origin::Task(writer) = problem.data[last as usize].origin
        {
            readers.extend(datum.readers.iter().map(|&r| (writer, r)));
        }
    }
    readers.sort_unstable();
    readers.dedup();
    let mut most = 0.0_f64;
    let mut cycle = Cycle {
        inside: vec![false; count],
        first: vec![false; count],
        last: usize::MAX,
    };
    for of_writer in readers.chunk_by(|a, b| a.0 == b.0) {
        let writer = of_writer[0].0 as usize;
        let to_end = ways(net, &shortest, writer);
        let of = of_writer.iter().map(|&(_, reader)| to_end[reader as usize]);
        let longest = of.fold(f64::NEG_INFINITY, f64::max);
        if longest > most {
            most = longest;
            cycle.last = writer;
            cycle.first.fill(false);
            for &(_, reader) in of_writer {
                cycle.first[reader as usize] = to_end[reader as usize].is_finite();
            }
        }
    }
    if cycle.last != usize::MAX {
        let to_end = ways(net, &shortest, cycle.last);
        for &task in &net.topological {
            let task = task as usize;
            let reached = |&b: &u32| cycle.inside[b as usize];
            let begun = cycle.first[task] || net.activities[task].before.iter().any(reached);
            cycle.inside[task] = begun && to_end[task].is_finite();
        }
    }
    (most, cycle)
}

/// The longest way from the begin of each task to the end of one; without end below zero where none leads there.
fn ways(net: &Network, seconds: &[f64], to: usize) -> Vec<f64> {
    let mut to_end = vec![f64::NEG_INFINITY; seconds.len()];
    to_end[to] = seconds[to];
    for &task in net.topological.iter().rev() {
        let task = task as usize;
        for &after in &net.activities[task].after {
            to_end[task] = to_end[task].max(seconds[task] + to_end[after as usize]);
        }
    }
    to_end
}
