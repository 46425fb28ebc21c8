//! Layouts: some nodes of a cluster, their shares of the batch and their frequency states, simulated as the runtime
//! would run them.

use std::cell::Cell;
use std::sync::Arc;

use dahl_core::{Joules, NodeId};
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_nn::step::Lowered;
use dahl_plan::Goal;

use super::candidate::PerStep;
use super::choices::brief;
use super::cluster::only;
use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::simulate::SimulateOptions;
use crate::simulate_cluster::{ClusterForecast, Nodes, forecast, forecast_lowered, speeds};
use crate::stages::{Pipeline, Staging};

/// Who decides on a node.
const POLICIES: [&str; 2] = ["ws", "dmda"];

/// Steps that are simulated.
const STEPS: usize = 8;

/// Most nodes that stages are tried on.
const MOST_STAGES: usize = 8;

/// Micro-batches that are tried.
const MICRO_BATCHES: [usize; 2] = [8, 4];

/// Tasks beyond which a grain is not looked at.
const MOST_TASKS: usize = 8_000;

/// The smallest part of the batch that changes hands.
const LEAST: f64 = 1.0 / 64.0;

/// Where shares come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    BySpeed,
    Even,
    Searched,
    Stages,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub kind: Kind,
    pub nodes: Vec<NodeId>,
    /// Parts of the batch, which sum to one.
    pub shares: Vec<f64>,
    pub states: Vec<usize>,
    pub policy: &'static str,
    grain: usize,
    /// Stages on the nodes, in their order, and micro-batches; shares are then those of nodes that have a stage together.
    pub stages: Option<(Pipeline, usize)>,
}

/// All that were tried.
pub(super) struct Layouts<'a> {
    step: &'a Step,
    machine: &'a MachineModel,
    steps: Vec<(Grain, Lowered)>,
    /// Each with what a step of a run takes.
    pub tried: Vec<(Layout, PerStep)>,
}

