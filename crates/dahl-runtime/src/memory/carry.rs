//! Carrying: copies that were decided on under the lock are made without it, and noted when they have
//! arrived. Decides on nothing: what travels, and with what, is for `transfer`, `join` and `batch`.

use std::ops::Range;
use std::sync::Arc;

use dahl_core::graph::runs;
use dahl_core::trace::{Load, Transfer};
use dahl_core::{Bytes, MemoryId, Region, RegionSet};

use super::backing::{Backing, Buffer, Cargo, Direction};
use super::directory::Entry;
use super::join::{Asker, join};
use super::transfer::{Ask, Why};
use super::{Memories, StateGuard};
use crate::sync::{Ordering, lock};

/// A copy to make, decided under the lock and made without it. From its planning until it has been
/// carried out, the elements are marked as arriving and the device's buffer is pinned.
pub(super) struct Move {
    key: u64,
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
        key: u64,
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
            key,
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
    pub(super) fn back(entry: &mut Entry, key: u64, pieces: Vec<Region>, device: MemoryId) -> Move {
        let bytes = bytes_of(entry, &pieces);
        let load = Load {
            whole: bytes == entry.bytes() as u64,
            ..Load::asked(bytes)
        };
        Move::plan(entry, key, pieces, device, Direction::Out, load)
    }

    /// Plans to send pieces that are current in the host where they are asked for, and with them what the
    /// successors of `asker` want.
    pub(super) fn there(
        entry: &mut Entry,
        ask: &Ask<'_>,
        pieces: Vec<Region>,
        asker: Option<Asker<'_>>,
        backing: &dyn Backing,
    ) -> Move {
        let (pieces, load) = join(entry, pieces, asker, ask.memory, backing);
        Move::plan(entry, ask.key, pieces, ask.memory, Direction::In, load)
    }

    /// The place of the memory it goes to.
    fn to(&self) -> usize {
        match self.way {
            Direction::In => usize::from(self.device.0),
            Direction::Out => 0,
        }
    }

    /// The link it goes over.
    pub(super) fn link(&self) -> (MemoryId, bool) {
        (self.device, self.way == Direction::In)
    }

    fn cargo(&self) -> Cargo<'_> {
        Cargo {
            device: self.buffer.base(),
            host: self.host,
            ranges: &self.ranges,
        }
    }
}

/// Bytes of pieces of a storage.
pub(super) fn bytes_of(entry: &Entry, pieces: &[Region]) -> u64 {
    let elements: usize = pieces.iter().map(Region::len).sum();
    (elements * entry.size) as u64
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

/// Plans how pieces that the host lacks get there, from whichever devices have them; of each device, if
/// `takes` says so of it and the bytes. False if some of that is nowhere: it was on a device that failed.
pub(super) fn plan_home(
    entry: &mut Entry,
    key: u64,
    mut rest: Vec<Region>,
    moves: &mut Vec<Move>,
    takes: impl Fn(MemoryId, u64) -> bool,
) -> bool {
    for m in 1..entry.copies.len() {
        let (mut found, mut left) = (Vec::new(), Vec::new());
        for r in &rest {
            entry.copies[m].valid.common(r, |p| found.push(p));
            entry.copies[m].valid.missing(r, |p| left.push(p));
        }
        let device = MemoryId(m as u16);
        if !found.is_empty() && takes(device, bytes_of(entry, &found)) {
            moves.push(Move::back(entry, key, found, device));
        }
        rest = left;
    }
    rest.is_empty()
}

impl Memories {
    /// Makes copies that were planned, without the lock, and notes which have arrived: those that follow
    /// each other over one link as one batch. If one fails, its device is taken out; those before it in
    /// its batch have arrived, those after it have not travelled. Returns how many bytes have arrived.
    pub(super) fn carry_out<'s>(
        &'s self,
        state: StateGuard<'s>,
        moves: &[Move],
        why: Why,
    ) -> (StateGuard<'s>, usize) {
        drop(state);
        let (mut bytes, mut arrived) = (0, Vec::with_capacity(moves.len()));
        for batch in moves.chunk_by(|a, b| a.link() == b.link()) {
            let start = self.ticks();
            let Move { device, way, .. } = batch[0];
            let backing = &self.device(device).expect("one side is a device").backing;
            let cargo: Vec<Cargo<'_>> = batch.iter().map(Move::cargo).collect();
            // SAFETY: the ranges come from regions inside the storages; the buffers are pinned; the
            // elements are marked as arriving, so nobody else fills them and no task writes them.
            let copied = unsafe { backing.copy_all(&cargo, way) };
            let well = match copied {
                Ok(()) => batch.len(),
                Err(broken) => {
                    self.lose(device, &broken.lost.0);
                    broken.arrived.min(batch.len())
                }
            };
            let moved = cargo[..well].iter().map(Cargo::bytes);
            bytes += moved.map(|b| self.count(b, way)).sum::<u64>() as usize;
            self.counters.batches.fetch_add(1, Ordering::Relaxed);
            self.note_transfers(&batch[..well], &**backing, why, start);
            arrived.extend((0..batch.len()).map(|i| i < well));
        }
        let mut state = lock(&self.state);
        for (mv, arrived) in moves.iter().zip(arrived) {
            let to = mv.to();
            // What reached the host is right even if the device failed since; what reached a device
            // that failed since is not to be trusted.
            let current = arrived && !state.directory.is_lost(MemoryId(to as u16));
            if let Some(entry) = state.directory.entries.get_mut(&mv.key) {
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
            state.directory.unpin(mv.key, mv.device);
            if let Some(entry) = state.directory.entries.get_mut(&mv.key) {
                entry.mind_lease(self.runtime);
            }
        }
        self.changed.notify_all();
        (state, bytes)
    }

    /// Records copies that have just been made together, if anybody wants to know. Nobody saw them one by
    /// one: their time is divided as the link's speed says, the start of it to the first.
    fn note_transfers(&self, batch: &[Move], backing: &dyn Backing, why: Why, start: u64) {
        if self.tracer.is_none() {
            return;
        }
        let end = self.ticks();
        let bytes: Vec<u64> = batch.iter().map(|mv| mv.cargo().bytes()).collect();
        let until = |n: usize| {
            let bytes = Bytes(bytes[..n].iter().sum());
            backing.duration(bytes, batch[0].way).0
        };
        let at = |n: usize| match until(batch.len()) {
            _ if n == 0 => start,
            _ if n == batch.len() => end,
            all if all > 0.0 => start + ((end - start) as f64 * until(n) / all) as u64,
            _ => start,
        };
        let mut state = lock(&self.state);
        for (n, mv) in batch.iter().enumerate() {
            let (from, to) = match mv.way {
                Direction::In => (0, mv.device.0),
                Direction::Out => (mv.device.0, 0),
            };
            state.notes.transfer(Transfer {
                from,
                to,
                bytes: bytes[n],
                for_task: why.task,
                ahead: why.ahead,
                load: mv.load,
                batch: batch.len() as u32,
                start: at(n),
                end: at(n + 1),
            });
        }
    }

    /// Counts a copy, and says its bytes.
    fn count(&self, bytes: u64, way: Direction) -> u64 {
        self.counters.bytes[way as usize].fetch_add(bytes, Ordering::Relaxed);
        self.counters.copies.fetch_add(1, Ordering::Relaxed);
        bytes
    }
}
