//! The agenda: what happens next in virtual time.
//!
//! Events at the same moment happen in the order in which they were put down, so that a run is the same
//! every time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A unit's task ends.
    End(u16),
    /// A transfer ends.
    Arrived(u32),
}

/// A moment and a serial number in one word, which compares in one step: moments are not negative, so their
/// bits are ordered as they are.
type Turn = u128;

fn turn(at: f64, serial: u64) -> Turn {
    debug_assert!(at >= 0.0, "time begins at zero");
    u128::from(at.to_bits()) << 64 | u128::from(serial)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    turn: Turn,
    event: Event,
}

/// A heap gives the greatest first: the earliest is the greatest.
impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn.cmp(&self.turn)
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Entry {}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Entry>,
    serial: u64,
}

impl Agenda {
    /// Puts down an event.
    #[inline]
    pub(crate) fn add(&mut self, at: f64, event: Event) {
        self.serial += 1;
        let turn = turn(at, self.serial);
        self.heap.push(Entry { turn, event });
    }

    /// When the next event happens.
    #[inline]
    pub(crate) fn peek(&self) -> Option<f64> {
        let next = self.heap.peek()?;
        Some(f64::from_bits((next.turn >> 64) as u64))
    }

    /// The next event and when it happens.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(f64, Event)> {
        let Entry { turn, event } = self.heap.pop()?;
        Some((f64::from_bits((turn >> 64) as u64), event))
    }
}
