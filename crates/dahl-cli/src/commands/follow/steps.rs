//! The steps of a run that followed a plan, as its trace shows them.

use std::collections::{BTreeMap, HashMap};

use dahl_core::Graph;
use dahl_core::trace::Trace;
use dahl_sched::plan::file::PlanFile;

/// How many times as long as most a step may take: others, such as those around a validation, are left out
/// whole, as stretches are.
const MOST: f64 = 2.0;

/// One step.
struct Step {
    start: u64,
    end: u64,
    /// Nanoseconds that each unit worked.
    busy: Vec<u64>,
}

/// See the module.
pub struct Steps {
    all: Vec<Step>,
    /// Tasks that ran, and those of them on their unit, in their order.
    tasks: [u64; 2],
}

/// What steps in a row take, on average.
pub struct Usual {
    /// Seconds from the end of one to the end of the next.
    pub seconds: f64,
    /// Seconds that each unit works.
    pub busy: Vec<f64>,
}

impl Steps {
    /// Those of the plan's graph.
    pub fn new(plan: &PlanFile, graph: &Graph, trace: &Trace) -> Steps {
        let fingerprint = graph.fingerprint();
        let planned = |launch: u32| trace.graph_of(launch).fingerprint == fingerprint;
        let mut tasks = [0, 0];
        // By unit and launch, how many tasks of the unit's list have run.
        let mut place = HashMap::<(u16, u32), usize>::new();
        let mut steps = BTreeMap::<u32, Step>::new();
        for run in trace.tasks.iter().filter(|t| planned(t.id.launch)) {
            let at = place.entry((run.unit, run.id.launch)).or_insert(0);
            let unit = usize::from(run.unit);
            let right = plan.units[unit].order.get(*at) == Some(&run.id.task);
            *at += 1;
            tasks[0] += 1;
            tasks[1] += u64::from(right);
            let step = steps.entry(run.id.launch).or_insert_with(|| Step {
                start: u64::MAX,
                end: 0,
                busy: vec![0; plan.units.len()],
            });
            (step.start, step.end) = (step.start.min(run.start), step.end.max(run.end));
            step.busy[unit] += run.end - run.start;
        }
        let all = steps.into_values().collect();
        Steps { all, tasks }
    }

    /// The part of the tasks that ran on their unit, in their order.
    pub fn fidelity(&self) -> f64 {
        self.tasks[1] as f64 / (self.tasks[0] as f64).max(1.0)
    }

    /// Seconds from the first task to the last of the middle step; none of none.
    pub fn alone(&self) -> Option<f64> {
        median(self.all.iter().map(|s| s.end - s.start)).map(|n| n as f64 * 1e-9)
    }

    /// What a step takes that begins before the last has ended; none of less than two.
    pub fn in_a_row(&self) -> Option<Usual> {
        let took = |w: &[Step]| w[1].end - w[0].end.min(w[1].end);
        let most = MOST * median(self.all.windows(2).map(took))? as f64;
        let usual: Vec<&[Step]> = self.all.windows(2).collect();
        let usual: Vec<&[Step]> = usual
            .into_iter()
            .filter(|w| took(w) as f64 <= most)
            .collect();
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
        };
        // Steps of 100 ns that work for 90, and one after a pause that was slow.
        let all = vec![
            step(0, 100, 90),
            step(100, 200, 90),
            step(900, 1000, 99),
            step(1000, 1100, 80),
            step(1095, 1200, 100),
        ];
        let steps = Steps { all, tasks: [4, 3] };
        let usual = steps.in_a_row().expect("several");
        assert!((usual.seconds - 100e-9).abs() < 1e-15);
        assert!((usual.busy[0] - 90e-9).abs() < 1e-15);
        assert_eq!(steps.alone(), Some(100e-9));
        assert_eq!(steps.fidelity(), 0.75);
        let none = Steps {
            all: Vec::new(),
            tasks: [0, 0],
        };
        assert!(none.in_a_row().is_none() && none.alone().is_none());
    }
}
