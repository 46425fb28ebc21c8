//! Bytes for a page: numbers as varints, blocks deflated and spelled in base64.
//!
//! Numbers take seven bits a byte, lowest first; the eighth says that more follow. Signed ones fold
//! their sign into the lowest bit. The page's `columns.js` and `unpack.js` read what is written here;
//! nothing here knows what the numbers mean.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Columns of numbers, one after the other.
#[derive(Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
}

impl Columns {
    /// Adds a column: how many numbers, then the numbers.
    pub(super) fn numbers(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        varint(&mut self.bytes, values.len() as u64);
        for value in values {
            varint(&mut self.bytes, value);
        }
    }

    /// Adds a column of bytes.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes the columns as text: deflate, then base64.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        // Columns of small differences gain little from the slower levels.
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::new(4));
        packed.write_all(&self.bytes)?;
        base64(&packed.finish()?, out)
    }
}

/// Appends a number.
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The difference `to - from` of two numbers, sign in the lowest bit, so that small ones are short.
pub(super) fn step(from: u64, to: u64) -> u64 {
    let d = to.wrapping_sub(from) as i64;
    ((d << 1) ^ (d >> 63)) as u64
}

fn base64(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(1 << 16);
    for part in bytes.chunks((1 << 14) * 3) {
        text.clear();
        for three in part.chunks(3) {
            let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for digit in 0..4 {
                text.push(match digit <= three.len() {
                    true => DIGITS[(bits >> (18 - 6 * digit)) as usize & 63],
                    false => b'=',
                });
            }
        }
        out.write_all(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        base64(bytes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn base64_is_the_standard_one() {
        // The examples of RFC 4648, section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(spelled(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn long_texts_are_joined_without_padding_inside() {
        let text = spelled(&vec![0xff; 100_000]);
        assert_eq!(text.trim_end_matches('=').matches('=').count(), 0);
        assert_eq!(text.len(), 100_000_usize.div_ceil(3) * 4);
    }

    #[test]
    fn numbers_are_short_when_small() {
        let mut out = Vec::new();
        varint(&mut out, 127);
        varint(&mut out, 128);
        assert_eq!(out, [127, 0x80, 1]);
        assert_eq!(step(5, 4), 1);
        assert_eq!(step(4, 5), 2);
        assert_eq!(step(u64::MAX, 0), 2);
    }
}
