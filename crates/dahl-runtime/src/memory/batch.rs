//! Batches: small copies of different arrays over one link, started together.
//!
//! Which copies are small is the rule of [`dahl_sched::batch`], by what the backing says of its link. The
//! simulator goes by it too, and so do parts of an array that travel together, see `join`.
//!
//! Only what one task asks for, or what is brought home at the end, is batched; tasks to come have their
//! parts taken along by `join`, and evictions are written back one by one.
//!
//! # Why it is safe
//!
//! A batch is the first turn of several fetches, planned under one hold of the lock: each element that is
//! to travel is missing where it goes, not on its way there, and current where it comes from, and is marked
//! as *arriving* at once, so the next of the plan, and everybody else, leaves it alone. Between the marks
//! and the end of the copies nobody waits for anything but the link, so a thread that waits for a mark waits for
//! a bounded time, and no circle can close. The task's own *being written* marks are set after that
//! (`hold`), as they are for a single fetch.
//!
//! It is an attempt, never a promise: what it left out, or what failed, is found missing by
//! [`Memories::fetch`], which follows for each ask and knows what to do. A batch whose copy fails counts
//! what arrived before as arrived, as if the copies had been made one by one: to the host, those values are
//! saved; on the device, nothing counts any more (`loss`).

use dahl_core::{Bytes, MemoryId, Seconds};
use dahl_sched::batch;

use super::backing::{Backing, Direction};
use super::carry::{Move, bytes_of, plan_home};
use super::transfer::Ask;
use super::{Memories, StateGuard};

/// Whether bytes take less on their way than the start of a copy of their own, which is saved with this
/// chance if they travel with others.
pub(super) fn is_small(backing: &dyn Backing, bytes: u64, way: Direction, chance: f64) -> bool {
    let whole = backing.duration(Bytes(bytes), way);
    batch::is_small(backing.duration(Bytes(0), way), whole, chance)
}

/// How long copies for one task take together.
#[derive(Default)]
pub(super) struct Estimate {
    seconds: f64,
    /// Links that have a batch.
    started: Vec<(MemoryId, Direction)>,
}

impl Estimate {
    /// One more copy.
    pub(super) fn add(
        &mut self,
        device: MemoryId,
        backing: &dyn Backing,
        bytes: u64,
        way: Direction,
    ) {
        self.seconds += backing.duration(Bytes(bytes), way).0;
        if !is_small(backing, bytes, way, 1.0) {
            return;
        }
        match self.started.contains(&(device, way)) {
            true => self.seconds -= backing.duration(Bytes(0), way).0,
            false => self.started.push((device, way)),
        }
    }

    /// All of them.
    pub(super) fn seconds(&self) -> Seconds {
        Seconds(self.seconds)
    }
}

impl Memories {
    /// Brings what is small of several asks, in a batch for each link: first home from other devices, then
    /// there. The rest is left to [`Memories::fetch`]. Returns how many bytes have arrived on a device.
    pub(super) fn fetch_small<'s, 'a>(
        &'s self,
        mut state: StateGuard<'s>,
        asks: impl Iterator<Item = Ask<'a>> + Clone,
    ) -> (StateGuard<'s>, usize) {
        let Some(Ask { why, .. }) = asks.clone().nth(1) else {
            return (state, 0); // Nothing to be together with.
        };
        let mut bytes = 0;
        for way in [Direction::Out, Direction::In] {
            let (mut moves, mut is_missing) = (Vec::new(), false);
            for ask in asks.clone() {
                is_missing |= self.plan_small(&mut state, &ask, way, &mut moves);
            }
            if !moves.is_empty() {
                moves.sort_by_key(Move::link);
                let (guard, moved) = self.carry_out(state, &moves, why);
                state = guard;
                bytes += if way == Direction::In { moved } else { 0 };
            }
            if !is_missing {
                break;
            }
        }
        (state, bytes)
    }

    /// Plans to move what is missing somewhere, if it has to go this way and is small. Says whether
    /// anything was missing.
    fn plan_small(
        &self,
        state: &mut StateGuard<'_>,
        ask: &Ask<'_>,
        way: Direction,
        moves: &mut Vec<Move>,
    ) -> bool {
        let is_guarded = state.guarded == Some(ask.key);
        if state.directory.is_lost(ask.memory) {
            return false;
        }
        let Some(entry) = state.directory.entries.get_mut(&ask.key) else {
            return false;
        };
        let (missing, _) = ask.missing(entry);
        let (mut here, mut away) = (Vec::new(), Vec::new());
        for piece in &missing {
            let host = &entry.copies[0];
            host.valid.common(piece, |p| here.push(p));
            host.valid.missing(piece, |p| {
                host.arriving.missing(&p, |q| away.push(q));
            });
        }
        let is_small = |device: MemoryId, bytes: u64| {
            self.device(device)
                .is_some_and(|d| is_small(&*d.backing, bytes, way, 1.0))
        };
        match way {
            // What is nowhere is for the fetch to find out.
            Direction::Out => drop(plan_home(entry, ask.key, away, moves, is_small)),
            Direction::In => {
                if let Some(device) = self.device(ask.memory)
                    && !here.is_empty()
                    && is_small(ask.memory, bytes_of(entry, &here))
                {
                    let asker = ask.asker.filter(|_| !is_guarded);
                    moves.push(Move::there(entry, ask, here, asker, &*device.backing));
                }
            }
        }
        !missing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::HostDevice;
    use super::*;

    #[test]
    fn copies_below_the_latency_are_small_and_share_it() {
        let link = HostDevice::new(1e6, Duration::from_millis(1));
        let small = |bytes, chance| is_small(&link, bytes, Direction::In, chance);
        assert!(small(999, 1.0) && !small(1001, 1.0));
        assert!(small(499, 0.5) && !small(501, 0.5) && !small(1, 0.0));
        let instant = HostDevice::new(1e6, Duration::ZERO);
        assert!(
            !is_small(&instant, 0, Direction::In, 1.0),
            "nothing to save"
        );

        let mut sum = Estimate::default();
        let (one, two) = (MemoryId(1), MemoryId(2));
        let mut add = |device, bytes, way| {
            sum.add(device, &link, bytes, way);
            (sum.seconds().0 * 1e6).round()
        };
        assert_eq!(add(one, 500, Direction::In), 1500.0);
        assert_eq!(add(one, 500, Direction::In), 2000.0, "the same start");
        assert_eq!(add(one, 5000, Direction::In), 8000.0, "too large");
        assert_eq!(add(one, 500, Direction::Out), 9500.0, "another way");
        assert_eq!(add(two, 500, Direction::In), 11000.0, "another device");
    }
}
