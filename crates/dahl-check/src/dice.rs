//! Random choices that can be repeated.

use dahl_core::random::Random;

/// A sequence of random choices.
#[derive(Debug)]
pub struct Dice {
    random: Random,
    next: u64,
}

impl Dice {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Dice {
            random: Random::new(seed, 0x6763),
            next: 0,
        }
    }

    /// A whole number in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        self.next += 1;
        low + (self.random.bits(self.next) % (high - low + 1) as u64) as usize
    }

    /// A number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        self.next += 1;
        self.random.uniform(self.next)
    }

    /// True every other time or so.
    pub fn flip(&mut self) -> bool {
        self.between(0, 1) == 1
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() - 1)]
    }
}
