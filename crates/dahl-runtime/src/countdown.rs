//! Countdowns: how many things a task still waits for.
//!
//! Every predecessor counts down once, and exactly one of them, the last, learns that it was the last
//! and makes the task ready. The count is raised only while somebody who has not counted down yet
//! holds it above zero (the launch itself), so it cannot reach zero early.
//!
//! Orderings: a predecessor's writes must be visible to the task. Counting down is a *release* of
//! them, and the thread that finds itself last *acquires* all the others'. Read-modify-writes in between keep
//! the release sequence, so seeing the final value is seeing all of them.

use crate::sync::{AtomicU32, Ordering};

#[derive(Debug)]
pub(crate) struct Countdown(AtomicU32);

impl Countdown {
    /// A countdown that has run out.
    pub(crate) fn new() -> Self {
        Countdown(AtomicU32::new(0))
    }

    /// Starts again from `count`. Nobody may be using it.
    pub(crate) fn reset(&self, count: u32) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// One more thing to wait for. The caller holds the count above zero.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back an [`Countdown::add`] of something that had happened already. The caller holds the
    /// count above zero, and has acquired what happened.
    pub(crate) fn take_back(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// One thing has happened; true if it was the last.
    #[inline]
    pub(crate) fn count_down(&self) -> bool {
        // With one left, it is ours, and nobody else is about to count down: no need to write.
        self.0.load(Ordering::Acquire) == 1 || self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// What is left: a hint, and one where it may be none.
    pub(crate) fn left(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Countdown {
    fn default() -> Self {
        Self::new()
    }
}
