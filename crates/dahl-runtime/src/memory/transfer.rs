//! Transfers: moving what is missing to where it is needed.

use dahl_core::trace::{NOBODY, TaskId};
use dahl_core::{MemoryId, Region, Shape};

use super::carry::{Move, plan_home};
use super::directory::Entry;
use super::join::Asker;
use super::{Memories, StateGuard};
use crate::instance::Instance;

/// What a copy is made for.
#[derive(Clone, Copy)]
pub(super) struct Why {
    /// The task, named by the low half of its launch's number.
    pub task: TaskId,
    /// Whether the task has not asked yet.
    pub ahead: bool,
}

impl Why {
    /// For the host, or to make room.
    pub(super) const NO_TASK: Why = Why {
        task: TaskId {
            launch: 0,
            task: NOBODY,
        },
        ahead: false,
    };

    /// For a task.
    pub(super) fn task(instance: &Instance, task: u32, ahead: bool) -> Why {
        let launch = instance.serial() as u32;
        Why {
            task: TaskId { launch, task },
            ahead,
        }
    }
}

/// Why a region cannot be made current in a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The memory is out of use.
    Lost,
    /// Some elements are current nowhere any more.
    Gone,
}

/// A region of a storage to be made current in a memory.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// The storage.
    pub key: u64,
    /// The shape it is seen under.
    pub shape: &'a Shape,
    /// The region, under that shape.
    pub region: &'a Region,
    /// The memory, where the storage has room and is kept.
    pub memory: MemoryId,
    /// What for.
    pub why: Why,
    /// The task whose successors may want more of it.
    pub asker: Option<Asker<'a>>,
}

impl<'a> Ask<'a> {
    /// To the host, for nobody's task.
    pub(super) fn home(key: u64, shape: &'a Shape, region: &'a Region) -> Self {
        Ask {
            key,
            shape,
            region,
            memory: MemoryId::HOST,
            why: Why::NO_TASK,
            asker: None,
        }
    }

    /// What the memory lacks of the region and is not on its way there; and whether some of it is.
    pub(super) fn missing(&self, entry: &Entry) -> (Vec<Region>, bool) {
        let target = &entry.copies[usize::from(self.memory.0)];
        let (mut missing, mut arriving) = (Vec::new(), false);
        entry.translate(self.shape, self.region, |piece| {
            target.valid.missing(&piece, |p| {
                target.arriving.missing(&p, |q| missing.push(q));
                target.arriving.common(&p, |_| arriving = true);
            });
        });
        (missing, arriving)
    }
}

impl Memories {
    /// Makes a region of a storage current in a memory, and with it what is cheap to take along. Device to
    /// device goes by way of the host. Returns how many bytes had to be moved there.
    ///
    /// A copy that fails takes its device out, and what is missing is looked for again: every turn of the
    /// loop makes something current, waits for somebody who does, or has one device less.
    pub(super) fn fetch<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        ask: &Ask<'_>,
    ) -> (StateGuard<'s>, Result<usize, Stop>) {
        let &Ask { key, memory, .. } = ask;
        let mut fetched = 0;
        loop {
            if state.directory.is_lost(memory) {
                return (state, Err(Stop::Lost));
            }
            let asker = ask.asker.filter(|_| state.guarded != Some(key));
            let Some(entry) = state.directory.entries.get_mut(&key) else {
                return (state, Ok(fetched));
            };
            let (missing, arriving) = ask.missing(entry);
            if missing.is_empty() {
                if !arriving {
                    return (state, Ok(fetched));
                }
                state = self.wait(state);
                continue;
            }
            let mut moves = Vec::new();
            let (mut by_host, mut gone) = (Vec::new(), false);
            match self.device(memory) {
                None => gone = !plan_home(entry, key, missing, &mut moves, |_, _| true),
                Some(device) => {
                    let mut here = Vec::new();
                    for piece in missing {
                        entry.copies[0].valid.common(&piece, |p| here.push(p));
                        entry.copies[0].valid.missing(&piece, |p| by_host.push(p));
                    }
                    if !here.is_empty() {
                        let backing = &*device.backing;
                        moves.push(Move::there(entry, ask, here, asker, backing));
                    }
                }
            }
            let own = entry.shape;
            if !moves.is_empty() {
                let (guard, bytes) = self.carry_out(state, &moves, ask.why);
                (state, fetched) = (guard, fetched + bytes);
            }
            if gone {
                return (state, Err(Stop::Gone));
            }
            for piece in by_host {
                let home = Ask {
                    why: ask.why,
                    ..Ask::home(key, &own, &piece)
                };
                let (guard, home) = self.fetch(state, &home);
                state = guard;
                if home.is_err() {
                    return (state, Err(Stop::Gone));
                }
            }
        }
    }

    /// Prepares a region for being written in a memory: what is still on its way (an eviction's
    /// write-back, say, or a part for somebody else) arrives first, and from now on nothing of it is taken
    /// along. If the old values do not matter they are given up, so that nobody moves them any more.
    pub(super) fn claim<'s>(
        &'s self,
        state: StateGuard<'s>,
        key: u64,
        shape: &Shape,
        region: &Region,
        memory: MemoryId,
        overwrite: bool,
    ) -> StateGuard<'s> {
        let mut state = self.settled(state, key, shape, region);
        state.directory.mark_writing(key, shape, region, true);
        if overwrite {
            state.directory.written(key, shape, region, memory);
        }
        state
    }

    /// Waits until no element of a region is on its way.
    pub(super) fn settled<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        key: u64,
        shape: &Shape,
        region: &Region,
    ) -> StateGuard<'s> {
        let moving = |state: &StateGuard<'_>| {
            let entry = state.directory.entries.get(&key);
            entry.is_some_and(|e| e.is_moving(shape, region))
        };
        while moving(&state) {
            state = self.wait(state);
        }
        state
    }
}
