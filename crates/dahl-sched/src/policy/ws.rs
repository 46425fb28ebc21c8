//! `ws`: work stealing with locality.
//!
//! Every unit has a queue. What a unit makes ready it keeps: the first such task runs at once, while
//! its data is in the cache, the rest goes to the unit's own queue, newest first out. A unit that has
//! nothing takes the oldest task of another one. Roots of a launch are dealt in contiguous shares, so
//! that replays put the same tasks on the same units.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use dahl_core::{Machine, Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

/// See the module.
#[derive(Debug)]
pub(super) struct Ws {
    queues: Vec<CachePadded<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: Mutex<VecDeque<TaskRef>>,
    /// Length after the last change: a hint that lets others pass by without taking the lock. A stale
    /// zero is harmless, since the thread that pushes wakes a unit after its push.
    len: AtomicUsize,
}

impl Queue {
    fn push(&self, tasks: &[TaskRef]) {
        let mut queue = lock(&self.tasks);
        queue.extend(tasks);
        self.len.store(queue.len(), Ordering::Release);
    }

    fn take(&self, world: &dyn World, unit: UnitId, newest: bool) -> Option<TaskRef> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = lock(&self.tasks);
        let task = if world.is_uniform() {
            if newest {
                queue.pop_back()
            } else {
                queue.pop_front()
            }
        } else {
            let able = |t: &TaskRef| world.can_run(*t, unit);
            let place = if newest {
                queue.iter().rposition(able)
            } else {
                queue.iter().position(able)
            };
            place.and_then(|i| queue.remove(i))
        };
        self.len.store(queue.len(), Ordering::Release);
        task
    }
}

impl Ws {
    /// For a machine.
    pub(super) fn new(machine: &Machine) -> Self {
        Ws {
            queues: machine
                .units
                .iter()
                .map(|_| CachePadded::default())
                .collect(),
        }
    }

    fn deal(&self, world: &dyn World, tasks: &[TaskRef]) {
        let n = self.queues.len();
        for (u, queue) in self.queues.iter().enumerate() {
            let share = &tasks[u * tasks.len() / n..(u + 1) * tasks.len() / n];
            if !share.is_empty() {
                queue.push(share);
                // Its unit may be busy for long, or unable to run some of it: then somebody else should
                // come and take it.
                if !world.wake(Some(UnitId(u as u16))) || !world.is_uniform() {
                    world.wake(None);
                }
            }
        }
    }
}

impl Policy for Ws {
    fn name(&self) -> &'static str {
        "ws"
    }

    fn ready(
        &self,
        world: &dyn World,
        by: Option<UnitId>,
        tasks: &[TaskRef],
        _: Seconds,
    ) -> Option<TaskRef> {
        let Some(by) = by else {
            self.deal(world, tasks);
            return None;
        };
        let (mine, rest) = match tasks {
            [first, rest @ ..] if world.is_uniform() || world.can_run(*first, by) => {
                (Some(*first), rest)
            }
            all => (None, all),
        };
        if !rest.is_empty() {
            self.queues[usize::from(by.0)].push(rest);
            for _ in rest {
                world.wake(None);
            }
        }
        mine
    }

    fn next(&self, world: &dyn World, unit: UnitId, _: Seconds) -> Option<TaskRef> {
        let me = usize::from(unit.0);
        let n = self.queues.len();
        let stolen = |world: &dyn World| {
            (1..n).find_map(|d| self.queues[(me + d) % n].take(world, unit, false))
        };
        self.queues[me]
            .take(world, unit, true)
            .or_else(|| stolen(world))
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let of = |(i, q): (usize, &CachePadded<Queue>)| (format!("unit {i}"), lock(&q.tasks).len());
        self.queues.iter().enumerate().map(of).collect()
    }
}
