//! The world of policies' tests: every unit runs every task in a second, and nobody sleeps. What a test wants otherwise, it
//! says.

use std::cell::RefCell;

use dahl_core::{Seconds, UnitId};

use super::{TaskRef, World};

/// See the module.
#[derive(Default)]
pub(super) struct Stub {
    /// When a task is due, where any is.
    pub due: Option<fn(TaskRef) -> i64>,
    /// Graph and launch of a task; all are of one graph unless said.
    pub origin: Option<fn(TaskRef) -> (u64, u64)>,
    /// Whether units sleep until they are woken.
    pub asleep: bool,
    /// The unit that does not.
    pub works: Option<u16>,
    /// Who was woken.
    pub woken: RefCell<Vec<u16>>,
}

impl World for Stub {
    fn can_run(&self, _: TaskRef, _: UnitId) -> bool {
        true
    }

    fn is_uniform(&self) -> bool {
        true
    }

    fn duration(&self, _: TaskRef, _: UnitId) -> Seconds {
        Seconds(1.0)
    }

    fn transfer(&self, _: TaskRef, _: UnitId) -> Seconds {
        Seconds(0.0)
    }

    fn priority(&self, _: TaskRef) -> i32 {
        0
    }

    fn has_dues(&self) -> bool {
        self.due.is_some()
    }

    fn due(&self, task: TaskRef) -> i64 {
        self.due.map_or(0, |due| due(task))
    }

    fn origin(&self, task: TaskRef) -> (u64, u64) {
        let usual = (0, task.launch as u64);
        self.origin.map_or(usual, |origin| origin(task))
    }

    fn wake(&self, unit: Option<UnitId>) -> bool {
        let sleeps = |u: &u16| self.asleep && Some(*u) != self.works;
        let unit = unit.map(|u| u.0).filter(sleeps);
        self.woken.borrow_mut().extend(unit);
        unit.is_some()
    }
}
