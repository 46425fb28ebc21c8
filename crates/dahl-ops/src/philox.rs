//! Streams of random words for kernels: Philox keyed by run, step and layer.
//!
//! The bits for one element depend only on its position and the stream, so any tiling and any order of
//! tasks draws the same numbers. The generator itself is [`dahl_core::random::philox`].

use dahl_core::random::philox as philox4x32;

/// A stream of random words: which run (`seed`), which step of it, which layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
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
    pub(crate) fn block(&self, index: u64) -> [u32; 4] {
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
