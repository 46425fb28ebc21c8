//! A plan from a run: what a simulation did in its last step, to be followed as it is.
//!
//! No transfer is decided beforehand: tasks fetch what they lack, as they did in the run. Times are those of the
//! simulated step alone.

use dahl_core::{Bytes, Graph, Joules, Machine, Seconds};
use dahl_sim::Prediction;

use super::file::{EnergyParts, MemoryPeak, PlanFile, PlanTarget, TaskEntry, UnitEntry, VERSION};

/// What a run did: for every task its unit and its frequency state, and for every unit its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// For each unit, its tasks in order.
    pub units: Vec<Vec<u32>>,
    /// The frequency state of every task.
    pub states: Vec<u8>,
}

impl Orders {
    /// What a launch of a recorded run did, every task in the usual state; `None` if tasks of it are missing.
    pub fn of_run(graph: &Graph, units: usize, run: &Prediction, launch: usize) -> Option<Orders> {
        let mut spans: Vec<_> = run
            .runs
            .iter()
            .filter(|r| r.task.launch == launch)
            .collect();
        if spans.len() != graph.len() {
            return None;
        }
        spans.sort_by(|a, b| {
            a.start
                .0
                .total_cmp(&b.start.0)
                .then(a.task.task.cmp(&b.task.task))
        });
        let mut orders = vec![Vec::new(); units];
        for span in spans {
            orders.get_mut(usize::from(span.unit))?.push(span.task.task);
        }
        Some(Orders {
            units: orders,
            states: vec![0; graph.len()],
        })
    }
}

impl PlanFile {
    /// The plan of orders, with times of the last launch of two runs that followed them: one step longer the second,
    /// recorded, one launch in flight.
    pub fn of_orders(
        target: PlanTarget,
        graph: &Graph,
        machine: &Machine,
        orders: &Orders,
        [shorter, run]: [&Prediction; 2],
    ) -> PlanFile {
        let last = run.launches.len().saturating_sub(1);
        let spans = || run.runs.iter().filter(|r| r.task.launch == last);
        let begin = spans().map(|r| r.taken.0).fold(f64::INFINITY, f64::min);
        let entry = |t: usize| TaskEntry {
            unit: 0,
            state: orders.states.get(t).copied().unwrap_or(0),
            start: Seconds(0.0),
            end: Seconds(0.0),
            codelet: graph.codelet_of(t as u32).name.clone(),
            implementation: None,
            section: graph.sections[graph.tasks[t].section as usize].clone(),
        };
        let mut tasks: Vec<TaskEntry> = (0..graph.len()).map(entry).collect();
        let mut units: Vec<UnitEntry> = (machine.units.iter().zip(&orders.units))
            .map(|(unit, order)| UnitEntry {
                order: order.clone(),
                hertz: order.first().and_then(|&t| {
                    let state = usize::from(*orders.states.get(t as usize)?);
                    unit.states.get(state.checked_sub(1)?)?.hertz
                }),
                ..UnitEntry::new(machine, unit)
            })
            .collect();
        for (u, order) in orders.units.iter().enumerate() {
            for &t in order {
                let task = &mut tasks[t as usize];
                let (kind, class) = (machine.units[u].kind, graph.tasks[t as usize].class);
                let name = machine.kernels.name_of(graph, class, kind);
                task.implementation = name.map(String::from);
                task.unit = u;
            }
        }
        let mut busy = 0.0;
        for span in spans() {
            let (u, t) = (usize::from(span.unit), span.task.task as usize);
            let overhead = machine.units[u].overhead.0;
            tasks[t].start = Seconds((span.start.0 - overhead - begin).max(0.0));
            tasks[t].end = Seconds((span.end.0 - begin).max(tasks[t].start.0));
            let seconds = tasks[t].end - tasks[t].start;
            units[u].busy += seconds;
            let state = machine.units[u].state(usize::from(tasks[t].state));
            busy += state.and_then(|s| s.1).map_or(0.0, |w| (w * seconds).0);
        }
        let step = |of: &dyn Fn(&Prediction) -> f64| (of(run) - of(shorter)).max(0.0);
        let of_units = step(&|p| p.units.iter().map(|u| u.joules.0).sum());
        let base = step(&|p| p.base.0);
        let links = step(&|p| p.links.iter().map(|l| l.joules.0).sum());
        PlanFile {
            version: VERSION,
            target,
            seconds: Seconds(step(&|p| p.makespan.0)),
            joules: EnergyParts {
                base: Joules(base),
                busy: Joules(busy.min(of_units)),
                idle: Joules((of_units - busy).max(0.0)),
                transfers: Joules(links),
                total: Joules(base + of_units + links),
            },
            policy: None,
            expected: None,
            peaks: (machine.memories.iter().zip(&run.memories))
                .map(|(m, used)| MemoryPeak {
                    memory: m.name.clone(),
                    bytes: Bytes(used.peak.0),
                    capacity: m.capacity,
                })
                .collect(),
            lower_bound: 0.0,
            reason: String::new(),
            gap: 0.0,
            alternatives: Vec::new(),
            units,
            tasks,
            transfers: Vec::new(),
        }
    }
}
