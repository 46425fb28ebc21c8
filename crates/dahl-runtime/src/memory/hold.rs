//! Holds: the operands of one task, in one memory, from before it runs until it has ended.

use dahl_core::MemoryId;
use dahl_core::access::Access;
use dahl_core::operands::Placed;

use super::join::Asker;
use super::room::{NoRoom, Wish};
use super::transfer::{Ask, Stop, Why};
use super::{Memories, Refusal, StateGuard};
use crate::instance::{Instance, Stage};
use crate::sync::lock;

impl Memories {
    /// Brings a task's operands to a memory and keeps them there.
    pub(crate) fn acquire<'a>(
        &'a self,
        instance: &'a Instance,
        task: u32,
        memory: MemoryId,
    ) -> Result<Hold<'a>, Refusal> {
        let state = self.drop_request(lock(&self.state), instance.task(task));
        let mut state = self.await_planned(state, instance, task, memory);
        instance.advance(task, Stage::Asked);
        let (mut accesses, mut placed, mut keys) = state.spare.pop().unwrap_or_default();
        let graph = instance.graph();
        for (i, access) in instance.accesses(task).iter().enumerate() {
            let array = &graph.arrays[access.array as usize];
            state.directory.entry(instance, array.storage);
            keys.push(instance.keys[array.storage as usize]);
            self.touch(&mut state, instance, array.storage, task, memory);
            accesses.push(Access {
                array: i as u32,
                ..*access
            });
            placed.push(Placed {
                shape: array.shape,
                ..instance.placed[access.array as usize]
            });
        }
        let mut hold = Hold {
            memories: self,
            instance,
            task,
            memory,
            accesses,
            placed,
            keys,
        };
        let (mut state, room) = self.reserve_for(state, instance, task, &hold);
        if let Err(none) = room {
            hold.recycle(&mut state);
            drop(state);
            let error = none.explain(graph.describe(task), self, memory);
            return Err(Refusal::Elsewhere(error));
        }
        self.note_usage(&mut state);
        let (mut state, filled) = self.fill(state, &mut hold);
        let Err((operand, stop)) = filled else {
            return Ok(hold);
        };
        hold.let_go(&mut state);
        hold.recycle(&mut state);
        drop(state);
        self.changed.notify_all();
        let (number, task) = (task, || graph.describe(task));
        Err(match stop {
            Stop::Lost => Refusal::Elsewhere(NoRoom::Lost.explain(task(), self, memory)),
            Stop::Gone => {
                let access = &instance.accesses(number)[operand];
                let storage = graph.arrays[access.array as usize].storage as usize;
                let array = graph.storages[storage].storage.label();
                Refusal::Failed(self.gone(format!("{array}, which {} needs,", task())))
            }
        })
    }

    /// Notes that a task needs a storage now, and when it is needed next: by this memory's own order if
    /// there is one, or else by anybody.
    fn touch(
        &self,
        state: &mut StateGuard<'_>,
        instance: &Instance,
        storage: u32,
        task: u32,
        memory: MemoryId,
    ) {
        let (needs, key) = (&instance.prepared.needs, instance.keys[storage as usize]);
        let lasts = instance.graph().storages[storage as usize]
            .temporary
            .is_none();
        let m = usize::from(memory.0);
        let need = needs.after(m, storage, instance.serial(), task, lasts);
        match needs.by_memory() {
            true => state.directory.touch(key, memory, need),
            false => {
                let all = (0..=self.devices.len()).map(|m| MemoryId(m as u16));
                all.for_each(|m| state.directory.touch(key, m, need));
            }
        }
    }

    fn reserve_for<'s>(
        &'s self,
        state: StateGuard<'s>,
        instance: &Instance,
        task: u32,
        hold: &Hold<'_>,
    ) -> (StateGuard<'s>, Result<(), NoRoom>) {
        let (needs, m) = (&instance.prepared.needs, usize::from(hold.memory.0));
        let wish = Wish {
            keys: &hold.keys,
            memory: hold.memory,
            now: needs.moment(m, instance.serial(), task),
            needs,
            launch: &instance.keys,
        };
        self.reserve(state, &wish)
    }

    /// Brings the operands of a hold, which have room and are pinned, and says where they are. If that
    /// fails, says at which operand.
    fn fill<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        hold: &mut Hold<'_>,
    ) -> (StateGuard<'s>, Result<(), (usize, Stop)>) {
        let (memory, instance, task) = (hold.memory, hold.instance, hold.task);
        let recorded = instance.accesses(task);
        let reads = |i: &usize| recorded[*i].mode.reads() && recorded[*i].fresh.is_none();
        let ask = |i: usize| Ask {
            key: hold.keys[i],
            shape: &instance.graph().arrays[recorded[i].array as usize].shape,
            region: &recorded[i].region,
            memory,
            why: Why::task(instance, task, false),
            asker: Some(Asker {
                instance,
                task,
                storage: instance.storage_of(&recorded[i]),
            }),
        };
        let asks = (0..recorded.len()).filter(reads).map(ask);
        (state, _) = self.fetch_small(state, asks);
        let operands = hold.accesses.iter().zip(&mut hold.placed).zip(&hold.keys);
        for (i, ((access, place), &key)) in operands.enumerate() {
            let reads = reads(&i);
            if reads {
                let (guard, fetched) = self.fetch(state, &ask(i));
                state = guard;
                if let Err(stop) = fetched {
                    return (state, Err((i, stop)));
                }
            }
            if access.mode.writes() {
                state = self.claim(state, key, &place.shape, &access.region, memory, !reads);
            }
            if let Some(base) = state.directory.address(key, memory) {
                place.base = base;
            }
        }
        // A loss since the last fetch may have taken buffers away; later ones find the hold's pins.
        let lost = state.directory.is_lost(memory);
        let filled = if lost { Err((0, Stop::Lost)) } else { Ok(()) };
        (state, filled)
    }
}

