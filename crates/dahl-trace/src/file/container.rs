//! The frame around a trace's sections.
//!
//! All numbers little-endian:
//!
//! ```text
//! "DAHLTRC\n"   u32 version   u32 sections
//! each section: u32 kind   u64 raw bytes   u64 packed bytes   u32 CRC-32 of all the rest   packed bytes
//! ```
//!
//! Sections come in a fixed order, so a reader knows which to expect. They are packed with raw deflate.

use std::io::{self, Read, Write};

use flate2::{Compression, Crc, read::DeflateDecoder, write::DeflateEncoder};
use serde::de::DeserializeOwned;

use super::TraceError;
use super::columns::Columns;

const MAGIC: &[u8; 8] = b"DAHLTRC\n";
/// The version of the format: older and newer ones are refused.
const VERSION: u32 = 6;
/// Deflate cannot pack better than this; a section that claims to is damaged.
const BEST_RATIO: u64 = 1032;
/// Kind, raw and packed bytes.
const FRAME: usize = 4 + 8 + 8;

/// The kinds of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Head = 1,
    GraphNames = 2,
    Graph = 3,
    Launches = 4,
    Tasks = 5,
    Transfers = 6,
    Memory = 7,
    Power = 8,
    Messages = 9,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Section::Head => "head",
            Section::GraphNames => "names of a graph",
            Section::Graph => "graph",
            Section::Launches => "launches",
            Section::Tasks => "tasks",
            Section::Transfers => "transfers",
            Section::Memory => "memory samples",
            Section::Power => "power samples",
            Section::Messages => "messages",
        }
    }
}

/// Writes what comes before the sections.
pub(super) fn begin(out: &mut impl Write, sections: u32) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&sections.to_le_bytes())
}

/// Writes a section.
pub(super) fn put(out: &mut impl Write, section: Section, raw: &[u8]) -> io::Result<()> {
    let mut packer =
        DeflateEncoder::new(Vec::with_capacity(raw.len() / 3 + 64), Compression::fast());
    packer.write_all(raw)?;
    let packed = packer.finish()?;
    let mut frame = Vec::with_capacity(FRAME);
    frame.extend((section as u32).to_le_bytes());
    frame.extend((raw.len() as u64).to_le_bytes());
    frame.extend((packed.len() as u64).to_le_bytes());
    out.write_all(&frame)?;
    out.write_all(&checksum(&frame, &packed).to_le_bytes())?;
    out.write_all(&packed)
}

fn checksum(frame: &[u8], packed: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(frame);
    crc.update(packed);
    crc.sum()
}

