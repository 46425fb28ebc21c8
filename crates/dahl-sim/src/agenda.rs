//! The agenda: what happens next in virtual time.
//!
//! Events at the same moment happen in the order in which they were put down, so that a run is the same
//! every time.

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

impl Entry {
    fn at(&self) -> f64 {
        f64::from_bits((self.turn >> 64) as u64)
    }
}

/// Events by their turn, in a heap. Below place `p` are `2p + 1` and `2p + 2`, both later. It is not the standard library's since
/// that one reads back what it has just written, in a width for which the processor has to wait.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: Vec<Entry>,
    serial: u64,
}

impl Agenda {
    /// Puts down an event.
    #[inline]
    pub(crate) fn add(&mut self, at: f64, event: Event) {
        self.serial += 1;
        let turn = turn(at, self.serial);
        let entry = Entry { turn, event };
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry);
    }

    /// Puts an entry at a place or above it, in its order.
    #[inline]
    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above].turn < entry.turn {
                break;
            }
            self.heap[place] = self.heap[above];
            place = above;
        }
        self.heap[place] = entry;
    }

    /// When the next event happens.
    #[inline]
    pub(crate) fn peek(&self) -> Option<f64> {
        Some(self.heap.first()?.at())
    }

    /// The next event and when it happens.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(f64, Event)> {
        let next = *self.heap.first()?;
        let last = self.heap.pop()?;
        // The gap goes down to the bottom, since the last belongs near there.
        let (mut gap, mut child) = (0, 1);
        while child < self.heap.len() {
            let other = (child + 1).min(self.heap.len() - 1);
            child += usize::from(self.heap[other].turn < self.heap[child].turn);
            self.heap[gap] = self.heap[child];
            gap = child;
            child = 2 * gap + 1;
        }
        if gap < self.heap.len() {
            self.rise(gap, last);
        }
        Some((next.at(), next.event))
    }
}
