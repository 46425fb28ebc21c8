//! Nodes of the search compared: twins that need not both be tried, and nodes that another one covers.

use super::sequence::{MOST, Search, State};
use super::symmetry::{Labelled, columns, hash};
use crate::plan::network::{Activity, Way};

/// Most nodes that are remembered to be compared with.
const REMEMBERED: usize = 4_000_000;

impl Search<'_> {
    /// Activities with the same ways, tied together in the same way. Copies tie in other ways too, so
    /// there are no columns where memory is limited.
    pub(super) fn find_columns(&mut self) {
        if !self.net.copies.is_empty() {
            return;
        }
        let label = |a: &Activity| {
            let way = |w: &Way| (w.resource, w.seconds.to_bits(), w.joules.to_bits());
            hash(a.ways.iter().map(way).collect::<Vec<_>>())
        };
        let all = &self.net.activities;
        self.columns = columns(&Labelled {
            labels: all.iter().map(label).collect(),
            before: all.iter().map(|a| a.before.clone()).collect(),
            after: all.iter().map(|a| a.after.clone()).collect(),
        });
        for (g, group) in self.columns.iter().enumerate() {
            for (c, column) in group.iter().enumerate() {
                for (r, &i) in column.iter().enumerate() {
                    self.cell[i as usize] = Some((g as u16, c as u16, r as u16));
                }
            }
        }
    }

    /// What distinguishes an activity from its twins in other columns: not started, or when it ends.
    fn condition(&self, s: &State, i: u32) -> f64 {
        if s.started >> i & 1 == 0 {
            return f64::INFINITY;
        }
        let matters = self.net.activities[i as usize]
            .after
            .iter()
            .any(|&n| s.started >> n & 1 == 0);
        if matters {
            s.end[i as usize].max(s.now)
        } else {
            f64::NEG_INFINITY
        }
    }

    /// Whether a twin in the same condition could start instead, and is tried before this activity.
    pub(super) fn has_elder(&self, depth: usize, i: u32) -> bool {
        let Some((g, c, row)) = self.cell[i as usize] else {
            return false;
        };
        let s = &self.stack[depth];
        let group = &self.columns[usize::from(g)];
        let mine = &group[usize::from(c)];
        let rank = |i: u32| self.rank[i as usize];
        group.iter().enumerate().any(|(k, other)| {
            let twin = other[usize::from(row)];
            k != usize::from(c)
                && rank(twin) < rank(i)
                && s.started >> twin & 1 == 0
                && other
                    .iter()
                    .zip(mine)
                    .all(|(&a, &b)| self.condition(s, a) == self.condition(s, b))
        })
    }

    /// What has been started, with columns in a fixed order, and what nodes with the same started are
    /// compared by: all of it the less the better.
    pub(super) fn profile(&self, depth: usize) -> (u128, Vec<f64>) {
        let s = &self.stack[depth];
        let mut profile: Vec<f64> = Vec::with_capacity(32);
        for units in &s.units {
            let from = profile.len();
            profile.extend(units.iter().map(|u| u.free.max(s.now)));
            profile[from..].sort_by(f64::total_cmp);
        }
        // Which activity stands in the place of which, once columns are sorted by their condition.
        let mut stands: [u8; MOST] = std::array::from_fn(|i| i as u8);
        for group in &self.columns {
            let mut sorted: Vec<&Vec<u32>> = group.iter().collect();
            let order = |a: &Vec<u32>, b: &Vec<u32>| {
                let by = |x: &u32, y: &u32| self.condition(s, *x).total_cmp(&self.condition(s, *y));
                let all = a.iter().zip(b).map(|(x, y)| by(x, y));
                // First by what has started, so that equal sets look equal whatever the times.
                let sets = a
                    .iter()
                    .zip(b)
                    .map(|(x, y)| (s.started >> x & 1).cmp(&(s.started >> y & 1)));
                sets.chain(all)
                    .find(|o| o.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            };
            sorted.sort_by(|a, b| order(a, b));
            for (place, column) in group.iter().zip(sorted) {
                for (&p, &i) in place.iter().zip(column) {
                    stands[p as usize] = i as u8;
                }
            }
        }
        let all = !self.net.copies.is_empty();
        let mut started = 0_u128;
        for (place, &i) in stands[..self.net.activities.len()].iter().enumerate() {
            if s.started >> i & 1 == 0 {
                continue;
            }
            started |= 1 << place;
            let after = &self.net.activities[usize::from(i)].after;
            if all || after.iter().any(|&n| s.started >> n & 1 == 0) {
                profile.push(s.end[usize::from(i)].max(s.now));
            }
        }
        profile.extend([s.joules, s.makespan, s.sum]);
        (started, profile)
    }

    /// Whether a node that is done with is no worse in any respect.
    pub(super) fn is_dominated(&self, (started, profile): &(u128, Vec<f64>)) -> bool {
        let nodes = self.table.get(started);
        nodes.is_some_and(|nodes| nodes.iter().any(|old| covers(old, profile)))
    }

    pub(super) fn remember(&mut self, (started, profile): (u128, Vec<f64>)) {
        if self.stopped || self.remembered >= REMEMBERED {
            return;
        }
        let nodes = self.table.entry(started).or_default();
        let before = nodes.len();
        nodes.retain(|old| !covers(&profile, old));
        nodes.push(profile);
        self.remembered = self.remembered + nodes.len() - before;
    }
}

/// Whether no figure of `a` is larger. Sums in another order differ in their last bits; that must not make
/// equal nodes differ.
fn covers(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(&a, &b)| a <= b + 1e-12 * b.abs())
}
