//! What is planned, as plain numbers: tasks, data, units, memories, links, and what a plan costs.
//!
//! Nothing here knows what a task computes or where a figure came from, and nothing here decides.
//!
//! # Meaning
//!
//! A plan gives every task `i` a group of identical units `g(i)`, a frequency state `s(i)` and a start;
//! tasks take `p(i) = seconds[class(i)][g][s]` and are not interrupted. A unit runs one task at a time. Where changing
//! the state is not free (`one_state`), all tasks of a unit have the same.
//!
//! *Data.* A datum has one origin: the task that writes it, a memory it is in beforehand, or the memory
//! where an earlier step left the datum that succeeds it. A task reads a datum in its own memory `m`. If
//! the origin's memory `o` is another, the datum is moved along the route from `o` to `m`, which has the
//! fewest links (the first of them in the machine's order); each hop is one *transfer*, made once, which
//! leaves a copy for tasks that read there:
//!
//! ```text
//! time(transfer)   = latency + bytes / bandwidth        a link carries `channels` of them at once,
//! joules(transfer) = bytes × joules per byte            each at this speed; the others queue
//! ```
//!
//! What links share (a port, a switch: [`dahl_core::machine::network`]) carries `at_once` transfers over all of its
//! links together: a disjunctive resource if that is 1, a cumulative one else. A transfer occupies its link and all
//! that the link shares for its whole time.
//!
//! *Order.* `start(j) ≥ end(i)` for edges `i → j`; a reader starts after its copy has arrived, a transfer
//! after its source exists. A datum that replaces another waits for all other readers of the old one.
//!
//! *Memory.* A copy occupies its bytes from the start of the task or transfer that makes it (or from 0)
//! to the end of the last task or transfer that uses it there; a `kept` datum stays at its origin to the
//! end of the step. Where a datum replaces another, the old copy in the writer's memory ends as the new
//! one begins. A copy is never dropped and fetched again. At all times, in each memory, occupied ≤ capacity.
//!
//! *Cost.* With `T` the latest end of any task or transfer,
//!
//! ```text
//! E = base × T + Σ_units ( busy(state) × busy time + idle × (T − busy time) ) + Σ_transfers joules
//!   = A × T + Σ_i (busy(g,s) − idle(g)) × p(i) + Σ_transfers joules,   A = base + Σ_units idle
//! ```
//!
//! A unit without tasks costs its idle watts: it stays unused where running on it costs more than the
//! time it saves. The goal is the least `E`, `T` or `E × T`, with `T ≤ deadline`.
//!
//! Given units and states, all three grow with `T` alone, so a best plan is found among those in which
//! everything starts when something else ends, or at 0: between two ends nothing becomes free.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Tasks with equal durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// For people.
    pub name: String,
    /// For each group the seconds in each of its states; empty where the group cannot run it.
    pub seconds: Vec<Vec<f64>>,
}

/// Identical units.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// For people.
    pub name: String,
    /// How many there are.
    pub units: usize,
    /// Where their operands must be: an index into [`Problem::memories`].
    pub memory: usize,
    /// Watts of a unit that waits.
    pub idle_watts: f64,
    /// Watts of a unit that works, in each state.
    pub busy_watts: Vec<f64>,
}

/// What copies lie in.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// For people.
    pub name: String,
    /// Bytes it holds; `None` if nothing limits it.
    pub capacity: Option<u64>,
}

/// What several links share: a port's way out or in, or a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// For people.
    pub name: String,
    /// Transfers at once, over all links through it.
    pub at_once: usize,
}

/// A link from one memory to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Index of the memory data leaves.
    pub from: usize,
    /// Index of the memory it reaches.
    pub to: usize,
    /// Bytes per second of one transfer.
    pub bandwidth: f64,
    /// Seconds before the first byte.
    pub latency: f64,
    /// Energy of moving one byte.
    pub joules_per_byte: f64,
    /// Transfers at once.
    pub channels: usize,
    /// What it goes through: indices into [`Problem::shared`].
    pub shared: Vec<usize>,
}

impl Link {
    /// Seconds that one transfer takes.
    pub(crate) fn seconds(&self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.bandwidth
    }
}

/// Where a datum comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A task writes it.
    Task(u32),
    /// It is in this memory beforehand.
    Memory(usize),
    /// It is where the step before left this other datum, which a task of each step writes.
    LeftBy(u32),
}

