//! Transfers: moving what is missing to where it is needed.

use std::ops::Range;
use std::sync::Arc;

use dahl_core::graph::runs;
use dahl_core::trace::{Load, NOBODY, TaskId, Transfer};
use dahl_core::{MemoryId, Region, RegionSet, Shape};

use super::backing::{Buffer, Direction};
use super::directory::Entry;
use super::join::{Asker, join};
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

/// A region of a storage to be made current in a memory.
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
    pub fn home(key: u64, shape: &'a Shape, region: &'a Region) -> Self {
        Ask {
            key,
            shape,
            region,
            memory: MemoryId::HOST,
            why: Why::NO_TASK,
            asker: None,
        }
    }
}

/// A copy to make, decided under the lock and made without it. From its planning until it has been
/// carried out, the elements are marked as arriving and the device's buffer is pinned.
pub(super) struct Move {
    buffer: Arc<dyn Buffer>,
    host: *mut u8,
    device: MemoryId,
    pieces: Vec<Region>,
    ranges: Vec<Range<usize>>,
    way: Direction,
    load: Load,
}

impl Move {
    /// Plans to move pieces of a storage between the host and a device where it has a buffer.
    fn plan(
        entry: &mut Entry,
        pieces: Vec<Region>,
        device: MemoryId,
        way: Direction,
        load: Load,
    ) -> Move {
        let mut ranges = Vec::new();
        for piece in &pieces {
            runs::runs(&entry.shape, piece, |lo, hi| {
                ranges.push(lo * entry.size..hi * entry.size)
            });
        }
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
            pieces,
            ranges: joined(ranges),
            way,
            load,
        };
        let arriving = &mut entry.copies[mv.to()].arriving;
        mv.pieces.iter().for_each(|p| arriving.add(p));
        mv
    }

    /// Plans to bring pieces home from a device.
    pub fn back(entry: &mut Entry, pieces: Vec<Region>, device: MemoryId) -> Move {
        let elements: usize = pieces.iter().map(Region::len).sum();
        let load = Load {
            whole: elements == entry.shape.len(),
            ..Load::asked((elements * entry.size) as u64)
        };
        Move::plan(entry, pieces, device, Direction::Out, load)
    }

    /// The place of the memory it goes to.
    fn to(&self) -> usize {
        match self.way {
            Direction::In => usize::from(self.device.0),
            Direction::Out => 0,
        }
    }
}

/// Ranges in order, those that touch as one.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|r| r.start);
    let mut out: Vec<Range<usize>> = Vec::new();
    for r in ranges {
        match out.last_mut() {
            Some(last) if last.end == r.start => last.end = r.end,
            _ => out.push(r),
        }
    }
    out
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
            let target = &entry.copies[usize::from(memory.0)];
            let (mut missing, mut arriving) = (Vec::new(), false);
            entry.translate(ask.shape, ask.region, |piece| {
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
            match self.device(memory) {
                None => gone = !plan_home(entry, missing, &mut moves),
                Some(device) => {
                    let mut here = Vec::new();
                    for piece in missing {
                        entry.copies[0].valid.common(&piece, |p| here.push(p));
                        entry.copies[0].valid.missing(&piece, |p| by_host.push(p));
                    }
                    if !here.is_empty() {
                        let (pieces, load) = join(entry, here, asker, memory, &*device.backing);
                        moves.push(Move::plan(entry, pieces, memory, Direction::In, load));
                    }
                }
            }
            let own = entry.shape;
            if !moves.is_empty() {
                let (guard, bytes) = self.carry_out(state, key, &moves, ask.why);
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
                let whole = Region::whole(&entry.shape);
                let copy = &mut entry.copies[to];
                mv.pieces.iter().for_each(|p| copy.arriving.remove(p));
                match mv.load.whole {
                    // One box, where pieces would be many.
                    true if current => copy.valid = RegionSet::of(whole),
                    _ if current => mv.pieces.iter().for_each(|p| copy.valid.add(p)),
                    _ => {}
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
            load: mv.load,
            start,
            end: self.ticks(),
        };
        lock(&self.state).notes.transfer(transfer);
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

/// Plans how pieces that the host lacks get there, from whichever devices have them. False if some of that
/// is nowhere: it was on a device that failed.
fn plan_home(entry: &mut Entry, mut rest: Vec<Region>, moves: &mut Vec<Move>) -> bool {
    for m in 1..entry.copies.len() {
        let (mut found, mut left) = (Vec::new(), Vec::new());
        for r in &rest {
            entry.copies[m].valid.common(r, |p| found.push(p));
            entry.copies[m].valid.missing(r, |p| left.push(p));
        }
        if !found.is_empty() {
            moves.push(Move::back(entry, found, MemoryId(m as u16)));
        }
        rest = left;
    }
    rest.is_empty()
}
