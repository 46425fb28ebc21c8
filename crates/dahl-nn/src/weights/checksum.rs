//! A checksum inside of a file, over all its bytes: a bit that flips on the disk is noticed.
//!
//! The notes have a place for it. The sum is of the file as it is with zeros there.

use std::io::{self, BufWriter, Write};

use dahl_core::hash::Checksum;

use super::Notes;

/// The key of the note that holds it.
const KEY: &str = "dahl_checksum";

/// What stands in its place while the sum is made.
const ZEROS: &str = "0000000000000000";

/// Adds a place for a checksum.
pub(crate) fn reserve(notes: &mut Notes) {
    notes.insert(KEY.into(), ZEROS.into());
}

/// Whether a file has one.
pub(crate) fn is_there(notes: &Notes) -> bool {
    notes.contains_key(KEY)
}

/// Where the sum stands in a file's header or in the whole file.
fn place(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let before = format!("\"{KEY}\":\"");
    let at = bytes
        .windows(before.len())
        .position(|w| w == before.as_bytes())?;
    let start = at + before.len();
    (start + ZEROS.len() <= bytes.len()).then_some(start..start + ZEROS.len())
}

/// Makes the sum of a file with this header, if that has a place for one, and puts it there.
pub(super) fn fill_in(
    header: &mut String,
    write: impl FnOnce(&str, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let Some(place) = place(header.as_bytes()) else {
        return Ok(());
    };
    let mut out = BufWriter::with_capacity(1 << 16, Checksum::default());
    write(header, &mut out)?;
    let sum = out.into_inner().map_err(|e| e.into_error())?.finish();
    header.replace_range(place, &format!("{sum:016x}"));
    Ok(())
}

/// What is wrong with a file by its checksum; nothing if it has none.
pub(super) fn problem(bytes: &[u8], notes: &Notes) -> Option<&'static str> {
    let said = notes.get(KEY)?;
    let damaged = "its checksum does not fit its content: the file is damaged";
    let Some(place) = place(bytes) else {
        return Some(damaged);
    };
    let mut sum = Checksum::default();
    sum.add(&bytes[..place.start]);
    sum.add(ZEROS.as_bytes());
    sum.add(&bytes[place.end..]);
    (format!("{:016x}", sum.finish()) != *said).then_some(damaged)
}
