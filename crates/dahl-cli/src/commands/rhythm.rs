//! Rhythms: what a run adds to durations that were measured task by task, seen in traces.
//!
//! How long a unit takes from one task to the next, and from nothing to do to the task that became ready,
//! depends on who decides, on how many work, and on how long tasks are: after long ones, what the runtime
//! needs has left the caches. And the same tasks take longer under one policy than under another, which runs
//! them in an order that finds less in the caches; nor does a performance model count tasks that somebody
//! else's program interrupted, though a run waits for them all the same, with both workers often enough. So calibration keeps what it saw for
//! each of these, and a simulation of this machine takes the figures nearest to what it simulates.

mod variation;

use std::sync::Arc;

use dahl_core::trace::{TaskRun, Trace};
use dahl_core::{Graph, Machine, Seconds, UnitId, UnitKind};
use dahl_sched::model::PerfModel;
use dahl_sim::{Interruptions, Noise, Times};
use serde::{Deserialize, Serialize};

use variation::variation;

pub use variation::Variation;

/// What was seen in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rhythm {
    /// What ran, for replacing it when it is measured again.
    pub what: String,
    /// Who decided.
    pub policy: String,
    /// CPU workers.
    pub workers: usize,
    /// Mean seconds of a task, all of them counted.
    pub task: f64,
    /// Mean seconds of the same tasks by the performance model; zero in files of before it was kept.
    #[serde(default)]
    pub modelled: f64,
    /// How much durations vary.
    #[serde(default)]
    pub varies: Variation,
    /// Mean seconds from the end of a task to the start of the next, if that was ready.
    pub overhead: f64,
    /// Mean seconds from a task's being ready to its start, on a unit that had nothing to do.
    pub notice: f64,
}

/// What a run is expected to add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Seconds between two tasks.
    pub overhead: f64,
    /// Seconds until a unit without work begins a task.
    pub notice: f64,
    /// How much longer tasks take than the performance model says.
    pub pace: f64,
    /// How much durations vary.
    pub varies: Variation,
}

impl Variation {
    /// Durations that vary as they did.
    pub fn noise(&self, seed: u64) -> Noise {
        Noise {
            seed,
            sigma: self.spread,
            unit_sigma: self.apart,
            interruptions: Interruptions {
                rate: self.rate,
                length: self.length,
            },
        }
    }
}

/// What traces show of a run, before the performance model has heard of all runs.
pub struct Seen {
    rhythm: Rhythm,
    graph: Arc<Graph>,
    machine: Machine,
    /// Tasks of each class that CPU units ran.
    counts: Vec<u64>,
}

impl Seen {
    /// What traces show of a graph's run, one trace of every stretch; none if there are too few tasks to tell.
    pub fn of(
        what: String,
        policy: &str,
        machine: &Machine,
        graph: &Arc<Graph>,
        traces: &[&Trace],
    ) -> Option<Seen> {
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
        let overhead = gaps.seconds()?;
        let rhythm = Rhythm {
            what,
            policy: family(policy).into(),
            workers: cpus(machine).count(),
            task: tasks.seconds()?,
            modelled: 0.0,
            varies: varies(machine, graph, traces),
            overhead,
            notice: waits.seconds().unwrap_or(overhead),
        };
        Some(Seen {
            rhythm,
            graph: graph.clone(),
            machine: machine.clone(),
            counts,
        })
    }