/// A vector emptied, its memory kept.
trait Cleared {
    fn cleared(self) -> Self;
}

impl<T> Cleared for Vec<T> {
    fn cleared(mut self) -> Self {
        self.clear();
        self
    }
}

/// The operands of a task, kept in a memory until released.
pub struct Hold<'a> {
    memories: &'a Memories,
    instance: &'a Instance,
    task: u32,
    memory: MemoryId,
    accesses: Vec<Access>,
    placed: Vec<Placed>,
    keys: Vec<u64>,
}

impl Hold<'_> {
    /// Where the operands are.
    pub(crate) fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// The task's accesses, referring to [`Hold::placed`].
    pub(crate) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Lets go of the operands of a task that has ended, well or not. If it succeeded, what it wrote is
    /// current here now; false if that is not so because the device was lost meanwhile: then the task is
    /// as if it had not run.
    pub(crate) fn release(self, succeeded: bool) -> bool {
        let (memories, memory) = (self.memories, self.memory);
        let mut state = lock(&memories.state);
        if succeeded && state.directory.is_lost(memory) {
            drop(state);
            self.abandon();
            return false;
        }
        let mut hold = self;
        hold.let_go(&mut state);
        for ((access, placed), &key) in hold.accesses.iter().zip(&hold.placed).zip(&hold.keys) {
            if succeeded && access.mode.writes() {
                state
                    .directory
                    .written(key, &placed.shape, &access.region, memory);
            }
        }
        hold.instance.advance(hold.task, Stage::Ended);
        memories.note_end(&mut state, hold.instance, hold.task);
        for &key in &hold.keys {
            if state.directory.used_once(key) {
                state = memories.bury(state, key);
            }
        }
        hold.recycle(&mut state);
        memories.note_usage(&mut state);
        drop(state);
        memories.changed.notify_all();
        true
    }

    /// Lets go of the operands of a task that is to run somewhere else.
    pub(crate) fn abandon(mut self) {
        let memories = self.memories;
        let mut state = lock(&memories.state);
        self.let_go(&mut state);
        self.recycle(&mut state);
        drop(state);
        memories.changed.notify_all();
    }

    /// Takes back the marks of the operands: they may go, and may be copied.
    fn let_go(&self, state: &mut StateGuard<'_>) {
        for ((access, placed), &key) in self.accesses.iter().zip(&self.placed).zip(&self.keys) {
            state.directory.unpin(key, self.memory);
            if access.mode.writes() {
                let directory = &mut state.directory;
                directory.mark_writing(key, &placed.shape, &access.region, false);
            }
        }
    }

    /// Keeps the buffers for the next hold.
    fn recycle(&mut self, state: &mut StateGuard<'_>) {
        state.spare.push((
            std::mem::take(&mut self.accesses).cleared(),
            std::mem::take(&mut self.placed).cleared(),
            std::mem::take(&mut self.keys).cleared(),
        ));
    }
}
