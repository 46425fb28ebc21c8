//! The clock that time limits go by: the computer's, or one of a test's own, on which time passes as the test wants it.

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// A clock of one's own.
    #[cfg(test)]
    pub(super) fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// A watch that begins now.
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch {
            begin: (self.0)(),
            clock: self,
        }
    }
}

/// How long something takes by a clock.
pub(super) struct Watch<'a> {
    clock: &'a Clock,
    begin: Duration,
}

impl Watch<'_> {
    pub(super) fn elapsed(&self) -> Duration {
        (self.clock.0)().saturating_sub(self.begin)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        let begin = Instant::now();
        Clock(Arc::new(move || begin.elapsed()))
    }
}
