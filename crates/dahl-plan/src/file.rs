//! Plans as text: `plan.json`, versioned, with everything needed to follow and to explain one.
//!
//! Reading checks that the plan is one (every task once, on a unit it names; transfers between memories it
//! names); whether it fits a graph and a machine is [`PlanFile::refusal`]'s question. Files are read and
//! written by alternatives.

use std::hash::Hasher;

use dahl_core::hash::StableHasher;
use dahl_core::{Bytes, Graph, Joules, Machine, Seconds, Unit};
use dahl_sched::policy::check_orders;
use serde::{Deserialize, Serialize};

use super::expected::Expected;
use super::graph_problem::GraphProblem;
use super::policy::PlanPolicy;
use super::problem::{Goal, Objective};
use super::solve::Plan;
use super::steady::SteadyBound;
use super::transfers::{self, TransferEntry};

/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 6;

/// Times, joules and costs of one step are below this.
const MOST: f64 = 1e18;

/// What a plan is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanTarget {
    /// The step in a few words, for people: `lenet5, batch 32, f32`.
    pub title: String,
    /// What was lowered to the graph. The lowering writes and reads this; the planner does not look at it.
    pub step: serde_json::Value,
    /// The machine's name.
    pub machine: String,
    /// Fingerprint of the machine's description, in hexadecimal.
    pub machine_fingerprint: String,
    /// Fingerprint of the graph, in hexadecimal.
    pub graph_fingerprint: String,
    /// What was minimised.
    pub objective: Objective,
    /// Latest end allowed.
    pub deadline: Option<Seconds>,
}

impl PlanTarget {
    /// A step, whose graph this is, on a machine.
    pub fn new(
        title: impl Into<String>,
        step: serde_json::Value,
        graph: &Graph,
        machine: &Machine,
        goal: &Goal,
    ) -> Self {
        PlanTarget {
            title: title.into(),
            step,
            machine: machine.name.clone(),
            machine_fingerprint: fingerprint(machine),
            graph_fingerprint: format!("{:016x}", graph.fingerprint()),
            objective: goal.objective,
            deadline: goal.deadline.map(Seconds),
        }
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEntry {
    /// Index into [`PlanFile::units`].
    pub unit: usize,
    /// Frequency state; 0 is the usual one.
    pub state: u8,
    /// Start, by the plan's equations.
    pub start: Seconds,
    /// End, by the same.
    pub end: Seconds,
    /// What it computes.
    pub codelet: String,
    /// How: the implementation that the graph has for the unit; none where the unit was only assumed to
    /// have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// The layer it belongs to.
    pub section: String,
}

/// One unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitEntry {
    /// The machine's name for it.
    pub name: String,
    /// Its tasks, in order.
    pub order: Vec<u32>,
    /// Time it works, by the plan's equations.
    pub busy: Seconds,
    /// The clock of the frequency state that all of its tasks are in, where it is not the usual one and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hertz: Option<f64>,
    /// The first unit of the machine that is like it in all but its name; none where data is in several memories, or
    /// where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<u16>,
}

impl UnitEntry {
    /// What a machine says of a unit, without tasks.
    pub(crate) fn new(machine: &Machine, unit: &Unit) -> UnitEntry {
        let alike = |other: &Unit| {
            let name = unit.name.clone();
            *unit
                == Unit {
                    name,
                    ..other.clone()
                }
        };
        let first = machine.units.iter().position(alike);
        UnitEntry {
            name: unit.name.clone(),
            order: Vec::new(),
            busy: Seconds(0.0),
            hertz: None,
            like: first
                .filter(|_| machine.memories.len() == 1)
                .map(|u| u as u16),
        }
    }
}

/// Joules by part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyParts {
    /// The machine besides its units.
    pub base: Joules,
    /// Units while they work.
    pub busy: Joules,
    /// Units while they wait.
    pub idle: Joules,
    /// Transfers.
    pub transfers: Joules,
    /// All of it.
    pub total: Joules,
}

/// A memory's predicted peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryPeak {
    /// Which memory.
    pub memory: String,
    /// Most bytes of arrays in it.
    pub bytes: Bytes,
    /// What it holds.
    pub capacity: Option<Bytes>,
}

