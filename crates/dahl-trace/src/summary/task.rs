//! A task that ran, with all that a report says of it.

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

/// A task that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskRef {
    /// Its place in [`Trace::tasks`].
    pub run: u32,
    /// Its launch.
    pub launch: u32,
    /// The launch's number in the program.
    pub step: u64,
    /// Its number in the graph.
    pub task: u32,
    /// What it computed.
    pub codelet: String,
    /// And how.
    pub implementation: String,
    /// For which layer.
    pub layer: String,
    /// Where.
    pub unit: String,
    /// When its body began.
    pub start_ns: Nanos,
    /// How long its body took.
    pub duration_ns: Nanos,
}

impl TaskRef {
    /// The run with this number.
    pub(crate) fn of(trace: &Trace, run: u32) -> TaskRef {
        let t = &trace.tasks[run as usize];
        TaskRef {
            run,
            launch: t.id.launch,
            step: trace.launches[t.id.launch as usize].step,
            task: t.id.task,
            codelet: trace.class_of(t.id).codelet.clone(),
            implementation: trace.implementation_of(t).into(),
            layer: trace.section_of(t.id).into(),
            unit: trace.units[usize::from(t.unit)].name.clone(),
            start_ns: t.start,
            duration_ns: t.end - t.start,
        }
    }
}
