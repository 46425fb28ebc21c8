//! What no choice of nodes of a cluster can beat: the least bound over all sets of nodes that may be on.

use dahl_core::NodeId;
use dahl_nn::Step;
use dahl_plan::{Goal, GraphProblem};

use super::cluster::{kinds, only};
use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::simulate::as_run;

/// Sets of nodes that are bounded one by one; with more of them there is one bound for all.
const MOST_SETS: usize = 40;

/// Iterations of the bound.
const ITERATIONS: usize = 400;

/// No nodes, shares and states cost less for the step with this grain: in every set of nodes all tasks may be divided
/// among all units, and moving data is free. Zero if there is no time to find out.
pub(super) fn least_of_all(
    step: &Step,
    machine: &MachineModel,
    goal: &Goal,
    grain: &str,
    keep_going: &dyn Fn() -> bool,
) -> Result<f64, TuneError> {
    let grain = grain.parse().unwrap_or_else(|_| step.grain.clone());
    let lowered = step.clone().grain(grain).lower()?;
    let graph = &lowered.graph;
    let Some(sets) = sets(machine) else {
        return Ok(0.0);
    };
    let mut least = f64::INFINITY;
    for (i, nodes) in sets.iter().enumerate() {
        if i > 0 && !keep_going() {
            return Ok(0.0);
        }
        let model = machine.of(only(&machine.machine, nodes));
        let d = model.durations(graph, "plan")?;
        let mut problem = GraphProblem::new(graph, &d.machine, &d.times).problem;
        // Everything is everywhere.
        problem.groups.iter_mut().for_each(|g| g.memory = 0);
        problem.memories.truncate(1);
        problem.memories[0].capacity = None;
        problem.links.clear();
        problem.shared.clear();
        let in_flight = as_run(graph, &d.machine).in_flight;
        let found =
            dahl_plan::steady_bound(&problem, goal, in_flight, (ITERATIONS, 0), &mut || {
                keep_going()
            });
        least = least.min(found.map_or(0.0, |b| b.any.cost));
    }
    Ok(least)
}

/// Sets of nodes that may be on, equal nodes told apart by their number alone; none if there are too many.
fn sets(machine: &MachineModel) -> Option<Vec<Vec<NodeId>>> {
    let kinds = kinds(&machine.machine);
    let count = kinds
        .iter()
        .try_fold(1usize, |n, k| n.checked_mul(k.1 + 1))?;
    if count > MOST_SETS + 1 {
        return None;
    }
    let all: Vec<NodeId> = (0..machine.machine.nodes.len() as u16)
        .map(NodeId)
        .collect();
    let kind_of = |n: NodeId| {
        let one = super::cluster::alike(&machine.machine, n);
        kinds
            .iter()
            .position(|k| super::cluster::alike(&machine.machine, k.0) == one)
    };
    let of: Vec<Option<usize>> = all.iter().map(|n| kind_of(*n)).collect();
    let mut out = Vec::new();
    for mut number in 1..count {
        let mut set = Vec::new();
        for (k, kind) in kinds.iter().enumerate() {
            let wanted = number % (kind.1 + 1);
            number /= kind.1 + 1;
            let own = all.iter().zip(&of).filter(|(_, o)| **o == Some(k));
            set.extend(own.map(|(n, _)| *n).take(wanted));
        }
        set.sort_unstable();
        out.push(set);
    }
    Some(out)
}
