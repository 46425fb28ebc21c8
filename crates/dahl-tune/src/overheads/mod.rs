//! Run overheads: what a run adds to durations that were measured task by task, seen in its traces.
//!
//! - The *dispatch overhead*: seconds from the end of a task to the start of the next on the same unit.
//! - The *wake-up latency*: seconds from a task's being ready to its start on a unit that had nothing to do.
//! - The *slowdown*: the same tasks take longer under one policy than under another, which runs them in an order
//!   that finds less in the caches.
//! - The *variation* of durations. A performance model leaves interrupted tasks out; a run waits for them.
//!
//! All of these depend on the policy, on the number of workers and on how long tasks are: after long ones, what
//! the runtime needs has left the caches. So calibration keeps an entry for each of these, and a simulation of
//! the machine interpolates between the entries nearest to what it simulates.

mod variation;

use std::sync::Arc;

use dahl_core::trace::{TaskRun, Trace};
use dahl_core::{Graph, Machine, Seconds, UnitId, UnitKind};
use dahl_sched::model::PerfModel;
use dahl_sim::{Interruptions, Noise, SimError, Times};
use serde::{Deserialize, Serialize};

use variation::variation;

pub use variation::Variation;

/// What was seen in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOverheads {
    /// Model and grain: a later run of the same replaces the entry.
    pub what: String,
    /// The family of the policy.
    pub policy: String,
    /// CPU workers.
    pub workers: usize,
    /// Mean seconds of a task, all of them counted.
    pub task: f64,
    /// Mean seconds of the same tasks by the performance model.
    pub modelled: f64,
    /// How much durations vary.
    pub variation: Variation,
    /// Mean seconds from the end of a task to the start of the next, if that was ready.
    pub dispatch: f64,
    /// Mean seconds from a task's being ready to its start, on a unit that had nothing to do.
    pub wake_latency: f64,
}

/// What a run is expected to add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExpectedOverheads {
    /// Seconds between two tasks.
    pub dispatch: f64,
    /// Seconds until a unit without work begins a task.
    pub wake_latency: f64,
    /// Duration in a run over that of the performance model.
    pub slowdown: f64,
    /// How much durations vary.
    pub variation: Variation,
}

impl Variation {
    /// Durations that vary as they did.
    pub(crate) fn noise(&self, seed: u64) -> Noise {
        Noise {
            seed,
            sigma: self.stddev,
            unit_sigma: self.core_stddev,
            interruptions: Interruptions {
                rate: self.interruption_rate,
                length: self.interruption_seconds,
            },
        }
    }
}

/// What traces show of a run, before the performance model has learnt from all runs.
pub(crate) struct Observation {
    overheads: RunOverheads,
    graph: Arc<Graph>,
    machine: Machine,
    /// Tasks of each class that CPU units ran.
    counts: Vec<u64>,
}

impl Observation {
    /// What traces show of a graph's run, one trace per timing window; none if there are too few tasks to tell.
    pub(crate) fn of(
        what: String,
        policy: &str,
        machine: &Machine,
        graph: &Arc<Graph>,
        traces: &[&Trace],
    ) -> Option<Observation> {
        let (mut gaps, mut waits) = (Mean::default(), Mean::default());
        let mut tasks = Mean::default();
        let mut counts = vec![0; graph.classes.len()];
        for trace in traces {
            let mut last = vec![None; trace.units.len()];
            for run in by_cpus(machine, trace) {
                counts[graph.tasks[run.id.task as usize].class as usize] += 1;
                tasks.add(nanos(run));
                match last[usize::from(run.unit)].replace(run.end) {
                    Some(end) if run.ready <= end => gaps.add(run.start.saturating_sub(end)),
                    Some(_) => waits.add(run.start.saturating_sub(run.ready)),
                    None => {}
                }
            }
        }
        let dispatch = gaps.seconds()?;
        let overheads = RunOverheads {
            what,
            policy: family(policy).into(),
            workers: cpus(machine).count(),
            task: tasks.seconds()?,
            modelled: 0.0,
            variation: variation_of(machine, graph, traces),
            dispatch,
            wake_latency: waits.seconds().unwrap_or(dispatch),
        };
        Some(Observation {
            overheads,
            graph: graph.clone(),
            machine: machine.clone(),
            counts,
        })
    }