/// Another way to run the step, and what it would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// What it is.
    pub name: String,
    /// Its time.
    pub seconds: Seconds,
    /// Its energy.
    pub joules: Joules,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    /// `VERSION`.
    pub version: u32,
    /// What it is for.
    pub target: PlanTarget,
    /// Who decides order and unit at run time; none where tasks have theirs. Units' orders and tasks' times are then those
    /// of one simulated step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlanPolicy>,
    /// Time of a step alone, by the plan's equations.
    pub seconds: Seconds,
    /// Joules of a step alone, by the same equations.
    pub joules: EnergyParts,
    /// What a run that follows the plan is expected to take; none where it cannot be simulated.
    pub expected: Option<Expected>,
    /// Predicted peak of each memory.
    pub peaks: Vec<MemoryPeak>,
    /// No plan for this graph costs less per step, in the unit of the objective: in a run of many steps, if `expected`
    /// says what that takes; else of a step alone.
    pub lower_bound: f64,
    /// Why none does.
    pub reason: String,
    /// What part of the cost may be saved at most.
    pub gap: f64,
    /// What else was considered.
    pub alternatives: Vec<Alternative>,
    /// Units with their tasks.
    pub units: Vec<UnitEntry>,
    /// Tasks, in the order of the graph.
    pub tasks: Vec<TaskEntry>,
    /// Transfers, by their start.
    pub transfers: Vec<TransferEntry>,
}

