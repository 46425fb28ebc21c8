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
//! the first one on a tie. `dmdas` sorts each queue by priority, the others are first in first out; but a
//! task that goes to the very unit that made it ready is run at once, before what is queued (unless that
//! is more urgent, for `dmdas`): what it reads is in the caches now and may not be later.
//!
//! Estimates err, so `free(u)` is corrected whenever a task ends: it is then `now` plus the estimates
//! of what is still queued.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use dahl_core::{Machine, Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

/// See the module.
#[derive(Debug)]
pub struct Dm {
    name: &'static str,
    transfers: bool,
    sorted: bool,
    units: usize,
    lanes: Mutex<Vec<Lane>>,
    /// How long each queue is after its last change: a hint, so that a unit without work looks without
    /// taking the lock. A stale zero is harmless, since whoever queues a task then wakes its unit.
    hints: Vec<CachePadded<AtomicUsize>>,
}

/// What one unit was given.
#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<(TaskRef, f64)>,
    /// Sum of the estimates in the queue.
    queued: f64,
    /// Estimates of tasks taken and not ended: a unit may take the next one before it has ended one.
    running: f64,
    /// The estimate of the task taken last.
    last: f64,
    /// When the running ones were last known to be under way.
    since: f64,
}

impl Lane {
    fn free_at(&self, now: f64) -> f64 {
        now.max(self.since + self.running) + self.queued
    }

    /// The unit turns to a task of this length.
    fn take(&mut self, length: f64, now: f64) {
        self.running += length;
        self.last = length;
        self.since = now;
    }
}

impl Dm {
    /// For a machine; the name says which of the three.
    pub fn new(machine: &Machine, name: &'static str) -> Self {
        Dm {
            name,
            transfers: name != "dm",
            sorted: name == "dmdas",
            units: machine.units.len(),
            lanes: Mutex::new(machine.units.iter().map(|_| Lane::default()).collect()),
            hints: machine
                .units
                .iter()
                .map(|_| CachePadded::default())
                .collect(),
        }
    }

    /// How long a task would keep each unit busy; infinite where it cannot run. Asked before the lock is
    /// taken: the world may have locks of its own.
    fn lengths(&self, world: &dyn World, task: TaskRef, units: usize, out: &mut Vec<f64>) {
        out.clear();
        out.extend((0..units as u16).map(UnitId).map(|unit| {
            if !world.is_uniform() && !world.can_run(task, unit) {
                return f64::INFINITY;
            }
            let transfer = if self.transfers {
                world.transfer(task, unit).0
            } else {
                0.0
            };
            transfer + world.duration(task, unit).0
        }));
    }

    /// Gives a task to the unit where it ends first: `None` if that is the one who asks and it may begin at
    /// once, else who got it into its queue.
    fn place(
        &self,
        world: &dyn World,
        task: TaskRef,
        lengths: &[f64],
        now: f64,
        asks: Option<UnitId>,
    ) -> Option<UnitId> {
        let mut lanes = lock(&self.lanes);
        let ends = lanes
            .iter()
            .zip(lengths)
            .map(|(lane, length)| lane.free_at(now) + length);
        let best = ends.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let (unit, _) = best.expect("a machine has units");
        let lane = &mut lanes[unit];
        let at = if self.sorted {
            let p = world.priority(task);
            let lower = |t: &(TaskRef, f64)| world.priority(t.0) < p;
            lane.queue.iter().position(lower)
        } else {
            None
        };
        let first = !self.sorted || lane.queue.is_empty() || at == Some(0);
        // A unit that has taken its next task ahead has no use for another.
        if asks == Some(UnitId(unit as u16)) && first && lane.running == 0.0 {
            lane.take(lengths[unit], now);
            return None;
        }
        let at = at.unwrap_or(lane.queue.len());
        lane.queue.insert(at, (task, lengths[unit]));
        lane.queued += lengths[unit];
        self.hints[unit].store(lane.queue.len(), Ordering::Release);
        Some(UnitId(unit as u16))
    }
}

thread_local! {
    /// Room for [`Dm::lengths`], so that nothing is allocated per task.
    static LENGTHS: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

impl Policy for Dm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs_time(&self) -> bool {
        true
    }

    fn ready(
        &self,
        world: &dyn World,
        by: Option<UnitId>,
        tasks: &[TaskRef],
        now: Seconds,
    ) -> Option<TaskRef> {
        let mut lengths = LENGTHS.take();
        let mut handed = None;
        for &task in tasks {
            self.lengths(world, task, self.units, &mut lengths);
            let asks = by.filter(|_| handed.is_none());
            // The lock is released before anybody is woken.
            match self.place(world, task, &lengths, now.0, asks) {
                None => handed = Some(task),
                // Whoever made it ready looks by itself.
                Some(unit) if by == Some(unit) => {}
                Some(unit) => {
                    world.wake(Some(unit));
                }
            }
        }
        LENGTHS.set(lengths);
        handed
    }

    fn next(&self, _: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef> {
        let u = usize::from(unit.0);
        if self.hints[u].load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut lanes = lock(&self.lanes);
        let lane = &mut lanes[u];
        let (task, length) = lane.queue.pop_front()?;
        self.hints[u].store(lane.queue.len(), Ordering::Release);
        lane.queued = if lane.queue.is_empty() {
            0.0
        } else {
            lane.queued - length
        };
        lane.take(length, now.0);
        Some(task)
    }

    fn ended(&self, _: &dyn World, unit: UnitId, _: TaskRef, now: Seconds) {
        let mut lanes = lock(&self.lanes);
        let lane = &mut lanes[usize::from(unit.0)];
        // If two were taken, it was the first that ended.
        lane.running = if lane.running > lane.last {
            lane.last
        } else {
            0.0
        };
        lane.since = now.0;
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let lanes = lock(&self.lanes);
        lanes
            .iter()
            .enumerate()
            .map(|(i, l)| (format!("unit {i}"), l.queue.len()))
            .collect()
    }
}
