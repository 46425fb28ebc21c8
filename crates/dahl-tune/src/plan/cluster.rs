//! Planning a step for several nodes: which of them are on, what share of the batch each has, and in which frequency
//! state each computes.
//!
//! Between nodes, placement by shares is what the runtime executes, so that is what is planned; tasks of a microsecond
//! never travel alone. A node that takes no part draws its `off_watts`, or waits if it cannot be switched off, and data
//! begin on a node that is on. Every node alone comes first, with all its simple choices; then shares over the fastest
//! and the thriftiest nodes, and stages over them as the pipeline partitioner cuts them, each with the runtime's own
//! partition in the simulator; then changes of the best. Where one node is best, its tasks are planned one by one.

use std::time::{Duration, Instant};

use dahl_core::{Joules, Machine, NodeId, Seconds, Watts};
use dahl_nn::Step;
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_plan::{Alternative, Goal};
use serde::Serialize;

use super::bound::least_of_all;
use super::candidate::PerStep;
use super::choices::{self, Choice, Choices};
use super::layout::{Layout, Layouts};
use super::{FrontierPoint, MOST_TASKS, PlanOptions, Planned, pareto, plan};
use crate::error::TuneError;
use crate::machine_model::MachineModel;

/// How much a node alone may cost more than shares do for its tasks to be planned one by one.
const WORTH_PLANNING: f64 = 1.7;

/// A node of a cluster in a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeShare {
    /// Its name.
    pub name: String,
    /// Its part of the batch; none if it takes no part.
    pub share: f64,
    /// Its frequency state, 0 is the usual one.
    pub state: usize,
    /// Whether it is on.
    pub on: bool,
}

/// What each node of a cluster does.
#[derive(Serialize)]
pub struct ClusterPlan {
    /// The step in a few words.
    pub title: String,
    /// The machine's name.
    pub machine: String,
    /// All nodes, in the machine's order.
    pub nodes: Vec<NodeShare>,
    /// Who decides on each node: a policy, `plan`, or a pipeline.
    pub policy: String,
    /// The options that train in stages, where nodes have stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<String>,
    /// How layers are cut into tasks.
    pub grain: String,
    /// A step in the middle of a run.
    pub seconds: Seconds,
    /// Energy of one, with what nodes draw that are off.
    pub joules: Joules,
    /// No choice of nodes, shares and states costs less per step, in the unit of the objective.
    pub lower_bound: f64,
    /// What part of the cost may be saved at most.
    pub gap: f64,
    /// What else was considered; the best simple choice first.
    pub alternatives: Vec<Alternative>,
    /// What was tried and nothing else beats in both time and energy.
    pub frontier: Vec<FrontierPoint>,
    /// Its tasks one by one, where one node is best.
    #[serde(skip)]
    pub alone: Option<Planned>,
    /// Whether a request to stop ended the search.
    #[serde(skip)]
    pub stopped: bool,
}

/// The simple choices of one node, and of others like it.
struct Alone {
    node: NodeId,
    model: MachineModel,
    choices: Choices,
}

/// Some nodes as a machine of their own; what the others draw belongs to the first.
pub(super) fn only(machine: &Machine, nodes: &[NodeId]) -> Machine {
    let all = (0..machine.nodes.len() as u16).map(NodeId);
    let rest: f64 = all
        .filter(|n| !nodes.contains(n))
        .map(|n| {
            let of = machine.of_node(n);
            let idle = of.units.iter().filter_map(|u| u.power).map(|p| p.idle.0);
            let waits = of.base().0 + idle.sum::<f64>();
            machine.nodes[usize::from(n.0)]
                .off
                .map_or(waits, |off| off.0)
        })
        .sum();
    let mut out = machine.of_nodes(nodes);
    if let [one] = nodes {
        out.name.clone_from(&machine.nodes[usize::from(one.0)].name);
        out.switches.clear();
        out.links.iter_mut().for_each(|l| l.via.clear());
    }
    if let Some(first) = out.nodes.first_mut()
        && rest > 0.0
    {
        first.base = Some(Watts(first.base.map_or(0.0, |b| b.0) + rest));
    }
    out
}