/// Reads sections one after the other.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> Reader<'a> {
    /// Reads what comes before the sections.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Reader<'a>, TraceError> {
        if !bytes.starts_with(MAGIC) {
            return Err(TraceError::NotATrace);
        }
        let mut reader = Reader {
            bytes,
            at: MAGIC.len(),
            left: 0,
        };
        let version = reader.number("version")?;
        if version != VERSION {
            return Err(TraceError::Version {
                found: version,
                known: VERSION,
            });
        }
        reader.left = reader.number("number of sections")?;
        Ok(reader)
    }

    fn damaged(&self, place: &str, problem: impl ToString) -> TraceError {
        TraceError::Damaged {
            at: self.at,
            place: place.into(),
            problem: problem.to_string(),
        }
    }

    fn take(&mut self, length: usize, place: &str) -> Result<&'a [u8], TraceError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..length) else {
            let problem = format!("the file ends {} bytes too early", length - rest.len());
            return Err(self.damaged(place, problem));
        };
        self.at += length;
        Ok(taken)
    }

    fn number(&mut self, place: &str) -> Result<u32, TraceError> {
        let bytes = self.take(4, place)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    /// The unpacked bytes of the next section, which must be of this kind.
    fn section(&mut self, section: Section) -> Result<Vec<u8>, TraceError> {
        let place = section.name();
        let begin = self.at;
        let frame = self.take(FRAME, place)?;
        let long =
            |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().expect("eight bytes"));
        let (kind, raw, packed_length) = (&frame[..4], long(4), long(12));
        if kind != (section as u32).to_le_bytes() || self.left == 0 {
            self.at = begin;
            return Err(self.damaged(place, "another section stands here"));
        }
        self.left -= 1;
        let sum = self.number(place)?;
        let length = usize::try_from(packed_length).unwrap_or(usize::MAX);
        let packed = self.take(length, place)?;
        if sum != checksum(frame, packed) {
            self.at = begin;
            return Err(self.damaged(place, "the checksum does not fit"));
        }
        if raw > BEST_RATIO * packed.len() as u64 + BEST_RATIO {
            let problem = format!("{} bytes cannot unpack to {raw}", packed.len());
            return Err(self.damaged(place, problem));
        }
        // What is there decides how much is allocated, not what is claimed.
        let mut unpacked = Vec::with_capacity((raw as usize).min(8 * packed.len() + 64));
        let got = DeflateDecoder::new(packed)
            .take(raw + 1)
            .read_to_end(&mut unpacked)
            .map_err(|e| self.damaged(place, e))?;
        if got as u64 != raw {
            let problem = format!("it unpacks to {got} bytes or more instead of {raw}");
            return Err(self.damaged(place, problem));
        }
        Ok(unpacked)
    }

    /// A section in JSON.
    pub(super) fn json<T: DeserializeOwned>(&mut self, section: Section) -> Result<T, TraceError> {
        let bytes = self.section(section)?;
        serde_json::from_slice(&bytes).map_err(|e| self.damaged(section.name(), e))
    }

    /// A section in columns, which `build` reads to the end.
    pub(super) fn table<T>(
        &mut self,
        section: Section,
        build: impl FnOnce(&mut Columns) -> Result<T, String>,
    ) -> Result<T, TraceError> {
        let bytes = self.section(section)?;
        let mut columns = Columns::new(&bytes);
        build(&mut columns)
            .and_then(|value| columns.finish().map(|()| value))
            .map_err(|e| self.damaged(section.name(), e))
    }

    /// Makes sure that nothing is left.
    pub(super) fn finish(&self) -> Result<(), TraceError> {
        if self.left > 0 || self.at < self.bytes.len() {
            return Err(self.damaged("end", "more than a trace has"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one section with a proper checksum, whatever it claims.
    fn file(raw: u64, packed: &[u8]) -> Vec<u8> {
        let mut file = vec![];
        begin(&mut file, 1).expect("written");
        let mut frame = (Section::Tasks as u32).to_le_bytes().to_vec();
        frame.extend(raw.to_le_bytes());
        frame.extend((packed.len() as u64).to_le_bytes());
        file.extend(&frame);
        file.extend(checksum(&frame, packed).to_le_bytes());
        file.extend(packed);
        file
    }

    fn pack(raw: &[u8]) -> Vec<u8> {
        let mut packer = DeflateEncoder::new(vec![], Compression::best());
        packer.write_all(raw).expect("packed");
        packer.finish().expect("packed")
    }

    #[test]
    fn claims_are_compared_with_what_is_there() {
        let zeros = [0u8; 5000];
        for (raw, packed, says) in [
            (u64::MAX, pack(&zeros), "cannot unpack"),
            (5001, pack(&zeros), "instead of 5001"),
            (4999, pack(&zeros), "instead of 4999"),
            (5000, vec![0xff; 40], "deflate"),
        ] {
            let file = file(raw, &packed);
            let mut reader = Reader::new(&file).expect("a trace");
            let problem = reader.section(Section::Tasks).expect_err(says);
            assert!(problem.to_string().contains(says), "{says}: {problem}");
        }
        let whole = file(5000, &pack(&zeros));
        let mut reader = Reader::new(&whole).expect("a trace");
        assert_eq!(reader.section(Section::Tasks).expect("proper"), zeros);
        reader.finish().expect("nothing left");
    }

    #[test]
    fn rows_are_compared_with_bytes() {
        // A table of 2^60 rows in ten bytes.
        let mut raw = vec![0x80; 8];
        raw.extend([0x10, 0]);
        let file = file(raw.len() as u64, &pack(&raw));
        let mut reader = Reader::new(&file).expect("a trace");
        let problem = reader.table(Section::Tasks, super::super::tables::read_tasks);
        let problem = problem.expect_err("too many").to_string();
        assert!(
            problem.contains("tasks") && problem.contains("rows"),
            "{problem}"
        );
    }
}
