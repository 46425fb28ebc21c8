//! Transfers: moving what is missing to where it is needed.

use std::ops::Range;
use std::sync::Arc;

use dahl_core::graph::runs;
use dahl_core::trace::{NOBODY, TaskId, Transfer};
use dahl_core::{MemoryId, Region, Shape};

use super::backing::{Buffer, Direction};
use super::directory::Entry;
use super::{Memories, StateGuard};
use crate::instance::Instance;
use crate::sync::lock;

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
    pub const NO_TASK: Why = Why {
        task: TaskId {
            launch: 0,
            task: NOBODY,
        },
        ahead: false,
    };

    /// For a task.
    pub fn task(instance: &Instance, task: u32, ahead: bool) -> Why {
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

/// A copy to make, decided under the lock and made without it. From its planning until it has been
/// carried out, the elements are marked as arriving and the device's buffer is pinned.
pub(super) struct Move {
    buffer: Arc<dyn Buffer>,
    host: *mut u8,
    device: MemoryId,
    piece: Region,
    ranges: Vec<Range<usize>>,
    way: Direction,
}

impl Move {
    /// Plans to move a piece of a storage between the host and a device where it has a buffer.
    pub fn plan(entry: &mut Entry, piece: Region, device: MemoryId, way: Direction) -> Move {
        let mut ranges = Vec::new();
        runs::runs(&entry.shape, &piece, |lo, hi| {
            ranges.push(lo * entry.size..hi * entry.size)
        });
        let there = &mut entry.copies[usize::from(device.0)];
        there.pins += 1;
        let buffer = there
            .buffer
            .clone()
            .expect("what is valid or has room has a buffer");
        let mv = Move {
            buffer,
            host: entry.host,
            device,
            piece,
            ranges,
            way,
        };
        entry.copies[mv.to()].arriving.add(&piece);
        mv
    }

    /// The place of the memory it goes to.
    fn to(&self) -> usize {
        match self.way {
            Direction::In => usize::from(self.device.0),
            Direction::Out => 0,
        }
    }
}

impl Memories {
    /// Makes a region of a storage current in a memory, where it has room and keeps it. Device to
    /// device goes by way of the host. Returns how many bytes had to be moved there.
    ///
    /// A copy that fails takes its device out, and what is missing is looked for again: every turn of the
    /// loop makes something current, waits for somebody who does, or has one device less.
    pub(super) fn fetch<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        key: u64,
        shape: &Shape,
        region: &Region,
        memory: MemoryId,
        why: Why,
    ) -> (StateGuard<'s>, Result<usize, Stop>) {
        let mut fetched = 0;
        loop {
            if state.directory.is_lost(memory) {
                return (state, Err(Stop::Lost));
            }
            let Some(entry) = state.directory.entries.get_mut(&key) else {
                return (state, Ok(fetched));
            };
            let target = &entry.copies[usize::from(memory.0)];
            let (mut missing, mut arriving) = (Vec::new(), false);
            entry.translate(shape, region, |piece| {
                target.valid.missing(&piece, |p| {
                    target.arriving.missing(&p, |q| missing.push(q));
                    target.arriving.common(&p, |_| arriving = true);
                });
            });
            if missing.is_empty() {
                if !arriving {
                    return (state, Ok(fetched));
                }
                state = self.wait(state);
                continue;
            }
            let mut moves = Vec::new();
            let (mut by_host, mut gone) = (Vec::new(), false);
            for piece in missing {
                if memory == MemoryId::HOST {
                    gone |= !plan_home(entry, piece, &mut moves);
                } else {
                    let mut here = Vec::new();
                    entry.copies[0].valid.common(&piece, |p| here.push(p));
                    entry.copies[0].valid.missing(&piece, |p| by_host.push(p));
                    moves.extend(
                        here.into_iter()
                            .map(|p| Move::plan(entry, p, memory, Direction::In)),
                    );
                }
            }
            let own = entry.shape;
            if !moves.is_empty() {
                let (guard, bytes) = self.carry_out(state, key, &moves, why);
                (state, fetched) = (guard, fetched + bytes);
            }
            if gone {
                return (state, Err(Stop::Gone));
            }
            for piece in by_host {
                let (guard, home) = self.fetch(state, key, &own, &piece, MemoryId::HOST, why);
                state = guard;
                if home.is_err() {
                    return (state, Err(Stop::Gone));
                }
            }
        }
    }

    /// Makes copies that were planned, without the lock, and notes which have arrived. If one fails, its
    /// device is taken out.
    pub(super) fn carry_out<'s>(
        &'s self,
        state: StateGuard<'s>,
        key: u64,
        moves: &[Move],
        why: Why,
    ) -> (StateGuard<'s>, usize) {
        drop(state);
        let (mut bytes, mut arrived) = (0, Vec::with_capacity(moves.len()));
        for mv in moves {
            let start = self.ticks();
            let device = self.device(mv.device).expect("one side is a device");
            // SAFETY: the ranges come from a region inside the storage; the buffer is pinned; the
            // elements are marked as arriving, so nobody else fills them and no task writes them.
            let copied = unsafe {
                device
                    .backing
                    .copy(&*mv.buffer, mv.host, &mv.ranges, mv.way)
            };
            arrived.push(copied.is_ok());
            if let Err(lost) = copied {
                self.lose(mv.device, &lost.0);
                continue;
            }
            let moved = mv.ranges.iter().map(Range::len).sum();
            self.count(moved, mv.way);
            bytes += moved;
            self.note_transfer(mv, moved as u64, why, start);
        }
        let mut state = lock(&self.state);
        for (mv, arrived) in moves.iter().zip(arrived) {
            let to = mv.to();
            // What reached the host is right even if the device failed since; what reached a device
            // that failed since is not to be trusted.
            let current = arrived && !state.directory.is_lost(MemoryId(to as u16));
            if let Some(entry) = state.directory.entries.get_mut(&key) {
                entry.copies[to].arriving.remove(&mv.piece);
                if current {
                    entry.copies[to].valid.add(&mv.piece);
                }
            }
            state.directory.unpin(key, mv.device);
        }
        if let Some(entry) = state.directory.entries.get_mut(&key) {
            entry.mind_lease(self.runtime);
        }
        self.changed.notify_all();
        (state, bytes)
    }

    /// Records a copy that has just been made, if anybody wants to know.
    fn note_transfer(&self, mv: &Move, bytes: u64, why: Why, start: u64) {
        if self.tracer.is_none() {
            return;
        }
        let (from, to) = match mv.way {
            Direction::In => (0, mv.device.0),
            Direction::Out => (mv.device.0, 0),
        };
        let transfer = Transfer {
            from,
            to,
            bytes,
            for_task: why.task,
            ahead: why.ahead,
            start,
            end: self.ticks(),
        };
        lock(&self.state).notes.transfer(transfer);
    }

    /// Prepares a region for being written in a memory: what is still on its way (an eviction's
    /// write-back, say) arrives first. If the old values do not matter they are given up, so that
    /// nobody moves them any more.
    pub(super) fn claim<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        key: u64,
        shape: &Shape,
        region: &Region,
        memory: MemoryId,
        overwrite: bool,
    ) -> StateGuard<'s> {
        let moving = |state: &StateGuard<'_>| {
            state
                .directory
                .entries
                .get(&key)
                .is_some_and(|e| e.is_moving(shape, region))
        };
        while moving(&state) {
            state = self.wait(state);
        }
        if overwrite {
            state.directory.written(key, shape, region, memory);
        }
        state
    }
}

/// Plans how a piece that the host lacks gets there, from whichever devices have it. False if some of it
/// is nowhere: it was on a device that failed.
fn plan_home(entry: &mut Entry, piece: Region, moves: &mut Vec<Move>) -> bool {
    let mut rest = vec![piece];
    for m in 1..entry.copies.len() {
        let (mut found, mut left) = (Vec::new(), Vec::new());
        for r in &rest {
            entry.copies[m].valid.common(r, |p| found.push(p));
            entry.copies[m].valid.missing(r, |p| left.push(p));
        }
        moves.extend(
            found
                .into_iter()
                .map(|p| Move::plan(entry, p, MemoryId(m as u16), Direction::Out)),
        );
        rest = left;
    }
    rest.is_empty()
}
