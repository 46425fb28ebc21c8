//! `dm`, `dmda`, `dmdas`: every task where it is expected to end first, as StarPU's users know them.
//!
//! When a task becomes ready, each unit `u` is rated
//!
//! ```text
//!     end(u) = max(now, free(u)) + transfer(task, u) + duration(task, u)
//! ```
//!
//! where `free(u)` is when the unit is expected to have finished what it was given, and the transfer
//! counts for `dmda` and `dmdas` only. The task goes to the queue of the unit with the smallest value,
//! the first one on a tie. `dmdas` sorts each queue by priority, the others are first in first out.
//!
//! Estimates err, so `free(u)` is corrected whenever a task ends: it is then `now` plus the estimates
//! of what is still queued.

use std::collections::VecDeque;
use std::sync::Mutex;

use dahl_core::{Machine, Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

/// See the module.
#[derive(Debug)]
pub struct Dm {
    name: &'static str,
    transfers: bool,
    sorted: bool,
    units: Mutex<Vec<Lane>>,
}

/// What one unit was given.
#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<(TaskRef, f64)>,
    /// Sum of the estimates in the queue.
    queued: f64,
    /// Estimates of tasks taken and not ended.
    running: f64,
    /// When the running ones were last known to be under way.
    since: f64,
}

impl Lane {
    fn free_at(&self, now: f64) -> f64 {
        now.max(self.since + self.running) + self.queued
    }
}

impl Dm {
    /// For a machine; the name says which of the three.
    pub fn new(machine: &Machine, name: &'static str) -> Self {
        Dm {
            name,
            transfers: name != "dm",
            sorted: name == "dmdas",
            units: Mutex::new(machine.units.iter().map(|_| Lane::default()).collect()),
        }
    }

    fn place(&self, world: &dyn World, lanes: &mut [Lane], task: TaskRef, now: f64) -> UnitId {
        let rate = |(u, lane): (usize, &Lane)| {
            let unit = UnitId(u as u16);
            let transfer = if self.transfers { world.transfer(task, unit).0 } else { 0.0 };
            let length = transfer + world.duration(task, unit).0;
            (unit, length, lane.free_at(now) + length)
        };
        let able = lanes.iter().enumerate().filter(|(u, _)| {
            world.is_uniform() || world.can_run(task, UnitId(*u as u16))
        });
        let best = able.map(rate).min_by(|a, b| a.2.total_cmp(&b.2));
        let (unit, length, _) = best.expect("a launch is refused if a task can run nowhere");
        let lane = &mut lanes[usize::from(unit.0)];
        let at = if self.sorted {
            let p = world.priority(task);
            lane.queue.iter().position(|(t, _)| world.priority(*t) < p).unwrap_or(lane.queue.len())
        } else {
            lane.queue.len()
        };
        lane.queue.insert(at, (task, length));
        lane.queued += length;
        unit
    }
}

impl Policy for Dm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs_time(&self) -> bool {
        true
    }

    fn ready(&self, world: &dyn World, _: Option<UnitId>, tasks: &[TaskRef], now: Seconds) -> Option<TaskRef> {
        for &task in tasks {
            // The lock is released before anybody is woken.
            let unit = self.place(world, &mut lock(&self.units), task, now.0);
            world.wake(Some(unit));
        }
        None
    }

    fn next(&self, _: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef> {
        let mut lanes = lock(&self.units);
        let lane = &mut lanes[usize::from(unit.0)];
        let (task, length) = lane.queue.pop_front()?;
        lane.queued = if lane.queue.is_empty() { 0.0 } else { lane.queued - length };
        lane.running = length;
        lane.since = now.0;
        Some(task)
    }

    fn ended(&self, _: &dyn World, unit: UnitId, _: TaskRef, now: Seconds) {
        let mut lanes = lock(&self.units);
        let lane = &mut lanes[usize::from(unit.0)];
        (lane.running, lane.since) = (0.0, now.0);
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let lanes = lock(&self.units);
        lanes.iter().enumerate().map(|(i, l)| (format!("unit {i}"), l.queue.len())).collect()
    }
}
