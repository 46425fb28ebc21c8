//! Prefetch: bringing operands of the next task while the current one runs.
//!
//! A hint and never a promise: it evicts nothing, waits for no room, and is dropped when its task asks
//! for its operands before it has begun.

use dahl_core::{MemoryId, Region, Shape};
use dahl_sched::policy::TaskRef;

use super::transfer::Why;
use super::{Memories, StateGuard};
use crate::instance::Instance;
use crate::sync::{Ordering, lock};

/// Operands to fetch before their task asks for them.
pub(super) struct Request {
    task: TaskRef,
    memory: MemoryId,
    parts: Vec<(u64, Shape, Region)>,
    why: Why,
}

impl Memories {
    /// Asks for a task's operands to be fetched while others run.
    pub fn prefetch(&self, instance: &Instance, task: u32, memory: MemoryId) {
        let graph = instance.graph();
        let mut state = lock(&self.state);
        let mut parts = Vec::new();
        for access in instance
            .accesses(task)
            .iter()
            .filter(|a| a.mode.reads() && a.fresh.is_none())
        {
            let array = &graph.arrays[access.array as usize];
            state.directory.entry(instance, array.storage);
            parts.push((
                instance.keys[array.storage as usize],
                array.shape,
                access.region,
            ));
        }
        state.requests.push_back(Request {
            task: instance.task(task),
            memory,
            parts,
            why: Why::task(instance, task, true),
        });
        drop(state);
        self.changed.notify_all();
    }

    /// A task that asked for a prefetch will not run: drops the request, and waits if it is being
    /// served, since the arrays may go away.
    pub fn abandon(&self, task: TaskRef) {
        drop(self.drop_request(lock(&self.state), task));
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
    pub fn serve(&self) {
        let mut state = lock(&self.state);
        while !state.stopping {
            let Some(request) = state.requests.pop_front() else {
                state = self.wait(state);
                continue;
            };
            let memory = request.memory;
            // Under the same lock that takes the request: from here on its task waits for us.
            state.serving.push(request.task);
            for (key, shape, region) in &request.parts {
                if !self.allocate(&mut state, *key, memory) {
                    continue;
                }
                state.directory.touch(*key, memory);
                state.directory.pin(*key, memory);
                let (guard, bytes) = self.fetch(state, *key, shape, region, memory, request.why);
                state = guard;
                state.directory.unpin(*key, memory);
                self.counters
                    .prefetched
                    .fetch_add(bytes as u64, Ordering::Relaxed);
            }
            state.serving.retain(|t| *t != request.task);
            self.note_usage(&mut state);
            self.changed.notify_all();
        }
    }

    /// Lets [`Memories::serve`] return.
    pub fn stop(&self) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
    }
}
