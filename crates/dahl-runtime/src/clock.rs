//! A clock that costs as little as the machine allows: a task of a microsecond is timed twice.
//!
//! Where the kernel itself trusts the processor's cycle counter (it is constant, never stops and agrees
//! between cores), that counter is read directly: about 9 ns where the system's clock takes 27. Its rate
//! is found by comparing both clocks at the beginning and at the end. Anywhere else a tick is a
//! nanosecond of the system's clock. Ticks mean nothing outside the clock that made them.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    first: u64,
    counter: bool,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn new() -> Self {
        let counter = has_counter();
        let start = Instant::now();
        let first = if counter { cycles() } else { 0 };
        Clock {
            start,
            first,
            counter,
        }
    }

    /// When the clock began.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Ticks so far.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        if self.counter {
            cycles().saturating_sub(self.first)
        } else {
            self.start.elapsed().as_nanos() as u64
        }
    }

    /// Nanoseconds in a tick, by what both clocks say now. Better the longer the clock has run.
    pub(crate) fn rate(&self) -> f64 {
        if !self.counter {
            return 1.0;
        }
        // Two readings as close together as possible: the smallest gap of a few tries.
        let reading = |_| {
            let before = self.ticks();
            let nanos = self.start.elapsed().as_nanos() as f64;
            let after = self.ticks();
            (after - before, before + (after - before) / 2, nanos)
        };
        let (_, ticks, nanos) = (0..16)
            .map(reading)
            .min_by_key(|r| r.0)
            .unwrap_or((0, 1, 1.0));
        nanos / ticks.max(1) as f64
    }
}

#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // The kernel watches the counter and leaves this source as soon as it does not agree.
    std::fs::read_to_string(file).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and a system that forbids it to programs does
    // not itself offer it as its clock source.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn has_counter() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn cycles() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_system_clock() {
        let clock = Clock::new();
        std::thread::sleep(std::time::Duration::from_millis(60));
        // Between two readings of ours, however far apart these are on a busy machine.
        let before = clock.ticks();
        let nanos = clock.start().elapsed().as_nanos() as f64;
        let own = [before, clock.ticks()].map(|ticks| ticks as f64 * clock.rate());
        assert!(
            own[0] < 1.02 * nanos && own[1] > 0.98 * nanos,
            "{own:?} ns, not {nanos}"
        );
    }
}
