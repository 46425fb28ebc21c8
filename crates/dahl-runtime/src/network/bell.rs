//! A bell: wakes a thread that sleeps, or is about to.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, lock};

/// What the communication thread of a node sleeps by. Rung once, it wakes once, also if it was rung before the sleep.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread that sleeps by it, or the next that would.
    pub fn ring(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_one();
    }

    /// Sleeps until it is rung, or for so long.
    pub(crate) fn sleep(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut rung = lock(&self.rung);
        while !std::mem::replace(&mut *rung, false) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(rung, left);
            rung = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}
