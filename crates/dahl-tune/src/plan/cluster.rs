//! Planning a step for several nodes: which of them are on, what share of the batch each has, and in which frequency
//! state each computes.
//!
//! Between nodes, placement by shares is what the runtime executes, so that is what is planned; tasks of a microsecond
//! never travel alone. A node that takes no part draws its `off_watts`, or waits if it cannot be switched off, and data
//! begin on a node that is on. Every node alone comes first, with all its simple choices; then shares over the fastest
//! and the thriftiest nodes, and stages over them as the pipeline partitioner cuts them, each with the runtime's own
//! partition in the simulator; then changes of the best. Where one node is best, its tasks are planned one by one,
//! and no plan is dearer than any of the choices that it is compared with.

use std::time::Duration;

use dahl_core::report::{Report, Table};
use dahl_core::{Joules, Machine, NodeId, Seconds, Watts};
use dahl_nn::Step;
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_plan::{Alternative, Goal};
use serde::{Deserialize, Serialize};

use super::bound::least_of_all;
use super::candidate::PerStep;
use super::choices::{Choice, Choices, Rival};
use super::clock::Clock;
use super::layout::{Layout, Layouts};
use super::{FrontierPoint, PlanOptions, Planned, all_alike, pareto, plan_by, plan_of_choice};
use crate::error::TuneError;
use crate::follow::NODES_VERSION;
use crate::machine_model::MachineModel;
use crate::stages::Pipeline;

/// How much a node alone may cost more than shares do for its tasks to be planned one by one.
const WORTH_PLANNING: f64 = 1.7;

/// Nodes whose tasks are planned one by one at most.
const PLANNED: usize = 2;

/// How much another node may cost more than the best one before planning for its tasks to be planned, too.
const NEAR: f64 = 1.25;

