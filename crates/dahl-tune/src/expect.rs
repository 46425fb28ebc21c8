//! What a step on several nodes is expected to take, said before the first one, and whether the other nodes pay at all.
//!
//! Every node says what it has and how long a step takes there alone, by its own measurements where it has any; the
//! links are measured. The first node simulates the cluster: placement, messages and ports are those of the run. A node
//! that was never measured is guessed from what cores of our time usually do, and the answer says so.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{Bytes, Machine, NodeId, Rated, Seconds};
use dahl_nn::Step;
use dahl_runtime::network::{MeasuredLink, Member};
use serde::{Deserialize, Serialize};

use crate::cluster::one_machine;
use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::run::ResolvedRun;
use crate::simulate::{SimulateOptions, simulate};
use crate::simulate_cluster::{Nodes, forecast};
use crate::stages::Staging;

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
    /// Whether the step on all of them was seen, and not expected.
    pub seen: bool,
}

impl Expectation {
    /// Whether the other nodes make steps faster.
    pub fn pays(&self) -> bool {
        self.together.0 < self.alone.0
    }

    /// The same after steps were seen to take so long.
    pub(crate) fn corrected(&self, together: Seconds) -> Expectation {
        Expectation {
            together,
            seen: true,
            ..*self
        }
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
        write!(f, "{} a step on {} nodes, ", self.together, self.nodes)?;
        if self.seen && !self.measured {
            // What was seen and what was guessed cannot be compared.
            return f.write_str(
                "what node 0 alone would take was not measured (`dahl calibrate` does)",
            );
        }
        write!(f, "{} on node 0 alone: {}", self.alone, self.verdict())?;
        match self.measured {
            true => Ok(()),
            false => f.write_str(" (a guess: `dahl calibrate` has not measured every node)"),
        }
    }
}

/// Steps that are timed to correct what was expected: after so many, until so many.
const TIMED: (u32, u32) = (10, 40);

/// What the first steps take, beside what was expected of them.
pub struct FirstSteps {
    expected: Expectation,
    steps: u32,
    since: Instant,
}

impl FirstSteps {
    /// Before the first step.
    pub fn new(expected: Expectation) -> FirstSteps {
        let since = Instant::now();
        FirstSteps {
            expected,
            steps: 0,
            since,
        }
    }

    /// A step was launched; the corrected expectation, once, when enough of them were.
    pub fn step(&mut self) -> Option<Expectation> {
        self.steps += 1;
        if self.steps == TIMED.0 {
            self.since = Instant::now();
        }
        let steps = f64::from(TIMED.1 - TIMED.0);
        let seen = || Seconds(self.since.elapsed().as_secs_f64() / steps);
        (self.steps == TIMED.1).then(|| self.expected.corrected(seen()))
    }
}

/// What a node says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct NodeForecast {
    /// What it has.
    machine: Machine,
    /// Seconds of a step there alone.
    alone: f64,
    /// Whether its tasks were measured.
    measured: bool,
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
    // Stages follow their schedule; who decides where there are none is for a node alone.
    let usual = SimulateOptions::default().policy;
    let policy = match run.pipeline() {
        Some(_) => &usual[..],
        None => run.policy(),
    };
    // A node that cannot say says nothing: nobody's run fails for want of a forecast.
    let own = MachineModel::here(machine, run.this()).and_then(|(model, _)| {
        let facts = facts(step, &model, policy)?;
        Ok((model, facts))
    });
    let text = own
        .as_ref()
        .ok()
        .map(|(_, facts)| serde_json::to_vec(facts));
    let text = text.and_then(Result::ok).unwrap_or_default();
    let all = member.gather(&text).map_err(TuneError::Execution)?;
    // What was asked is no part of the run.
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
    let follows = (policy, run.pipeline());
    Ok(expected(step, &model, &all, member.links(), given, follows).ok())
}

