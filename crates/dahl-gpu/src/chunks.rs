//! Copies cut to the size of a staging buffer, small ones joined.
//!
//! Byte ranges that are equally long and equally far apart, as the rows of a box are, become one
//! *piece*, which devices copy by one command. Pieces are packed into chunks, each no larger than the
//! staging buffer, so that one chunk can travel while the next is packed.

use std::ops::Range;

use dahl_runtime::memory::Direction;

/// Bytes of half a staging buffer.
pub const HALF: usize = 1 << 20;

/// `rows` times `len` bytes, `pitch` apart from `start` on; packed without gaps from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte in the array.
    pub start: usize,
    /// Bytes of a row.
    pub len: usize,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// How many rows.
    pub rows: usize,
    /// First byte in the staging buffer.
    pub at: usize,
}

/// Ranges as pieces, in order.
fn pieces(ranges: &[Range<usize>]) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    for r in ranges.iter().filter(|r| !r.is_empty()) {
        if let Some(p) = all.last_mut()
            && p.len == r.len()
            && r.start > p.start
        {
            let distance = r.start - (p.start + (p.rows - 1) * p.pitch);
            if r.start >= p.start + (p.rows - 1) * p.pitch + p.len
                && (p.rows == 1 || distance == p.pitch)
            {
                p.pitch = distance;
                p.rows += 1;
                continue;
            }
        }
        all.push(Piece {
            start: r.start,
            len: r.len(),
            pitch: r.len(),
            rows: 1,
            at: 0,
        });
    }
    all
}

/// Cuts ranges into chunks of at most `most` bytes each.
pub fn chunks(ranges: &[Range<usize>], most: usize) -> Vec<Vec<Piece>> {
    let mut all = vec![Vec::new()];
    let mut used = 0;
    let mut add = |mut p: Piece| {
        let bytes = p.len * p.rows;
        if used + bytes > most {
            all.push(Vec::new());
            used = 0;
        }
        p.at = used;
        used += bytes;
        if let Some(last) = all.last_mut() {
            last.push(p);
        }
    };
    for p in pieces(ranges) {
        if p.len > most {
            for row in 0..p.rows {
                for from in (0..p.len).step_by(most) {
                    let len = most.min(p.len - from);
                    add(Piece {
                        start: p.start + row * p.pitch + from,
                        len,
                        pitch: len,
                        rows: 1,
                        at: 0,
                    });
                }
            }
            continue;
        }
        let fit = (most / p.len).max(1);
        for row in (0..p.rows).step_by(fit) {
            add(Piece {
                start: p.start + row * p.pitch,
                rows: fit.min(p.rows - row),
                ..p
            });
        }
    }
    all.retain(|c| !c.is_empty());
    all
}

/// Carries ranges between the host's array and a device by way of `staging`, whose two halves take
/// turns: while one travels, the other is packed or unpacked. `start` begins the copies of pieces
/// between the device and a half, `wait` waits until they have ended.
///
/// # Safety
/// `staging` has two halves of [`HALF`] bytes, ours alone; the ranges are inside the host's array, and
/// nobody else writes them, nor reads them if the way is out.
pub unsafe fn carry<E, X>(
    staging: *mut u8,
    host: *mut u8,
    ranges: &[Range<usize>],
    way: Direction,
    mut start: impl FnMut(&[Piece], *mut u8) -> Result<E, X>,
    mut wait: impl FnMut(E) -> Result<(), X>,
) -> Result<(), X> {
    let mut under_way: [Option<(E, Vec<Piece>)>; 2] = [None, None];
    let mut result = Ok(());
    // Two more turns: to wait for the last two chunks.
    let all = chunks(ranges, HALF).into_iter().map(Some);
    for (i, chunk) in all.chain([None, None]).enumerate() {
        // SAFETY: one of the two halves.
        let half = unsafe { staging.add(i % 2 * HALF) };
        if let Some((event, pieces)) = under_way[i % 2].take() {
            // What was started must end before this returns, even after a failure.
            result = result.and(wait(event));
            if way == Direction::Out && result.is_ok() {
                // SAFETY: the pieces lie in the host's array, and packed in this half.
                pieces.iter().for_each(|p| unsafe { unpack(p, half, host) });
            }
        }
        let Some(pieces) = chunk.filter(|_| result.is_ok()) else {
            continue;
        };
        if way == Direction::In {
            // SAFETY: as above.
            pieces.iter().for_each(|p| unsafe { pack(p, half, host) });
        }
        match start(&pieces, half) {
            Ok(event) => under_way[i % 2] = Some((event, pieces)),
            Err(e) => result = Err(e),
        }
    }
    result
}

/// Copies a piece from the host's array to where it is packed.
///
/// # Safety
/// The piece lies in both.
unsafe fn pack(p: &Piece, staging: *mut u8, host: *const u8) {
    for r in 0..p.rows {
        // SAFETY: by contract.
        unsafe {
            let from = host.add(p.start + r * p.pitch);
            std::ptr::copy_nonoverlapping(from, staging.add(p.at + r * p.len), p.len);
        }
    }
}

/// Copies a piece from where it is packed to the host's array.
///
/// # Safety
/// The piece lies in both.
unsafe fn unpack(p: &Piece, staging: *const u8, host: *mut u8) {
    for r in 0..p.rows {
        // SAFETY: by contract.
        unsafe {
            let to = host.add(p.start + r * p.pitch);
            std::ptr::copy_nonoverlapping(staging.add(p.at + r * p.len), to, p.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lists of one range are meant.
    #[allow(clippy::single_range_in_vec_init)]
    #[test]
    fn every_byte_travels_once_and_no_chunk_is_too_large() {
        let rows: Vec<Range<usize>> = (0..50).map(|i| 100 * i..100 * i + 30).collect();
        let mixed = [0..7, 10..17, 20..27, 40..47, 60..160, 160..400];
        for ranges in [&rows[..], &mixed[..], &[5..6][..], &[][..], &[3..3][..]] {
            for most in [8, 64, 1000, 1 << 20] {
                let mut bytes = Vec::new();
                for chunk in chunks(ranges, most) {
                    let mut at = 0;
                    for p in &chunk {
                        assert_eq!(p.at, at);
                        at += p.len * p.rows;
                        for r in 0..p.rows {
                            bytes.extend(p.start + r * p.pitch..p.start + r * p.pitch + p.len);
                        }
                    }
                    assert!(at <= most && at > 0);
                }
                let want: Vec<usize> = ranges.iter().cloned().flatten().collect();
                assert_eq!(bytes, want, "{most}");
            }
        }
        assert_eq!(chunks(&rows, 1 << 20)[0].len(), 1);
    }
}
