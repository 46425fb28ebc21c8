//! Ends this process if nodes do not come together: MPI's own start waits for all processes, for ever, and nothing can
//! interrupt it. The one place of the library that ends a process, because no error could be returned.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::NODE_LOST;

/// The least time for nodes to come together: launchers of large clusters start processes one after the other.
const LEAST: Duration = Duration::from_secs(30);

/// A node may be silent for so long a time while all start, as a multiple of what it may be later.
const FACTOR: u32 = 3;

/// While this value lives, its process ends when the time is over.
pub(super) struct EndsIfLate(Arc<(Mutex<bool>, Condvar)>);

/// Waits for `what`, which the message says, with the node's number.
pub(super) fn ends_if_late(what: &'static str, patience: Duration, node: u16) -> EndsIfLate {
    let at_most = LEAST.max(patience * FACTOR);
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let seen = done.clone();
    // Without a thread nobody watches: nothing else changes.
    let _ = std::thread::Builder::new()
        .name("dahl-watchdog".into())
        .spawn(move || {
            let (done, bell) = &*seen;
            let done = done.lock().unwrap_or_else(PoisonError::into_inner);
            let (done, _) = bell
                .wait_timeout_while(done, at_most, |done| !*done)
                .unwrap_or_else(PoisonError::into_inner);
            if !*done {
                let seconds = at_most.as_secs_f64();
                eprintln!(
                    "error on node {node}: the cluster is broken: waited {seconds:.0} s for {what}; `dahl cluster check \
                     --hosts …` says who cannot be reached, a longer --node-timeout waits three times as long"
                );
                std::process::exit(i32::from(NODE_LOST));
            }
        });
    EndsIfLate(done)
}

impl Drop for EndsIfLate {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_one();
    }
}
