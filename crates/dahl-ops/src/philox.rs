//! Philox4x32-10: random bits as a function of a counter and a key, with no state to share.
//!
//! The generator of Salmon, Moraes, Dror and Shaw (*Parallel random numbers: as easy as 1, 2, 3*,
//! 2011): ten rounds of two 32×32→64 multiplications. Because the bits for one element depend only
//! on its position and the key, any tiling and any order of tasks draws the same numbers. Not a
//! cipher.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the key gains each round: the golden ratio and √3 − 1, in 32 bits.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Four random words for a counter under a key.
#[inline(always)]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let a = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// A stream of random words: which run (`seed`), which step of it, which layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The run's seed.
    pub seed: u64,
    /// The training step, so that each step draws afresh.
    pub step: u32,
    /// The layer, so that two layers of a step draw independently.
    pub layer: u32,
}

impl Stream {
    /// The four words of block `index`: those of elements `4 · index` to `4 · index + 3`.
    #[inline(always)]
    pub fn block(&self, index: u64) -> [u32; 4] {
        let counter = [index as u32, (index >> 32) as u32, self.step, self.layer];
        philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors published with Random123 (`kat_vectors`, philox4x32, 10 rounds).
    #[test]
    fn known_answers() {
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn streams_differ_in_every_coordinate() {
        let base = Stream {
            seed: 1,
            step: 2,
            layer: 3,
        };
        let first = base.block(0);
        for other in [
            Stream {
                seed: 1 << 32 | 1,
                ..base
            },
            Stream { step: 3, ..base },
            Stream { layer: 4, ..base },
        ] {
            assert_ne!(other.block(0), first);
        }
        assert_ne!(base.block(1), first);
        assert_ne!(base.block(1 << 32), first);
    }
}