/// The node that a model describes.
fn facts(step: &Step, model: &MachineModel, policy: &str) -> Result<NodeForecast, TuneError> {
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

/// What a step takes on nodes like these, joined by such links to the first node. Without shares each node gets what its
/// speed says, or those of a stage share it evenly. Durations are those of `model`, faster or slower as nodes say.
fn expected(
    step: &Step,
    model: &MachineModel,
    nodes: &[NodeForecast],
    links: &[MeasuredLink],
    shares: Option<Vec<f64>>,
    (policy, pipeline): (&str, Option<&Arc<Staging>>),
) -> Result<Expectation, TuneError> {
    let speed = |n: &NodeForecast| match pipeline {
        Some(_) => 1.0,
        None => 1.0 / n.alone.max(1e-12),
    };
    let speeds = || nodes.iter().map(speed).collect();
    let shares = shares.unwrap_or_else(speeds);
    let options = SimulateOptions {
        policy: policy.into(),
        pipeline,
        steps: STEPS.0,
        ..SimulateOptions::default()
    };
    let named = nodes.iter().enumerate();
    let named = named.map(|(n, node)| (format!("node {n}"), node.machine.clone()));
    let network = one_machine(named.collect(), &through_first(nodes.len() as u16, links))?;
    let models: Vec<MachineModel> = (0..nodes.len() as u16)
        .map(|n| model.of(network.of_node(NodeId(n))))
        .collect();
    let slowdown = |(model, node): (&MachineModel, &NodeForecast)| -> Result<f64, TuneError> {
        let by_model = facts(step, model, policy)?.alone;
        Ok(node.alone / by_model.max(1e-12))
    };
    let slowdowns = models.iter().zip(nodes).map(slowdown);
    let slowdowns = slowdowns.collect::<Result<Vec<f64>, _>>()?;
    let cluster = Nodes {
        network: &network,
        models: &models,
        slowdown: &slowdowns,
        states: &[],
    };
    let together = forecast(step, &cluster, &shares, &options)?;
    Ok(Expectation {
        nodes: nodes.len(),
        together: together.step_seconds(),
        alone: Seconds(nodes[0].alone),
        measured: nodes.iter().all(|n| n.measured),
        seen: false,
    })
}

/// Links between all nodes from those of the first: two others are joined as well as both are to it.
fn through_first(nodes: u16, links: &[MeasuredLink]) -> Vec<MeasuredLink> {
    let mut all = links.to_vec();
    let of = |node: u16| links.iter().find(|l| l.to == node);
    for from in 1..nodes {
        for to in from + 1..nodes {
            let (Some(a), Some(b)) = (of(from), of(to)) else {
                continue;
            };
            all.push(MeasuredLink {
                from,
                to,
                latency: a.latency.max(b.latency),
                bandwidth: a.bandwidth_back.min(b.bandwidth),
                bandwidth_back: b.bandwidth_back.min(a.bandwidth),
                ..*a
            });
        }
    }
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
            seen: false,
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
        let text = three.corrected(Seconds(0.03)).to_string();
        assert!(
            text.starts_with("30.0 ms a step on 3 nodes, ") && !text.contains("pay"),
            "{text}"
        );
    }

    #[test]
    fn nodes_besides_the_first_are_joined_as_well_as_both_are_to_it() {
        let link = |to, latency, bandwidth| MeasuredLink {
            from: 0,
            to,
            latency,
            bandwidth,
            bandwidth_back: bandwidth / 2.0,
            clock_ahead: 0.0,
            clock_error: 0.0,
        };
        let all = through_first(3, &[link(1, 1e-4, 1e8), link(2, 2e-4, 3e7)]);
        let between = all[2];
        assert_eq!((all.len(), between.from, between.to), (3, 1, 2));
        let figures = (between.latency, between.bandwidth, between.bandwidth_back);
        assert_eq!(figures, (2e-4, 3e7, 1.5e7));
    }
}