/// Why a text is no plan.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not JSON, or not of a plan's form.
    #[error("not a plan")]
    Form(#[from] serde_json::Error),
    /// Another version.
    #[error("plan of version {0}; this program reads version {VERSION}: plan again")]
    Version(u32),
    /// Tasks and units contradict each other.
    #[error("task {task}: {problem}")]
    Task {
        /// Which task.
        task: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The policy cannot decide.
    #[error("policy.{0}")]
    Policy(String),
    /// A figure that no plan can have.
    #[error("{key} is {value:e}: it must be a number from 0 to {MOST:e}")]
    Figure {
        /// Which.
        key: &'static str,
        /// What it is.
        value: f64,
    },
    /// A transfer leaves or reaches what is no memory of the plan.
    #[error("transfer {transfer}: there is no memory {memory:?} in the plan")]
    Memory {
        /// Which transfer.
        transfer: usize,
        /// The name it gives.
        memory: String,
    },
}

/// A fingerprint of a machine's description.
pub fn fingerprint(machine: &Machine) -> String {
    let mut h = StableHasher::default();
    h.write(machine.to_toml().as_bytes());
    format!("{:016x}", h.finish())
}

impl PlanFile {
    /// The plan of a solution, of which nothing is expected yet.
    pub fn new(
        target: PlanTarget,
        graph: &Graph,
        machine: &Machine,
        graph_problem: &GraphProblem,
        solution: &Plan,
        alternatives: Vec<Alternative>,
    ) -> Self {
        let (p, s) = (&graph_problem.problem, &solution.schedule);
        let unit = |r: &super::schedule::ScheduledTask| {
            usize::from(graph_problem.units[usize::from(r.group)][usize::from(r.unit)].0)
        };
        let mut units: Vec<UnitEntry> = machine
            .units
            .iter()
            .map(|u| UnitEntry::new(machine, u))
            .collect();
        let mut by_start: Vec<u32> = (0..s.runs.len() as u32).collect();
        by_start.sort_by(|&a, &b| {
            let (x, y) = (&s.runs[a as usize], &s.runs[b as usize]);
            x.start
                .total_cmp(&y.start)
                .then(x.end.total_cmp(&y.end))
                .then(a.cmp(&b))
        });
        for &t in &by_start {
            let run = &s.runs[t as usize];
            let unit = &mut units[unit(run)];
            unit.order.push(t);
            unit.busy += Seconds(run.end - run.start);
        }
        for (entry, unit) in units.iter_mut().zip(&machine.units) {
            let state = entry.order.first().map(|&t| s.runs[t as usize].state);
            let state = state.and_then(|s| usize::from(s).checked_sub(1));
            entry.hertz = state.and_then(|s| unit.states.get(s)?.hertz);
        }
        let task = |(t, r): (usize, &super::schedule::ScheduledTask)| TaskEntry {
            unit: unit(r),
            state: r.state,
            start: Seconds(r.start),
            end: Seconds(r.end),
            codelet: graph.codelet_of(t as u32).name.clone(),
            implementation: machine
                .kernels
                .name_of(graph, graph.tasks[t].class, machine.units[unit(r)].kind)
                .map(String::from),
            section: graph.sections[graph.tasks[t].section as usize].clone(),
        };
        // An empty sum is -0.
        let sum = |v: &[f64]| Joules(v.iter().sum::<f64>() + 0.0);
        PlanFile {
            version: VERSION,
            target,
            seconds: Seconds(s.seconds),
            joules: EnergyParts {
                base: Joules(s.energy.base),
                busy: sum(&s.energy.busy),
                idle: sum(&s.energy.idle),
                transfers: sum(&s.energy.links),
                total: Joules(s.energy.total()),
            },
            policy: None,
            expected: None,
            peaks: p
                .memories
                .iter()
                .zip(&s.peak)
                .map(|(m, &bytes)| MemoryPeak {
                    memory: m.name.clone(),
                    bytes: Bytes(bytes),
                    capacity: m.capacity.map(Bytes),
                })
                .collect(),
            lower_bound: solution.lower_bound,
            reason: solution.reason.clone(),
            gap: solution.gap,
            alternatives,
            units,
            tasks: s.runs.iter().enumerate().map(task).collect(),
            transfers: transfers::named(graph, graph_problem, s),
        }
    }

    /// Reads the text of a plan.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(FileError::Version(version));
        }
        let plan: PlanFile = serde_json::from_str(text)?;
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), FileError> {
        let wrong = |task, problem| Err(FileError::Task { task, problem });
        for (t, task) in self.tasks.iter().enumerate() {
            if !(task.start.0 >= 0.0 && task.end >= task.start && task.end.0 < MOST) {
                return wrong(t, "does not begin at 0 or later and end after that");
            }
        }
        let figures = [
            ("seconds", self.seconds.0),
            ("joules.base", self.joules.base.0),
            ("joules.busy", self.joules.busy.0),
            ("joules.idle", self.joules.idle.0),
            ("joules.transfers", self.joules.transfers.0),
            ("joules.total", self.joules.total.0),
            ("lower_bound", self.lower_bound),
            ("gap", self.gap),
        ];
        let expected = self.expected.iter().flat_map(|e| {
            let works = e.works.iter().map(|s| ("expected.works", s.0));
            let all = [
                ("expected.seconds", e.seconds.0),
                ("expected.alone", e.alone.0),
                ("expected.joules", e.joules.0),
            ];
            all.into_iter().chain(works)
        });
        let others = (self.alternatives.iter())
            .flat_map(|a| [("alternatives", a.seconds.0), ("alternatives", a.joules.0)])
            .chain(self.units.iter().map(|u| ("units.busy", u.busy.0)));
        let mut figures = figures.into_iter().chain(expected).chain(others);
        if let Some((key, value)) = figures.find(|(_, v)| !(0.0..MOST).contains(v)) {
            return Err(FileError::Figure { key, value });
        }
        let mut seen = vec![false; self.tasks.len()];
        for (u, unit) in self.units.iter().enumerate() {
            for &t in &unit.order {
                let t = t as usize;
                match self.tasks.get(t) {
                    None => return wrong(t, "is in a unit's order, but there is no such task"),
                    Some(task) if task.unit != u => {
                        return wrong(t, "is in the order of another unit than its own");
                    }
                    Some(_) if std::mem::replace(&mut seen[t], true) => {
                        return wrong(t, "is twice in the order of its unit");
                    }
                    Some(_) => {}
                }
            }
        }
        if let Some(t) = seen.iter().position(|s| !s) {
            return wrong(t, "is in no unit's order");
        }
        if let Some(policy) = &self.policy {
            policy.check(&self.units)?;
            for (u, unit) in self.units.iter().enumerate() {
                let states = self.states_of(u);
                let other = |t: &&u32| !states.contains(&self.tasks[**t as usize].state);
                if let Some(&t) = unit.order.iter().find(other) {
                    let text =
                        "is not on a unit of the plan's policy, in the state that it has there";
                    return wrong(t as usize, text);
                }
            }
            if !self.transfers.is_empty() {
                let text =
                    "transfers: a policy brings the data itself: leave them out, or the policy";
                return Err(FileError::Policy(text.into()));
            }
        }
        for (i, transfer) in self.transfers.iter().enumerate() {
            let mut ends = [&transfer.from, &transfer.to].into_iter();
            if let Some(name) = ends.find(|name| self.memory(name).is_none()) {
                return Err(FileError::Memory {
                    transfer: i,
                    memory: name.clone(),
                });
            }
        }
        Ok(())
    }

    /// The number of a memory.
    pub(super) fn memory(&self, name: &str) -> Option<u16> {
        let place = self.peaks.iter().position(|p| p.memory == name);
        place.and_then(|m| u16::try_from(m).ok())
    }

    /// The text of the plan.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// For each unit, its tasks in order: what [`Fixed`](dahl_sched::policy::Fixed) follows.
    pub fn orders(&self) -> Vec<Vec<u32>> {
        self.units.iter().map(|u| u.order.clone()).collect()
    }

    /// For each unit a class: those of one are alike and in the same frequency state, so any of them runs a task at the
    /// plan's price. Where data moves, each has its own.
    pub fn classes(&self) -> Vec<u16> {
        let like = |u: usize| self.units[u].like;
        let same = |u: usize, v: usize| {
            like(u).is_some() && like(u) == like(v) && self.states_of(u) == self.states_of(v)
        };
        let own = |u: usize| {
            let first = (0..self.units.len()).find(|&v| same(u, v));
            first.filter(|_| self.transfers.is_empty()).unwrap_or(u) as u16
        };
        (0..self.units.len()).map(own).collect()
    }

    /// The frequency state of every task.
    pub fn states(&self) -> Vec<u8> {
        self.tasks.iter().map(|t| t.state).collect()
    }

    /// Why the plan is not for this graph on this machine; `None` if it is.
    pub fn refusal(&self, graph: &Graph, machine: &Machine) -> Option<String> {
        let f = &self.target;
        let names = |units: Vec<&str>| units.join(" ");
        let here = names(machine.units.iter().map(|u| u.name.as_str()).collect());
        let there = names(self.units.iter().map(|u| u.name.as_str()).collect());
        if here != there {
            return Some(format!(
                "the plan is for units {there}; the machine has {here}"
            ));
        }
        if graph.len() != self.tasks.len() {
            return Some(format!(
                "the plan is for {} tasks ({}); the graph has {}",
                self.tasks.len(),
                f.title,
                graph.len()
            ));
        }
        let fingerprint = format!("{:016x}", graph.fingerprint());
        if fingerprint != f.graph_fingerprint {
            return Some(format!(
                "the plan is for graph {} ({}); this graph is {fingerprint}",
                f.graph_fingerprint, f.title
            ));
        }
        for (t, task) in self.tasks.iter().enumerate() {
            let kind = machine.units[task.unit].kind;
            let (planned, class) = (task.implementation.as_deref(), graph.tasks[t].class);
            let has = machine.kernels.name_of(graph, class, kind);
            if let (Some(planned), Some(has)) = (planned, has)
                && planned != has
            {
                let task = graph.describe(t as u32);
                return Some(format!(
                    "{task}: the plan has the implementation {planned:?}, the graph {has:?}"
                ));
            }
        }
        let orders = check_orders(graph, &self.orders()).err();
        let transfers = || self.checked_transfers(graph, machine).err();
        orders
            .map(|wrong| wrong.to_string())
            .or_else(|| Some(transfers()?.to_string()))
    }

    /// Seconds and joules of a step: in a run, if that is known, else alone.
    pub fn per_step(&self) -> (f64, f64) {
        match &self.expected {
            Some(e) => (e.seconds.0, e.joules.0),
            None => (self.seconds.0, self.joules.total.0),
        }
    }

    /// What a step costs, in the unit of the objective.
    pub fn cost(&self) -> f64 {
        let goal = Goal {
            objective: self.target.objective,
            deadline: None,
        };
        let (seconds, joules) = self.per_step();
        goal.cost(seconds, joules)
    }

    /// Takes a bound of a step of a run for its own.
    pub fn bounded(&mut self, bound: SteadyBound) {
        let cost = self.cost();
        self.lower_bound = bound.cost.clamp(0.0, cost.max(0.0));
        self.gap = if cost > 0.0 {
            (cost - self.lower_bound) / cost
        } else {
            0.0
        };
        self.reason = bound.reason;
    }
}
