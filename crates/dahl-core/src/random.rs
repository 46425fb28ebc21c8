//! Random numbers from a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", SC 2011).
//!
//! There is no generator to advance. The number at position `i` of stream `(seed, stream)` is a pure
//! function of the three, so it does not matter who computes it, when, or in which order.

/// Ten rounds of Philox on a 128-bit counter under a 64-bit key. Inlined, so that kernels that draw many
/// numbers at once can be vectorised around it.
#[inline(always)]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const M: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const W: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let (mut c, mut k) = (counter, key);
    for round in 0..10 {
        if round > 0 {
            k = [k[0].wrapping_add(W[0]), k[1].wrapping_add(W[1])];
        }
        let (p0, p1) = (M[0] * u64::from(c[0]), M[1] * u64::from(c[2]));
        c = [
            (p1 >> 32) as u32 ^ c[1] ^ k[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ c[3] ^ k[1],
            p0 as u32,
        ];
    }
    c
}

/// A stream of random numbers that can be read at any position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    seed: u64,
    stream: u64,
}

impl Random {
    /// The stream `stream` of a seed. Different streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random { seed, stream }
    }

    /// 64 random bits at position `index`.
    pub fn bits(&self, index: u64) -> u64 {
        let counter = [
            index as u32,
            (index >> 32) as u32,
            self.stream as u32,
            (self.stream >> 32) as u32,
        ];
        let r = philox(counter, [self.seed as u32, (self.seed >> 32) as u32]);
        u64::from(r[0]) << 32 | u64::from(r[1])
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn uniform(&self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Standard normal, by Box and Muller from positions `2·index` and `2·index + 1`.
    pub fn normal(&self, index: u64) -> f64 {
        let u = 1.0 - self.uniform(2 * index);
        let v = self.uniform(2 * index + 1);
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Uniform among `0..n` without bias worth mentioning (n ≪ 2⁶⁴).
    pub fn below(&self, index: u64, n: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_known_answers() {
        // From the authors' kat_vectors.
        let f = u32::MAX;
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
        );
        assert_eq!(
            philox([f; 4], [f; 2]),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        assert_eq!(
            philox(
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0]
            ),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn numbers_have_the_right_moments() {
        let r = Random::new(42, 1);
        let n = 100_000;
        let moments = |f: &dyn Fn(u64) -> f64| {
            let mean = (0..n).map(f).sum::<f64>() / n as f64;
            (
                mean,
                (0..n).map(|i| (f(i) - mean).powi(2)).sum::<f64>() / n as f64,
            )
        };
        let (mean, var) = moments(&|i| r.uniform(i));
        assert!(
            (mean - 0.5).abs() < 0.005 && (var - 1.0 / 12.0).abs() < 0.002,
            "{mean} {var}"
        );
        let (mean, var) = moments(&|i| r.normal(i));
        assert!(
            mean.abs() < 0.01 && (var - 1.0).abs() < 0.02,
            "{mean} {var}"
        );
        assert!((0..1000).all(|i| r.below(i, 7) < 7));
        assert_ne!(Random::new(42, 2).bits(0), r.bits(0));
    }
}
