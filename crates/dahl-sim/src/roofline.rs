//! The roofline of a duration: its arithmetic, which follows the unit's clock, and its bytes, which do not.
//!
//! A frequency state slows a unit's arithmetic; memory delivers as before. So of a task that takes `t`
//! seconds in the usual state, whose arithmetic takes `c` and whose bytes take `m`,
//!
//! ```text
//!     seconds at speed s = max(c / s, m) + (t - max(c, m)) / s
//! ```
//!
//! By cost and roofline, `t` is the longer of the two sides and nothing is left. A measured `t` may be
//! longer: what neither side explains is instructions, and follows the clock. It may be shorter than the bytes
//! would take: then caches, which follow the clock as well, delivered some of them. Memory can have delivered
//! at most `t / m` of the bytes, and that part of the time is its. Of a duration without cost or rated
//! speeds everything follows the clock.
//!
//! Nothing here knows how a unit's voltage, its caches' clock or its neighbours' traffic change with its state.

use dahl_core::Cost;

/// The rated speeds of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Operations per second.
    pub flops: f64,
    /// Bytes per second from and to its memory.
    pub bytes: f64,
}

impl Rates {
    /// Seconds of the slower of arithmetic and memory, which overlap.
    pub(super) fn seconds(&self, cost: Cost) -> f64 {
        self.arithmetic(cost).max(self.traffic(cost))
    }

    fn arithmetic(&self, cost: Cost) -> f64 {
        part(cost.flops, self.flops)
    }

    fn traffic(&self, cost: Cost) -> f64 {
        part(cost.bytes, self.bytes)
    }
}

/// An amount that is no number, or not above zero, takes no time; without end it takes very long.
fn part(amount: f64, rate: f64) -> f64 {
    if amount > 0.0 {
        amount.min(1e30) / rate
    } else {
        0.0
    }
}

/// All in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Roofline {
    /// In the usual state; infinite where a task cannot run.
    pub usual: f64,
    compute: f64,
    memory: f64,
}

impl Roofline {
    /// A duration that follows the clock.
    pub(crate) fn compute(usual: f64) -> Roofline {
        Roofline {
            usual,
            compute: usual,
            memory: 0.0,
        }
    }

    /// A duration of a task of this cost on a unit of these speeds.
    pub(crate) fn of(usual: f64, cost: Cost, rates: &Rates) -> Roofline {
        let (compute, memory) = (rates.arithmetic(cost), rates.traffic(cost));
        Roofline {
            usual,
            compute: compute.min(usual),
            memory: match memory <= usual {
                true => memory,
                false => usual * (usual / memory),
            },
        }
    }

    /// A duration so many times as long, all of it.
    pub(crate) fn times(&self, factor: f64) -> Roofline {
        Roofline {
            usual: self.usual * factor,
            compute: self.compute * factor,
            memory: self.memory * factor,
        }
    }

    /// The same task where this part of the usual speed is the usual one.
    pub(crate) fn slowed(&self, speed: f64) -> Roofline {
        Roofline {
            usual: self.at(speed),
            compute: self.compute / speed,
            memory: self.memory,
        }
    }

    /// A duration of so many seconds that changes with the clock as this one does.
    pub(crate) fn lasting(&self, seconds: f64) -> Roofline {
        match self.usual > 0.0 && self.usual.is_finite() {
            true => self.times(seconds / self.usual),
            false => *self,
        }
    }

    /// Seconds at this part of the usual speed.
    pub(crate) fn at(&self, speed: f64) -> f64 {
        if speed == 1.0 {
            return self.usual;
        }
        let rest = self.usual - self.compute.max(self.memory);
        (self.compute / speed).max(self.memory) + rest / speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten operations and five bytes a second.
    const RATES: Rates = Rates {
        flops: 10.0,
        bytes: 5.0,
    };

    fn roofline(usual: f64, flops: f64, bytes: f64) -> Roofline {
        Roofline::of(usual, Cost { flops, bytes }, &RATES)
    }

    #[test]
    fn the_clock_slows_computing_until_it_is_the_longer_side() {
        // A second of arithmetic beside four of memory.
        let bound = roofline(4.0, 10.0, 20.0);
        assert_eq!(
            [1.0, 0.5, 0.25, 0.125].map(|s| bound.at(s)),
            [4.0, 4.0, 4.0, 8.0]
        );
        // And the other way round.
        let busy = roofline(4.0, 40.0, 5.0);
        assert_eq!([1.0, 0.5].map(|s| busy.at(s)), [4.0, 8.0]);
        // Faster than usual: memory stays.
        assert_eq!(roofline(4.0, 40.0, 15.0).at(2.0), 3.0);
    }

    #[test]
    fn what_neither_side_explains_follows_the_clock() {
        // Four seconds of memory, three more that cost does not explain.
        assert_eq!(roofline(7.0, 10.0, 20.0).at(0.5), 4.0 + 6.0);
        // Memory alone would have taken four times as long: a quarter of the time is its.
        assert_eq!(roofline(4.0, 0.0, 80.0).at(0.5), 1.0 + 6.0);
        // Arithmetic alone would have: all of it follows the clock.
        assert_eq!(roofline(1.0, 40.0, 0.0).at(0.5), 2.0);
        assert_eq!(Roofline::compute(3.0).at(0.5), 6.0);
        assert_eq!(Roofline::compute(f64::INFINITY).at(1.0), f64::INFINITY);
    }

    #[test]
    fn durations_change_smoothly_where_memory_begins_to_bind() {
        let at = |usual| roofline(usual, 1.0, 20.0).at(0.5);
        assert!((at(4.0 - 1e-9) - at(4.0 + 1e-9)).abs() < 1e-7);
    }
}
