//! A schedule decided beforehand, followed as a policy: every task on its unit, in its order.
//!
//! It decides nothing. A unit runs the next task of its list and waits, idle, until that is ready; when
//! its list of one launch is done it goes on with the next launch's. Since it is a policy, what drives
//! policies can follow a schedule. Launches are told apart by their numbers, and follow each other in the
//! order in which their first tasks became ready.
//!
//! # Units that stand in
//!
//! Where that is allowed ([`Fixed::among`]), a unit whose next task is not ready does not wait: it runs what is ready
//! of its own list, or of the list of a unit that is like it, the oldest launch first. As long as nobody is late, lists are
//! followed; when one core is held up, by another program or a page fault, the others do its work rather than wait for
//! it. Nothing that a plan decides is lost by it: units of a class take the same time and the same joules for a task, units that
//! differ never exchange anything, a unit that the plan leaves without tasks stays without, and what is computed is
//! the graph's business. It is for units of one memory: where data moves, who runs a task decides what is moved, and tasks
//! wait for transfers in the lists' order.
//!
//! *Nobody waits for ever*: lists contradict neither each other nor the dependencies, so there is one order of all tasks
//! that agrees with both. Of the tasks that nobody has taken let `t` be the first in it. All that `t` waits for has been taken and will
//! end, and so has all that is before it in its list: it is its unit's next.
//!
//! # Waiting
//!
//! A unit is woken for what it may begin and for nothing else. While it looks around it reads one number, so that
//! waiting takes no lock from those who work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use dahl_core::{Seconds, UnitId};

use super::{Policy, TaskRef, World};
use crate::lock::lock;

/// A policy that follows one schedule.
#[derive(Debug)]
pub struct Fixed {
    /// By unit.
    order: Vec<Vec<u32>>,
    /// By unit, where the bits of its list begin, in words.
    words: Vec<usize>,
    /// By task, its unit and its place in that list.
    at: Vec<(u16, u32)>,
    /// By unit, those whose tasks it may run, itself first.
    likes: Vec<Vec<u16>>,
    launches: Mutex<Vec<Progress>>,
    /// By unit, its next task if that is ready; for those that stand in for each other, all that are ready, by the first
    /// of them. A stale zero is harmless, since who makes it more wakes a unit then.
    hints: Vec<CachePadded<AtomicUsize>>,
}

/// How far a launch has come.
#[derive(Debug)]
struct Progress {
    launch: usize,
    /// A bit for every task that is ready and not taken, and for every task that is taken; list by list, by place.
    ready: Vec<u64>,
    taken: Vec<u64>,
    /// By unit, the first place that is not taken.
    next: Vec<usize>,
    /// Tasks that nobody has taken.
    left: usize,
}

/// A place in a list of a launch.
struct Place {
    launch: usize,
    unit: usize,
    place: usize,
}

