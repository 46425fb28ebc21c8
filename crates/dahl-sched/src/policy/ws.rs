//! `ws`: work stealing with locality.
//!
//! Every unit has a queue. What a unit makes ready it keeps: the first such task runs at once, while
//! its data is in the cache, the rest goes to the unit's own queue, newest first out. A unit that has
//! nothing takes the oldest task of another one. Roots of a launch are dealt in contiguous shares, so
//! that replays put the same tasks on the same units.
//!
//! On a node of a cluster, what is due first goes first, before all of that ([`World::due`]): messages wait for it. Of what is
//! due at the same time the order is as above, so that data stays warm there, too.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use dahl_core::{Machine, Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

#[derive(Debug)]
pub(super) struct Ws {
    queues: Vec<CachePadded<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// What is due first at the back, and the newest of that.
    tasks: Mutex<VecDeque<TaskRef>>,
    /// Length after the last change: a hint that lets others pass by without taking the lock. A stale
    /// zero is harmless, since the thread that pushes wakes a unit after its push.
    len: AtomicUsize,
}

impl Queue {
    fn push(&self, world: &dyn World, tasks: &[TaskRef]) {
        let mut queue = lock(&self.tasks);
        if world.has_dues() {
            for &task in tasks {
                let due = world.due(task);
                let place = queue.partition_point(|t| world.due(*t) >= due);
                queue.insert(place, task);
            }
        } else {
            queue.extend(tasks);
        }
        self.len.store(queue.len(), Ordering::Release);
    }

    /// Whether nothing of a queue and of what comes into it is due before a task.
    fn has_none_before(&self, world: &dyn World, task: TaskRef, coming: &[TaskRef]) -> bool {
        let alone = coming.is_empty() && self.len.load(Ordering::Relaxed) == 0;
        if alone || !world.has_dues() {
            return true;
        }
        let due = world.due(task);
        let waits = lock(&self.tasks).back().map(|t| world.due(*t) < due);
        waits != Some(true) && coming.iter().all(|&t| world.due(t) >= due)
    }

    fn take(&self, world: &dyn World, unit: UnitId, newest: bool) -> Option<TaskRef> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = lock(&self.tasks);
        let task = match (world.is_uniform(), newest) {
            (true, true) => queue.pop_back(),
            (true, false) if !world.has_dues() => queue.pop_front(),
            (uniform, newest) => {
                let able = |t: &TaskRef| uniform || world.can_run(*t, unit);
                let last = queue.iter().rposition(able);
                let place = match (newest, last) {
                    (false, Some(last)) => {
                        let first = first_alike(world, &queue, last);
                        queue.range(first..).position(able).map(|i| first + i)
                    }
                    _ => last,
                };
                place.and_then(|i| queue.remove(i))
            }
        };
        self.len.store(queue.len(), Ordering::Release);
        task
    }
}

/// The oldest of the tasks of a queue that are due when this one is.
fn first_alike(world: &dyn World, queue: &VecDeque<TaskRef>, of: usize) -> usize {
    if !world.has_dues() {
        return 0;
    }
    let due = world.due(queue[of]);
    queue.partition_point(|t| world.due(*t) > due)
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
                queue.push(world, share);
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
        let own = &self.queues[usize::from(by.0)];
        let (mine, rest) = match tasks {
            [first, rest @ ..]
                if (world.is_uniform() || world.can_run(*first, by))
                    && own.has_none_before(world, *first, rest) =>
            {
                (Some(*first), rest)
            }
            all => (None, all),
        };
        if !rest.is_empty() {
            own.push(world, rest);
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

#[cfg(test)]
mod tests {
    use super::super::stub::Stub;
    use super::*;

    /// Task `t` is due at `t / 10`.
    fn cluster() -> Stub {
        Stub {
            due: Some(|task| i64::from(task.task / 10)),
            ..Stub::default()
        }
    }

    fn tasks(numbers: &[u32]) -> Vec<TaskRef> {
        let task = |&task| TaskRef { launch: 0, task };
        numbers.iter().map(task).collect()
    }

    const T0: Seconds = Seconds(0.0);

    #[test]
    fn what_is_due_first_goes_first_and_of_that_the_newest() {
        let ws = Ws::new(&Machine::cpus(2));
        let (own, other) = (UnitId(0), UnitId(1));
        let handed = |numbers: &[u32]| ws.ready(&cluster(), Some(own), &tasks(numbers), T0);
        assert_eq!(handed(&[21, 31, 22]).map(|t| t.task), Some(21));
        assert_eq!(handed(&[41, 32]), None, "two are due before");
        assert_eq!(handed(&[23, 33]).map(|t| t.task), Some(23));
        let next = |unit| ws.next(&cluster(), unit, T0).map(|t| t.task);
        assert_eq!(next(other), Some(22));
        assert_eq!(next(other), Some(31), "the oldest of what is due first");
        let rest: Vec<u32> = std::iter::from_fn(|| next(own)).collect();
        assert_eq!(rest, [33, 32, 41]);
    }
}