/// A node alone without names: equal for nodes that nothing else tells apart.
pub(super) fn alike(machine: &Machine, node: NodeId) -> Machine {
    let mut of = only(machine, &[node]);
    of.name.clear();
    of.nodes.iter_mut().for_each(|n| n.name.clear());
    of.memories.iter_mut().for_each(|m| m.name.clear());
    of.units.iter_mut().for_each(|u| u.name.clear());
    of
}

/// Nodes that differ in more than their names: one of each, with how many are like it.
pub(super) fn kinds(machine: &Machine) -> Vec<(NodeId, usize)> {
    let mut out: Vec<(NodeId, usize, Machine)> = Vec::new();
    for n in (0..machine.nodes.len() as u16).map(NodeId) {
        let of = alike(machine, n);
        match out.iter_mut().find(|k| k.2 == of) {
            Some(kind) => kind.1 += 1,
            None => out.push((n, 1, of)),
        }
    }
    out.into_iter().map(|k| (k.0, k.1)).collect()
}

/// Plans a step for the nodes of a machine.
pub fn plan_cluster(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
) -> Result<ClusterPlan, TuneError> {
    let begin = Instant::now();
    let (goal, limit) = (&options.goal, options.time_limit);
    let until = |part: f64| move || options.go_on(begin, limit.mul_f64(part));
    let mut alone = Vec::new();
    let kinds = kinds(&machine.machine);
    for (i, &(node, _)) in kinds.iter().enumerate() {
        let model = machine.of(only(&machine.machine, &[node]));
        if model.machine.units.is_empty() {
            continue;
        }
        let grains = match options.search_grain {
            true => choices::grains(step, model.machine.units.len()),
            false => vec![step.grain.clone()],
        };
        let part = 0.25 * (i + 1) as f64 / kinds.len() as f64;
        let choices = Choices::new(step, &model, &grains, goal, MOST_TASKS, &mut until(part))?;
        alone.push(Alone {
            node,
            model,
            choices,
        });
    }
    let best_of = |a: &&Alone| {
        a.choices
            .best(|_| true)
            .map_or(f64::INFINITY, |c| c.takes.cost(goal))
    };
    let Some(best_alone) = alone
        .iter()
        .min_by(|a, b| best_of(a).total_cmp(&best_of(b)))
    else {
        let text = "no node has units: there is nothing to plan for";
        return Err(TuneError::Machine(text.into()));
    };
    if let Some(best) = best_alone.choices.best(|_| true) {
        options
            .progress
            .found(goal.cost(best.takes.seconds.0, best.takes.joules.0));
    }
    let mut layouts = Layouts::new(step, machine, grains_of(step, options))?;
    layouts.search(goal, &orders(machine, &alone), &until(0.45), &until(0.6));
    let shared = layouts.best(goal);
    let cost_shared = shared.map_or(f64::INFINITY, |l| l.1.cost(goal));
    let mut planned = None;
    if best_of(&best_alone) <= WORTH_PLANNING * cost_shared || cost_shared.is_infinite() {
        let left = limit.saturating_sub(begin.elapsed()).mul_f64(0.85);
        let inner = PlanOptions {
            time_limit: left.max(Duration::from_millis(1)),
            ..options.clone()
        };
        planned = Some((best_alone.node, plan(step, &best_alone.model, &inner)));
    }
    let baselines = Baselines {
        machine,
        goal,
        alone: &alone,
        layouts: &layouts,
    };
    let alternatives = baselines.all();
    let mut found = match planned {
        Some((node, Ok(planned))) => {
            let file = &planned.plan.file;
            let (seconds, joules) = file.per_step();
            let takes = PerStep {
                seconds: Seconds(seconds),
                joules: Joules(joules),
            };
            match takes.cost(goal) <= cost_shared || shared.is_none() {
                true => Some(of_one(machine, node, takes, planned)),
                false => None,
            }
        }
        // Nothing else is there to offer.
        Some((_, Err(error))) if shared.is_none() => return Err(error),
        _ => None,
    };
    if found.is_none()
        && let Some((layout, takes)) = shared
    {
        found = Some(of_shares(step, machine, layout, takes, &layouts));
    }
    let Some(mut found) = found else {
        return Err(TuneError::Plan("no node can run the step".into()));
    };
    if !goal.in_time(found.seconds.0) {
        return Err(TuneError::Plan(format!(
            "no choice of nodes that was tried is as fast as {} per step: the fastest takes {}",
            Seconds(goal.deadline.unwrap_or(0.0)),
            found.seconds
        )));
    }
    let cost = goal.cost(found.seconds.0, found.joules.0);
    found.lower_bound = least_of_all(step, machine, goal, &found.grain, &until(1.0))?.min(cost);
    found.gap = if cost > 0.0 {
        1.0 - found.lower_bound / cost
    } else {
        0.0
    };
    found.alternatives = alternatives;
    let mut points: Vec<(f64, f64)> = layouts
        .tried
        .iter()
        .map(|l| (l.1.seconds.0, l.1.joules.0))
        .collect();
    let simple = alone.iter().flat_map(|a| &a.choices.all);
    points.extend(simple.map(|c| (c.takes.seconds.0, c.takes.joules.0)));
    points.push((found.seconds.0, found.joules.0));
    found.frontier = pareto(points, |_| 0.0);
    found.stopped = options.stop.is_requested();
    Ok(found)
}

