//! Victims: which copies to give up when room is short.
//!
//! What is needed last goes first, as Bélády's rule has it, weighed by what giving it up costs: bytes to
//! write back if they are current nowhere else, bytes to fetch again if somebody will read them. A copy
//! is worth its cost per byte it frees, spread over the time until it is needed; the cheapest go until
//! there is room, and those that turn out not to be needed for that are spared. A rule of thumb, which
//! `outlook` improves on where it can look further.

use dahl_core::MemoryId;

use super::directory::{Directory, Entry};
use super::needs::{NEVER, Needs};

/// Tasks until something that is never needed again is: further than any real need.
const FAR: u64 = 1 << 32;

/// Where and when room is short.
pub(super) struct Shortage<'a> {
    /// The memory.
    pub memory: MemoryId,
    /// Storages that must stay.
    pub keep: &'a [u64],
    /// Bytes to free.
    pub bytes: u64,
    /// The moment of the task that wants them.
    pub now: u64,
    /// What is known of the order.
    pub needs: &'a Needs,
    /// Whether copies count that somebody uses just now.
    pub in_use: bool,
}

/// A copy that may go.
pub(super) struct Candidate {
    key: u64,
    /// Bytes of the memory that it takes.
    pub bytes: u64,
    /// Bytes to write back.
    pub back: u64,
    /// Bytes to fetch again.
    pub again: u64,
    /// When that is.
    pub need: u64,
    /// What giving it up costs, in bytes moved per task until it is needed.
    pub loss: f64,
    last_use: u64,
}

/// Whether a copy may go.
pub(super) fn can_go(key: &u64, entry: &Entry, shortage: &Shortage<'_>) -> bool {
    let copy = &entry.copies[usize::from(shortage.memory.0)];
    let there = copy.is_idle() || shortage.in_use && copy.buffer.is_some();
    there && !shortage.keep.contains(key)
}

/// Copies that together free as many bytes as are short, or all that can go; and what giving them up
/// costs, compared with others.
pub(super) fn victims(directory: &Directory, shortage: &Shortage<'_>) -> (Vec<u64>, f64) {
    let of = |(key, entry)| candidate(key, entry, shortage);
    let all = directory.entries.iter();
    let mut left: Vec<Candidate> = all
        .filter(|(key, e)| can_go(key, e, shortage))
        .map(|(key, e)| of((*key, e)))
        .collect();
    let (mut chosen, mut short) = (Vec::<Candidate>::new(), shortage.bytes);
    while short > 0 && !left.is_empty() {
        // More bytes than are short are no use.
        let price = |c: &Candidate| c.loss / c.bytes.clamp(1, short) as f64;
        let order = |c: &Candidate| (c.last_use, c.key);
        let best = (0..left.len()).min_by(|&a, &b| {
            let (a, b) = (&left[a], &left[b]);
            price(a)
                .total_cmp(&price(b))
                .then_with(|| order(a).cmp(&order(b)))
        });
        let Some(best) = best else { break };
        let taken = left.swap_remove(best);
        short = short.saturating_sub(taken.bytes);
        chosen.push(taken);
    }
    let mut spare = chosen.iter().map(|c| c.bytes).sum::<u64>();
    chosen.sort_by(|a, b| b.loss.total_cmp(&a.loss));
    chosen.retain(|c| {
        let needed = spare - c.bytes < shortage.bytes;
        if !needed {
            spare -= c.bytes;
        }
        needed
    });
    let loss = chosen.iter().map(|c| c.loss).sum();
    (chosen.into_iter().map(|c| c.key).collect(), loss)
}

/// What giving up a copy means.
pub(super) fn candidate(key: u64, entry: &Entry, shortage: &Shortage<'_>) -> Candidate {
    let copy = &entry.copies[usize::from(shortage.memory.0)];
    let bytes = entry.held(shortage.memory);
    let back = match (copy.pins > 0, entry.is_away()) {
        // Its user may be writing it; what dies with that use costs nothing.
        (true, _) if copy.need.at == NEVER => 0,
        (true, _) => entry.shape.len(),
        (false, true) => entry.only_in(shortage.memory).iter().map(|r| r.len()).sum(),
        (false, false) => 0,
    };
    let again = match copy.need.reads {
        true => copy.valid.boxes().iter().map(|r| r.len()).sum(),
        false => 0,
    };
    let distance = match copy.need.at {
        NEVER => FAR,
        then => shortage.needs.distance(shortage.now, then),
    };
    // Something for the trouble, so that of two free ones the one needed later goes.
    let cost = ((back + again) * entry.size) as f64 + 0.01 * bytes as f64;
    Candidate {
        key,
        bytes,
        back: (back * entry.size) as u64,
        again: (again * entry.size) as u64,
        need: copy.need.at,
        loss: cost / distance as f64,
        last_use: copy.last_use,
    }
}
