//! Mutations of inputs that a number decides: the same on every machine, whatever the load.
//!
//! Without the guidance of coverage, so they are made of what parsers trip over: numbers at the ends of their types,
//! words in wrong places, lines twice or not at all, files cut short, bits that flipped.

use dahl::core::random::Random;

/// Words that are extreme for almost any parser.
pub(crate) const EXTREMES: &[&str] = &[
    "0",
    "-1",
    "1e999",
    "-1e999",
    "1e-320",
    "nan",
    "NaN",
    "inf",
    "null",
    "true",
    "127",
    "128",
    "255",
    "256",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.1",
    "1e18",
    "[]",
    "{}",
    "\"\"",
    "[[[[[[[[",
    "\u{feff}",
    "\u{1f600}",
    "\0",
    "\r\n",
    ":",
    ",",
    "=",
    "\u{a0}",
];

/// Makes inputs from others.
pub struct Mutator<'s> {
    seeds: &'s [Vec<u8>],
    words: Vec<&'static str>,
    random: Random,
    drawn: u64,
}

impl<'s> Mutator<'s> {
    /// Mutations of these seeds with these words.
    pub fn new(seeds: &'s [Vec<u8>], words: impl Iterator<Item = &'static str>) -> Self {
        Mutator {
            seeds,
            words: words.collect(),
            random: Random::new(0, 0),
            drawn: 0,
        }
    }

    /// The mutation of this number, and the seed that it is of.
    pub fn input(&mut self, number: u64) -> (usize, Vec<u8>) {
        self.random = Random::new(0xDA41, number);
        self.drawn = 0;
        let seed = (number % self.seeds.len().max(1) as u64) as usize;
        let mut bytes = self.seeds.get(seed).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes);
        }
        (seed, bytes)
    }

    /// A number below `n`, or 0.
    fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        self.random.below(self.drawn, n as u64) as usize
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let length = self.below(32).min(bytes.len() - at);
        match self.below(10) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (length % 8);
                }
            }
            1 => {
                let new = self.below(256) as u8;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = new;
                }
            }
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let copy = bytes[at..at + length].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            5 | 6 => self.replace_number(bytes, at),
            7 => {
                let word = self.word();
                bytes.splice(at..at + length.min(self.below(8)), word);
            }
            8 => self.move_line(bytes, at),
            _ => self.splice(bytes, at),
        }
    }

    fn word(&mut self) -> Vec<u8> {
        let word = self.below(self.words.len());
        self.words
            .get(word)
            .map_or(Vec::new(), |w| w.as_bytes().to_vec())
    }

    /// Puts an extreme in the place of the next number in digits, or over four or eight bytes.
    fn replace_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let digit = bytes[at..].iter().position(u8::is_ascii_digit);
        match digit.map(|n| at + n) {
            Some(start) => {
                let rest = &bytes[start..];
                let length = rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.');
                let end = start + length.unwrap_or(rest.len());
                let word = self.word();
                bytes.splice(start..end, word);
            }
            None => {
                let value = [0, 1, 0x7f, 0x80, 0xff][self.below(5)];
                let end = bytes.len().min(at + [1, 2, 4, 8][self.below(4)]);
                bytes[at..end].fill(value);
            }
        }
    }

    /// Takes a line and puts it elsewhere, once more or instead.
    fn move_line(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let start = bytes[..at]
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |n| n + 1);
        let end = bytes[at..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(bytes.len(), |n| at + n + 1);
        let line = bytes[start..end].to_vec();
        if self.below(2) == 0 {
            bytes.drain(start..end);
        }
        let to = self.below(bytes.len() + 1);
        let to = bytes[..to]
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |n| n + 1);
        bytes.splice(to..to, line);
    }

    /// Goes on with a part of another seed.
    fn splice(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let other = self.below(self.seeds.len());
        let Some(other) = self.seeds.get(other) else {
            return;
        };
        let from = self.below(other.len() + 1);
        let length = self.below(256).min(other.len() - from);
        let end = bytes.len().min(at + self.below(256));
        bytes.splice(at..end, other[from..from + length].iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_decides_and_almost_all_differ() {
        let seeds = [
            b"name = 12\nother = 3\n".to_vec(),
            vec![0, 1, 2, 255],
            vec![],
        ];
        let words = || ["one", "two"].into_iter();
        let (mut a, mut b) = (Mutator::new(&seeds, words()), Mutator::new(&seeds, words()));
        let all: Vec<_> = (0..1000).map(|n| a.input(n)).collect();
        assert!((0..1000).rev().all(|n| b.input(n) == all[n as usize]));
        let of_first = all.iter().filter(|(seed, _)| *seed == 0);
        let changed = of_first.filter(|(_, bytes)| *bytes != seeds[0]);
        assert!(changed.count() > 300);
        let mut none = Mutator::new(&[], words());
        (0..100).for_each(|n| drop(none.input(n)));
    }
}