/// Cuts that leave every node something to do.
fn grains_of(step: &Step, options: &PlanOptions) -> Vec<Grain> {
    if !options.search_grain {
        return vec![step.grain.clone()];
    }
    let cut = |sample: usize| {
        Grain::Fixed(Parts {
            sample,
            ..Parts::ONE
        })
    };
    let cuts = [8, 16, 32].into_iter().filter(|&s| s <= step.batch);
    [Grain::Auto].into_iter().chain(cuts.map(cut)).collect()
}

/// The nodes from the fastest to the slowest, and from the thriftiest to the dearest.
fn orders(machine: &MachineModel, alone: &[Alone]) -> [Vec<NodeId>; 2] {
    let like = |n: NodeId| {
        let of = alike(&machine.machine, n);
        alone.iter().find(|a| alike(&machine.machine, a.node) == of)
    };
    let sorted = |of: &dyn Fn(&Choice) -> f64| {
        let mut all: Vec<NodeId> = (0..machine.machine.nodes.len() as u16)
            .map(NodeId)
            .collect();
        all.retain(|n| like(*n).is_some());
        let least = |n: &NodeId| {
            let choices = like(*n).into_iter().flat_map(|a| &a.choices.all);
            choices.map(of).fold(f64::INFINITY, f64::min)
        };
        all.sort_by(|a, b| least(a).total_cmp(&least(b)));
        all
    };
    [
        sorted(&|c| c.takes.seconds.0),
        sorted(&|c| c.takes.joules.0),
    ]
}

fn shares_of(machine: &MachineModel, on: &[(NodeId, f64, usize)]) -> Vec<NodeShare> {
    let node = |(n, node): (usize, &dahl_core::Node)| {
        let own = on.iter().find(|o| usize::from(o.0.0) == n);
        NodeShare {
            name: node.name.clone(),
            share: own.map_or(0.0, |o| o.1),
            state: own.map_or(0, |o| o.2),
            on: own.is_some() || node.off.is_none(),
        }
    };
    machine.machine.nodes.iter().enumerate().map(node).collect()
}

fn of_one(machine: &MachineModel, node: NodeId, takes: PerStep, planned: Planned) -> ClusterPlan {
    let file = &planned.plan.file;
    ClusterPlan {
        title: file.target.title.clone(),
        machine: machine.machine.name.clone(),
        nodes: shares_of(machine, &[(node, 1.0, 0)]),
        policy: "plan".into(),
        stages: None,
        grain: planned.plan.step.grain.to_string(),
        seconds: takes.seconds,
        joules: takes.joules,
        lower_bound: 0.0,
        gap: 0.0,
        alternatives: Vec::new(),
        frontier: Vec::new(),
        alone: Some(planned),
        stopped: false,
    }
}