/// Bytes that one task writes, or that exist beforehand, and that tasks read.
#[derive(Clone, Debug, PartialEq)]
pub struct Datum {
    /// How many.
    pub bytes: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// Tasks that read it.
    pub readers: Vec<u32>,
    /// The datum whose place it takes; its writer reads that one, and both have equal bytes.
    pub replaces: Option<u32>,
    /// Whether it stays at its origin to the end.
    pub kept: bool,
}

/// What to plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// Kinds of tasks.
    pub classes: Vec<Class>,
    /// The class of each task.
    pub tasks: Vec<u32>,
    /// Who waits for whom, besides readers for writers.
    pub edges: Vec<(u32, u32)>,
    /// What tasks write and read.
    pub data: Vec<Datum>,
    /// Units.
    pub groups: Vec<Group>,
    /// Memories.
    pub memories: Vec<Memory>,
    /// Links.
    pub links: Vec<Link>,
    /// What links share.
    pub shared: Vec<Shared>,
    /// Watts of the machine besides its units.
    pub base_watts: f64,
    /// For every group, whether its units keep one state through the step; empty if none has to.
    pub one_state: Vec<bool>,
    /// Whether all units of such a group keep the same state.
    pub alike: bool,
}

/// What is minimised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Joules.
    #[default]
    Energy,
    /// Seconds.
    Time,
    /// Joules times seconds.
    Edp,
}

impl Objective {
    /// A cost with its unit.
    pub fn show(self, cost: f64) -> String {
        match self {
            Objective::Energy => dahl_core::Joules(cost).to_string(),
            Objective::Time => dahl_core::Seconds(cost).to_string(),
            Objective::Edp => format!("{cost:.3e} J·s"),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Objective::Energy => "energy",
            Objective::Time => "time",
            Objective::Edp => "edp",
        })
    }
}

/// What a plan should achieve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goal {
    /// What is minimised.
    pub objective: Objective,
    /// Latest end, in seconds.
    pub deadline: Option<f64>,
}

impl Goal {
    /// What a plan of this makespan and these joules costs.
    pub fn cost(&self, seconds: f64, joules: f64) -> f64 {
        match self.objective {
            Objective::Energy => joules,
            Objective::Time => seconds,
            Objective::Edp => joules * seconds,
        }
    }

    /// Whether a plan may take this long; rounding errors do not count.
    pub fn in_time(&self, seconds: f64) -> bool {
        self.deadline.is_none_or(|d| seconds <= d * (1.0 + 1e-9))
    }
}

/// Why a problem or a plan is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A figure or index of the problem makes no sense.
    #[error("{what}: {problem}")]
    Problem {
        /// Which part.
        what: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// Tasks wait for each other in a circle.
    #[error("task {0} waits for itself through others: break the circle of edges")]
    Cycle(u32),
    /// No plan keeps to a limit.
    #[error("no feasible plan: {0}")]
    Infeasible(String),
}

fn wrong<T>(what: impl Into<String>, problem: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Problem {
        what: what.into(),
        problem: problem.into(),
    })
}

fn figure(what: impl Fn() -> String, value: f64, least: f64) -> Result<(), PlanError> {
    if value.is_finite() && value >= least {
        return Ok(());
    }
    wrong(
        what(),
        format!("{value} is not a number of at least {least}"),
    )
}

impl Problem {
    /// Watts that are drawn whether units work or not: `A` in the equations.
    pub(crate) fn standing_watts(&self) -> f64 {
        let idle: f64 = self
            .groups
            .iter()
            .map(|g| g.units as f64 * g.idle_watts)
            .sum();
        self.base_watts + idle
    }

    /// Whether the units of a group keep one state through the step.
    pub(crate) fn keeps_state(&self, group: usize) -> bool {
        self.one_state.get(group).copied().unwrap_or(false)
    }

    /// Number of units.
    pub fn unit_count(&self) -> usize {
        self.groups.iter().map(|g| g.units).sum()
    }