fn has(bits: &[u64], place: usize) -> bool {
    bits[place / 64] & (1 << (place % 64)) != 0
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
        let mut at = vec![(u16::MAX, 0); tasks];
        let mut words = vec![0];
        for (u, list) in order.iter().enumerate() {
            for (place, &task) in (0..).zip(list) {
                match at.get_mut(task as usize) {
                    None => return Err(ScheduleError::Unknown { task, tasks }),
                    Some((unit, _)) if *unit != u16::MAX => return Err(ScheduleError::Twice(task)),
                    Some(entry) => *entry = (u as u16, place),
                }
            }
            words.push(words[u] + list.len().div_ceil(64));
        }
        match at.iter().position(|&(u, _)| u == u16::MAX) {
            Some(task) => Err(ScheduleError::Missing(task as u32)),
            None => Ok(Fixed {
                hints: order.iter().map(|_| CachePadded::default()).collect(),
                likes: (0..order.len() as u16).map(|u| vec![u]).collect(),
                order,
                words,
                at,
                launches: Mutex::default(),
            }),
        }
    }

    /// The same where units of one class stand in for each other: `class` has every unit's, and nobody stands in for a
    /// unit that it has not.
    pub fn among(mut self, class: &[u16]) -> Fixed {
        let units = class.len().min(self.order.len());
        let alike = |u: usize, v: usize| {
            let work = !self.order[u].is_empty() && !self.order[v].is_empty();
            work && class[u] == class[v]
        };
        for u in 0..units {
            let others = (u + 1..units).chain(0..u).filter(|&v| alike(u, v));
            self.likes[u].extend(others.map(|v| v as u16));
        }
        self
    }

    /// Whether others stand in for a unit.
    fn is_shared(&self, u: usize) -> bool {
        self.likes[u].len() > 1
    }

    fn hint(&self, u: usize) -> &AtomicUsize {
        let first = self.likes[u].iter().min().map_or(u, |&v| usize::from(v));
        &self.hints[first]
    }

    fn progress(&self, launch: usize) -> Progress {
        let bits = vec![0; *self.words.last().unwrap_or(&0)];
        Progress {
            launch,
            taken: bits.clone(),
            ready: bits,
            next: vec![0; self.order.len()],
            left: self.at.len(),
        }
    }

    /// The next task of a unit, if it is ready.
    fn due(&self, launches: &[Progress], u: usize) -> Option<Place> {
        let launch = (launches.iter()).position(|l| l.next[u] < self.order[u].len())?;
        let (progress, place) = (&launches[launch], launches[launch].next[u]);
        let due = has(&progress.ready[self.words[u]..], place);
        due.then_some(Place {
            launch,
            unit: u,
            place,
        })
    }

    /// What else a unit may begin.
    fn instead(&self, launches: &[Progress], u: usize) -> Option<Place> {
        if !self.is_shared(u) {
            return None;
        }
        let first = |ready: &[u64]| {
            let word = ready.iter().position(|&word| word != 0)?;
            Some(64 * word + ready[word].trailing_zeros() as usize)
        };
        let of = |(launch, progress): (usize, &Progress)| {
            let mut likes = self.likes[u].iter().map(|&v| usize::from(v));
            likes.find_map(|unit| {
                let place = first(&progress.ready[self.words[unit]..self.words[unit + 1]])?;
                Some(Place {
                    launch,
                    unit,
                    place,
                })
            })
        };
        launches.iter().enumerate().find_map(of)
    }

    fn take(&self, launches: &mut Vec<Progress>, at: &Place) -> TaskRef {
        let (list, first) = (&self.order[at.unit], self.words[at.unit]);
        let progress = &mut launches[at.launch];
        let (word, bit) = (first + at.place / 64, 1 << (at.place % 64));
        progress.ready[word] &= !bit;
        progress.taken[word] |= bit;
        let next = &mut progress.next[at.unit];
        while *next < list.len() && has(&progress.taken[first..], *next) {
            *next += 1;
        }
        progress.left -= 1;
        let launch = progress.launch;
        if progress.left == 0 {
            launches.remove(at.launch);
        }
        TaskRef {
            launch,
            task: list[at.place],
        }
    }

    /// Wakes the unit that a task is planned for or, if it is awake, one that stands in for it.
    fn wake(&self, world: &dyn World, u: usize) {
        let likes = &self.likes[u];
        if world.wake(Some(UnitId(u as u16))) || !self.is_shared(u) {
            return;
        }
        if likes.len() == self.order.len() {
            world.wake(None);
        } else {
            let mut others = likes[1..].iter();
            others.any(|&v| world.wake(Some(UnitId(v))));
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
        let unit_of = |task: &TaskRef| usize::from(self.at[task.task as usize].0);
        let mut launches = lock(&self.launches);
        for task in tasks {
            let known = launches.iter().position(|l| l.launch == task.launch);
            let launch = known.unwrap_or_else(|| {
                launches.push(self.progress(task.launch));
                launches.len() - 1
            });
            let (u, place) = (unit_of(task), self.at[task.task as usize].1 as usize);
            launches[launch].ready[self.words[u] + place / 64] |= 1 << (place % 64);
            if self.is_shared(u) {
                self.hint(u).fetch_add(1, Ordering::Release);
            } else if self.due(&launches, u).is_some() {
                self.hint(u).store(1, Ordering::Release);
            }
        }
        drop(launches);
        for u in tasks.iter().map(unit_of) {
            if self.hint(u).load(Ordering::Relaxed) > 0 {
                self.wake(world, u);
            }
        }
        None
    }

    fn next(&self, _: &dyn World, unit: UnitId, _: Seconds) -> Option<TaskRef> {
        let u = usize::from(unit.0);
        if u >= self.order.len() || self.hint(u).load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut launches = lock(&self.launches);
        let due = self.due(&launches, u);
        let at = due.or_else(|| self.instead(&launches, u))?;
        let task = self.take(&mut launches, &at);
        if self.is_shared(u) {
            self.hint(u).fetch_sub(1, Ordering::Release);
        } else {
            let due = self.due(&launches, u).is_some();
            self.hint(u).store(usize::from(due), Ordering::Release);
        }
        Some(task)
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let launches = lock(&self.launches);
        let waiting = |u: usize| -> usize {
            let list = self.order[u].len();
            launches.iter().map(|l| list - l.next[u]).sum()
        };
        (0..self.order.len())
            .map(|u| (format!("unit {u}"), waiting(u)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::stub::Stub;
    use super::*;

    /// Everybody sleeps, but for one unit if it is given.
    fn asleep(works: Option<u16>) -> Stub {
        Stub {
            asleep: true,
            works,
            ..Stub::default()
        }
    }

    const T0: Seconds = Seconds(0.0);

    fn fixed(order: &[&[u32]]) -> Fixed {
        let tasks = order.iter().map(|list| list.len()).sum();
        Fixed::new(tasks, order.iter().map(|list| list.to_vec()).collect()).unwrap()
    }

    /// Makes tasks of a launch ready; who was woken.
    fn ready(policy: &Fixed, launch: usize, tasks: &[u32]) -> Vec<u16> {
        let world = asleep(None);
        let tasks: Vec<TaskRef> = tasks.iter().map(|&task| TaskRef { launch, task }).collect();
        assert_eq!(policy.ready(&world, None, &tasks, T0), None);
        world.woken.into_inner()
    }

    fn next(policy: &Fixed, unit: u16) -> Option<(usize, u32)> {
        let task = policy.next(&asleep(None), UnitId(unit), T0);
        task.map(|t| (t.launch, t.task))
    }

    #[test]
    fn a_unit_waits_for_its_next_task_and_is_woken_for_no_other() {
        let policy = fixed(&[&[3, 0], &[2, 1]]);
        assert_eq!(ready(&policy, 7, &[0, 1]), [0u16; 0]);
        assert_eq!((next(&policy, 0), next(&policy, 1)), (None, None));
        assert_eq!(ready(&policy, 7, &[2]), [1]);
        assert_eq!(next(&policy, 0), None);
        assert_eq!(next(&policy, 1), Some((7, 2)));
        // Of the next launch a unit sees nothing before it has taken all of this one.
        assert_eq!(ready(&policy, 8, &[3]), [0u16; 0]);
        assert_eq!(next(&policy, 0), None);
        assert_eq!(ready(&policy, 7, &[3]), [0]);
        let rest: Vec<_> = std::iter::from_fn(|| next(&policy, 0)).collect();
        assert_eq!(rest, [(7, 3), (7, 0), (8, 3)]);
        assert_eq!(next(&policy, 1), Some((7, 1)));
        assert_eq!(next(&policy, 2), None, "a unit that nobody planned for");
    }

    /// Takes for every unit in turn until nobody finds anything; who ran what.
    fn drain(policy: &Fixed, units: &[u16]) -> Vec<(u16, u32)> {
        let mut ran = Vec::new();
        loop {
            let before = ran.len();
            for &u in units {
                ran.extend(next(policy, u).map(|(_, task)| (u, task)));
            }
            if ran.len() == before {
                return ran;
            }
        }
    }

    #[test]
    fn what_a_stuck_unit_was_to_run_its_equals_run() {
        let policy = fixed(&[&[0, 1, 2, 3], &[4, 5], &[6]]).among(&[0, 0, 1]);
        ready(&policy, 1, &[0, 4]);
        assert_eq!(next(&policy, 0), Some((1, 0)));
        // Unit 0 does not come back. Task 5 waits for it, and unit 1 goes on with what unit 0 leaves.
        assert_eq!(next(&policy, 1), Some((1, 4)));
        ready(&policy, 1, &[3, 1, 6]);
        assert_eq!(next(&policy, 1), Some((1, 1)), "in the order of the list");
        assert_eq!(next(&policy, 1), Some((1, 3)));
        assert_eq!(next(&policy, 1), None, "task 6 is another kind's");
        // A task of its own goes first again.
        ready(&policy, 1, &[2, 5]);
        assert_eq!(next(&policy, 1), Some((1, 5)));
        // Back again, unit 0 finds the rest of its list and no more.
        assert_eq!(drain(&policy, &[0, 1]), [(0, 2)]);
        assert_eq!(drain(&policy, &[0, 1, 2]), [(2, 6)]);
        assert!(policy.backlog().iter().all(|(_, left)| *left == 0));
    }

    #[test]
    fn units_that_differ_or_have_no_tasks_never_run_those_of_others() {
        let lists: [&[u32]; 4] = [&[0, 1], &[2, 3], &[], &[4, 5]];
        for (class, alone) in [
            (&[0, 1, 0, 2][..], &[0u16, 1, 3][..]),
            (&[0, 0, 0, 1], &[3]),
            (&[], &[0, 1, 3]),
        ] {
            let policy = fixed(&lists).among(class);
            ready(&policy, 1, &[1, 3, 5]);
            for &u in alone {
                assert_eq!(
                    next(&policy, u),
                    None,
                    "{class:?}: its next task is not ready"
                );
            }
            assert_eq!(
                next(&policy, 2),
                None,
                "{class:?}: the plan leaves it alone"
            );
            ready(&policy, 1, &[0, 2, 4]);
            let ran = drain(&policy, alone);
            for (u, task) in ran {
                let planned = lists.iter().position(|list| list.contains(&task));
                assert_eq!(planned, Some(usize::from(u)), "{class:?}");
            }
        }
    }

    #[test]
    fn while_nobody_is_late_lists_are_followed() {
        let policy = fixed(&[&[0, 2, 4], &[1, 3, 5]]).among(&[0, 0]);
        for launch in 0..3 {
            ready(&policy, launch, &[0, 1, 2, 3, 4, 5]);
            let expected = [(0, 0), (1, 1), (0, 2), (1, 3), (0, 4), (1, 5)];
            assert_eq!(drain(&policy, &[0, 1]), expected);
        }
        // What is ready of an older launch goes before a newer one's, whoever was to run it.
        ready(&policy, 3, &[1, 3]);
        ready(&policy, 4, &[0, 1]);
        let ran: Vec<_> = std::iter::from_fn(|| next(&policy, 0)).collect();
        assert_eq!(ran, [(3, 1), (3, 3), (4, 0), (4, 1)]);
    }

    #[test]
    fn a_task_wakes_its_own_unit_or_one_that_stands_in() {
        let alike = fixed(&[&[0, 1], &[2], &[3]]).among(&[0, 0, 1]);
        assert_eq!(
            ready(&alike, 1, &[1]),
            [0],
            "not its next, and still its to run"
        );
        assert_eq!(next(&alike, 1), Some((1, 1)));
        let awake = asleep(Some(0));
        let task = TaskRef { launch: 1, task: 0 };
        alike.ready(&awake, None, &[task], T0);
        assert_eq!(awake.woken.into_inner(), [1], "unit 0 is at work");
    }
}