fn of_shares(
    step: &Step,
    machine: &MachineModel,
    layout: &Layout,
    takes: PerStep,
    layouts: &Layouts<'_>,
) -> ClusterPlan {
    let on = layout.nodes.iter().zip(&layout.shares).zip(&layout.states);
    let on: Vec<_> = on.map(|((&n, &share), &state)| (n, share, state)).collect();
    ClusterPlan {
        title: format!("{}, batch {}, {}", step.model.name, step.batch, step.dtype),
        machine: machine.machine.name.clone(),
        nodes: shares_of(machine, &on),
        policy: match &layout.stages {
            Some((pipeline, _)) => format!("pipeline {pipeline}"),
            None => layout.policy.into(),
        },
        stages: layout.stages.as_ref().map(|(p, parts)| p.options(*parts)),
        grain: layouts.grain(layout).to_string(),
        seconds: takes.seconds,
        joules: takes.joules,
        lower_bound: 0.0,
        gap: 0.0,
        alternatives: Vec::new(),
        frontier: Vec::new(),
        alone: None,
        stopped: false,
    }
}

/// What a plan for a cluster is compared with.
struct Baselines<'a> {
    machine: &'a MachineModel,
    goal: &'a Goal,
    alone: &'a [Alone],
    layouts: &'a Layouts<'a>,
}

impl Baselines<'_> {
    /// The best simple choice; the fastest node alone, the best single unit, shares by speed and even shares, each at
    /// its best frequency state.
    fn all(&self) -> Vec<Alternative> {
        let goal = self.goal;
        let pairs = || {
            self.alone
                .iter()
                .flat_map(|a| a.choices.all.iter().map(move |c| (a, c)))
        };
        let cheapest = |which: &dyn Fn(&Alone, &Choice) -> bool| {
            let of = pairs().filter(|(a, c)| which(a, c));
            let best = of.min_by(|a, b| a.1.takes.cost(goal).total_cmp(&b.1.takes.cost(goal)));
            best.map(|(a, c)| self.of_choice(a, c))
        };
        let fastest = pairs()
            .filter(|(a, c)| c.subset.units.len() == a.model.machine.units.len())
            .min_by(|a, b| a.1.takes.seconds.0.total_cmp(&b.1.takes.seconds.0))
            .map(|(a, _)| a.node);
        let whole = |a: &Alone, c: &Choice| {
            Some(a.node) == fastest && c.subset.units.len() == a.model.machine.units.len()
        };
        let nodes = self.machine.machine.nodes.len();
        let of_layout = |l: &Layout| format!("shares over {} nodes", l.nodes.len());
        let shared = |kind: super::layout::Kind| {
            let best = self
                .layouts
                .best_of(goal, |l| l.kind == kind && l.nodes.len() == nodes);
            best.map(|(l, takes)| (format!("{} under {}", of_layout(l), l.policy), takes))
        };
        let any = self.layouts.best_of(goal, |l| {
            l.kind != super::layout::Kind::Searched && l.stages.is_none()
        });
        let any = any.map(|(l, takes)| (self.layouts.name(l), takes));
        let simple = [cheapest(&|_, _| true), any];
        let simple = simple.into_iter().flatten();
        let simple = simple.min_by(|a, b| a.1.cost(goal).total_cmp(&b.1.cost(goal)));
        let singles: usize = self.alone.iter().map(|a| a.choices.considered).sum();
        let considered = singles + self.layouts.tried.len();
        let rows = [
            (format!("the best of {considered} simple choices"), simple),
            ("the fastest node alone".into(), cheapest(&whole)),
            (
                "the best single unit".into(),
                cheapest(&|_, c| c.subset.units.len() == 1),
            ),
            (
                "shares by speed".into(),
                shared(super::layout::Kind::BySpeed),
            ),
            ("even shares".into(), shared(super::layout::Kind::Even)),
            ("stages".into(), {
                let best = self.layouts.best_of(goal, |l| l.stages.is_some());
                best.map(|(l, takes)| (self.layouts.name(l), takes))
            }),
        ];
        let rows = rows.into_iter().filter_map(|(what, found)| {
            let (name, takes) = found?;
            Some(Alternative {
                name: format!("{what}: {name}"),
                seconds: takes.seconds,
                joules: takes.joules,
            })
        });
        rows.collect()
    }

    fn of_choice(&self, alone: &Alone, choice: &Choice) -> (String, PerStep) {
        let candidate = &alone.choices.candidates[choice.candidate];
        let node = &self.machine.machine.nodes[usize::from(alone.node.0)].name;
        let name = format!("{node}, {}", choice.name(&alone.choices.candidates));
        let takes = choice.expected(candidate, &alone.model);
        (name, takes.unwrap_or(choice.takes))
    }
}
