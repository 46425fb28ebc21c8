//! The order in which a policy ran a step, as a schedule to follow.
//!
//! What following a plan adds to durations can be seen only of a plan. One need not be planned for that: what a
//! policy did once is a schedule like any other, and its dependencies are kept since they were.

use std::collections::BTreeMap;

use dahl_core::Graph;
use dahl_core::trace::{TaskRun, Trace};
use dahl_runtime::Schedule;

/// The shortest step of a trace that was recorded whole; none if there is none.
pub(super) fn shortest(graph: &Graph, units: usize, trace: &Trace) -> Option<Schedule> {
    let mut steps: BTreeMap<u32, Vec<&TaskRun>> = BTreeMap::new();
    for run in &trace.tasks {
        steps.entry(run.id.launch).or_default().push(run);
    }
    let length = |step: &[&TaskRun]| {
        let start = step.iter().map(|r| r.start).min().unwrap_or(0);
        step.iter().map(|r| r.end).max().unwrap_or(0) - start
    };
    let whole = steps.into_values().filter(|s| s.len() == graph.len());
    // By start, as the trace is.
    let step = whole.min_by_key(|s| length(s))?;
    let mut order = vec![Vec::new(); units];
    for run in step {
        order.get_mut(usize::from(run.unit))?.push(run.id.task);
    }
    Some(Schedule {
        graph: graph.fingerprint(),
        order,
        transfers: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use dahl_core::trace::TaskId;
    use dahl_core::{Arena, Codelet, Recorder, Task, UnitKind};

    use super::*;

    #[test]
    fn the_shortest_step_that_is_whole() {
        let nothing = Codelet::new("nothing").implement("nothing", UnitKind::CPU, |_| Ok(()));
        let (nothing, arena) = (std::sync::Arc::new(nothing), Arena::new());
        let recorder = Recorder::new();
        for _ in 0..3 {
            let mut cell = arena.zeros::<f32, 0>([]).expect("room");
            recorder.submit(Task::new(&nothing, &[cell.read_write()]));
        }
        let graph = recorder.finish().expect("a graph");
        let run = |launch, task, unit, start, end| TaskRun {
            id: TaskId { launch, task },
            unit,
            ready: start,
            released_by: TaskId { launch, task },
            taken: start,
            start,
            end,
            fell_back: false,
        };
        let mut trace = Trace {
            tasks: vec![
                run(0, 0, 0, 0, 50),
                run(0, 1, 1, 0, 50),
                run(0, 2, 0, 50, 100),
                run(1, 1, 0, 100, 120),
                run(1, 2, 1, 105, 130),
                run(1, 0, 0, 120, 140),
                run(2, 0, 0, 150, 151),
            ],
            ..Trace::default()
        };
        let found = shortest(&graph, 2, &trace).expect("a step");
        assert_eq!(found.order, [vec![1, 0], vec![2]]);
        assert_eq!(found.graph, graph.fingerprint());
        trace.tasks.truncate(2);
        assert!(shortest(&graph, 2, &trace).is_none());
    }
}