/// A node of a cluster in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// What each node of a cluster does. As a file, runs of several nodes follow it ([`NodesPlan`](crate::NodesPlan)).
#[derive(Serialize)]
pub struct ClusterPlan {
    /// The version of the file, by which it is told from a plan for one computer.
    cluster: u32,
    /// What was planned, with the plan's grain and micro-batches.
    step: serde_json::Value,
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
    /// The same for a run that follows the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<Pipeline>,
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

impl ClusterPlan {
    /// The plan for people; finding it has taken so long.
    pub fn report(&self, taken: Duration) -> Report {
        let mut out = Report::default();
        let on: Vec<&str> = self
            .nodes
            .iter()
            .filter(|n| n.share > 0.0)
            .map(|n| &*n.name)
            .collect();
        match &on[..] {
            [one] => out.line(format!(
                "one machine is best: {one} alone, the others take no part"
            )),
            many => out.line(format!(
                "{} of {} nodes take part",
                many.len(),
                self.nodes.len()
            )),
        }
        out.line(format!(
            "expected of a run: {} and {} per step; gap {:.2} % to what no nodes, \
             shares and states can beat; grain {}; {:.1} s\n",
            self.seconds,
            self.joules,
            100.0 * self.gap,
            self.grain,
            taken.as_secs_f64()
        ));
        let mut nodes = Table::new("node|>share|state|power");
        for node in &self.nodes {
            nodes.row([
                node.name.clone(),
                format!("{:.1} %", 100.0 * node.share),
                match node.state {
                    0 => "usual".into(),
                    state => state.to_string(),
                },
                if node.on { "on" } else { "off" }.into(),
            ]);
        }
        out.paragraph(nodes);
        let mut rows = Table::new("compared with|>time|>energy|>saved");
        for other in &self.alternatives {
            let (Seconds(seconds), Joules(joules)) = (other.seconds, other.joules);
            rows.row([
                other.name.clone(),
                Seconds(seconds).to_string(),
                Joules(joules).to_string(),
                format!("{:.1} %", 100.0 * (1.0 - self.joules.0 / joules)),
            ]);
        }
        out.table(rows);
        out
    }
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
    plan_cluster_by(step, machine, options, &Clock::default())
}

/// The same by a clock.
pub(super) fn plan_cluster_by(
    step: &Step,
    machine: &MachineModel,
    options: &PlanOptions,
    clock: &Clock,
) -> Result<ClusterPlan, TuneError> {
    let begin = &clock.watch();
    all_alike(step)?;
    let (goal, limit) = (&options.goal, options.time_limit);
    let until = |part: f64| move || options.go_on(begin, limit.mul_f64(part));
    let mut alone = Vec::new();
    let kinds = kinds(&machine.machine);
    for (i, &(node, _)) in kinds.iter().enumerate() {
        let model = machine.of(only(&machine.machine, &[node]));
        if model.machine.units.is_empty() {
            continue;
        }
        let part = 0.25 * (i + 1) as f64 / kinds.len() as f64;
        let choices = Choices::of(step, &model, options, &mut until(part))?;
        alone.push(Alone {
            node,
            model,
            choices,
        });
    }
    let best_of = |a: &Alone| {
        a.choices
            .best(|_| true)
            .map_or(f64::INFINITY, |c| c.takes.cost(goal))
    };
    alone.sort_by(|a, b| best_of(a).total_cmp(&best_of(b)));
    let Some(first) = alone.first() else {
        let text = "no node has units: there is nothing to plan for";
        return Err(TuneError::Machine(text.into()));
    };
    if let Some(best) = first.choices.best(|_| true) {
        options
            .progress
            .found(goal.cost(best.takes.seconds.0, best.takes.joules.0));
    }
    let mut layouts = Layouts::new(step, machine, grains_of(step, options))?;
    layouts.search(goal, &orders(machine, &alone), &until(0.45), &until(0.6));
    let shared = layouts.best(goal);
    let cost_shared = shared.map_or(f64::INFINITY, |l| l.1.cost(goal));
    let baselines = Baselines {
        machine,
        goal,
        alone: &alone,
        layouts: &layouts,
    };
    let baselines = baselines.all();
    let single = cheapest_of(&baselines, goal).filter(|_| !options.fixed);
    let mut points: Vec<(f64, f64)> = layouts
        .tried
        .iter()
        .map(|l| (l.1.seconds.0, l.1.joules.0))
        .collect();
    let simple = alone.iter().flat_map(|a| &a.choices.all);
    points.extend(simple.map(|c| (c.takes.seconds.0, c.takes.joules.0)));
    // The best of them before planning need not be the best after it.
    let (mut planned, mut refused, mut cost) = (None, None, cost_shared);
    let worth = |a: &Alone, cost: f64| best_of(a) <= WORTH_PLANNING * cost || cost.is_infinite();
    let costs: Vec<f64> = alone.iter().map(best_of).collect();
    alone.truncate(PLANNED);
    for (i, one) in alone.into_iter().enumerate() {
        if !worth(&one, cost) {
            break;
        }
        // Others get time where they are as near.
        let more = (costs.get(i + 1)).is_some_and(|c| i + 1 < PLANNED && *c <= NEAR * costs[0]);
        let part = if more { 0.6 } else { 0.85 };
        let left = limit.saturating_sub(begin.elapsed()).mul_f64(part);
        let inner = PlanOptions {
            time_limit: left.max(Duration::from_millis(1)),
            ..options.clone()
        };
        match plan_by(step, &one.model, &inner, Some(one.choices), clock) {
            Ok(found) => {
                let (seconds, joules) = found.plan.file.per_step();
                let takes = PerStep {
                    seconds: Seconds(seconds),
                    joules: Joules(joules),
                };
                if takes.cost(goal) <= cost || planned.is_none() && shared.is_none() {
                    cost = takes.cost(goal);
                    planned = Some((one.node, takes, found));
                }
            }
            Err(error) => refused = refused.or(Some(error)),
        }
        if !more {
            break;
        }
    }
    if let (Some(error), None, None, None) = (refused, &planned, &shared, &single) {
        // Nothing else is there to offer.
        return Err(error);
    }
    let mut found = planned.map(|(node, takes, planned)| of_one(machine, node, takes, planned));
    if found.is_none()
        && let Some((layout, takes)) = shared
    {
        found = Some(of_shares(step, machine, layout, takes, &layouts)?);
    }
    let takes = |f: &ClusterPlan| PerStep {
        seconds: f.seconds,
        joules: f.joules,
    };
    let cost = found
        .as_ref()
        .map_or(f64::INFINITY, |f| takes(f).cost(goal));
    let alternatives = || baselines.iter().map(|b| b.alternative.clone()).collect();
    // A simple choice that is cheaper than what the search found, on whichever node, is the plan.
    if let Some((single, takes)) = single.filter(|s| s.1.cost(goal) < cost) {
        let model = machine.of(only(&machine.machine, &[single.node]));
        let choice = (&single.grain, &single.rival);
        let planned = plan_of_choice(
            step,
            &model,
            options,
            choice,
            alternatives(),
            &mut until(1.0),
        );
        found = Some(of_one(machine, single.node, takes, planned?));
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
    found.alternatives = alternatives();
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
        policy: file.decides().into(),
        cluster: NODES_VERSION,
        step: file.target.step.clone(),
        stages: None,
        pipeline: None,
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
) -> Result<ClusterPlan, TuneError> {
    let planned = step.clone().grain(layouts.grain(layout).clone());
    let planned = match &layout.stages {
        Some((pipeline, parts)) => pipeline.adopt(planned, Some(*parts))?,
        None => planned,
    };
    let planned = serde_json::to_value(planned);
    let planned =
        planned.map_err(|e| TuneError::Plan(format!("the step cannot be written: {e}")))?;
    let on = layout.nodes.iter().zip(&layout.shares).zip(&layout.states);
    let on: Vec<_> = on.map(|((&n, &share), &state)| (n, share, state)).collect();
    Ok(ClusterPlan {
        cluster: NODES_VERSION,
        step: planned,
        title: format!("{}, batch {}, {}", step.model.name, step.batch, step.dtype),
        machine: machine.machine.name.clone(),
        nodes: shares_of(machine, &on),
        policy: match &layout.stages {
            Some((pipeline, _)) => format!("pipeline {pipeline}"),
            None => layout.policy.into(),
        },
        stages: layout.stages.as_ref().map(|(p, parts)| p.options(*parts)),
        pipeline: layout.stages.as_ref().map(|(p, _)| p.clone()),
        grain: layouts.grain(layout).to_string(),
        seconds: takes.seconds,
        joules: takes.joules,
        lower_bound: 0.0,
        gap: 0.0,
        alternatives: Vec::new(),
        frontier: Vec::new(),
        alone: None,
        stopped: false,
    })
}

/// What a plan for a cluster is compared with.
/// What somebody without a planner would try.
struct Baseline {
    alternative: Alternative,
    /// What it is, where it is a choice of one node.
    single: Option<Single>,
}

/// A simple choice of a node alone.
struct Single {
    node: NodeId,
    grain: Grain,
    rival: Rival,
}

/// The choice of one node that costs least, if any is in time, and what it takes.
fn cheapest_of<'a>(baselines: &'a [Baseline], goal: &Goal) -> Option<(&'a Single, PerStep)> {
    let singles = baselines.iter().filter_map(|b| b.single.as_ref());
    let known = singles.filter_map(|s| Some((s, PerStep::of(s.rival.expected.as_ref()?))));
    let best = known.min_by(|a, b| a.1.cost(goal).total_cmp(&b.1.cost(goal)));
    best.filter(|b| b.1.cost(goal).is_finite())
}

struct Baselines<'a> {
    machine: &'a MachineModel,
    goal: &'a Goal,
    alone: &'a [Alone],
    layouts: &'a Layouts<'a>,
}

