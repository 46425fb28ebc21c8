//! Predictions of a whole cluster: the nodes of a machine file, each with its share of the batch.
//!
//! Placement, transfers and parts are made by the functions that the runtime uses; the simulator drives every node's
//! part with a policy of its own. What a step sends in the middle of a run differs from the first, when all nodes have
//! everything: launches are played through until who holds what comes round again.

use std::sync::Arc;

use dahl_core::graph::partition::{
    Holders, Part, Placement, for_shares, pairwise, part, place_by_rows,
};
use dahl_core::trace::{Alignment, Trace};
use dahl_core::{ExecError, Graph, Joules, Machine, NodeId, Seconds, UnitId};
use dahl_nn::Step;
use dahl_nn::lower::state::Io;
use dahl_sched::policy::Order;
use dahl_sim::{ClusterPrediction, NodeRun, Options};

use crate::error::TuneError;
use crate::machine_model::{Durations, MachineModel};
use crate::simulate::{SimulateOptions, as_run, deciding, in_flight_of};

/// Launches after which who holds what must have come round; a graph that writes what it reads does so at once.
const ROUNDS: usize = 8;

/// What a run of a cluster would take.
pub struct ClusterForecast {
    /// The graph of a launch: a step, or as many as weights have versions.
    pub graph: Arc<Graph>,
    /// Steps of a launch.
    each: usize,
    /// The machine as described.
    pub machine: Machine,
    /// Each node's part of the batch.
    pub shares: Vec<f64>,
    /// Who decided on each node.
    pub policy: String,
    /// Steps that were simulated.
    pub steps: usize,
    /// What each node runs in the middle of a run, and on what.
    pub parts: Vec<(Part, Machine)>,
    /// Time, energy and use of units and links.
    pub outcome: ClusterPrediction,
}

impl ClusterForecast {
    /// Mean seconds of a step; without the first ones, where there are more.
    pub fn step_seconds(&self) -> Seconds {
        let ends = &self.outcome.steps;
        let first = ends.len() / 4;
        match ends.len() - first {
            0 => Seconds(0.0),
            _ if first == 0 => Seconds(self.outcome.makespan.0 / self.steps as f64),
            n => {
                let steps = n * self.each;
                Seconds((ends[ends.len() - 1].0 - ends[first - 1].0) / steps as f64)
            }
        }
    }

    /// What a node used, links left out.
    pub fn joules(&self, node: usize) -> Joules {
        self.outcome.nodes[node].joules()
    }

    /// What ran where and when, and what was sent; empty unless it was recorded.
    pub fn trace(&self) -> Trace {
        let nodes = self.machine.nodes.iter().zip(&self.parts);
        let nodes = nodes.zip(&self.outcome.nodes);
        let trace = nodes.map(|((node, (part, machine)), outcome)| {
            let trace = outcome.to_trace(&part.graph, machine);
            (node.name.clone(), Alignment::default(), trace)
        });
        dahl_trace::merge(trace.collect())
    }
}

/// Predicts steps on all nodes of a machine, with these shares of the batch or with shares by speed.
pub fn simulate_cluster(
    step: &Step,
    machine: &MachineModel,
    shares: Option<&[f64]>,
    options: &SimulateOptions<'_>,
) -> Result<ClusterForecast, TuneError> {
    let (graph, io) = step.lower_row()?;
    let nodes = machine.machine.nodes.len();
    let models: Vec<MachineModel> = (0..nodes as u16)
        .map(|n| machine.of_node(NodeId(n)))
        .collect();
    if let Some(name) = without_units(&machine.machine) {
        return Err(TuneError::Machine(format!(
            "node {name:?} has no units: it cannot take part"
        )));
    }
    let shares = match shares {
        // Those of a pipeline's stages are found below.
        given if options.pipeline.is_some() => given.map_or(vec![1.0; nodes], <[f64]>::to_vec),
        Some(shares) if shares.len() != nodes => {
            return Err(TuneError::Option(format!(
                "shares for {} of {nodes} nodes: give one number for each node, as in 3:1",
                shares.len()
            )));
        }
        Some(shares) => shares.to_vec(),
        None => speeds(&graph, &models, &options.policy)?,
    };
    let cluster = Nodes {
        network: &machine.machine,
        models: &models,
        slowdown: &vec![1.0; nodes],
        states: &[],
    };
    forecast_lowered((&graph, &io), &cluster, &shares, options)
}

/// The nodes of a cluster, each with what is known of it.
pub(crate) struct Nodes<'a> {
    /// All of them, with the links between.
    pub network: &'a Machine,
    /// Each by itself.
    pub models: &'a [MachineModel],
    /// How much longer than its model says each takes.
    pub slowdown: &'a [f64],
    /// The frequency state of each; the usual one where it is not said.
    pub states: &'a [usize],
}

/// Predicts steps on nodes with these shares, in any unit.
pub(crate) fn forecast(
    step: &Step,
    cluster: &Nodes<'_>,
    shares: &[f64],
    options: &SimulateOptions<'_>,
) -> Result<ClusterForecast, TuneError> {
    let (graph, io) = step.lower_row()?;
    forecast_lowered((&graph, &io), cluster, shares, options)
}

