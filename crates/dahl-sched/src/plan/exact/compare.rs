//! Partial plans compared: twins of which one need not be tried, and plans that another one covers.
//!
//! A plan covers another one if the same activities have started, up to an exchange of columns, and
//! everything that matters later is there no later and for no more joules: every unit, and the end of
//! everything that something waits for. Whatever the other goes on to do, this one can do too.

use super::facts::Facts;
use super::moment::{MOST, Moment};
use crate::plan::problem::Objective;

impl Facts<'_> {
    /// Whether somebody waits for the end of an activity; where memory is limited, all ends matter.
    fn matters(&self, m: &Moment, i: usize) -> bool {
        let after = &self.net.activities[i].after;
        !self.net.copies.is_empty() || after.iter().any(|&n| !m.has_started(n as usize))
    }

    /// Whether it matters that an activity has started.
    fn shows(&self, m: &Moment, i: usize) -> bool {
        m.has_started(i) && (self.all >> i & 1 == 1 || self.matters(m, i))
    }

    /// The side of a task, where that matters: what it wrote or will write is there.
    fn side(&self, m: &Moment, i: usize) -> Option<usize> {
        let open = self.open?;
        (i < open.tasks && (!m.has_started(i) || open.is_home(m, i)))
            .then(|| m.side(i))
            .flatten()
    }

    /// What distinguishes an activity from its twins in other columns: its side; and that it has not
    /// started, or when it ends.
    fn condition(&self, m: &Moment, i: usize) -> (Option<usize>, f64) {
        let side = self.side(m, i);
        if !m.has_started(i) {
            let gone = self.all >> i & 1 == 0 && !self.matters(m, i);
            return (
                side,
                if gone {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                },
            );
        }
        let end = m.running().find(|r| r.0 == i).map(|r| r.1);
        match end {
            Some(end) if self.matters(m, i) => (side, end),
            _ => (side, f64::NEG_INFINITY),
        }
    }

    /// Whether an activity that can start could not have done so before now.
    pub fn is_new(&self, m: &Moment, i: usize) -> bool {
        let before = self.before[i] | self.open.map_or(0, |o| o.moves_for(i));
        !self.net.copies.is_empty() || m.now == 0.0 || before & m.fresh != 0
    }

    /// Whether a twin in the same condition could start instead, and is tried before this activity.
    pub fn has_elder(&self, m: &Moment, i: usize) -> bool {
        let Some((g, c, row)) = self.cell[i] else {
            return false;
        };
        let group = &self.columns[usize::from(g)];
        let mine = &group[usize::from(c)];
        group.iter().enumerate().any(|(k, other)| {
            let twin = other[usize::from(row)] as usize;
            let same = |(&a, &b): (&u32, &u32)| {
                self.condition(m, a as usize) == self.condition(m, b as usize)
            };
            k != usize::from(c)
                && self.rank[twin] < self.rank[i]
                && !m.has_started(twin)
                && other.iter().zip(mine).all(same)
        })
    }

    /// Which place each activity takes once columns are sorted by their condition.
    fn places(&self, m: &Moment) -> [u8; MOST] {
        let mut places: [u8; MOST] = std::array::from_fn(|i| i as u8);
        let mut sorted: Vec<([u128; 3], &[u32])> = Vec::new();
        for group in &self.columns {
            sorted.clear();
            for column in group {
                let mut sets = [0; 3];
                for (row, &i) in column.iter().enumerate() {
                    self.mark(m, i as usize, row as u32, &mut sets);
                }
                // First by what has started where, so that equal sets look equal whatever the times.
                sorted.push((sets, column));
            }
            sorted.sort_by(|a, b| {
                let times = |a: &[u32], b: &[u32]| {
                    let of = |i: u32| self.condition(m, i as usize).1;
                    let each = a.iter().zip(b).map(|(&x, &y)| of(x).total_cmp(&of(y)));
                    each.fold(std::cmp::Ordering::Equal, |all, o| all.then(o))
                };
                a.0.cmp(&b.0).then_with(|| times(a.1, b.1))
            });
            for (place, (_, column)) in group.iter().zip(&sorted) {
                for (&p, &i) in place.iter().zip(*column) {
                    places[i as usize] = p as u8;
                }
            }
        }
        places
    }

    /// Adds an activity to the sets of what has started and of what is on each side.
    fn mark(&self, m: &Moment, i: usize, at: u32, sets: &mut [u128; 3]) {
        sets[0] |= u128::from(self.shows(m, i)) << at;
        if let Some(side) = self.side(m, i) {
            sets[1 + side] |= 1 << at;
        }
    }

    /// What plans are compared by: the sets of what has started and where, and the rest.
    pub fn profile(&self, m: &Moment, into: &mut Profile) -> [u128; 3] {
        let places = self.places(m);
        let mut sets = [0; 3];
        let mut rest = m.started | m.on[0] | m.on[1];
        while rest != 0 {
            let i = rest.trailing_zeros() as usize;
            self.mark(m, i, u32::from(places[i]), &mut sets);
            rest &= rest - 1;
        }
        into.row.clear();
        // Joules do not matter where only time counts.
        let joules = match self.goal.objective {
            Objective::Time => 0.0,
            _ => m.joules,
        };
        into.row.extend([m.now, joules]);
        into.row.extend(m.slots.iter().map(|s| s.free.max(m.now)));
        for r in self.first.windows(2) {
            into.row[r[0] + 2..r[1] + 2].sort_unstable_by(f64::total_cmp);
        }
        into.ends.clear();
        let awaited = m.running().filter(|&(i, _)| self.matters(m, i));
        into.ends.extend(awaited.map(|(i, end)| (places[i], end)));
        sets
    }
}

