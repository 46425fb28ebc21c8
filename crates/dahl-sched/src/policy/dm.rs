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
//! the first one on a tie. `dmdas` sorts each queue by what is due ([`World::due`]) and by priority, the others are first in first out; but a
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

#[derive(Debug)]
pub(super) struct Dm {
    name: &'static str,
    transfers: bool,
    sorted: bool,
    lanes: Mutex<Lanes>,
    /// How long each queue is after its last change: a hint, so that a unit without work looks without
    /// taking the lock. A stale zero is harmless, since the thread that queues a task then wakes its unit.
    hints: Vec<CachePadded<AtomicUsize>>,
}

/// What the units were given. The figures that are compared for every task stand side by side.
#[derive(Debug)]
struct Lanes {
    queues: Vec<VecDeque<(TaskRef, f64)>>,
    /// Sums of the estimates in the queues.
    queued: Vec<f64>,
    /// When each unit is expected to have ended the tasks it took.
    until: Vec<f64>,
    taken: Vec<Taken>,
    /// Room for when a task would end on each.
    ends: Vec<f64>,
}

/// Estimates of the tasks that a unit has taken and not ended: it may take the next one before it has ended
/// one.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    all: f64,
    last: f64,
}

impl Lanes {
    fn new(units: usize) -> Self {
        Lanes {
            queues: vec![VecDeque::new(); units],
            queued: vec![0.0; units],
            until: vec![0.0; units],
            taken: vec![Taken::default(); units],
            ends: vec![0.0; units],
        }
    }

    /// The unit where a task of these lengths ends first; the first of them on a tie.
    fn first_to_end(&mut self, lengths: &[f64], now: f64) -> usize {
        // In plain steps that are made for several units at once: this is most of what deciding takes.
        let free = self.until.iter().zip(&self.queued);
        for ((end, (until, queued)), length) in self.ends.iter_mut().zip(free).zip(lengths) {
            // Not `f64::max`, which looks for NaN.
            let begin = if *until > now { *until } else { now };
            *end = begin + queued + length;
        }
        let least = least(&self.ends);
        let first = self.ends.iter().position(|end| *end == least);
        first.unwrap_or(0)
    }

    /// A unit turns to a task of this length.
    fn take(&mut self, unit: usize, length: f64, now: f64) {
        let taken = &mut self.taken[unit];
        taken.all += length;
        taken.last = length;
        self.until[unit] = now + taken.all;
    }
}

/// The least of some values.
fn least(values: &[f64]) -> f64 {
    let lesser = |a: f64, b: f64| if b < a { b } else { a };
    let mut of_each = [f64::INFINITY; 8];
    let (eights, rest) = values.as_chunks::<8>();
    for eight in eights {
        for (least, value) in of_each.iter_mut().zip(eight) {
            *least = lesser(*least, *value);
        }
    }
    of_each
        .iter()
        .chain(rest)
        .copied()
        .fold(f64::INFINITY, lesser)
}

impl Dm {
    /// For a machine; the name says which of the three.
    pub(super) fn new(machine: &Machine, name: &'static str) -> Self {
        let units = machine.units.len();
        Dm {
            name,
            transfers: name != "dm",
            sorted: name == "dmdas",
            lanes: Mutex::new(Lanes::new(units)),
            hints: (0..units).map(|_| CachePadded::default()).collect(),
        }
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
        let mut guard = lock(&self.lanes);
        let lanes = &mut *guard;
        let unit = lanes.first_to_end(lengths, now);
        let queue = &mut lanes.queues[unit];
        let at = match self.sorted {
            true => {
                // What is due first, and of that what has the highest priority.
                let dues = world.has_dues();
                let due = |t: TaskRef| if dues { world.due(t) } else { 0 };
                let rank = |t: TaskRef| (-due(t), world.priority(t));
                let own = rank(task);
                queue.partition_point(|t| rank(t.0) >= own)
            }
            false => queue.len(),
        };
        let first = !self.sorted || at == 0;
        // A unit that has taken its next task ahead has no use for another.
        if asks == Some(UnitId(unit as u16)) && first && lanes.taken[unit].all == 0.0 {
            lanes.take(unit, lengths[unit], now);
            return None;
        }
        queue.insert(at, (task, lengths[unit]));
        self.hints[unit].store(queue.len(), Ordering::Release);
        lanes.queued[unit] += lengths[unit];
        Some(UnitId(unit as u16))
    }
}

thread_local! {
    /// Room for [`World::lengths`], so that nothing is allocated per task.
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
        lengths.resize(self.hints.len(), 0.0);
        let mut handed = None;
        for &task in tasks {
            // Asked before the lock is taken: the world may have locks of its own.
            world.lengths(task, self.transfers, &mut lengths);
            let asks = by.filter(|_| handed.is_none());
            // The lock is released before anybody is woken.
            match self.place(world, task, &lengths, now.0, asks) {
                None => handed = Some(task),
                // The unit that made it ready looks by itself.
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
        let mut guard = lock(&self.lanes);
        let lanes = &mut *guard;
        let queue = &mut lanes.queues[u];
        let (task, length) = queue.pop_front()?;
        self.hints[u].store(queue.len(), Ordering::Release);
        lanes.queued[u] = if queue.is_empty() {
            0.0
        } else {
            lanes.queued[u] - length
        };
        lanes.take(u, length, now.0);
        Some(task)
    }

    fn ended(&self, _: &dyn World, unit: UnitId, _: TaskRef, now: Seconds) {
        let u = usize::from(unit.0);
        let mut lanes = lock(&self.lanes);
        let Taken { all, last } = lanes.taken[u];
        // If two were taken, it was the first that ended.
        let left = if all > last { last } else { 0.0 };
        lanes.taken[u].all = left;
        lanes.until[u] = now.0 + left;
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let lanes = lock(&self.lanes);
        let queues = lanes.queues.iter().enumerate();
        queues
            .map(|(i, q)| (format!("unit {i}"), q.len()))
            .collect()
    }
}
