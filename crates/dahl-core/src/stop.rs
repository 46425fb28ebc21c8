//! A request to stop: how a program, a thread or a signal handler ends long work early.
//!
//! A flag and no more. Who works looks at it between two pieces of work, keeps what it has and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop that all clones share.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Not requested yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Requests it. Only writes a flag, so a signal handler may call it.
    pub fn stop(&self) {
        // A lone flag: it orders nothing else.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it was requested; from now on it is not.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_a_request_and_one_takes_it() {
        let stop = Stop::new();
        let other = stop.clone();
        assert!(!stop.is_requested() && !stop.take());
        std::thread::spawn(move || other.stop()).join().unwrap();
        assert!(stop.is_requested());
        assert!(stop.take() && !stop.is_requested());
    }
}
