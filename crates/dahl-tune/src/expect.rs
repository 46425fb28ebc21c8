//! What a step on several nodes is expected to take, said before the first one, and whether the other nodes pay at all.
//!
//! Every node says what it has and how long a step takes there alone, by its own measurements where it has any; the
//! links are measured. The first node simulates the cluster: placement, messages and ports are those of the run. A node
//! that was never measured is guessed from what cores of our time usually do, and the answer says so.

use dahl_core::{Bytes, Link, Machine, MemoryId, NodeId, Port, Rated, Seconds};
use dahl_nn::Step;
use dahl_runtime::network::{LinkFigures, Member};
use serde::{Deserialize, Serialize};

use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::run::ResolvedRun;
use crate::simulate::{SimulateOptions, simulate};
use crate::simulate_cluster::{Nodes, forecast};

/// What a core does that nobody measured: an order of magnitude.
const GUESS: Rated = Rated {
    flops: 2e10,
    flops_f64: 1e10,
    bandwidth: 4e9,
};

/// Steps that are simulated, and after how many they are counted.
const STEPS: (usize, usize) = (10, 2);

/// What a step is expected to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// How many nodes there are.
    pub nodes: usize,
    /// A step on all of them.
    pub together: Seconds,
    /// A step on the first alone.
    pub alone: Seconds,
    /// Whether durations were measured on all nodes; otherwise this is a guess.
    pub measured: bool,
}

impl Expectation {
    /// Whether the other nodes make steps faster.
    pub fn pays(&self) -> bool {
        self.together.0 < self.alone.0
    }

    /// The same after steps were seen to take so long.
    pub fn corrected(&self, together: Seconds) -> Expectation {
        Expectation { together, ..*self }
    }

    /// Who pays or does not.
    fn verdict(&self) -> String {
        let who = match self.nodes {
            2 => "the second node",
            _ => "other nodes together",
        };
        match (self.pays(), self.nodes) {
            (true, 2) => format!("{who} pays"),
            (true, _) => format!("the {who} pay"),
            (false, 2) => format!("{who} does not pay"),
            (false, _) => format!("the {who} do not pay"),
        }
    }
}

impl std::fmt::Display for Expectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} a step on {} nodes, {} on node 0 alone: {}",
            self.together,
            self.nodes,
            self.alone,
            self.verdict()
        )?;
        match self.measured {
            true => Ok(()),
            false => f.write_str(" (a guess: `dahl calibrate` has not measured every node)"),
        }
    }
}

/// What a node says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeForecast {
    /// What it has.
    pub machine: Machine,
    /// Seconds of a step there alone.
    pub alone: f64,
    /// Whether its tasks were measured.
    pub measured: bool,
}

/// Asks all nodes; the first gets the answer, the others none. All must call it at the same place.
pub fn expect(
    member: &mut Member,
    step: &Step,
    run: &ResolvedRun,
) -> Result<Option<Expectation>, TuneError> {
    if member.nodes() == 1 {
        return Ok(None);
    }
    let machine = rated(member.runtime().machine().clone());
    // A node that cannot say says nothing: nobody's run fails for want of a forecast.
    let own = MachineModel::here(machine, run.this()).and_then(|(model, _)| {
        let facts = facts(step, &model, run.policy())?;
        Ok((model, facts))
    });
    let text = own
        .as_ref()
        .ok()
        .map(|(_, facts)| serde_json::to_vec(facts));
    let text = text.and_then(Result::ok).unwrap_or_default();
    let all = member.gather(&text).map_err(TuneError::Execution)?;
    let links = member.measure_links().map_err(TuneError::Execution)?;
    // What was asked and measured is no part of the run.
    member.runtime_mut().take_trace();
    if member.node() > 0 {
        return Ok(None);
    }
    let read = |bytes: &Vec<u8>| serde_json::from_slice::<NodeForecast>(bytes).ok();
    let all: Option<Vec<NodeForecast>> = all.iter().map(read).collect();
    let (Some(all), Ok((model, _))) = (all, own) else {
        return Ok(None);
    };
    let given = run.cluster().shares.clone();
    Ok(expected(step, &model, &all, &links[1..], given, run.policy()).ok())
}

/// The node that a model describes.
pub fn facts(step: &Step, model: &MachineModel, policy: &str) -> Result<NodeForecast, TuneError> {
    let options = SimulateOptions {
        policy: policy.into(),
        steps: STEPS.0,
        ..SimulateOptions::default()
    };
    let alone = simulate(step, model, &options)?;
    let ends = &alone.outcome.launches;
    let counted = (STEPS.0 - STEPS.1) as f64;
    let [measured, fitted, ..] = alone.outcome.known;
    Ok(NodeForecast {
        machine: model.machine.clone(),
        alone: (ends[STEPS.0 - 1].1.0 - ends[STEPS.1 - 1].1.0) / counted,
        measured: measured + fitted == alone.outcome.tasks(),
    })
}

