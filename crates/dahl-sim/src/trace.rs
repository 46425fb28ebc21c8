//! A simulated run as a trace, so that whatever shows a real run shows it too.

use dahl_core::trace::{self, Launch, MemorySample, NOBODY, PowerSample, TaskId, TaskRun, Trace};
use dahl_core::trace::{Nanos, TraceGraph};
use dahl_core::{Graph, Machine, Seconds};

use super::Prediction;
use dahl_sched::policy::TaskRef;

/// Power is shown as the mean of so many equal parts of the run.
const PARTS: usize = 400;

impl Prediction {
    /// The run as a trace; it must have been recorded.
    pub fn to_trace(&self, graph: &Graph, machine: &Machine) -> Trace {
        let mut out = Trace::of(machine);
        out.simulated = true;
        out.graphs.push(TraceGraph::of(graph, &machine.kernels));
        out.end = nanos(self.makespan);
        for (i, (begun, _)) in self.launches.iter().enumerate() {
            out.launches.push(Launch {
                step: i as u64 + 1,
                graph: 0,
                at: nanos(*begun),
                node: 0,
            });
        }
        for run in &self.runs {
            out.tasks.push(TaskRun {
                id: id(run.task),
                released_by: run.released_by.map_or(nobody(run.task), id),
                unit: run.unit,
                ready: nanos(run.ready),
                taken: nanos(run.taken),
                start: nanos(run.start),
                end: nanos(run.end),
                fell_back: false,
            });
        }
        for t in &self.transfers {
            let link = &machine.links[usize::from(t.link)];
            let none = TaskId {
                launch: 0,
                task: NOBODY,
            };
            out.transfers.push(trace::Transfer {
                from: link.from.0,
                to: link.to.0,
                bytes: t.bytes.0,
                for_task: t.for_task.map_or(none, id),
                ahead: t.ahead,
                load: trace::Load::asked(t.bytes.0),
                batch: t.batch,
                start: nanos(t.start),
                end: nanos(t.end),
            });
        }
        out.messages
            .extend(self.messages.iter().map(|m| trace::MessageRun {
                id: id(m.task),
                start: nanos(m.start),
                end: nanos(m.end),
            }));
        for (m, memory) in self.memories.iter().enumerate().skip(1) {
            out.memory
                .extend(memory.curve.iter().map(|(at, bytes)| MemorySample {
                    at: nanos(*at),
                    memory: m as u16,
                    bytes: bytes.0,
                }));
        }
        self.power(machine, &mut out);
        out.sort();
        out
    }

    /// The machine's power over time, where all of its figures are known.
    fn power(&self, machine: &Machine, out: &mut Trace) {
        if !machine.without_power().is_empty() || self.makespan.0 <= 0.0 {
            return;
        }
        let part = self.makespan.0 / PARTS as f64;
        let idle: f64 = machine
            .units
            .iter()
            .filter_map(|u| u.power)
            .map(|p| p.idle.0)
            .sum();
        let mut watts = vec![machine.base().0 + idle; PARTS];
        let mut spread = |start: Seconds, end: Seconds, more: f64| {
            let first = ((start.0 / part) as usize).min(PARTS - 1);
            let last = ((end.0 / part) as usize).min(PARTS - 1);
            for (i, watts) in watts.iter_mut().enumerate().take(last + 1).skip(first) {
                let (lo, hi) = (i as f64 * part, (i + 1) as f64 * part);
                *watts += more * (end.0.min(hi) - start.0.max(lo)).max(0.0) / part;
            }
        };
        // What computing adds, per unit: tasks in several frequency states share their mean.
        let added = |(unit, used): (&dahl_core::Unit, &super::UnitUse)| {
            let idle = unit.power.map_or(0.0, |p| p.idle.0);
            match used.busy.0 > 0.0 {
                true => (used.joules.0 - idle * self.makespan.0) / used.busy.0,
                false => 0.0,
            }
        };
        let added: Vec<f64> = machine.units.iter().zip(&self.units).map(added).collect();
        for run in &self.runs {
            spread(run.start, run.end, added[usize::from(run.unit)]);
        }
        for t in &self.transfers {
            let link = &machine.links[usize::from(t.link)];
            let joules = link.joules_per_byte.unwrap_or(0.0) * t.bytes.0 as f64;
            let seconds = t.end.0 - t.start.0;
            if seconds > 0.0 {
                spread(t.start, t.end, joules / seconds);
            }
        }
        out.domains.push("modelled (machine file)".into());
        for (i, watts) in watts.into_iter().enumerate() {
            out.power.push(PowerSample {
                at: nanos(Seconds((i + 1) as f64 * part)),
                domain: 0,
                watts,
            });
        }
    }
}

fn nanos(at: Seconds) -> Nanos {
    (at.0 * 1e9).round() as Nanos
}

fn id(task: TaskRef) -> TaskId {
    TaskId {
        launch: task.launch as u32,
        task: task.task,
    }
}

/// Released by the launch itself.
fn nobody(task: TaskRef) -> TaskId {
    TaskId {
        task: NOBODY,
        ..id(task)
    }
}
