//! What a trace says of every task, noted while tasks run: kept only if a run is recorded.

use dahl_core::Seconds;

use super::prediction::TaskSpan;
use super::turn::UnitState;
use dahl_sched::policy::TaskRef;

#[derive(Debug)]
pub(super) struct Marks {
    tasks: usize,
    ring: usize,
    /// For every place in the ring and task, when it became ready and by whose end.
    ready: Vec<(Seconds, Option<TaskRef>)>,
    runs: Vec<TaskSpan>,
}

impl Marks {
    /// For so many tasks and launches in flight.
    pub(crate) fn new(tasks: usize, ring: usize) -> Marks {
        Marks {
            tasks,
            ring,
            ready: vec![(Seconds(0.0), None); tasks * ring],
            runs: Vec::new(),
        }
    }

    fn place(&self, task: TaskRef) -> usize {
        task.launch % self.ring * self.tasks + task.task as usize
    }

    /// Tasks are ready, by the end of another or by a launch.
    pub(crate) fn ready(&mut self, tasks: &[TaskRef], by: Option<TaskRef>, now: Seconds) {
        for &task in tasks {
            let place = self.place(task);
            self.ready[place] = (now, by);
        }
    }

    /// A unit has ended its task.
    pub(crate) fn ran(&mut self, unit: u16, state: &UnitState, now: Seconds) {
        let (ready, released_by) = self.ready[self.place(state.task)];
        self.runs.push(TaskSpan {
            task: state.task,
            released_by,
            unit,
            ready,
            taken: Seconds(state.taken),
            begun: state.begun.map(Seconds),
            start: Seconds(state.start),
            end: now,
        });
    }

    /// All that ran, by their end.
    pub(crate) fn into_runs(self) -> Vec<TaskSpan> {
        self.runs
    }
}
