//! Longest paths where tasks may run on either of two sides: each task as early as it can be there,
//! whatever side is best for those before it, each by itself.

use super::moment::{MOST, Moment};
use super::open::{Home, Item, Open};
use crate::plan::network::Network;

/// The longest path after each task, by the side it is on: for each of those that wait for it the better
/// side, with what has to move there one after the other.
pub(super) fn tails(
    net: &Network,
    items: &[Item],
    homes: &[Vec<u32>],
    seconds: &[[f64; 2]],
) -> Vec<[f64; 2]> {
    let mut tails = vec![[0.0_f64; 2]; seconds.len()];
    for &t in net.topological.iter().rev() {
        let t = t as usize;
        for side in 0..2 {
            let mut longest = 0.0_f64;
            for &next in &net.activities[t].after {
                let moves: f64 = homes[t]
                    .iter()
                    .map(|&k| &items[k as usize])
                    .filter(|i| i.after == Some(t as u32) && i.readers.contains(&next))
                    .map(|i| i.to[1 - side].map_or(f64::INFINITY, |m| m.0))
                    .fold(0.0, f64::max);
                let next = next as usize;
                let here = seconds[next][side] + tails[next][side];
                let there = moves + seconds[next][1 - side] + tails[next][1 - side];
                longest = longest.max(here.min(there));
            }
            tails[t][side] = longest;
        }
    }
    tails
}

impl Open {
    /// The longest path through what remains; `end` has the ends of what has started.
    pub fn path(&self, m: &Moment, end: &[f64; MOST]) -> f64 {
        let mut longest = 0.0_f64;
        for (i, at) in m.running() {
            if let Some(side) = m.side(i).filter(|_| i < self.tasks) {
                longest = longest.max(at + self.tails[i][side]);
            }
        }
        let mut ends = [[f64::INFINITY; 2]; MOST];
        for &t in &self.relaxed.topological {
            let t = t as usize;
            if m.has_started(t) {
                continue;
            }
            let mut head = [m.now; 2];
            for &b in &self.relaxed.activities[t].before {
                let b = b as usize;
                let done = if m.has_started(b) {
                    end[b]
                } else {
                    ends[b][0].min(ends[b][1])
                };
                head = head.map(|h| h.max(done));
            }
            for &k in &self.reads[t] {
                for (side, head) in head.iter_mut().enumerate() {
                    *head = head.max(self.arrival(m, end, &ends, k as usize, side));
                }
            }
            let sides = (0..2).filter(|&s| m.side(t).is_none_or(|decided| decided == s));
            let mut least = f64::INFINITY;
            for side in sides {
                ends[t][side] = head[side] + self.seconds[t][side];
                least = least.min(ends[t][side] + self.tails[t][side]);
            }
            longest = longest.max(least);
        }
        longest
    }

    /// When an item is on a side at the earliest.
    fn arrival(
        &self,
        m: &Moment,
        end: &[f64; MOST],
        ends: &[[f64; 2]; MOST],
        k: usize,
        side: usize,
    ) -> f64 {
        let item = &self.items[k];
        let moving = item.to[side].map_or(f64::INFINITY, |t| t.0);
        let exists = |home: usize| match item.after {
            None => m.now,
            Some(w) if m.has_started(w as usize) => end[w as usize],
            Some(w) => ends[w as usize][home],
        };
        match self.home(m, item) {
            Some(home) if home == side => exists(home),
            Some(_) if m.has_started(self.tasks + k) => end[self.tasks + k],
            Some(home) => exists(home) + moving,
            None => match (item.home, item.after) {
                (Home::With(_), Some(_)) => exists(side).min(exists(1 - side) + moving),
                _ => m.now,
            },
        }
    }
}
