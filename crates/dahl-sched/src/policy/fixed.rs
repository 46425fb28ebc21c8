//! A schedule decided beforehand, followed as a policy: every task on its unit, in its order.
//!
//! It decides nothing. A unit runs the next task of its list and waits, idle, until that is ready; when
//! its list of one launch is done it goes on with the next launch's. Since it is a policy, what drives
//! policies can follow a schedule. Launches are told apart by their numbers, and follow each other in the
//! order in which their first tasks became ready.

use std::sync::Mutex;

use dahl_core::{Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

/// See the module.
#[derive(Debug)]
pub struct Fixed {
    /// By unit.
    order: Vec<Vec<u32>>,
    unit_of: Vec<u16>,
    launches: Mutex<Vec<Progress>>,
}

/// How far a launch has come.
#[derive(Debug)]
struct Progress {
    launch: usize,
    /// A bit for every task that is ready.
    ready: Vec<u64>,
    /// How many tasks of its list each unit has taken.
    taken: Vec<usize>,
    /// Tasks that nobody has taken.
    left: usize,
}

/// Why a schedule is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It has a task that the graph has not.
    #[error("the schedule names task {task}, the graph has {tasks}")]
    Unknown {
        /// The task.
        task: u32,
        /// How many the graph has.
        tasks: usize,
    },
    /// It has a task twice.
    #[error("the schedule runs task {0} twice")]
    Twice(u32),
    /// It lacks a task.
    #[error("the schedule does not run task {0}")]
    Missing(u32),
}

impl Fixed {
    /// For a graph of so many tasks: for every unit, its tasks in order.
    pub fn new(tasks: usize, order: Vec<Vec<u32>>) -> Result<Fixed, ScheduleError> {
        let mut unit_of = vec![u16::MAX; tasks];
        for (u, list) in order.iter().enumerate() {
            for &task in list {
                match unit_of.get_mut(task as usize) {
                    None => return Err(ScheduleError::Unknown { task, tasks }),
                    Some(unit) if *unit != u16::MAX => return Err(ScheduleError::Twice(task)),
                    Some(unit) => *unit = u as u16,
                }
            }
        }
        match unit_of.iter().position(|&u| u == u16::MAX) {
            Some(task) => Err(ScheduleError::Missing(task as u32)),
            None => Ok(Fixed {
                order,
                unit_of,
                launches: Mutex::default(),
            }),
        }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn ready(
        &self,
        world: &dyn World,
        _: Option<UnitId>,
        tasks: &[TaskRef],
        _: Seconds,
    ) -> Option<TaskRef> {
        let mut launches = lock(&self.launches);
        for task in tasks {
            let known = launches.iter().position(|l| l.launch == task.launch);
            let at = known.unwrap_or_else(|| {
                launches.push(Progress {
                    launch: task.launch,
                    ready: vec![0; self.unit_of.len().div_ceil(64)],
                    taken: vec![0; self.order.len()],
                    left: self.unit_of.len(),
                });
                launches.len() - 1
            });
            launches[at].ready[task.task as usize / 64] |= 1 << (task.task % 64);
        }
        drop(launches);
        for task in tasks {
            world.wake(Some(UnitId(self.unit_of[task.task as usize])));
        }
        None
    }

    fn next(&self, _: &dyn World, unit: UnitId, _: Seconds) -> Option<TaskRef> {
        let u = usize::from(unit.0);
        let list = self.order.get(u)?;
        let mut launches = lock(&self.launches);
        let at = launches.iter().position(|l| l.taken[u] < list.len())?;
        let progress = &mut launches[at];
        let task = list[progress.taken[u]];
        if progress.ready[task as usize / 64] & (1 << (task % 64)) == 0 {
            return None;
        }
        progress.taken[u] += 1;
        progress.left -= 1;
        let launch = progress.launch;
        if progress.left == 0 {
            launches.remove(at);
        }
        Some(TaskRef { launch, task })
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let launches = lock(&self.launches);
        let waiting = |u: usize| -> usize {
            let list = self.order[u].len();
            launches.iter().map(|l| list - l.taken[u]).sum()
        };
        (0..self.order.len())
            .map(|u| (format!("unit {u}"), waiting(u)))
            .collect()
    }
}
