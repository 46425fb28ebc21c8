//! Counter-based random numbers: the value for a (key, counter) pair, with no state in between.
//!
//! Any thread may ask for any value in any order, which is what makes shuffling and synthetic images
//! the same for every number of threads and resumable anywhere. Not for secrets.

/// A well mixed 64-bit value for this key and counter.
///
/// The counter is spread by an odd constant (Weyl sequence) and mixed twice with the key by the
/// finaliser of SplitMix64, so that neither neighbouring counters nor neighbouring keys look alike.
#[inline]
pub(crate) fn mix(key: u64, counter: u64) -> u64 {
    finalise(finalise(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key).wrapping_add(!key))
}

/// Mixes the bits of one word, reversibly: the finaliser of SplitMix64.
#[inline]
pub(crate) fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps a random value to `0..n` by multiplication; the bias, n/2⁶⁴, is far below what counts here.
#[inline]
pub(crate) fn below(random: u64, n: u64) -> u64 {
    ((u128::from(random) * u128::from(n)) >> 64) as u64
}

/// Numbers drawn one after another under a key that belongs to one decision.
pub(crate) struct Draw {
    key: u64,
    count: u64,
}

impl Draw {
    pub(crate) fn new(key: u64) -> Draw {
        Draw { key, count: 0 }
    }

    fn bits(&mut self) -> u64 {
        self.count += 1;
        mix(self.key, self.count)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform between two numbers.
    pub(crate) fn between(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform around 1, by up to so much.
    pub(crate) fn factor(&mut self, by: f64) -> f64 {
        self.between([1.0 - by, 1.0 + by])
    }

    /// Uniform in `0..n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        below(self.bits(), n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipping_one_bit_of_key_or_counter_flips_half_of_the_result() {
        let mut flipped = 0;
        let mut cases = 0;
        for i in 0..64u64 {
            for bit in 0..64 {
                flipped += (mix(i, 7 * i) ^ mix(i ^ (1 << bit), 7 * i)).count_ones();
                flipped += (mix(i, 7 * i) ^ mix(i, (7 * i) ^ (1 << bit))).count_ones();
                cases += 2;
            }
        }
        let mean = f64::from(flipped) / f64::from(cases);
        assert!((mean - 32.0).abs() < 0.3, "{mean}");
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut seen = [0u32; 7];
        for i in 0..70_000 {
            seen[below(mix(3, i), 7) as usize] += 1;
        }
        for n in seen {
            assert!((9_600..10_400).contains(&n), "{seen:?}");
        }
    }
}
