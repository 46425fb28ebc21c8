//! Planned transfers: copies that a schedule decided on with the tasks, made by the copying threads in its
//! order, ahead of the tasks that wait for them.
//!
//! Which of them may go now is the rule of [`dahl_sched::transfers`], by which the simulator goes too; here
//! are the events that it is told of, and who waits for what; the copies are made in `ahead`. As for a prefetch, each is a hint and never a promise:
//! it waits for no room, gives up only what is needed later than its own task, carries what is current where
//! it comes from, and if it cannot be made it counts as done. What it left behind its task fetches itself.
//!
//! # Why it is safe
//!
//! *Bytes.* A planned copy is of elements that nobody need have asked for, so the argument is that of
//! `join`: all marks are changed and looked at under the one lock; nothing is copied that a task is writing
//! or of which the host writes some by a guard; who is about to write waits for what is on its way. To the
//! host it writes elements that are not current there: no task and no guard reads those.
//!
//! *Life.* While a copy is under way, its launch must not end: arrays and temporaries may go away with it.
//! A copy begins only if a task that will read it has not asked for its operands, looked at under the lock;
//! and a task that asks, or is given up, waits until nothing that it would have read is under way
//! ([`Memories::await_planned`], [`Memories::abandon`]). So that task has not ended while the copy is under
//! way, and neither has its launch. A temporary is known to the directory from its first use to its last:
//! one that is not known is left alone.
//!
//! *Progress.* Tasks wait for transfers, and transfers for ends of tasks and for each other, in an order
//! that was found to have no circle; while waiting, nobody holds room or pins. Copies themselves wait for
//! nothing but the link, and to make room at most for another copy. A task that fails, or is not run because
//! another did, gives its launch up: from then on nobody waits for any of its transfers but those under way.

use std::sync::Arc;

use dahl_core::MemoryId;
use dahl_sched::policy::TaskRef;
use dahl_sched::transfers::{TransferQueues, Transfers};

use super::{Memories, StateGuard};
use crate::instance::Instance;
use crate::sync::lock;

/// Launches whose transfers are followed.
pub(super) struct Following {
    lines: TransferQueues,
    /// Those in flight, by their numbers.
    flights: Vec<(u64, Arc<Instance>)>,
    /// For every link, whether a copying thread is busy with it.
    busy: Vec<bool>,
}

/// A transfer that a thread has taken on.
pub(super) struct Order {
    link: usize,
    pub launch: u64,
    pub number: u32,
    pub instance: Arc<Instance>,
}

impl Following {
    fn new(transfers: &Arc<Transfers>) -> Following {
        Following {
            busy: vec![false; transfers.links().count()],
            lines: TransferQueues::new(transfers.clone()),
            flights: Vec::new(),
        }
    }

    /// Forgets launches that are over.
    fn tidy(&mut self) {
        let lines = &self.lines;
        self.flights.retain(|(launch, _)| lines.knows(*launch));
    }

    /// Gives up all launches.
    pub(super) fn clear(&mut self) {
        for (launch, _) in std::mem::take(&mut self.flights) {
            self.lines.give_up(launch);
        }
    }

    /// A transfer for a thread to make.
    pub(super) fn next(&mut self) -> Option<Order> {
        for link in 0..self.busy.len() {
            if self.busy[link] {
                continue;
            }
            while let Some((launch, number)) = self.lines.next(link) {
                let flight = self.flights.iter().find(|f| f.0 == launch);
                if let Some((_, instance)) = flight {
                    self.busy[link] = true;
                    return Some(Order {
                        link,
                        launch,
                        number,
                        instance: instance.clone(),
                    });
                }
                self.lines.done(launch, number);
            }
        }
        None
    }

    /// A transfer has been made, as far as it could be.
    pub(super) fn done(&mut self, order: &Order) {
        self.busy[order.link] = false;
        self.lines.done(order.launch, order.number);
        self.tidy();
    }

    /// Whether a task may ask for its operands in a memory.
    fn lets(&self, instance: &Instance, task: u32, memory: MemoryId) -> bool {
        let launch = instance.serial();
        self.lines.is_brought(launch, task, memory.0) && !self.lines.is_under_way(launch, task)
    }

    /// Launches with the transfers that are still to go, for people.
    pub(super) fn backlog(&self) -> Vec<String> {
        let all = self.lines.backlog();
        all.map(|(launch, left, first)| {
            format!("launch {launch}: {left} planned transfers left, first on links {first:?}")
        })
        .collect()
    }
}

impl Memories {
    /// Prepares a launch, whose tasks cannot begin yet, and lets its transfers go if some were planned.
    pub(crate) fn launch(&self, instance: &Arc<Instance>, serial: u64) {
        let Some(transfers) = &instance.prepared.transfers else {
            instance.arm(serial);
            return;
        };
        let mut state = lock(&self.state);
        let following = state
            .following
            .get_or_insert_with(|| Following::new(transfers));
        // What is left of a launch that used this instance before would look at the stages of this one.
        let same = |f: &&(u64, Arc<Instance>)| Arc::ptr_eq(&f.1, instance);
        if let Some(old) = following.flights.iter().find(same).map(|f| f.0) {
            following.lines.give_up(old);
            following.tidy();
        }
        instance.arm(serial);
        following.lines.begin(serial);
        following.flights.push((serial, instance.clone()));
        drop(state);
        self.requested.notify_all();
    }

    /// A task has ended: what it made may go.
    pub(super) fn note_end(&self, state: &mut StateGuard<'_>, instance: &Instance, task: u32) {
        let Some(following) = &mut state.following else {
            return;
        };
        let launch = instance.serial();
        if following.lines.ended(launch, task) {
            self.requested.notify_all();
        }
        if !following.lines.knows(launch) {
            following.tidy();
        }
    }

    /// Waits until what was to be brought for a task to a memory is there, or will not be brought.
    pub(super) fn await_planned<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        instance: &Instance,
        task: u32,
        memory: MemoryId,
    ) -> StateGuard<'s> {
        let lets = |state: &StateGuard<'_>| {
            let following = state.following.as_ref();
            following.is_none_or(|f| f.lets(instance, task, memory))
        };
        while !lets(&state) {
            state = self.wait(state);
        }
        state
    }

    /// Whether what a task will read in a memory is still to be brought there as it was planned.
    pub(super) fn is_coming(
        &self,
        state: &StateGuard<'_>,
        instance: &Instance,
        task: u32,
        memory: MemoryId,
    ) -> bool {
        let following = state.following.as_ref();
        following.is_some_and(|f| !f.lets(instance, task, memory))
    }

    /// A task will not run: gives its launch up, and waits while something that it would have read is under
    /// way, since the arrays may go away.
    pub(super) fn give_up<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        task: TaskRef,
    ) -> StateGuard<'s> {
        if state.following.is_none() {
            return state;
        }
        // SAFETY: the task has not completed, so its launch has not ended.
        let launch = unsafe { Instance::of(task) }.serial();
        if let Some(following) = &mut state.following {
            following.lines.give_up(launch);
            following.tidy();
            self.changed.notify_all();
            self.requested.notify_all();
        }
        let under_way = |state: &StateGuard<'_>| {
            let following = state.following.as_ref();
            following.is_some_and(|f| f.lines.is_under_way(launch, task.task))
        };
        while under_way(&state) {
            state = self.wait(state);
        }
        state
    }
}
