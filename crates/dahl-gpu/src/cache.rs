//! Compiled programs on disk.
//!
//! An entry's name is the hash of all that a binary depends on: source, options, device and driver. Its
//! content carries a hash of its own; one that does not fit, or that the driver refuses, counts as
//! absent and is written anew. A disk that is full or read-only costs time, not correctness.

use std::hash::Hasher as _;
use std::path::{Path, PathBuf};

use dahl_core::hash::StableHasher;

const MAGIC: &[u8; 8] = b"DAHLGP1\n";

fn hash(parts: &[&[u8]]) -> u64 {
    let mut h = StableHasher::default();
    for p in parts {
        h.write_u64(p.len() as u64);
        h.write(p);
    }
    h.finish()
}

/// The place of an entry for a program made of these texts.
pub(crate) fn entry(folder: &Path, parts: &[&str]) -> PathBuf {
    let bytes: Vec<&[u8]> = parts.iter().map(|p| p.as_bytes()).collect();
    folder.join(format!("{:016x}.bin", hash(&bytes)))
}

/// The binary at this place, if it is whole.
pub(crate) fn load(entry: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(entry).ok()?;
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, binary) = rest.split_first_chunk::<8>()?;
    let whole = magic == MAGIC && u64::from_le_bytes(*sum) == hash(&[binary]);
    whole.then(|| binary.to_vec())
}

/// Writes a binary, whole or not at all.
pub(crate) fn store(entry: &Path, binary: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = entry.parent() {
        std::fs::create_dir_all(folder)?;
    }
    dahl_core::file::write_atomically(entry, |out| {
        out.write_all(MAGIC)?;
        out.write_all(&hash(&[binary]).to_le_bytes())?;
        out.write_all(binary)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_entries_come_back_and_broken_ones_do_not() {
        let folder = std::env::temp_dir().join(format!("dahl-cache-{}", std::process::id()));
        let place = entry(&folder, &["source", "options", "device"]);
        assert_ne!(place, entry(&folder, &["source", "options", "device2"]));
        assert_ne!(place, entry(&folder, &["sourceoptions", "", "device"]));
        assert_eq!(load(&place), None);
        store(&place, b"binary").unwrap();
        assert_eq!(load(&place).as_deref(), Some(&b"binary"[..]));
        let good = std::fs::read(&place).unwrap();
        for broken in [
            &good[..10],
            &good[..good.len() - 1],
            b"",
            b"something else entirely",
        ] {
            std::fs::write(&place, broken).unwrap();
            assert_eq!(load(&place), None);
        }
        let mut flipped = good.clone();
        flipped[18] ^= 1;
        std::fs::write(&place, flipped).unwrap();
        assert_eq!(load(&place), None);
        store(&place, b"again").unwrap();
        assert_eq!(load(&place).as_deref(), Some(&b"again"[..]));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