/// Sums in another order differ in their last bits; that must not make equal plans differ.
const ROUNDING: f64 = 1e-12;

/// What plans with the same set of activities started are compared by, all of it the less the better.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    /// The present, joules, and when each slot is free, sorted within a resource.
    row: Vec<f64>,
    /// The places and ends of what runs and is waited for.
    ends: Vec<(u8, f64)>,
}

/// Plans with the same set of activities started, none of which covers another one.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// All their rows, in one piece: most of the search is spent here.
    rows: Vec<f64>,
    ends: Vec<(u8, f64)>,
    /// Where the ends of each plan begin and stop, and its number.
    plans: Vec<(u32, u32, u32)>,
}

impl Front {
    /// Adds a plan unless another one covers it; says which ones it covers.
    pub fn add(&mut self, plan: &Profile, number: u32, mut gone: impl FnMut(u32)) -> bool {
        let stride = plan.row.len();
        let most: Vec<f64> = plan.row.iter().map(|x| x * (1.0 + ROUNDING)).collect();
        let now = plan.row[0];
        let covered = |k: usize| {
            let row = &self.rows[k * stride..(k + 1) * stride];
            below(row, &most) && {
                let (from, to, _) = self.plans[k];
                in_time(&self.ends[from as usize..to as usize], &plan.ends, now)
            }
        };
        if (0..self.plans.len()).any(covered) {
            return false;
        }
        let least: Vec<f64> = plan.row.iter().map(|x| x * (1.0 - ROUNDING)).collect();
        let mut k = 0;
        while k < self.plans.len() {
            let row = &self.rows[k * stride..(k + 1) * stride];
            let (from, to, old) = self.plans[k];
            let theirs = &self.ends[from as usize..to as usize];
            if below(&least, row) && in_time(&plan.ends, theirs, row[0]) {
                gone(old);
                self.plans.swap_remove(k);
                let last = self.plans.len();
                self.rows.copy_within(last * stride.., k * stride);
                self.rows.truncate(last * stride);
            } else {
                k += 1;
            }
        }
        let from = self.ends.len() as u32;
        self.ends.extend(&plan.ends);
        self.rows.extend(&plan.row);
        self.plans.push((from, self.ends.len() as u32, number));
        true
    }
}

/// Whether no figure of `a` is larger.
fn below(a: &[f64], b: &[f64]) -> bool {
    let mut k = 0;
    while k < a.len() && k < b.len() {
        if a[k] > b[k] {
            return false;
        }
        k += 1;
    }
    true
}

/// Whether the first plan's ends are no later than the second one's, whose present is `now`.
fn in_time(first: &[(u8, f64)], second: &[(u8, f64)], now: f64) -> bool {
    first.iter().all(|&(place, end)| {
        let other = second.iter().find(|e| e.0 == place);
        end <= other.map_or(now, |e| e.1) * (1.0 + ROUNDING)
    })
}