    /// With what the performance model now says of the same tasks.
    pub(crate) fn with_model(&self, model: &PerfModel) -> Result<RunOverheads, SimError> {
        let times = Times::estimate(&self.graph, &self.machine, Some(model), false)?;
        let (mut sum, mut count) = (0.0, 0);
        if let Some(unit) = cpus(&self.machine).next() {
            for (class, &n) in self.counts.iter().enumerate() {
                let one = times.get(class as u32, unit).map_or(0.0, |s| s.0);
                sum += n as f64 * one;
                count += n;
            }
        }
        Ok(RunOverheads {
            modelled: sum / count.max(1) as f64,
            ..self.overheads.clone()
        })
    }
}

/// What CPU units of a machine ran.
fn by_cpus<'a>(machine: &'a Machine, trace: &'a Trace) -> impl Iterator<Item = &'a TaskRun> {
    let is_cpu = |unit: u16| machine.units[usize::from(unit)].kind == UnitKind::CPU;
    trace.tasks.iter().filter(move |r| is_cpu(r.unit))
}

/// A nanosecond is the least a trace can tell from nothing.
fn nanos(run: &TaskRun) -> u64 {
    (run.end - run.start).max(1)
}

/// How durations of a graph's tasks vary on CPU units, in traces of one timing window each.
pub(crate) fn variation_of(machine: &Machine, graph: &Graph, traces: &[&Trace]) -> Variation {
    let by_class = |trace: &&Trace| {
        let mut like = vec![Vec::new(); graph.classes.len()];
        for run in by_cpus(machine, trace) {
            let class = graph.tasks[run.id.task as usize].class as usize;
            like[class].push((run.unit, nanos(run) as f64));
        }
        like
    };
    variation(&traces.iter().map(by_class).collect::<Vec<_>>())
}

#[derive(Default)]
struct Mean {
    nanos: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, nanos: u64) {
        self.nanos += nanos;
        self.count += 1;
    }

    /// None below eight.
    fn seconds(&self) -> Option<f64> {
        (self.count >= 8).then(|| self.nanos as f64 * 1e-9 / self.count as f64)
    }
}

/// Policies that decide alike take alike: the name under which their overheads are kept.
fn family(policy: &str) -> &str {
    match policy {
        "dm" | "dmda" | "dmdas" => "dmda",
        // Any order that was decided beforehand.
        "plan" => "plan",
        _ => "ws",
    }
}

impl RunOverheads {
    /// Whether another entry is about the same run, and so replaces this one.
    pub(crate) fn is_of_same_run(&self, other: &RunOverheads) -> bool {
        (&self.what, &self.policy, self.workers) == (&other.what, &other.policy, other.workers)
    }

    fn slowdown(&self) -> f64 {
        match self.modelled > 0.0 {
            true => self.task / self.modelled,
            false => 1.0,
        }
    }

    /// What a prediction knows of its tasks: their mean length by the performance model.
    fn length(&self) -> f64 {
        self.task / self.slowdown()
    }
}

/// What a run with tasks of this mean length, by the performance model, would show: between the two entries whose
/// tasks are the next shorter and longer, by the logarithm of the length. None if there is no entry of this policy
/// with so many workers. Where no plan was followed yet, work stealing speaks for plans.
pub(crate) fn expected(
    seen: &[RunOverheads],
    policy: &str,
    workers: usize,
    task: f64,
) -> Option<ExpectedOverheads> {
    let of = |family: &str| -> Vec<&RunOverheads> {
        let alike = |r: &&RunOverheads| r.policy == family && r.workers == workers;
        seen.iter().filter(alike).collect()
    };
    let mut all = of(family(policy));
    if all.is_empty() && policy == "plan" {
        all = of("ws");
    }
    let known = || all.iter().copied();
    let below = known().filter(|r| r.length() <= task);
    let below = below.max_by(|a, b| a.length().total_cmp(&b.length()));
    let above = known().filter(|r| r.length() > task);
    let above = above.min_by(|a, b| a.length().total_cmp(&b.length()));
    let (Some(a), Some(b)) = (below.or(above), above.or(below)) else {
        return None;
    };
    let part = match b.length() > a.length() && a.length() > 0.0 {
        true => (task / a.length()).ln() / (b.length() / a.length()).ln(),
        false => 0.0,
    };
    let between = |of: fn(&RunOverheads) -> f64| of(a) + part * (of(b) - of(a));
    Some(ExpectedOverheads {
        dispatch: between(|r| r.dispatch),
        wake_latency: between(|r| r.wake_latency),
        slowdown: between(RunOverheads::slowdown),
        variation: Variation {
            stddev: between(|r| r.variation.stddev),
            core_stddev: between(|r| r.variation.core_stddev),
            interruption_rate: between(|r| r.variation.interruption_rate),
            interruption_seconds: between(|r| r.variation.interruption_seconds),
        },
    })
}

