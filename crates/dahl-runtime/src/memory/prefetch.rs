//! Prefetch: bringing operands of the next task while the current one runs.
//!
//! A hint and never a promise: it waits for no room, gives up only what is needed later than its own
//! task, and is dropped when its task asks for its operands before it has begun. A fetch that fails is
//! left to the task, which finds out by itself.

use std::sync::Arc;

use dahl_core::{MemoryId, Region, Shape};
use dahl_sched::policy::TaskRef;

use super::join::Asker;
use super::needs::Need;
use super::room::Wish;
use super::transfer::{Ask, Why};
use super::{Memories, StateGuard};
use crate::instance::{Instance, Prepared};
use crate::sync::{Ordering, lock};

/// How much more than the least it may cost to make room ahead of time: waiting costs time, too.
const WORTH: f64 = 1.05;

/// Operands to fetch before their task asks for them.
pub(super) struct Request {
    task: TaskRef,
    memory: MemoryId,
    keys: Vec<u64>,
    /// Storages, by key and in the task's graph, with what is to be there of them.
    parts: Vec<(u64, u32, Shape, Region)>,
    why: Why,
    /// The task's moment.
    now: u64,
    prepared: Arc<Prepared>,
}

impl Request {
    /// Where they are to go.
    pub(super) fn memory(&self) -> MemoryId {
        self.memory
    }
}

impl Memories {
    /// Asks for a task's operands to be fetched while others run.
    pub(crate) fn prefetch(&self, instance: &Instance, task: u32, memory: MemoryId) {
        let graph = instance.graph();
        let mut state = lock(&self.state);
        if state.directory.is_lost(memory) || self.is_coming(&state, instance, task, memory) {
            return;
        }
        let (mut keys, mut parts) = (Vec::new(), Vec::new());
        for access in instance.accesses(task) {
            let array = &graph.arrays[access.array as usize];
            state.directory.entry(instance, array.storage);
            let key = instance.keys[array.storage as usize];
            keys.push(key);
            if access.mode.reads() && access.fresh.is_none() {
                parts.push((key, array.storage, array.shape, access.region));
            }
        }
        let prepared = &instance.prepared;
        let m = usize::from(memory.0);
        // What never fits will run elsewhere.
        if self.together(&state, &keys, memory) > state.directory.capacity[m] {
            return;
        }
        state.requests.push_back(Request {
            task: instance.task(task),
            memory,
            keys,
            parts,
            why: Why::task(instance, task, true),
            now: prepared.needs.moment(m, instance.serial(), task),
            prepared: prepared.clone(),
        });
        drop(state);
        self.requested.notify_one();
    }

    /// A task that asked for a prefetch will not run, or has failed: drops the request, and waits if it is
    /// being served, since the arrays may go away. It has not completed.
    pub(crate) fn abandon(&self, task: TaskRef) {
        let state = self.drop_request(lock(&self.state), task);
        drop(self.give_up(state, task));
    }

    /// Drops the request of a task, or waits until it has been served.
    pub(super) fn drop_request<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        task: TaskRef,
    ) -> StateGuard<'s> {
        state.requests.retain(|r| r.task != task);
        while state.serving.contains(&task) {
            state = self.wait(state);
        }
        state
    }

    /// Serves requests until told to stop: the body of the copying thread.
    pub(crate) fn serve(&self) {
        let mut state = lock(&self.state);
        while !state.stopping {
            let Some(request) = state.requests.pop_front() else {
                let planned = state.following.as_mut().and_then(|f| f.next());
                if let Some(order) = planned {
                    state = self.carry_planned(state, order);
                    continue;
                }
                let woken = self.requested.wait(state);
                state = woken.unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            };
            let memory = request.memory;
            // Under the same lock that takes the request: from here on its task waits for us.
            state.serving.push(request.task);
            // SAFETY: its task has not run, since it waits for us first, so its launch has not ended.
            let instance = unsafe { Instance::of(request.task) };
            // All that finds room stays until all of it is there: it may travel together.
            let mut kept = Vec::with_capacity(request.parts.len());
            let wish = Wish {
                keys: &request.keys,
                memory,
                now: request.now,
                needs: &request.prepared.needs,
                launch: &instance.keys,
            };
            for &(key, storage, ref shape, ref region) in &request.parts {
                let (guard, has_room) = self.room_ahead(state, &wish, key);
                state = guard;
                if !has_room {
                    continue;
                }
                let need = Need {
                    at: request.now,
                    reads: true,
                };
                state.directory.touch(key, memory, need);
                state.directory.pin(key, memory);
                kept.push(Ask {
                    key,
                    shape,
                    region,
                    memory,
                    why: request.why,
                    asker: Some(Asker {
                        instance,
                        task: request.task.task,
                        storage,
                    }),
                });
            }
            let (guard, mut bytes) = self.fetch_small(state, kept.iter().copied());
            state = guard;
            for ask in &kept {
                let (guard, fetched) = self.fetch(state, ask);
                (state, bytes) = (guard, bytes + fetched.unwrap_or(0));
            }
            for ask in &kept {
                state.directory.unpin(ask.key, memory);
            }
            let prefetched = &self.counters.prefetched;
            prefetched.fetch_add(bytes as u64, Ordering::Relaxed);
            state.serving.retain(|t| *t != request.task);
            self.note_usage(&mut state);
            self.changed.notify_all();
        }
    }

    /// Finds room for a storage of a wish that a task will have, if that costs only what is needed later
    /// still.
    pub(super) fn room_ahead<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        wish: &Wish<'_>,
        key: u64,
    ) -> (StateGuard<'s>, bool) {
        let memory = wish.memory;
        let m = usize::from(memory.0);
        if self.allocate(&mut state, key, memory) {
            return (state, true);
        }
        let (used, capacity) = (state.directory.used[m], state.directory.capacity[m]);
        let short = (used + self.footprint(&state, key, memory)).saturating_sub(capacity);
        let chosen = self.victims(&state, wish, short, false);
        // If something in use now will be much cheaper to give up when it is the task's turn, better
        // wait until then.
        let least = self.victims(&state, wish, short, true);
        let dear = chosen.is_tried != least.is_tried || chosen.cost > WORTH * least.cost;
        let later = |key: &u64| {
            let entry = state.directory.entries.get(key);
            entry.is_some_and(|e| e.copies[m].need.at > wish.now)
        };
        if short == 0 || dear || !chosen.keys.iter().all(later) {
            return (state, false);
        }
        for victim in chosen.keys {
            state = self.evict(state, victim, memory);
            // What was chosen makes room for all that the task needs, this is for one array of it.
            if self.allocate(&mut state, key, memory) {
                return (state, true);
            }
        }
        (state, false)
    }

    /// Lets [`Memories::serve`] return.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.requested.notify_all();
    }
}