    /// Beside what the performance model now says of the same tasks.
    pub fn beside(&self, model: &PerfModel) -> anyhow::Result<Rhythm> {
        let times = Times::estimate(&self.graph, &self.machine, Some(model), false)?;
        let (mut sum, mut count) = (0.0, 0);
        if let Some(unit) = cpus(&self.machine).next() {
            for (class, &n) in self.counts.iter().enumerate() {
                let one = times.get(class as u32, unit).map_or(0.0, |s| s.0);
                sum += n as f64 * one;
                count += n;
            }
        }
        Ok(Rhythm {
            modelled: sum / count.max(1) as f64,
            ..self.rhythm.clone()
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

/// How durations of a graph's tasks vary on CPU units, in traces of one stretch each.
pub fn varies(machine: &Machine, graph: &Graph, traces: &[&Trace]) -> Variation {
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

    /// None of too few.
    fn seconds(&self) -> Option<f64> {
        (self.count >= 8).then(|| self.nanos as f64 * 1e-9 / self.count as f64)
    }
}

/// Policies that decide alike take alike: the name under which what one of them takes is kept.
fn family(policy: &str) -> &str {
    match policy {
        "dm" | "dmda" | "dmdas" => "dmda",
        // Any order that was decided beforehand.
        "plan" => "plan",
        _ => "ws",
    }
}

impl Rhythm {
    fn pace(&self) -> f64 {
        match self.modelled > 0.0 {
            true => self.task / self.modelled,
            false => 1.0,
        }
    }

    /// What whoever predicts knows of its tasks: their mean length by the performance model.
    fn length(&self) -> f64 {
        self.task / self.pace()
    }
}

/// What a run with tasks of this mean length, by the performance model, would show: between the two seen whose
/// tasks are the next shorter and longer, by the logarithm of the length. None if nobody saw this policy with so
/// many workers; profiles of before plans were followed for that say of them what they say of work stealing.
pub fn expected(seen: &[Rhythm], policy: &str, workers: usize, task: f64) -> Option<Expected> {
    let of = |family: &str| -> Vec<&Rhythm> {
        let alike = |r: &&Rhythm| r.policy == family && r.workers == workers;
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
    let between = |of: fn(&Rhythm) -> f64| of(a) + part * (of(b) - of(a));
    Some(Expected {
        overhead: between(|r| r.overhead),
        notice: between(|r| r.notice),
        pace: between(Rhythm::pace),
        varies: Variation {
            spread: between(|r| r.varies.spread),
            apart: between(|r| r.varies.apart),
            rate: between(|r| r.varies.rate),
            length: between(|r| r.varies.length),
        },
    })
}

fn cpus(machine: &Machine) -> impl Iterator<Item = UnitId> + '_ {
    let units = machine.units.iter().enumerate();
    units
        .filter(|(_, u)| u.kind == UnitKind::CPU)
        .map(|(i, _)| UnitId(i as u16))
}

/// Gives the CPU units of this machine's description what a run of such a graph adds, and says what that is.
pub fn apply(
    machine: &mut Machine,
    times: &mut Times,
    seen: &[Rhythm],
    policy: &str,
    graph: &Graph,
) -> Option<Expected> {
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
        (unit.overhead, unit.wake_latency) = (Seconds(found.overhead), Seconds(found.notice));
        times.stretch(id, found.pace);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(policy: &str, workers: usize, task: f64, overhead: f64) -> Rhythm {
        Rhythm {
            what: String::new(),
            policy: policy.into(),
            workers,
            task,
            modelled: task,
            varies: Variation::default(),
            overhead,
            notice: 10.0 * overhead,
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
            |policy, workers, task| expected(&all, policy, workers, task).map(|r| r.overhead);
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
        let plan = expected(&followed, "plan", 2, 1e-6).map(|r| r.overhead);
        assert!(near(plan, 700e-9));
    }

    #[test]
    fn what_the_model_left_out_comes_back_as_pace() {
        let slow = Rhythm {
            task: 12e-6,
            modelled: 10e-6,
            ..seen("dmda", 2, 0.0, 1e-6)
        };
        // Asked for by the length that the model knows, not the one that was seen.
        let all = [slow, seen("dmda", 2, 20e-6, 1e-6)];
        let pace = |task| expected(&all, "dm", 2, task).map(|r| r.pace);
        assert_eq!(pace(10e-6), Some(1.2));
        assert_eq!(pace(20e-6), Some(1.0));
        assert_eq!(pace(5e-6), Some(1.2));
    }
}
