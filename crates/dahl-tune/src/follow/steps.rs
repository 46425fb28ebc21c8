//! The steps of a run that followed a plan, as its trace shows them: those that were recorded whole.

use std::collections::BTreeMap;

use dahl_core::Graph;
use dahl_core::trace::{TaskRun, Trace};
use dahl_plan::PlanFile;

use crate::windows::OUTLIER_FACTOR;

/// One step.
struct Step {
    start: u64,
    end: u64,
    /// Nanoseconds that each unit worked.
    busy: Vec<u64>,
    /// How many tasks of its list each unit has run.
    ran: Vec<usize>,
    /// Tasks that ran on their unit, in their order.
    right: usize,
    /// Tasks that ran on their unit or one of its class; of a policy, on a unit that takes part.
    placed: usize,
}

pub(super) struct Steps {
    all: Vec<Step>,
}

/// What steps in a row take, on average.
pub(super) struct Usual {
    /// Seconds from the end of one to the end of the next.
    pub seconds: f64,
    /// Seconds that each unit works.
    pub busy: Vec<f64>,
}

impl Steps {
    /// Those of the plan's graph.
    pub(super) fn new(plan: &PlanFile, graph: &Graph, trace: &Trace) -> Steps {
        let mut steps = BTreeMap::<u32, Step>::new();
        let class = plan.classes();
        let takes_part = |u| !plan.states_of(u).is_empty();
        let takes_part: Vec<bool> = (0..plan.units.len()).map(takes_part).collect();
        for run in ran(graph, trace) {
            let unit = usize::from(run.unit);
            let step = steps.entry(run.id.launch).or_insert_with(|| Step {
                start: u64::MAX,
                end: 0,
                busy: vec![0; plan.units.len()],
                ran: vec![0; plan.units.len()],
                right: 0,
                placed: 0,
            });
            (step.start, step.end) = (step.start.min(run.start), step.end.max(run.end));
            step.busy[unit] += run.end - run.start;
            let next = plan.units[unit].order.get(step.ran[unit]);
            step.right += usize::from(next == Some(&run.id.task));
            step.ran[unit] += 1;
            let planned = plan.tasks[run.id.task as usize].unit;
            step.placed += usize::from(match plan.policy {
                None => class[unit] == class[planned],
                Some(_) => takes_part[unit],
            });
        }
        let whole = |s: &Step| s.ran.iter().sum::<usize>() == graph.len();
        let all = steps.into_values().filter(whole).collect();
        Steps { all }
    }

    /// The part of the tasks that ran on their unit, in their order; none of none.
    pub(super) fn fidelity(&self) -> Option<f64> {
        self.part(|step| step.right)
    }

    /// The part that ran on their unit or one of its class; of a policy, on a unit that takes part.
    pub(super) fn placed(&self) -> Option<f64> {
        self.part(|step| step.placed)
    }

    fn part(&self, of: impl Fn(&Step) -> usize) -> Option<f64> {
        let ran: usize = self.all.iter().flat_map(|s| &s.ran).sum();
        let those: usize = self.all.iter().map(of).sum();
        (ran > 0).then(|| those as f64 / ran as f64)
    }

    /// Seconds from the first task to the last of the middle step; none of none.
    pub(super) fn alone(&self) -> Option<f64> {
        median(self.all.iter().map(|s| s.end - s.start)).map(|n| n as f64 * 1e-9)
    }

    /// What a step takes that begins before the last has ended; none of less than two. Outliers, such as
    /// steps around a validation, are left out whole, as timing windows are.
    pub(super) fn in_a_row(&self) -> Option<Usual> {
        let took = |w: &[Step]| w[1].end - w[0].end.min(w[1].end);
        let most = OUTLIER_FACTOR * median(self.all.windows(2).map(took))? as f64;
        let usual = self.all.windows(2).filter(|w| took(w) as f64 <= most);
        let usual: Vec<&[Step]> = usual.collect();
        let mean = |of: &dyn Fn(&[Step]) -> u64| {
            usual.iter().map(|w| of(w) as f64).sum::<f64>() * 1e-9 / usual.len().max(1) as f64
        };
        let units = self.all[0].busy.len();
        Some(Usual {
            seconds: mean(&took),
            busy: (0..units).map(|u| mean(&|w| w[1].busy[u])).collect(),
        })
    }
}

/// Tasks of a graph that ran.
pub(super) fn ran<'a>(graph: &Graph, trace: &'a Trace) -> impl Iterator<Item = &'a TaskRun> {
    let fingerprint = graph.fingerprint();
    let own = move |t: &&TaskRun| trace.graph_of(t.id.launch).fingerprint == fingerprint;
    trace.tasks.iter().filter(own)
}

fn median(nanos: impl Iterator<Item = u64>) -> Option<u64> {
    let mut all: Vec<u64> = nanos.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_something_came_before_is_left_out_whole() {
        let step = |start, end, busy| Step {
            start,
            end,
            busy: vec![busy],
            ran: vec![4],
            right: 3,
            placed: 4,
        };
        // Steps of 100 ns that work for 90, and one after a pause that was slow.
        let all = vec![
            step(0, 100, 90),
            step(100, 200, 90),
            step(900, 1000, 99),
            step(1000, 1100, 80),
            step(1095, 1200, 100),
        ];
        let steps = Steps { all };
        let usual = steps.in_a_row().expect("several");
        assert!((usual.seconds - 100e-9).abs() < 1e-15);
        assert!((usual.busy[0] - 90e-9).abs() < 1e-15);
        assert!(steps.alone().is_some_and(|s| (s - 100e-9).abs() < 1e-15));
        assert_eq!((steps.fidelity(), steps.placed()), (Some(0.75), Some(1.0)));
        let none = Steps { all: Vec::new() };
        assert!(none.in_a_row().is_none() && none.alone().is_none());
    }
}