impl Baselines<'_> {
    /// The best simple choice; the fastest node alone, the best single unit, shares by speed and even shares, each at
    /// its best frequency state.
    fn all(&self) -> Vec<Baseline> {
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
            best.map(|(l, takes)| of_nodes(format!("{} under {}", of_layout(l), l.policy), takes))
        };
        let any = self.layouts.best_of(goal, |l| {
            l.kind != super::layout::Kind::Searched && l.stages.is_none()
        });
        let any = any.map(|(l, takes)| of_nodes(self.layouts.name(l), takes));
        let simple = [cheapest(&|_, _| true), any];
        let simple = simple.into_iter().flatten();
        let simple = simple.min_by(|a, b| a.cost(goal).total_cmp(&b.cost(goal)));
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
                best.map(|(l, takes)| of_nodes(self.layouts.name(l), takes))
            }),
        ];
        let rows = rows.into_iter().filter_map(|(what, found)| {
            let mut found = found?;
            let own = &mut found.alternative.name;
            *own = format!("{what}: {own}");
            Some(found)
        });
        rows.collect()
    }

    fn of_choice(&self, alone: &Alone, choice: &Choice) -> Baseline {
        let candidates = &alone.choices.candidates;
        let node = &self.machine.machine.nodes[usize::from(alone.node.0)].name;
        let name = format!("{node}, {}", choice.name(candidates));
        let rival = alone.choices.rival(name, choice, &alone.model);
        Baseline {
            alternative: rival.alternative.clone(),
            single: Some(Single {
                node: alone.node,
                grain: candidates[choice.candidate].step.grain.clone(),
                rival,
            }),
        }
    }
}

/// Shares or stages.
fn of_nodes(name: String, takes: PerStep) -> Baseline {
    Baseline {
        alternative: Alternative {
            name,
            seconds: takes.seconds,
            joules: takes.joules,
        },
        single: None,
    }
}

impl Baseline {
    fn cost(&self, goal: &Goal) -> f64 {
        let (seconds, joules) = (self.alternative.seconds, self.alternative.joules);
        PerStep { seconds, joules }.cost(goal)
    }
}
