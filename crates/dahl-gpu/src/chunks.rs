//! Copies cut to the size of a staging buffer, small ones joined, of several arrays if they travel together.
//!
//! Byte ranges that are equally long and equally far apart, as the rows of a box are, become one
//! *piece*, which devices copy by one command. Pieces are packed into chunks, each no larger than the
//! staging buffer, so that one chunk can travel while the next is packed.

use std::ops::Range;

use dahl_runtime::memory::{Cargo, Direction};

/// Bytes of half a staging buffer.
pub(crate) const HALF: usize = 1 << 20;

/// `rows` times `len` bytes, `pitch` apart from `start` on; packed without gaps from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which of the arrays that travel together.
    pub of: usize,
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

/// Ranges of an array as pieces, in order.
fn pieces(of: usize, ranges: &[Range<usize>]) -> Vec<Piece> {
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
            of,
            start: r.start,
            len: r.len(),
            pitch: r.len(),
            rows: 1,
            at: 0,
        });
    }
    all
}

/// Cuts ranges of arrays into chunks of at most `most` bytes each.
pub(crate) fn chunks<'a>(
    arrays: impl Iterator<Item = &'a [Range<usize>]>,
    most: usize,
) -> Vec<Vec<Piece>> {
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
    for p in arrays.enumerate().flat_map(|(of, r)| pieces(of, r)) {
        if p.len > most {
            for row in 0..p.rows {
                for from in (0..p.len).step_by(most) {
                    let len = most.min(p.len - from);
                    add(Piece {
                        of: p.of,
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

/// Carries ranges between arrays in the host and on a device by way of `staging`, whose two halves take
/// turns: while one travels, the other is packed or unpacked. `start` begins the copies of pieces
/// between the device and a half, `wait` waits until they have ended. A failure comes with how many arrays,
/// from the first on, have arrived all the same.
///
/// # Safety
/// `staging` has two halves of equal size, ours alone; the ranges are inside the host's arrays, and
/// nobody else writes them, nor reads them if the way is out.
pub(crate) unsafe fn carry<E, X>(
    staging: *mut u8,
    all: &[Cargo<'_>],
    way: Direction,
    mut start: impl FnMut(&[Piece], *mut u8) -> Result<E, X>,
    mut wait: impl FnMut(E) -> Result<(), X>,
) -> Result<(), (usize, X)> {
    let mut under_way: [Option<(E, Vec<Piece>)>; 2] = [None, None];
    let mut result = Ok(());
    // What comes before the first array of a chunk that failed has arrived, and no more is promised.
    let fail = |result: &mut Result<(), (usize, X)>, pieces: &[Piece], e| match result {
        Ok(()) => *result = Err((pieces[0].of, e)),
        Err((arrived, _)) => *arrived = pieces[0].of.min(*arrived),
    };
    // Two more turns: to wait for the last two chunks.
    let cut = chunks(all.iter().map(|c| c.ranges), HALF);
    for (i, chunk) in cut.into_iter().map(Some).chain([None, None]).enumerate() {
        // SAFETY: one of the two halves.
        let half = unsafe { staging.add(i % 2 * HALF) };
        if let Some((event, pieces)) = under_way[i % 2].take() {
            // What was started must end before this returns, even after a failure.
            match wait(event) {
                Err(e) => fail(&mut result, &pieces, e),
                Ok(()) if way == Direction::Out => pieces.iter().for_each(|p| {
                    // SAFETY: the pieces lie in the host's arrays, and packed in this half.
                    unsafe { unpack(p, half, all[p.of].host) }
                }),
                Ok(()) => {}
            }
        }
        let Some(pieces) = chunk.filter(|_| result.is_ok()) else {
            continue;
        };
        if way == Direction::In {
            // SAFETY: as above.
            let pack = |p: &Piece| unsafe { pack(p, half, all[p.of].host) };
            pieces.iter().for_each(pack);
        }
        match start(&pieces, half) {
            Ok(event) => under_way[i % 2] = Some((event, pieces)),
            Err(e) => fail(&mut result, &pieces, e),
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
                for chunk in chunks([ranges].into_iter(), most) {
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
        assert_eq!(chunks([&rows[..]].into_iter(), 1 << 20)[0].len(), 1);
    }

    /// Arrays of several sizes, copied by a device that is an array itself and fails at the `n`-th chunk,
    /// when it is begun or when it is waited for: those that are said to have arrived have.
    #[allow(clippy::single_range_in_vec_init)]
    #[test]
    fn what_is_said_to_have_arrived_has() {
        let sizes = [100, 5, HALF - 50, 3 * HALF, 7, HALF / 2];
        let whole = |i: usize| [0..sizes[i]];
        let ranges: Vec<[Range<usize>; 1]> = (0..sizes.len()).map(whole).collect();
        let mut staging = vec![0u8; 2 * HALF];
        let (mut n, mut partly) = (0, 0);
        loop {
            let before = partly;
            for at_start in [true, false] {
                let mut arrays: Vec<Vec<u8>> = sizes.iter().map(|&s| vec![0; s]).collect();
                let device = std::ptr::null_mut();
                let cargo: Vec<Cargo<'_>> = std::iter::zip(&mut arrays, &ranges)
                    .map(|(a, ranges)| Cargo {
                        device,
                        host: a.as_mut_ptr(),
                        ranges,
                    })
                    .collect();
                let (mut begun, mut ended) = (0, 0);
                let strikes = |count: &mut i32| std::mem::replace(count, *count + 1) == n;
                let start = |pieces: &[Piece], half: *mut u8| {
                    if at_start && strikes(&mut begun) {
                        return Err(());
                    }
                    for p in pieces {
                        // SAFETY: a piece lies in its half.
                        unsafe { half.add(p.at).write_bytes(p.of as u8 + 1, p.len * p.rows) };
                    }
                    Ok(())
                };
                let wait = |()| match !at_start && strikes(&mut ended) {
                    true => Err(()),
                    false => Ok(()),
                };
                // SAFETY: arrays and staging memory are ours.
                let carried =
                    unsafe { carry(staging.as_mut_ptr(), &cargo, Direction::Out, start, wait) };
                let arrived = carried.map_or_else(|(arrived, ())| arrived, |()| sizes.len());
                for (i, a) in arrays.iter().take(arrived).enumerate() {
                    assert!(a.iter().all(|&b| b == i as u8 + 1), "array {i}, fault {n}");
                }
                partly += usize::from(arrived > 0 && arrived < sizes.len());
                assert!(n > 0 || arrived == 0);
                if carried.is_ok() {
                    assert!(partly > 2 && before == partly, "only {partly}");
                    return;
                }
            }
            n += 1;
        }
    }
}
