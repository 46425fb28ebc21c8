//! Random choices that can be repeated.

use dahl_core::random::Random;

/// A sequence of random choices.
#[derive(Debug)]
pub(crate) struct Dice {
    random: Random,
    next: u64,
}

impl Dice {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Dice {
            random: Random::new(seed, 0x6763),
            next: 0,
        }
    }

    /// A whole number in `low..=high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        self.next += 1;
        low + (self.random.bits(self.next) % (high - low + 1) as u64) as usize
    }

    /// A number in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.next += 1;
        self.random.uniform(self.next)
    }

    /// True every other time or so.
    pub(crate) fn flip(&mut self) -> bool {
        self.between(0, 1) == 1
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() - 1)]
    }
}
