//! How far the search for a plan has come, for another thread to look at while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// The cost of the best plan so far and the lower bound, in the unit of the objective.
#[derive(Debug)]
pub struct Progress {
    /// As bits; figures to look at, so no ordering hangs on them.
    cost: AtomicU64,
    bound: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            cost: f64::INFINITY.to_bits().into(),
            bound: 0.0f64.to_bits().into(),
        }
    }
}

impl Progress {
    /// The cost of the best plan so far, if there is one, and how much of it may be saved at most.
    pub fn best(&self) -> Option<(f64, f64)> {
        let read = |x: &AtomicU64| f64::from_bits(x.load(Ordering::Relaxed));
        let (cost, bound) = (read(&self.cost), read(&self.bound));
        cost.is_finite()
            .then(|| (cost, ((cost - bound) / cost).clamp(0.0, 1.0)))
    }

    /// A plan was found.
    pub fn found(&self, cost: f64) {
        let lower = |best: u64| (cost < f64::from_bits(best)).then_some(cost.to_bits());
        // Refused if it is no better.
        let _ = self
            .cost
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
    }

    /// No plan of the problem at hand costs less.
    pub fn bounded(&self, bound: f64) {
        self.bound.store(bound.to_bits(), Ordering::Relaxed);
    }
}
