//! `eager`: one queue for all units, first come first served.
//!
//! The simplest thing that works and a baseline for the others. It refuses to know anything about
//! tasks; only where units differ does it skip what a unit cannot run.

use std::collections::VecDeque;
use std::sync::Mutex;

use dahl_core::{Machine, Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

#[derive(Debug, Default)]
pub(super) struct Eager {
    queue: Mutex<VecDeque<TaskRef>>,
}

impl Eager {
    /// For a machine.
    pub(super) fn new(_: &Machine) -> Self {
        Self::default()
    }
}

impl Policy for Eager {
    fn name(&self) -> &'static str {
        "eager"
    }

    fn ready(
        &self,
        world: &dyn World,
        _: Option<UnitId>,
        tasks: &[TaskRef],
        _: Seconds,
    ) -> Option<TaskRef> {
        lock(&self.queue).extend(tasks);
        for _ in tasks {
            world.wake(None);
        }
        None
    }

    fn next(&self, world: &dyn World, unit: UnitId, _: Seconds) -> Option<TaskRef> {
        let mut queue = lock(&self.queue);
        if world.is_uniform() {
            return queue.pop_front();
        }
        let i = queue.iter().position(|&t| world.can_run(t, unit))?;
        queue.remove(i)
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        vec![("all".into(), lock(&self.queue).len())]
    }
}