impl<'a> Layouts<'a> {
    /// None yet, for a step with these grains.
    pub(super) fn new(
        step: &'a Step,
        machine: &'a MachineModel,
        grains: Vec<Grain>,
    ) -> Result<Layouts<'a>, TuneError> {
        let mut steps: Vec<(Grain, Lowered)> = Vec::new();
        for grain in grains {
            let lowered = step.clone().grain(grain.clone()).lower()?;
            let same =
                |s: &(Grain, Lowered)| s.1.graph.fingerprint() == lowered.graph.fingerprint();
            if lowered.graph.len() <= MOST_TASKS && !steps.iter().any(same) {
                steps.push((grain, lowered));
            }
        }
        Ok(Layouts {
            step,
            machine,
            steps,
            tried: Vec::new(),
        })
    }

    /// The grain of a layout.
    pub(super) fn grain(&self, layout: &Layout) -> &Grain {
        &self.steps[layout.grain].0
    }

    /// In a few words.
    pub(super) fn name(&self, layout: &Layout) -> String {
        let names = &self.machine.machine.nodes;
        let each = layout.nodes.iter().zip(&layout.shares).zip(&layout.states);
        let each = each.map(|((n, share), state)| {
            let state = if *state > 0 {
                format!(" in state {state}")
            } else {
                String::new()
            };
            format!(
                "{} {:.0} %{state}",
                names[usize::from(n.0)].name,
                100.0 * share
            )
        });
        let nodes: Vec<String> = each.collect();
        if let Some((pipeline, parts)) = &layout.stages {
            return format!(
                "{} as a pipeline {pipeline}, {parts} micro-batches",
                nodes.join(", ")
            );
        }
        format!(
            "{} under {}, grain {}",
            nodes.join(", "),
            layout.policy,
            brief(self.grain(layout))
        )
    }

    /// The best of some kind.
    pub(super) fn best_of(
        &self,
        goal: &Goal,
        which: impl Fn(&Layout) -> bool,
    ) -> Option<(&Layout, PerStep)> {
        let some = self.tried.iter().filter(|t| which(&t.0));
        let best = some.min_by(|a, b| a.1.cost(goal).total_cmp(&b.1.cost(goal)));
        best.map(|(layout, takes)| (layout, *takes))
    }

    pub(super) fn best(&self, goal: &Goal) -> Option<(&Layout, PerStep)> {
        self.best_of(goal, |_| true)
    }

    /// Shares by speed and even ones over all nodes first, then over the fastest and the thriftiest few while `more` says
    /// so, then changes of the best while `go_on` does.
    pub(super) fn search(
        &mut self,
        goal: &Goal,
        orders: &[Vec<NodeId>; 2],
        more: &dyn Fn() -> bool,
        go_on: &dyn Fn() -> bool,
    ) {
        // Once the time is over nobody asks again.
        let late = Cell::new(false);
        let more: &dyn Fn() -> bool = &|| {
            late.set(late.get() || !more());
            !late.get()
        };
        let all = &orders[0];
        if all.len() < 2 || self.steps.is_empty() {
            return;
        }
        let mut sorted = all.clone();
        sorted.sort_unstable();
        for kind in [Kind::BySpeed, Kind::Even] {
            self.try_over(&sorted, kind, goal, more);
        }
        // As many nodes as pay for stages: each hands on what the next one waits for.
        for count in (2..=all.len().min(MOST_STAGES)).rev() {
            for order in orders {
                if more() {
                    self.try_stages(&order[..count]);
                }
            }
        }
        for count in 2..all.len() {
            for order in orders {
                let mut some = order[..count].to_vec();
                some.sort_unstable();
                let known = |l: &Layout| l.nodes == some;
                if more() && !self.tried.iter().any(|t| known(&t.0)) {
                    self.try_over(&some, Kind::BySpeed, goal, more);
                }
            }
        }
        self.improve(goal, go_on);
    }

    /// Stages over some nodes, in the machine's order, as the partitioner cuts them.
    fn try_stages(&mut self, nodes: &[NodeId]) {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        if self
            .tried
            .iter()
            .any(|t| t.0.stages.is_some() && t.0.nodes == nodes)
        {
            return;
        }
        let part = self.machine.of(only(&self.machine.machine, &nodes));
        for parts in MICRO_BATCHES {
            let fits = self.step.batch.is_multiple_of(parts);
            let plain = || self.step.micro_batches == 1 && self.step.delays.is_empty();
            if !fits || !plain() {
                continue;
            }
            let Ok(Some(pipeline)) = Pipeline::planned(self.step, &part, parts) else {
                continue;
            };
            self.attempt(Layout {
                kind: Kind::Stages,
                nodes: nodes.clone(),
                shares: vec![1.0 / nodes.len() as f64; nodes.len()],
                states: vec![0; nodes.len()],
                policy: POLICIES[0],
                grain: 0,
                stages: Some((pipeline, parts)),
            });
        }
    }

    /// Shares over some nodes: the default grain and policy in every common state, then the other grains and policies
    /// in the best of these.
    fn try_over(&mut self, nodes: &[NodeId], kind: Kind, goal: &Goal, more: &dyn Fn() -> bool) {
        let states = (self.machine.machine.units.iter())
            .map(|u| u.states.len())
            .max()
            .unwrap_or(0);
        let Some(layout) = self.first(nodes, kind) else {
            return;
        };
        let from = self.tried.len();
        for state in 0..=states {
            if state == 0 || more() {
                self.attempt(Layout {
                    states: vec![state; nodes.len()],
                    ..layout.clone()
                });
            }
        }
        let own = self.tried[from..].iter();
        let best = own.min_by(|a, b| a.1.cost(goal).total_cmp(&b.1.cost(goal)));
        let Some(best) = best.map(|b| b.0.clone()) else {
            return;
        };
        for grain in 0..self.steps.len() {
            for policy in POLICIES {
                if more() {
                    self.attempt(Layout {
                        grain,
                        policy,
                        ..best.clone()
                    });
                }
            }
        }
    }

    fn first(&self, nodes: &[NodeId], kind: Kind) -> Option<Layout> {
        let (_, lowered) = &self.steps[0];
        let weights = match kind {
            Kind::Even => vec![1.0; nodes.len()],
            _ => {
                let models: Vec<MachineModel> =
                    nodes.iter().map(|n| self.machine.of_node(*n)).collect();
                speeds(&lowered.graph, &models, POLICIES[0]).ok()?
            }
        };
        let total: f64 = weights.iter().sum();
        Some(Layout {
            kind,
            nodes: nodes.to_vec(),
            shares: weights.iter().map(|w| w / total).collect(),
            states: vec![0; nodes.len()],
            policy: POLICIES[0],
            grain: 0,
            stages: None,
        })
    }

    /// Simulates a layout, unless it was before; what it takes.
    fn attempt(&mut self, layout: Layout) -> Option<PerStep> {
        if let Some(known) = self.tried.iter().find(|t| t.0 == layout) {
            return Some(known.1);
        }
        let network = only(&self.machine.machine, &layout.nodes);
        let model = |n: u16| self.machine.of(network.of_node(NodeId(n)));
        let models: Vec<MachineModel> = (0..layout.nodes.len() as u16).map(model).collect();
        let cluster = Nodes {
            network: &network,
            models: &models,
            slowdown: &vec![1.0; models.len()],
            states: &layout.states,
        };
        let options = SimulateOptions {
            policy: layout.policy.into(),
            steps: STEPS,
            ..SimulateOptions::default()
        };
        let found = match &layout.stages {
            Some((pipeline, parts)) => {
                let step = pipeline.adopt(self.step.clone(), Some(*parts)).ok()?;
                let staging = Arc::new(Staging::new(pipeline, &step).ok()?);
                let options = SimulateOptions {
                    pipeline: Some(&staging),
                    ..options
                };
                forecast(&step, &cluster, &layout.shares, &options).ok()?
            }
            None => {
                let lowered = &self.steps[layout.grain].1;
                let graph = (&lowered.graph, std::slice::from_ref(&lowered.io));
                forecast_lowered(graph, &cluster, &layout.shares, &options).ok()?
            }
        };
        let takes = per_step(&found);
        self.tried.push((layout, takes));
        Some(takes)
    }

    /// Moves shares between nodes and changes states and nodes, as long as that helps.
    fn improve(&mut self, goal: &Goal, go_on: &dyn Fn() -> bool) {
        let Some((best, takes)) = self.best(goal) else {
            return;
        };
        let (mut best, mut cost) = (best.clone(), takes.cost(goal));
        let mut part = 0.125;
        while part >= LEAST {
            let mut helped = false;
            for next in self.neighbours(&best, part) {
                if !go_on() {
                    return;
                }
                let found = self
                    .attempt(next.clone())
                    .map_or(f64::INFINITY, |t| t.cost(goal));
                if found < cost * (1.0 - 1e-6) {
                    (best, cost, helped) = (next, found, true);
                    break;
                }
            }
            if !helped {
                part /= 2.0;
            }
        }
    }

    fn neighbours(&self, from: &Layout, part: f64) -> Vec<Layout> {
        let searched = Layout {
            kind: Kind::Searched,
            ..from.clone()
        };
        let mut out = Vec::new();
        for a in 0..from.nodes.len() {
            let of = self.machine.of_node(from.nodes[a]);
            let states = of
                .machine
                .units
                .iter()
                .map(|u| u.states.len())
                .max()
                .unwrap_or(0);
            for state in (0..=states).filter(|s| *s != from.states[a]) {
                let mut next = searched.clone();
                next.states[a] = state;
                out.push(next);
            }
            if from.stages.is_some() {
                continue;
            }
            for b in (0..from.nodes.len()).filter(|b| *b != a) {
                if from.shares[a] > part {
                    let mut next = searched.clone();
                    next.shares[a] -= part;
                    next.shares[b] += part;
                    out.push(next);
                }
            }
            if from.nodes.len() > 2 {
                let mut next = searched.clone();
                next.nodes.remove(a);
                next.states.remove(a);
                let gone = next.shares.remove(a);
                next.shares.iter_mut().for_each(|s| *s /= 1.0 - gone);
                out.push(next);
            }
        }
        out
    }
}

/// A step in the middle of a run: every step does the same work, and what flows all the time flows as long as it takes.
fn per_step(found: &ClusterForecast) -> PerStep {
    let seconds = found.step_seconds();
    let nodes = found.parts.iter().map(|p| &p.1);
    let idle = nodes
        .flat_map(|m| &m.units)
        .filter_map(|u| u.power)
        .map(|p| p.idle.0);
    let standing = found.machine.base().0 + idle.sum::<f64>();
    let all: Joules = (0..found.parts.len()).map(|n| found.joules(n)).sum();
    let links: f64 = found.outcome.links.iter().map(|l| l.joules.0).sum();
    let work = all.0 + links - standing * found.outcome.makespan.0;
    PerStep {
        seconds,
        joules: Joules(standing * seconds.0 + work / found.steps as f64),
    }
}