/// The same for a graph that was lowered before: of a step, or of as many as weights have versions, with what goes in and
/// comes out of each.
pub(crate) fn forecast_lowered(
    (graph, io): (&Arc<Graph>, &[Io]),
    cluster: &Nodes<'_>,
    shares: &[f64],
    options: &SimulateOptions<'_>,
) -> Result<ClusterForecast, TuneError> {
    let total: f64 = shares.iter().sum();
    let shares: Vec<f64> = shares.iter().map(|s| s / total).collect();
    let staged = options.pipeline.map(|staging| {
        let (nodes, given) = (shares.len(), Some(&shares[..]));
        Ok::<_, TuneError>((staging, staging.shares(nodes, given)?))
    });
    let staged = staged.transpose()?;
    let place = |graph: &Graph| match &staged {
        None => Ok((place_by_rows(graph, &shares)?, None)),
        Some((staging, shares)) => {
            let staged = staging.stage_row(graph, io.len(), shares)?;
            Ok((staged.placement, staged.order))
        }
    };
    let whole = match &staged {
        None => for_shares(graph, &shares),
        Some(_) => pairwise(graph),
    };
    let (mut parts, orders) = placed_parts(io, &whole, shares.len(), place)?;
    let models = cluster.models;
    let mut policies = Vec::new();
    for ((model, part), order) in models.iter().zip(&mut parts).zip(orders) {
        policies.push(match &staged {
            Some((staging, _)) => {
                let (run, policy) = staging.follow_part(&part.graph, order, &model.machine)?;
                part.graph = run;
                policy
            }
            None => deciding(None, &options.policy, &part.graph, &model.machine, false)?,
        });
    }
    let mut durations = models
        .iter()
        .zip(&parts)
        .map(|(model, part)| model.durations(&part.graph, &options.policy))
        .collect::<Result<Vec<Durations>, _>>()?;
    for (d, &factor) in durations.iter_mut().zip(cluster.slowdown) {
        let units = (0..d.machine.units.len() as u16).map(UnitId);
        units.for_each(|unit| d.times.scale(unit, factor));
    }
    for (d, &state) in durations.iter_mut().zip(cluster.states) {
        d.in_state(state);
    }
    let run = |n: usize| {
        let usual = as_run(&parts[n].graph, &models[n].machine);
        let in_flight = in_flight_of(graph, io.len());
        NodeRun {
            graph: &parts[n].graph,
            machine: &durations[n].machine,
            times: &durations[n].times,
            policy: &*policies[n],
            options: Options {
                steps: options.steps.div_ceil(io.len()),
                in_flight: options.in_flight.unwrap_or(in_flight),
                record: options.record,
                ..usual
            },
        }
    };
    let runs: Vec<NodeRun> = (0..models.len()).map(run).collect();
    let outcome = dahl_sim::simulate_cluster(cluster.network, &runs)?;
    drop(runs);
    let machines = models.iter().map(|m| m.machine.clone());
    Ok(ClusterForecast {
        graph: graph.clone(),
        each: io.len(),
        machine: cluster.network.clone(),
        shares,
        policy: match options.pipeline {
            Some(staging) => format!("pipeline {}", staging.pipeline()),
            None => options.policy.clone(),
        },
        steps: options.steps.div_ceil(io.len()) * io.len(),
        parts: parts.into_iter().zip(machines).collect(),
        outcome,
    })
}

fn without_units(machine: &Machine) -> Option<&String> {
    let on = |n: u16| {
        let mut units = machine.units.iter();
        units.any(|u| machine.memories[usize::from(u.memory.0)].node == NodeId(n))
    };
    let idle = (0..).zip(&machine.nodes).find(|(n, _)| !on(*n));
    idle.map(|(_, node)| &node.name)
}

/// How fast each node is: what its units could do of a graph in a second, if each worked alone.
pub(crate) fn speeds(
    graph: &Graph,
    models: &[MachineModel],
    policy: &str,
) -> Result<Vec<f64>, TuneError> {
    let speed = |model: &MachineModel| -> Result<f64, TuneError> {
        let d = model.durations(graph, policy)?;
        let units = (0..d.machine.units.len() as u16).map(UnitId);
        let rate = |unit: UnitId| {
            let times = graph.tasks.iter().map(|t| d.times.get(t.class, unit));
            let seconds = times.map(|s| s.map(|s| s.0)).sum::<Option<f64>>();
            seconds.filter(|s| *s > 0.0).map_or(0.0, |s| 1.0 / s)
        };
        Ok(units.map(rate).sum())
    };
    models.iter().map(speed).collect()
}

/// What each node runs in the middle of a run, each with its order if that comes with the placement: batches are new in every step, and
/// everything else is where the steps before left it.
pub(crate) fn placed_parts(
    io: &[Io],
    graph: &Arc<Graph>,
    nodes: usize,
    place: impl FnOnce(&Graph) -> Result<(Placement, Option<Order>), ExecError>,
) -> Result<(Vec<Part>, Vec<Option<Order>>), TuneError> {
    let failed = |e: String| TuneError::Cluster(e);
    let graph = &**graph;
    let (placement, order) = place(graph).map_err(|e| failed(e.to_string()))?;
    let mut holders = Holders::new(nodes as u16);
    let mut transfers = Vec::new();
    for _ in 0..ROUNDS {
        let before = holders.clone();
        let given = |io: &Io| [&io.inputs, &io.targets, &io.values, &io.step].map(Clone::clone);
        let given = io.iter().flat_map(given);
        given.for_each(|array| holders.written(&array));
        let moved = holders.exchange(graph, &placement);
        transfers = moved.map_err(|e| failed(e.to_string()))?;
        if order.is_none() {
            holders.publish(graph, &mut transfers);
        }
        if holders == before {
            break;
        }
    }
    let node = |n| part(graph, &placement, &transfers, n).map_err(|e| failed(e.to_string()));
    let parts = (0..nodes as u16)
        .map(node)
        .collect::<Result<Vec<Part>, _>>()?;
    let own = |part| order.as_ref().map(|order| order.of_part(part, &transfers));
    let orders = parts.iter().map(own).collect();
    Ok((parts, orders))
}
