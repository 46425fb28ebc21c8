//! The watchdog: turns a hang into a message that says who waits for what.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::shared::Shared;

/// Watches waits, if it was asked to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watchdog {
    /// How long no task may end before it speaks; never if `None`.
    pub patience: Option<Duration>,
}

/// Ends the watch when dropped.
pub(crate) struct Watch(#[allow(dead_code)] Option<Sender<()>>);

impl Watchdog {
    /// Watches until the result is dropped. If no task ends for longer than the patience, prints the
    /// dump taken when the watch began, the state of the queues, and ends the process: a test that
    /// hangs fails, and says why.
    pub(crate) fn watch(
        &self,
        shared: &std::sync::Arc<Shared>,
        dump: impl FnOnce() -> String,
    ) -> Watch {
        let Some(patience) = self.patience else {
            return Watch(None);
        };
        let (stop, stopped) = channel();
        let shared = shared.clone();
        let dump = dump();
        let watch = move || {
            let mut ended = shared.ended();
            while stopped.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                let now = shared.ended();
                if now == ended {
                    let mut out = format!(
                        "no task has ended for {patience:?}; when the wait began:\n{dump}now:\n"
                    );
                    for (slot, asleep) in shared.sleep.asleep().iter().enumerate() {
                        let state = if *asleep { "asleep" } else { "awake" };
                        let _ = writeln!(out, "  thread {slot}: {state}");
                    }
                    for (queue, tasks) in shared.policy.backlog() {
                        let _ = writeln!(out, "  queue of {queue}: {tasks} tasks");
                    }
                    // Not by a printing macro, whose output a test would keep to itself.
                    let _ = std::io::stderr().write_all(out.as_bytes());
                    std::process::exit(124);
                }
                ended = now;
            }
        };
        // Without a thread there is no watch; the wait itself is not affected.
        let _ = std::thread::Builder::new()
            .name("dahl-watchdog".into())
            .spawn(watch);
        Watch(Some(stop))
    }
}
