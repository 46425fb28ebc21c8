//! A hash that is the same in every process and on every machine: FNV-1a over little-endian bytes.
//!
//! For fingerprints that are written down (graph hashes, footprints of calls). Not for protection
//! against anybody. [`FastHasher`] is the other one, for tables that live and die in one process.

use std::hash::Hasher;
use std::io::{self, Write};

/// FNV-1a, 64 bits.
#[derive(Clone, Debug)]
pub struct StableHasher(u64);

impl Default for StableHasher {
    fn default() -> Self {
        StableHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    // The default methods hash native-endian, native-width integers; these make them the same everywhere.
    fn write_u16(&mut self, i: u16) {
        self.write(&i.to_le_bytes());
    }

    fn write_u32(&mut self, i: u32) {
        self.write(&i.to_le_bytes());
    }

    fn write_u64(&mut self, i: u64) {
        self.write(&i.to_le_bytes());
    }

    fn write_usize(&mut self, i: usize) {
        self.write_u64(i as u64);
    }

    fn write_isize(&mut self, i: isize) {
        self.write_u64(i as i64 as u64);
    }
}

/// A fast hash for tables of our own small keys; different runs of one build agree, nothing more.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_le_bytes(padded));
        }
    }

    fn write_u8(&mut self, i: u8) {
        self.write_u64(u64::from(i));
    }

    fn write_u32(&mut self, i: u32) {
        self.write_u64(u64::from(i));
    }

    fn write_u64(&mut self, i: u64) {
        self.0 = (self.0.rotate_left(23) ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, i: usize) {
        self.write_u64(i as u64);
    }
}

/// Builds [`FastHasher`]s.
pub type FastBuild = std::hash::BuildHasherDefault<FastHasher>;

/// A checksum over many bytes, eight at a time: the same on every machine, and other for every content that
/// differs in one word. Writing to it adds bytes; how they are divided among writes does not matter.
#[derive(Clone, Debug, Default)]
pub struct Checksum {
    state: u64,
    length: u64,
    /// The bytes of a word that is not complete.
    rest: [u8; 8],
}

impl Checksum {
    /// Of bytes that are all there.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut sum = Checksum::default();
        sum.add(bytes);
        sum.finish()
    }

    /// Adds bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        let begun = (self.length % 8) as usize;
        self.length += bytes.len() as u64;
        if begun > 0 {
            let taken = bytes.len().min(8 - begun);
            self.rest[begun..begun + taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if begun + taken < 8 {
                return;
            }
            self.word(self.rest);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&word| self.word(word));
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The sum of all bytes so far.
    pub fn finish(&self) -> u64 {
        let mut last = self.clone();
        let begun = (self.length % 8) as usize;
        last.rest[begun..].fill(0);
        last.word(last.rest);
        last.word(self.length.to_le_bytes());
        last.state ^ (last.state >> 32)
    }

    /// Both steps can be undone, so two sums of equally many words that differ in one word differ.
    fn word(&mut self, word: [u8; 8]) {
        let mixed = self.state.rotate_left(23) ^ u64::from_le_bytes(word);
        self.state = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Derived `Hash` hashes an enum's discriminant as `isize` and lengths as `usize`: both are fixed above.
#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    #[test]
    fn known_values() {
        let hash = |s: &[u8]| {
            let mut h = StableHasher::default();
            h.write(s);
            h.finish()
        };
        // From the FNV authors' test vectors.
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
        let mut h = StableHasher::default();
        7usize.hash(&mut h);
        assert_eq!(h.finish(), hash(&7u64.to_le_bytes()));
    }

    #[test]
    fn checksums_see_every_bit_and_no_boundary() {
        let bytes: Vec<u8> = (0..43u8).map(|i| i.wrapping_mul(37)).collect();
        let whole = Checksum::of(&bytes);
        for at in 0..=bytes.len() {
            for end in at..=bytes.len() {
                let mut sum = Checksum::default();
                for part in [&bytes[..at], &bytes[at..end], &bytes[end..]] {
                    sum.add(part);
                }
                assert_eq!(sum.finish(), whole, "{at}, {end}");
            }
        }
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Checksum::of(&damaged), whole, "bit {bit}");
        }
        assert_ne!(Checksum::of(&[0; 8]), Checksum::of(&[0; 7]));
        // Written down, because files hold such sums.
        assert_eq!(Checksum::of(b""), 0);
        assert_eq!(Checksum::of(b"foobar"), 0x4ca5_e95e_ee4b_b5a0);
    }
}
