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

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: f64,
    serial: u64,
    event: Event,
}

/// A heap gives the greatest first: the earliest is the greatest.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = other.at.total_cmp(&self.at);
        times.then_with(|| other.serial.cmp(&self.serial))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
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
    pub fn add(&mut self, at: f64, event: Event) {
        self.serial += 1;
        self.heap.push(Entry {
            at,
            serial: self.serial,
            event,
        });
    }

    /// The next event and when it happens.
    #[inline]
    pub fn next(&mut self) -> Option<(f64, Event)> {
        self.heap.pop().map(|e| (e.at, e.event))
    }
}