/// What a step takes on nodes like these, joined by such links: to the first node, one for each other one. Without
/// shares each node gets what its speed says. Durations are those of `model`, faster or slower as nodes say.
pub fn expected(
    step: &Step,
    model: &MachineModel,
    nodes: &[NodeForecast],
    links: &[LinkFigures],
    shares: Option<Vec<f64>>,
    policy: &str,
) -> Result<Expectation, TuneError> {
    let speeds = || nodes.iter().map(|n| 1.0 / n.alone.max(1e-12)).collect();
    let shares = shares.unwrap_or_else(speeds);
    let options = SimulateOptions {
        policy: policy.into(),
        steps: STEPS.0,
        ..SimulateOptions::default()
    };
    let network = joined(nodes, links);
    let models: Vec<MachineModel> = (0..nodes.len() as u16)
        .map(|n| model.of(network.of_node(NodeId(n))))
        .collect();
    let stretched = |(model, node): (&MachineModel, &NodeForecast)| -> Result<f64, TuneError> {
        let by_model = facts(step, model, policy)?.alone;
        Ok(node.alone / by_model.max(1e-12))
    };
    let stretch = models.iter().zip(nodes).map(stretched);
    let stretch = stretch.collect::<Result<Vec<f64>, _>>()?;
    let cluster = Nodes {
        network: &network,
        models: &models,
        stretch: &stretch,
        states: &[],
    };
    let together = forecast(step, &cluster, &shares, &options)?;
    Ok(Expectation {
        nodes: nodes.len(),
        together: together.step_seconds(),
        alone: Seconds(nodes[0].alone),
        measured: nodes.iter().all(|n| n.measured),
    })
}

/// The nodes as one machine: each has a port as fast as its link to the first node; the first has the fastest of them.
pub fn joined(nodes: &[NodeForecast], links: &[LinkFigures]) -> Machine {
    let mut all = Machine::cpus(0);
    all.nodes.clear();
    all.memories.clear();
    let fastest = links.iter().map(|l| l.bandwidth).fold(0.0, f64::max);
    for (n, node) in nodes.iter().enumerate() {
        let (base, of) = (all.memories.len() as u16, &node.machine);
        let link = n.checked_sub(1).and_then(|n| links.get(n));
        all.nodes.push(dahl_core::Node {
            name: format!("node {n}"),
            port: Some(Port {
                bandwidth: link.map_or(fastest, |l| l.bandwidth),
                latency: Seconds(0.0),
                joules_per_byte: None,
            }),
            ..dahl_core::Node::new("")
        });
        all.memories
            .extend(of.memories.iter().map(|m| dahl_core::Memory {
                name: format!("{n}/{}", m.name),
                node: NodeId(n as u16),
                ..m.clone()
            }));
        let moved = |m: MemoryId| MemoryId(m.0 + base);
        all.units.extend(of.units.iter().map(|u| dahl_core::Unit {
            name: format!("{n}/{}", u.name),
            memory: moved(u.memory),
            ..u.clone()
        }));
        all.links.extend(of.links.iter().map(|l| Link {
            from: moved(l.from),
            to: moved(l.to),
            ..l.clone()
        }));
        all.kernels = of.kernels.clone();
    }
    let host = |n: usize| {
        let place = all.memories.iter().position(|m| m.node == NodeId(n as u16));
        MemoryId(place.unwrap_or(0) as u16)
    };
    let mut between = Vec::new();
    for a in 0..nodes.len() {
        for b in (0..nodes.len()).filter(|&b| b != a) {
            let ends = [a, b].map(|n| n.checked_sub(1).and_then(|n| links.get(n)));
            let ends = ends.iter().flatten();
            let bandwidth = ends
                .clone()
                .map(|l| l.bandwidth)
                .fold(f64::INFINITY, f64::min);
            let latency = ends.map(|l| l.latency).fold(0.0, f64::max);
            between.push(Link::new(host(a), host(b), bandwidth, Seconds(latency)));
        }
    }
    all.links.extend(between);
    all
}

/// A machine whose units say how fast they are: what they do not say is guessed.
fn rated(mut machine: Machine) -> Machine {
    for unit in &mut machine.units {
        unit.rated.get_or_insert(GUESS);
    }
    for memory in &mut machine.memories {
        memory.capacity = memory.capacity.filter(|c| *c > Bytes(0));
    }
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_whether_other_nodes_pay() {
        let two = Expectation {
            nodes: 2,
            together: Seconds(0.0123),
            alone: Seconds(0.0201),
            measured: true,
        };
        let text = "12.3 ms a step on 2 nodes, 20.1 ms on node 0 alone: the second node pays";
        assert_eq!(two.to_string(), text);
        let slow = two.corrected(Seconds(0.03)).to_string();
        assert!(slow.ends_with("the second node does not pay"), "{slow}");
        let three = Expectation {
            nodes: 3,
            measured: false,
            ..two
        };
        let text = three.to_string();
        assert!(
            text.contains("the other nodes together pay (a guess"),
            "{text}"
        );
    }
}
