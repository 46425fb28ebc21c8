//! Members of a zip archive, as `numpy.savez` and `savez_compressed` write them: stored or deflated.
//!
//! The directory at the end says what there is. Archives with more than 65,535 members, of 4 GiB and more, in several
//! parts or encrypted ones are refused.

use std::io::Read;

/// The most bytes of a member that are unpacked.
const MAX_UNPACKED: u64 = 8 << 30;
/// Deflate does no better than this.
const MAX_RATIO: u64 = 1032;

/// A member of an archive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: String,
    start: usize,
    packed: usize,
    size: u64,
    deflated: bool,
    crc: u32,
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
}

/// The members of an archive, in the order of its directory.
pub(crate) fn members(bytes: &[u8]) -> Result<Vec<Member>, String> {
    let damaged = || "it is no zip archive, or a damaged one".to_owned();
    // The end record is 22 bytes and a comment of up to 65,535.
    let last = bytes.len().checked_sub(22).ok_or_else(damaged)?;
    let first = last.saturating_sub(65_535);
    let end = (first..=last)
        .rev()
        .find(|&at| bytes[at..].starts_with(b"PK\x05\x06"));
    let end = end.ok_or_else(damaged)?;
    let field = |at, size| number(bytes, at, size).ok_or_else(damaged);
    let (count, mut at) = (field(end + 10, 2)?, field(end + 16, 4)? as usize);
    if count == 0xffff || at == 0xffff_ffff {
        return Err("it is too large an archive (zip64); save plain .npy files".into());
    }
    let mut all = Vec::new();
    for _ in 0..count {
        if !bytes
            .get(at..)
            .is_some_and(|b| b.starts_with(b"PK\x01\x02"))
        {
            return Err(damaged());
        }
        let (flags, method) = (field(at + 8, 2)?, field(at + 10, 2)?);
        let (crc, packed, size) = (field(at + 16, 4)?, field(at + 20, 4)?, field(at + 24, 4)?);
        let [name_length, extra, comment] = [28, 30, 32].map(|o| number(bytes, at + o, 2));
        let (name_length, skip) = (
            name_length.ok_or_else(damaged)? as usize,
            extra.zip(comment),
        );
        let (extra, comment) = skip.ok_or_else(damaged)?;
        let local = field(at + 42, 4)? as usize;
        let name = bytes
            .get(at + 46..at + 46 + name_length)
            .ok_or_else(damaged)?;
        let name = String::from_utf8_lossy(name).into_owned();
        if flags & 1 != 0 || !matches!(method, 0 | 8) {
            return Err(format!(
                "its member {name:?} is encrypted or packed in an unknown way"
            ));
        }
        let [name_here, extra_here] = [26, 28].map(|o| number(bytes, local.saturating_add(o), 2));
        let (name_here, extra_here) = name_here.zip(extra_here).ok_or_else(damaged)?;
        let start = local.saturating_add(30 + (name_here + extra_here) as usize);
        let packed = packed as usize;
        if start
            .checked_add(packed)
            .is_none_or(|end| end > bytes.len())
        {
            return Err(format!("its member {name:?} is cut off"));
        }
        if size > (packed as u64).saturating_mul(MAX_RATIO).min(MAX_UNPACKED) {
            return Err(format!("its member {name:?} claims {size} bytes, too many"));
        }
        all.push(Member {
            name,
            start,
            packed,
            size,
            deflated: method == 8,
            crc: crc as u32,
        });
        at += 46 + name_length + (extra + comment) as usize;
    }
    Ok(all)
}

impl Member {
    /// Its bytes, unpacked and compared with the checksum.
    pub(crate) fn read(&self, archive: &[u8]) -> Result<Vec<u8>, String> {
        let wrong = || format!("its member {:?} is damaged", self.name);
        let packed = archive
            .get(self.start..self.start + self.packed)
            .ok_or_else(wrong)?;
        let mut out = Vec::new();
        let read = match self.deflated {
            true => {
                let unpacked = flate2::bufread::DeflateDecoder::new(packed);
                unpacked.take(self.size + 1).read_to_end(&mut out)
            }
            false => packed.take(self.size + 1).read_to_end(&mut out),
        };
        let mut crc = flate2::Crc::new();
        crc.update(&out);
        match read.is_ok() && out.len() as u64 == self.size && crc.sum() == self.crc {
            true => Ok(out),
            false => Err(wrong()),
        }
    }
}
