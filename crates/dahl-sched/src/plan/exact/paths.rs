//! Longest paths through what remains of a plan, in seconds or in joules.
//!
//! At a price for time, a task on the longest path costs that price times its seconds, and its joules: the
//! better of its ways. So with `g(i) = min_ways (price × seconds + joules) − least joules`,
//!
//! ```text
//! price × T + J ≥ J(started) + Σ_remaining least joules + max_paths ( price × when the path begins + Σ g )
//! ```
//!
//! and without joules that is the longest path in seconds. Where memories are open each task is as early as
//! it can be on either side, whatever side is best for those before it, each by itself.

use super::certificate::{Sided, sided};
use super::facts::Facts;
use super::moment::{MOST, Moment};
use super::open::{Home, Open};
use crate::plan::network::Network;

/// Paths at a price for time.
#[derive(Debug)]
pub(super) struct Paths {
    /// What a second costs.
    pub price: f64,
    /// What each task adds to a path.
    gains: Vec<Sided>,
    /// Where memories are open: the longest path after each task, by side.
    tails: Vec<[f64; 2]>,
}

impl Paths {
    /// At a price for a second, with or without joules. `net` has tasks only where memories are open.
    pub fn new(net: &Network, open: Option<&Open>, price: f64, joules: bool) -> Self {
        let sides = open.map_or(&[][..], |o| &o.sides);
        let v = f64::from(u8::from(joules));
        let mut gains: Vec<Sided> = Vec::new();
        for a in &net.activities {
            let least = sided(a, sides, |w| v * w.joules);
            let cost = sided(a, sides, |w| price * w.seconds + v * w.joules);
            // Joules beyond the least that are counted for a task whose side is open.
            gains.push(std::array::from_fn(|s| cost[s] - least[2]));
        }
        Paths {
            tails: open.map_or_else(Vec::new, |o| tails(o, price, &gains)),
            price,
            gains,
        }
    }

    /// The longest path, with what it has cost so far; `end` has the ends of what has started. Joules are
    /// those beyond the least of each task, whichever its side.
    pub fn longest(&self, facts: &Facts<'_>, m: &Moment, end: &[f64; MOST]) -> f64 {
        match facts.open {
            Some(open) => self.longest_open(open, m, end),
            None => self.longest_closed(facts.net, m, end),
        }
    }

    fn longest_closed(&self, net: &Network, m: &Moment, end: &[f64; MOST]) -> f64 {
        let mut ends = [0.0; MOST];
        let mut longest = self.price * m.makespan();
        for &i in &net.topological {
            let i = i as usize;
            if m.has_started(i) {
                ends[i] = self.price * end[i];
                continue;
            }
            let mut head = self.price * m.now;
            for &b in &net.activities[i].before {
                head = head.max(ends[b as usize]);
            }
            ends[i] = head + self.gains[i][2];
            longest = longest.max(ends[i]);
        }
        longest
    }

    fn longest_open(&self, open: &Open, m: &Moment, end: &[f64; MOST]) -> f64 {
        let mut longest = self.price * m.makespan();
        let mut ends = [[f64::INFINITY; 2]; MOST];
        for &t in &open.relaxed.topological {
            let t = t as usize;
            if m.has_started(t) {
                ends[t] = [self.price * end[t]; 2];
                continue;
            }
            let mut head = [self.price * m.now; 2];
            for &b in &open.relaxed.activities[t].before {
                let [x, y] = ends[b as usize];
                head = head.map(|h| h.max(x.min(y)));
            }
            for &k in &open.reads[t] {
                for (side, head) in head.iter_mut().enumerate() {
                    *head = head.max(self.arrival(open, m, end, &ends, k as usize, side));
                }
            }
            let mut least = f64::INFINITY;
            for side in (0..2).filter(|&s| m.side(t).is_none_or(|decided| decided == s)) {
                ends[t][side] = head[side] + self.gains[t][side];
                least = least.min(ends[t][side] + self.tails[t][side]);
            }
            longest = longest.max(least);
        }
        longest
    }

    /// When an item is on a side at the earliest, at the price.
    fn arrival(
        &self,
        open: &Open,
        m: &Moment,
        end: &[f64; MOST],
        ends: &[[f64; 2]; MOST],
        k: usize,
        side: usize,
    ) -> f64 {
        let item = &open.items[k];
        let moving = self.price * item.seconds_to(side);
        let exists = |home: usize| match item.after {
            None => self.price * m.now,
            Some(w) => ends[w as usize][home],
        };
        match open.home(m, item) {
            Some(home) if home == side => exists(home),
            Some(_) if m.has_started(open.tasks + k) => self.price * end[open.tasks + k],
            Some(home) => exists(home).max(self.price * m.now) + moving,
            None => match (item.home, item.after) {
                (Home::With(_), Some(_)) => exists(side).min(exists(1 - side) + moving),
                _ => self.price * m.now,
            },
        }
    }
}

/// The longest path after each task, by the side it is on: for each of those that wait for it the better
/// side, with what has to move there.
fn tails(open: &Open, price: f64, gains: &[Sided]) -> Vec<[f64; 2]> {
    let mut tails = vec![[0.0_f64; 2]; open.tasks];
    for &t in open.relaxed.topological.iter().rev() {
        let t = t as usize;
        for side in 0..2 {
            let mut longest = 0.0_f64;
            for &next in &open.relaxed.activities[t].after {
                let moves = open.homes[t].iter().map(|&k| &open.items[k as usize]);
                let moving = moves
                    .filter(|i| i.after == Some(t as u32) && i.readers.contains(&next))
                    .map(|i| i.seconds_to(1 - side))
                    .fold(0.0, f64::max);
                let next = next as usize;
                let here = gains[next][side] + tails[next][side];
                let there = price * moving + gains[next][1 - side] + tails[next][1 - side];
                longest = longest.max(here.min(there));
            }
            tails[t][side] = longest;
        }
    }
    tails
}