fn cpus(machine: &Machine) -> impl Iterator<Item = UnitId> + '_ {
    let units = machine.units.iter().enumerate();
    units
        .filter(|(_, u)| u.kind == UnitKind::CPU)
        .map(|(i, _)| UnitId(i as u16))
}

/// Gives the CPU units of a machine's description what a run of such a graph adds, and says what that is.
pub(crate) fn apply(
    machine: &mut Machine,
    times: &mut Times,
    seen: &[RunOverheads],
    policy: &str,
    graph: &Graph,
) -> Option<ExpectedOverheads> {
    let all: Vec<UnitId> = cpus(machine).collect();
    let of = |class: u32| times.get(class, *all.first()?);
    let total: f64 = graph
        .tasks
        .iter()
        .filter_map(|t| of(t.class).map(|s| s.0))
        .sum();
    let task = total / graph.len().max(1) as f64;
    let found = expected(seen, policy, all.len(), task)?;
    for id in all {
        let unit = &mut machine.units[usize::from(id.0)];
        (unit.overhead, unit.wake_latency) = (Seconds(found.dispatch), Seconds(found.wake_latency));
        times.scale(id, found.slowdown);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(policy: &str, workers: usize, task: f64, overhead: f64) -> RunOverheads {
        RunOverheads {
            what: String::new(),
            policy: policy.into(),
            workers,
            task,
            modelled: task,
            variation: Variation::default(),
            dispatch: overhead,
            wake_latency: 10.0 * overhead,
        }
    }

    #[test]
    fn between_what_was_seen_and_never_beyond() {
        let all = [
            seen("ws", 2, 1e-6, 100e-9),
            seen("ws", 2, 100e-6, 500e-9),
            seen("dmda", 2, 1e-6, 900e-9),
            seen("ws", 1, 1e-6, 50e-9),
        ];
        let overhead =
            |policy, workers, task| expected(&all, policy, workers, task).map(|r| r.dispatch);
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 1e-9);
        assert!(near(overhead("ws", 2, 1e-6), 100e-9));
        assert!(near(overhead("ws", 2, 10e-6), 300e-9));
        assert!(near(overhead("ws", 2, 1.0), 500e-9));
        assert!(near(overhead("eager", 2, 1e-9), 100e-9));
        assert!(near(overhead("dmdas", 2, 1e-3), 900e-9));
        assert!(near(overhead("ws", 1, 1e-3), 50e-9));
        assert_eq!(overhead("ws", 3, 1e-3), None);
        // Nobody followed a plan yet: as if nothing had been decided beforehand.
        assert!(near(overhead("plan", 2, 1e-6), 100e-9));
        let followed = [&all[..], &[seen("plan", 2, 1e-6, 700e-9)]].concat();
        let plan = expected(&followed, "plan", 2, 1e-6).map(|r| r.dispatch);
        assert!(near(plan, 700e-9));
    }

    #[test]
    fn what_the_model_left_out_comes_back_as_slowdown() {
        let slow = RunOverheads {
            task: 12e-6,
            modelled: 10e-6,
            ..seen("dmda", 2, 0.0, 1e-6)
        };
        // Asked for by the length that the model knows, not the one that was seen.
        let all = [slow, seen("dmda", 2, 20e-6, 1e-6)];
        let slowdown = |task| expected(&all, "dm", 2, task).map(|r| r.slowdown);
        assert_eq!(slowdown(10e-6), Some(1.2));
        assert_eq!(slowdown(20e-6), Some(1.0));
        assert_eq!(slowdown(5e-6), Some(1.2));
    }
}
