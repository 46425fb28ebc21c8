//! Rhythms: what the runtime itself takes, seen in traces.
//!
//! How long a unit takes from one task to the next, and from nothing to do to the task that became ready,
//! depends on who decides, on how many work, and on how long tasks are: after long ones, what the runtime
//! needs has left the caches. So calibration keeps what it saw for each of these, and a simulation of this
//! machine takes the figures nearest to what it simulates. Time between tasks that somebody else's program
//! took is left out as far as it can be told.

use dahl_core::trace::Trace;
use dahl_core::{Graph, Machine, Seconds, UnitId, UnitKind};
use dahl_sched::sim::Times;
use serde::{Deserialize, Serialize};

/// Of gaps, the longest of this part are taken for disturbances.
const DISTURBED: f64 = 0.005;

/// What was seen in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rhythm {
    /// What ran, for replacing it when it is measured again.
    pub what: String,
    /// Who decided.
    pub policy: String,
    /// CPU workers.
    pub workers: usize,
    /// Mean seconds of a task.
    pub task: f64,
    /// Mean seconds from the end of a task to the start of the next, if that was ready.
    pub overhead: f64,
    /// Mean seconds from a task's being ready to its start, on a unit that had nothing to do.
    pub notice: f64,
}

impl Rhythm {
    /// What traces show; none if they have too few tasks to tell.
    pub fn of(what: String, policy: &str, machine: &Machine, traces: &[Trace]) -> Option<Rhythm> {
        let (mut gaps, mut waits) = (Vec::new(), Vec::new());
        let (mut busy, mut tasks) = (0, 0);
        let is_cpu = |unit: u16| machine.units[usize::from(unit)].kind == UnitKind::Cpu;
        for trace in traces {
            let mut last = vec![None; trace.units.len()];
            for run in trace.tasks.iter().filter(|r| is_cpu(r.unit)) {
                tasks += 1;
                busy += run.end - run.start;
                match last[usize::from(run.unit)].replace(run.end) {
                    Some(end) if run.ready <= end => gaps.push(run.start.saturating_sub(end)),
                    Some(_) => waits.push(run.start.saturating_sub(run.ready)),
                    None => {}
                }
            }
        }
        let overhead = mean(gaps)?;
        Some(Rhythm {
            what,
            policy: family(policy).into(),
            workers: cpus(machine).count(),
            task: busy as f64 * 1e-9 / f64::from(tasks.max(1)),
            overhead,
            notice: mean(waits).unwrap_or(overhead),
        })
    }
}

/// Seconds, disturbances left out; none of too few.
fn mean(mut nanos: Vec<u64>) -> Option<f64> {
    nanos.sort_unstable();
    nanos.truncate((nanos.len() as f64 * (1.0 - DISTURBED)) as usize);
    let sum: u64 = nanos.iter().sum();
    (nanos.len() >= 8).then(|| sum as f64 * 1e-9 / nanos.len() as f64)
}

/// Policies that decide alike take alike.
fn family(policy: &str) -> &str {
    match policy {
        "dm" | "dmda" | "dmdas" => "dmda",
        _ => "ws",
    }
}

/// What a run with tasks of this mean length would show: between the two seen whose tasks are the next
/// shorter and longer, by the logarithm of the length. None if nobody saw this policy with so many workers.
pub fn expected(seen: &[Rhythm], policy: &str, workers: usize, task: f64) -> Option<(f64, f64)> {
    let alike = |r: &&Rhythm| r.policy == family(policy) && r.workers == workers;
    let known = || seen.iter().filter(alike);
    let below = known().filter(|r| r.task <= task);
    let below = below.max_by(|a, b| a.task.total_cmp(&b.task));
    let above = known().filter(|r| r.task > task);
    let above = above.min_by(|a, b| a.task.total_cmp(&b.task));
    let (Some(a), Some(b)) = (below.or(above), above.or(below)) else {
        return None;
    };
    let part = match b.task > a.task && a.task > 0.0 {
        true => (task / a.task).ln() / (b.task / a.task).ln(),
        false => 0.0,
    };
    let between = |x: f64, y: f64| x + part * (y - x);
    Some((between(a.overhead, b.overhead), between(a.notice, b.notice)))
}

fn cpus(machine: &Machine) -> impl Iterator<Item = UnitId> + '_ {
    let units = machine.units.iter().enumerate();
    units
        .filter(|(_, u)| u.kind == UnitKind::Cpu)
        .map(|(i, _)| UnitId(i as u16))
}

/// Gives the CPU units of this machine's description what the runtime takes when such a graph runs.
pub fn apply(machine: &mut Machine, seen: &[Rhythm], policy: &str, graph: &Graph, times: &Times) {
    let workers = cpus(machine).count();
    let Some(first) = cpus(machine).next() else {
        return;
    };
    let of = |class: u32| times.get(class, first);
    let total: f64 = graph
        .tasks
        .iter()
        .filter_map(|t| of(t.class).map(|s| s.0))
        .sum();
    let task = total / graph.len().max(1) as f64;
    if let Some((overhead, notice)) = expected(seen, policy, workers, task) {
        for unit in machine.units.iter_mut().filter(|u| u.kind == UnitKind::Cpu) {
            (unit.overhead, unit.notice) = (Seconds(overhead), Seconds(notice));
        }
    }
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
        let overhead = |policy, workers, task| expected(&all, policy, workers, task).map(|r| r.0);
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 1e-9);
        assert!(near(overhead("ws", 2, 1e-6), 100e-9));
        assert!(near(overhead("ws", 2, 10e-6), 300e-9));
        assert!(near(overhead("ws", 2, 1.0), 500e-9));
        assert!(near(overhead("eager", 2, 1e-9), 100e-9));
        assert!(near(overhead("dmdas", 2, 1e-3), 900e-9));
        assert!(near(overhead("ws", 1, 1e-3), 50e-9));
        assert_eq!(overhead("ws", 3, 1e-3), None);
    }
}
