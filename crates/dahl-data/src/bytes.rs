//! The bytes of a file: mapped, held or part of the program; and gzip, unpacked under a bound.
//!
//! Plain files are memory-mapped: processes on one machine share one copy, and nothing is read before
//! it is used. Compressed files are unpacked once, never past what their header announces, and what
//! the header announces is believed only as far as the compressed size allows.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use super::error::DataError;

/// Deflate cannot do better than 258 bytes for two bits.
const MAX_RATIO: u64 = 1032;
/// The most that is unpacked into memory.
const MAX_UNPACKED: u64 = 16 << 30;

/// Bytes that stay where they are for as long as this value lives.
pub(crate) enum Bytes {
    /// A mapped file.
    Mapped(Mmap),
    /// Bytes in memory.
    Held(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Held(bytes) => bytes,
        }
    }
}

/// Maps a plain file.
pub(crate) fn map(path: &Path) -> Result<Bytes, DataError> {
    let file = File::open(path).map_err(DataError::io(path, "open it"))?;
    let len = file
        .metadata()
        .map_err(DataError::io(path, "tell its size"))?
        .len();
    if len == 0 {
        return Ok(Bytes::Held(Vec::new()));
    }
    // SAFETY: the map is only read, as plain bytes for which every value is valid. Data sets are not
    // rewritten while they are trained on; one that is would give other pixels, and one that is
    // shortened would end the process, as for any program that maps files.
    let map = unsafe { Mmap::map(&file) }.map_err(DataError::io(path, "map it into memory"))?;
    Ok(Bytes::Mapped(map))
}

/// Unpacks a gzip stream of which the first `header` bytes tell the size.
///
/// `announce` reads those and answers how many bytes there are in all, header included, and how many
/// are wanted. Memory grows with what is really unpacked, not with what is announced.
pub(crate) fn unpack(
    path: &Path,
    packed: u64,
    stream: impl io::BufRead,
    header: usize,
    announce: impl FnOnce(&[u8]) -> Result<(u64, u64), DataError>,
) -> Result<Vec<u8>, DataError> {
    let mut stream = flate2::bufread::GzDecoder::new(stream);
    let mut bytes = Vec::new();
    read_up_to(path, &mut stream, header as u64, &mut bytes)?;
    if bytes.len() < header {
        let (expected, found) = (header as u64, bytes.len() as u64);
        return Err(DataError::Length {
            path: path.to_owned(),
            expected,
            found,
        });
    }
    let (declared, wanted) = announce(&bytes)?;
    let limit = packed.saturating_mul(MAX_RATIO).min(MAX_UNPACKED);
    if wanted > limit {
        let remedy = if wanted > MAX_UNPACKED {
            "unpack it with gunzip, then it is mapped instead of held in memory"
        } else {
            "its header is damaged; fetch it again"
        };
        return Err(DataError::TooLarge {
            path: path.to_owned(),
            declared: declared.into(),
            limit,
            remedy,
        });
    }
    let missing = wanted.saturating_sub(bytes.len() as u64);
    read_up_to(path, &mut stream, missing, &mut bytes)?;
    let found = bytes.len() as u64;
    if found < wanted {
        return Err(DataError::Length {
            path: path.to_owned(),
            expected: declared,
            found,
        });
    }
    // Reading on to the end also makes the decoder compare the checksum.
    if wanted == declared {
        let mut rest = Vec::new();
        read_up_to(path, &mut stream, 1, &mut rest)?;
        if !rest.is_empty() {
            let found = found + 1;
            return Err(DataError::Length {
                path: path.to_owned(),
                expected: declared,
                found,
            });
        }
    }
    Ok(bytes)
}

fn read_up_to(
    path: &Path,
    stream: &mut impl Read,
    count: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), DataError> {
    // A stream that ends in the middle is an error of its own; the caller says "truncated" better.
    match stream.take(count).read_to_end(bytes) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && count > 1 => Ok(()),
        Err(source) => Err(DataError::Gzip {
            path: path.to_owned(),
            unpacked: bytes.len() as u64,
            source,
        }),
    }
}
