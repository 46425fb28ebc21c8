//! Transfers that a plan may need, for bounds: what is certain of them before memories are known.
//!
//! If a reader of a datum runs in memory `m` and its origin is elsewhere, the datum crosses some link into
//! `m`, once for all its readers there. So with `y(i, m)` 1 where task `i` runs in `m` and 0 elsewhere, a
//! transfer's joules, its time on the link and its delay between writer and reader are each at least
//! `y(reader, m) − y(writer, m)` times their least value; that is linear, and holds for divided tasks too.
//! Hops through memories in between are left out. Where several links lead into a memory the work of each is left
//! out, too, but not that of a port or switch that all of them go through.

use crate::delays::Delays;
use crate::network::Frame;
use crate::problem::{Origin, Problem};

/// Stands for the writer of data that is in a memory beforehand.
pub(super) const NOBODY: u32 = u32::MAX;

/// A datum into a memory.
#[derive(Clone, Debug)]
pub(crate) struct PossibleTransfer {
    /// Which memory.
    pub to: usize,
    /// The task whose memory it comes from, or [`NOBODY`] if that is another memory for certain.
    pub writer: u32,
    /// Tasks that need it there if they run there.
    pub readers: Vec<u32>,
    /// Least seconds of the last hop on its link.
    pub seconds: f64,
    /// Least seconds between writer and reader.
    pub delay: f64,
    /// Least joules of the last hop.
    pub joules: f64,
    /// A resource that the last hop occupies whichever link it takes, if there is one.
    pub link: Option<usize>,
}

/// How a datum may come to a reader.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// The task that must end before, or [`NOBODY`].
    pub after: u32,
    /// The carry into each memory that the reader may run in.
    pub transfers: Vec<u32>,
}

/// All transfers that may be needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PossibleTransfers {
    /// Each of them.
    pub all: Vec<PossibleTransfer>,
    /// For each task, how each datum that it reads may come.
    pub(super) legs: Vec<Vec<Leg>>,
    /// The memory of each resource that is a group of units; 0 for all others.
    pub(super) memory: Vec<usize>,
    /// Number of memories.
    pub(super) memories: usize,
}

impl PossibleTransfers {
    /// The transfers of a problem whose tasks' memories are open.
    pub(crate) fn new(frame: &Frame<'_>) -> Self {
        PossibleTransfers::with(frame, |own, _, _, _| own)
    }

    /// The same of a step among others, of which links may start several transfers together: so latencies are no work
    /// of links, but whoever waits for a transfer waits for one.
    pub(crate) fn overlapping(frame: &Frame<'_>, delays: &Delays) -> Self {
        PossibleTransfers::with(frame, |_, homes, to, bytes| {
            let from = homes.iter().filter(|&&from| from != to);
            let each = from.map(|&from| delays.least(from, to, bytes));
            each.fold(f64::INFINITY, f64::min)
        })
    }