    /// How many transfers each link carries at once, and after them what links share.
    pub(crate) fn resources_of_links(&self) -> impl Iterator<Item = usize> + '_ {
        let links = self.links.iter().map(|l| l.channels);
        links.chain(self.shared.iter().map(|s| s.at_once))
    }

    /// Checks every figure and index, so that nothing else has to.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        figure(|| "base watts".into(), self.base_watts, 0.0)?;
        for g in &self.groups {
            let name = |part: &str| format!("unit {:?}, {part}", g.name);
            figure(|| name("idle watts"), g.idle_watts, 0.0)?;
            if g.units == 0 || g.busy_watts.is_empty() {
                return wrong(name("count"), "needs at least one unit and one state");
            }
            if g.memory >= self.memories.len() {
                return wrong(name("memory"), format!("there is no memory {}", g.memory));
            }
            for &w in &g.busy_watts {
                figure(|| name("busy watts"), w, g.idle_watts)?;
            }
        }
        for (i, l) in self.links.iter().enumerate() {
            let name = |part: &str| format!("link {i}, {part}");
            figure(|| name("bandwidth"), l.bandwidth, f64::MIN_POSITIVE)?;
            figure(|| name("latency"), l.latency, 0.0)?;
            figure(|| name("joules per byte"), l.joules_per_byte, 0.0)?;
            if l.from.max(l.to) >= self.memories.len() || l.from == l.to || l.channels == 0 {
                return wrong(name("ends"), "needs two memories that exist, and a channel");
            }
            if let Some(s) = l.shared.iter().find(|&&s| s >= self.shared.len()) {
                return wrong(name("sharing"), format!("there is no channel {s}"));
            }
        }
        for s in &self.shared {
            if s.at_once == 0 {
                return wrong(&*s.name, "carries no transfer at once: needs 1 or more");
            }
        }
        self.check_tasks()?;
        self.check_data()
    }

    fn check_tasks(&self) -> Result<(), PlanError> {
        for c in &self.classes {
            let what = || format!("class {:?}", c.name);
            if c.seconds.len() != self.groups.len() {
                return wrong(what(), "needs one list of seconds per group of units");
            }
            for (times, g) in c.seconds.iter().zip(&self.groups) {
                if !times.is_empty() && times.len() != g.busy_watts.len() {
                    return wrong(
                        what(),
                        format!("needs a time per state of {:?}, or none", g.name),
                    );
                }
                times.iter().try_for_each(|&t| figure(what, t, 0.0))?;
            }
            if c.seconds.iter().all(Vec::is_empty) {
                return Err(PlanError::Infeasible(format!(
                    "no unit of the machine can run {:?}",
                    c.name
                )));
            }
        }
        for (i, &c) in self.tasks.iter().enumerate() {
            if c as usize >= self.classes.len() {
                return wrong(format!("task {i}"), format!("there is no class {c}"));
            }
        }
        for &(a, b) in &self.edges {
            if a.max(b) as usize >= self.tasks.len() {
                return wrong(format!("edge {a} → {b}"), "there is no such task");
            }
        }
        Ok(())
    }

    fn check_data(&self) -> Result<(), PlanError> {
        let tasks = self.tasks.len() as u32;
        let mut replaced = vec![false; self.data.len()];
        for (i, d) in self.data.iter().enumerate() {
            let what = || format!("datum {i}");
            if d.readers.iter().any(|&r| r >= tasks) {
                return wrong(what(), "a reader is no task");
            }
            match d.origin {
                Origin::Task(t) if t < tasks => {}
                Origin::Memory(m) if m < self.memories.len() => {}
                Origin::LeftBy(o) if matches!(self.data.get(o as usize), Some(x) if matches!(x.origin, Origin::Task(_))) =>
                    {}
                _ => return wrong(what(), "its origin does not exist"),
            }
            if let Some(old) = d.replaces {
                let sound = match (d.origin, self.data.get(old as usize)) {
                    (Origin::Task(w), Some(o)) => {
                        let again = std::mem::replace(&mut replaced[old as usize], true);
                        o.readers.contains(&w) && o.bytes == d.bytes && !again
                    }
                    _ => false,
                };
                if !sound {
                    return wrong(
                        what(),
                        "replaces what its writer does not read, what is replaced already, or another size",
                    );
                }
            }
        }
        Ok(())
    }

    /// The links from each memory to each other one: `routes[from][to]`, by fewest hops.
    pub(crate) fn routes(&self) -> Vec<Vec<Option<Vec<u32>>>> {
        let n = self.memories.len();
        let from = |start: usize| {
            let mut routes: Vec<Option<Vec<u32>>> = vec![None; n];
            routes[start] = Some(Vec::new());
            let mut frontier = vec![start];
            while !frontier.is_empty() {
                let mut next = Vec::new();
                for &m in &frontier {
                    for (i, l) in self.links.iter().enumerate().filter(|(_, l)| l.from == m) {
                        if routes[l.to].is_none() {
                            let mut route = routes[m].clone().unwrap_or_default();
                            route.push(i as u32);
                            routes[l.to] = Some(route);
                            next.push(l.to);
                        }
                    }
                }
                frontier = next;
            }
            routes
        };
        (0..n).map(from).collect()
    }
}
