//! Plans as text: `plan.json`, versioned, with everything needed to follow and to explain one.
//!
//! Reading checks that the plan is one (every task once, on a unit it names; transfers between memories it
//! names); whether it fits a graph and a machine is [`PlanFile::refusal`]'s question. Files are read and
//! written by others.

use std::hash::Hasher;

use dahl_core::hash::StableHasher;
use dahl_core::{Bytes, Graph, Joules, Machine, Seconds};
use serde::{Deserialize, Serialize};

use super::carried::{self, Transfer};
use super::expect::Expected;
use super::lowered::Lowered;
use super::problem::{Goal, Objective};
use super::solve::Solution;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 3;

/// What a plan is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct For {
    /// The model's name.
    pub model: String,
    /// Samples of a step.
    pub batch: usize,
    /// Element type.
    pub dtype: String,
    /// How layers are cut, as `--grain` takes it.
    pub grain: String,
    /// How weights are updated, as `--optimizer` takes it.
    pub optimizer: String,
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

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
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
pub struct Unit {
    /// The machine's name for it.
    pub name: String,
    /// Its tasks, in order.
    pub order: Vec<u32>,
    /// Time it works, by the plan's equations.
    pub busy: Seconds,
}

/// Joules by part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parts {
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
pub struct Peak {
    /// Which memory.
    pub memory: String,
    /// Most bytes of arrays in it.
    pub bytes: Bytes,
    /// What it holds.
    pub capacity: Option<Bytes>,
}

/// Another way to run the step, and what it would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
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
    /// [`VERSION`].
    pub version: u32,
    /// What it is for.
    #[serde(rename = "for")]
    pub made_for: For,
    /// Time of a step by the plan's equations, which bound and gap are about.
    pub seconds: Seconds,
    /// Joules of a step by the same equations.
    pub joules: Parts,
    /// What a run that follows the plan is expected to take; none where it cannot be simulated.
    pub expected: Option<Expected>,
    /// Predicted peak of each memory.
    pub peaks: Vec<Peak>,
    /// No plan for this graph costs less, in the unit of the objective.
    pub lower_bound: f64,
    /// Why none does.
    pub reason: String,
    /// What part of the cost may be saved at most.
    pub gap: f64,
    /// What else was considered.
    pub others: Vec<Other>,
    /// Units with their tasks.
    pub units: Vec<Unit>,
    /// Tasks, in the order of the graph.
    pub tasks: Vec<Task>,
    /// Transfers, by their start.
    pub transfers: Vec<Transfer>,
}

/// Why a text is no plan.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not JSON, or not of a plan's form.
    #[error("not a plan")]
    Form(#[from] serde_json::Error),
    /// Another version.
    #[error("plan of version {0}; this program reads version {VERSION}: make the plan again")]
    Version(u32),
    /// Tasks and units contradict each other.
    #[error("task {task}: {problem}")]
    Task {
        /// Which task.
        task: usize,
        /// What is wrong with it.
        problem: &'static str,
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
        made_for: For,
        graph: &Graph,
        machine: &Machine,
        lowered: &Lowered,
        solution: &Solution,
        others: Vec<Other>,
    ) -> Self {
        let (p, s) = (&lowered.problem, &solution.schedule);
        let unit = |r: &super::schedule::Run| {
            usize::from(lowered.units[usize::from(r.group)][usize::from(r.unit)].0)
        };
        let mut units: Vec<Unit> = machine
            .units
            .iter()
            .map(|u| Unit {
                name: u.name.clone(),
                order: Vec::new(),
                busy: Seconds(0.0),
            })
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
        let task = |(t, r): (usize, &super::schedule::Run)| Task {
            unit: unit(r),
            state: r.state,
            start: Seconds(r.start),
            end: Seconds(r.end),
            codelet: graph.codelet_of(t as u32).name.clone(),
            implementation: graph
                .implementation(t as u32, machine.units[unit(r)].kind)
                .map(|i| i.name.to_string()),
            section: graph.sections[graph.tasks[t].section as usize].clone(),
        };
        // An empty sum is -0.
        let sum = |v: &[f64]| Joules(v.iter().sum::<f64>() + 0.0);
        PlanFile {
            version: VERSION,
            made_for,
            seconds: Seconds(s.seconds),
            joules: Parts {
                base: Joules(s.energy.base),
                busy: sum(&s.energy.busy),
                idle: sum(&s.energy.idle),
                transfers: sum(&s.energy.links),
                total: Joules(s.energy.total()),
            },
            expected: None,
            peaks: p
                .memories
                .iter()
                .zip(&s.peak)
                .map(|(m, &bytes)| Peak {
                    memory: m.name.clone(),
                    bytes: Bytes(bytes),
                    capacity: m.capacity.map(Bytes),
                })
                .collect(),
            lower_bound: solution.lower_bound,
            reason: solution.reason.clone(),
            gap: solution.gap,
            others,
            units,
            tasks: s.runs.iter().enumerate().map(task).collect(),
            transfers: carried::named(graph, lowered, s),
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

    /// For each unit, its tasks in order: what [`Fixed`](dahl_sim::Fixed) follows.
    pub fn orders(&self) -> Vec<Vec<u32>> {
        self.units.iter().map(|u| u.order.clone()).collect()
    }

    /// The frequency state of every task.
    pub fn states(&self) -> Vec<u8> {
        self.tasks.iter().map(|t| t.state).collect()
    }

    /// Why the plan is not for this graph on this machine; `None` if it is.
    pub fn refusal(&self, graph: &Graph, machine: &Machine) -> Option<String> {
        let f = &self.made_for;
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
                "the plan is for {} tasks ({}, batch {}, {}, grain {}); the graph has {}",
                self.tasks.len(),
                f.model,
                f.batch,
                f.dtype,
                f.grain,
                graph.len()
            ));
        }
        let fingerprint = format!("{:016x}", graph.fingerprint());
        if fingerprint != f.graph_fingerprint {
            return Some(format!(
                "the plan is for graph {} ({}, batch {}, {}, grain {}); this graph is {fingerprint}",
                f.graph_fingerprint, f.model, f.batch, f.dtype, f.grain
            ));
        }
        self.carried(graph).err().map(|wrong| wrong.to_string())
    }

    /// What it costs, in the unit of the objective.
    pub fn cost(&self) -> f64 {
        let goal = Goal {
            objective: self.made_for.objective,
            deadline: None,
        };
        goal.cost(self.seconds.0, self.joules.total.0)
    }
}