    /// `delay` says what a datum's reader waits at least, by the seconds of the last hop, where the datum may come from, where
    /// it goes and its bytes.
    fn with(frame: &Frame<'_>, delay: impl Fn(f64, &[usize], usize, u64) -> f64) -> Self {
        let p = frame.problem;
        let n = p.tasks.len();
        let places: Vec<Vec<usize>> = (0..n).map(|t| frame.memories_of(t)).collect();
        let mut found = PossibleTransfers {
            legs: vec![Vec::new(); n],
            memory: p.groups.iter().map(|g| g.memory).collect(),
            memories: p.memories.len(),
            ..PossibleTransfers::default()
        };
        let resources = p.groups.len() + p.resources_of_links().count();
        found.memory.resize(resources, 0);
        let mut users = vec![0; p.shared.len()];
        let shared = p.links.iter().flat_map(|l| &l.shared);
        shared.for_each(|&s| users[s] += 1);
        for (i, d) in p.data.iter().enumerate() {
            let writer = frame.writer(i);
            let homes = match (writer, d.origin) {
                (Some(w), _) => places[w as usize].clone(),
                (None, Origin::Memory(m)) => vec![m],
                (None, _) => continue,
            };
            let after = match d.origin {
                Origin::Task(w) => w,
                _ => NOBODY,
            };
            let first = found.all.len();
            for to in 0..p.memories.len() {
                let there = |r: &&u32| Some(**r) != writer && places[**r as usize].contains(&to);
                let readers: Vec<u32> = d.readers.iter().filter(there).copied().collect();
                // The last link of each route; none where a route is missing, as no plan goes there.
                let mut links: Vec<u32> = homes
                    .iter()
                    .filter_map(|&h| frame.routes[h][to].as_ref()?.last().copied())
                    .collect();
                links.sort_unstable();
                links.dedup();
                let home = writer.is_none() && homes.contains(&to);
                if readers.is_empty() || links.is_empty() || home {
                    continue;
                }
                let least = |of: &dyn Fn(u32) -> f64| {
                    links.iter().map(|&l| of(l)).fold(f64::INFINITY, f64::min)
                };
                let seconds = least(&|l| p.links[l as usize].seconds(d.bytes));
                found.all.push(PossibleTransfer {
                    to,
                    writer: writer.unwrap_or(NOBODY),
                    readers,
                    seconds,
                    delay: delay(seconds, &homes, to, d.bytes),
                    joules: least(&|l| p.links[l as usize].joules_per_byte * d.bytes as f64),
                    link: carrier(p, &users, &links),
                });
            }
            for &r in &d.readers {
                let mine = |&c: &usize| found.all[c].readers.contains(&r);
                let transfers: Vec<u32> = (first..found.all.len())
                    .filter(mine)
                    .map(|c| c as u32)
                    .collect();
                if !transfers.is_empty() {
                    found.legs[r as usize].push(Leg { after, transfers });
                }
            }
        }
        found
    }

    /// The task that writes what comes by a leg, in this step or an earlier one, if one does.
    pub(super) fn writer(&self, leg: &Leg) -> Option<usize> {
        let first = &self.all[*leg.transfers.first()? as usize];
        (first.writer != NOBODY).then_some(first.writer as usize)
    }

    /// How much of a carry one reader alone makes necessary; negative where it is the writer that is there.
    pub(super) fn part(&self, transfer: &PossibleTransfer, reader: u32, places: &[f64]) -> f64 {
        let at = |t: u32| places[t as usize * self.memories + transfer.to];
        let writer = if transfer.writer == NOBODY {
            0.0
        } else {
            at(transfer.writer)
        };
        at(reader) - writer
    }

    /// The reader that makes most of a carry necessary, and how much.
    pub(super) fn needed(&self, transfer: &PossibleTransfer, places: &[f64]) -> (u32, f64) {
        let parts = transfer
            .readers
            .iter()
            .map(|&r| (r, self.part(transfer, r, places)));
        parts.fold((NOBODY, 0.0), |a, b| if b.1 > a.1 { b } else { a })
    }
}

/// What a transfer over any of these links occupies: where there is a choice, what most links go through, since most
/// may wait for it.
fn carrier(p: &Problem, users: &[u32], links: &[u32]) -> Option<usize> {
    let link = |l: u32| &p.links[l as usize];
    let common = link(links[0]).shared.iter().copied();
    let common = common.filter(|s| links.iter().all(|&l| link(l).shared.contains(s)));
    // The first of the best, and no channel that carries several at once, which binds less.
    let common = common.filter(|&s| p.shared[s].at_once == 1 && users[s] > 1);
    let best = common.rev().max_by_key(|&s| users[s]);
    match best {
        Some(s) => Some(p.groups.len() + p.links.len() + s),
        None => (links.len() == 1).then(|| p.groups.len() + links[0] as usize),
    }
}
