//! The best performance of a network, by branch and bound in the order of time.
//!
//! A node is a moment at which something has just ended, with what was started so far. From there, each
//! set of activities that can start now is tried, and then the next end. That covers every plan in which
//! things start only when others end, which contains a best one. A node is cut off if
//!
//! - a [`Certificate`] proves that nothing better than the best plan so far lies below it;
//! - something would start now that could have started earlier on the same resource with all the rest
//!   unchanged (where no memory is limited): the earlier start is tried elsewhere;
//! - an interchangeable [column](super::symmetry) in the same condition has not started its activity;
//! - another node with the same activities started, up to an exchange of columns, is no worse in every
//!   respect: free units, ends, joules, and the sum of all ends. The sum makes the rules sound together: each replaces a plan by one
//!   that is cheaper, or as cheap with a smaller sum, or as cheap and found earlier, so they cannot chase
//!   each other in a circle.

use std::collections::HashMap;

use super::certificate::Certificate;
use super::symmetry::{Columns, Labelled, columns, hash};
use crate::plan::network::{Activity, Network, Way};
use crate::plan::problem::{Goal, Objective};
use crate::plan::timeline::Started;

/// Most activities a network may have here.
pub const MOST: usize = 128;

/// Most nodes that are remembered to be compared with.
const REMEMBERED: usize = 4_000_000;

/// Plans within this part of each other count as equal.
pub(super) const SAME: f64 = 1e-9;

/// A unit or channel of a resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unit {
    pub free: f64,
    pub tail: f64,
}

/// A partial plan.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub started: u128,
    ended: u128,
    pub now: f64,
    pub end: Vec<f64>,
    pub units: Vec<Vec<Unit>>,
    pub joules: f64,
    makespan: f64,
    sum: f64,
    used: Vec<u64>,
    users: Vec<u32>,
    log: Vec<Started>,
}

impl State {
    /// As `clone_from`, but keeps the memory of the lists.
    fn copy_from(&mut self, other: &State) {
        (self.started, self.ended) = (other.started, other.ended);
        (self.now, self.joules) = (other.now, other.joules);
        (self.makespan, self.sum) = (other.makespan, other.sum);
        self.end.clone_from(&other.end);
        self.units.clone_from(&other.units);
        self.used.clone_from(&other.used);
        self.users.clone_from(&other.users);
        self.log.clone_from(&other.log);
    }
}

/// What a search is given and what it finds.
pub(super) struct Search<'a> {
    net: &'a Network,
    goal: Goal,
    before: Vec<u128>,
    shortest: Vec<f64>,
    least: Vec<f64>,
    tails: Vec<f64>,
    by_tail: Vec<u32>,
    /// Activities in the order in which they are tried.
    order: Vec<u32>,
    /// Groups of interchangeable columns, and for each activity its group, column and row.
    columns: Vec<Columns>,
    cell: Vec<Option<(u16, u16, u16)>>,
    time: Option<Certificate>,
    energy: Vec<Certificate>,
    stack: Vec<State>,
    table: HashMap<u128, Vec<Vec<f64>>>,
    remembered: usize,
    keep_going: &'a mut dyn FnMut() -> bool,
    /// Nodes looked at.
    pub nodes: u64,
    /// Whether `keep_going` said no.
    pub stopped: bool,
    /// The best cost so far, with its plan if it was found here.
    pub best: f64,
    /// The plan.
    pub found: Option<Vec<Started>>,
}

impl<'a> Search<'a> {
    /// Prepares a search for something cheaper than `best`.
    pub fn new(
        net: &'a Network,
        goal: Goal,
        best: f64,
        rounds: usize,
        keep_going: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        let n = net.activities.len();
        let shortest = net.shortest();
        let tails = net.tails(&shortest);
        let mask = |list: &[u32]| list.iter().fold(0_u128, |m, &b| m | 1 << b);
        let by = |key: &dyn Fn(usize) -> f64| {
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by(|&a, &b| key(b as usize).total_cmp(&key(a as usize)).then(a.cmp(&b)));
            order
        };
        let order = by(&|i| tails[i] + shortest[i]);
        let standing = net.standing_watts;
        let timed = goal.deadline.is_some() || goal.objective != Objective::Energy;
        let time = timed.then(|| Certificate::new(net, 1.0, 0.0, 0.0, rounds));
        let mut energy = Vec::new();
        if goal.objective != Objective::Time {
            energy.push(Certificate::new(net, standing, 1.0, 0.0, rounds));
            if let Some(deadline) = goal.deadline {
                let unit = standing.max(1e-9);
                let priced = [0.5, 2.0, 8.0].map(|k| {
                    let m = unit * k;
                    Certificate::new(net, standing + m, 1.0, -m * deadline, rounds)
                });
                let root = energy[0].root;
                energy.extend(priced.into_iter().filter(|c| c.root > root));
                if energy.len() > 1 {
                    energy.sort_by(|a, b| b.root.total_cmp(&a.root));
                    energy.truncate(2);
                }
            }
        }
        let mut search = Search {
            before: net.activities.iter().map(|a| mask(&a.before)).collect(),
            by_tail: by(&|i| tails[i]),
            columns: Vec::new(),
            cell: vec![None; n],
            least: net
                .activities
                .iter()
                .map(|a| a.ways.iter().map(|w| w.joules).fold(f64::INFINITY, f64::min))
                .collect(),
            order,
            shortest,
            tails,
            time,
            energy,
            stack: vec![State::default(); 2 * n + 2],
            table: HashMap::new(),
            remembered: 0,
            nodes: 0,
            stopped: false,
            found: None,
            net,
            goal,
            best,
            keep_going,
        };
        search.find_columns();
        search
    }

    /// Activities with the same ways, tied together in the same way. Copies tie in other ways too, so
    /// there are no columns where memory is limited.
    fn find_columns(&mut self) {
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
        let matters = self.net.activities[i as usize].after.iter().any(|&n| s.started >> n & 1 == 0);
        if matters { s.end[i as usize].max(s.now) } else { f64::NEG_INFINITY }
    }

    /// Whether a twin in the same condition could start instead, and stands before this activity.
    fn has_elder(&self, depth: usize, i: u32) -> bool {
        let Some((g, c, row)) = self.cell[i as usize] else {
            return false;
        };
        let s = &self.stack[depth];
        let group = &self.columns[usize::from(g)];
        let mine = &group[usize::from(c)];
        group[..usize::from(c)].iter().any(|other| {
            s.started >> other[usize::from(row)] & 1 == 0
                && other.iter().zip(mine).all(|(&a, &b)| self.condition(s, a) == self.condition(s, b))
        })
    }

    /// Searches. Afterwards `best` and `found` hold the best plan, and unless `stopped` there is none
    /// better.
    pub fn run(&mut self) {
        let mut used = vec![0_u64; self.net.capacity.len()];
        for c in self.net.copies.iter().filter(|c| c.initial && (c.stays || c.users > 0)) {
            used[usize::from(c.memory)] += c.bytes;
        }
        if used.iter().zip(&self.net.capacity).any(|(&u, c)| c.is_some_and(|c| u > c)) {
            return;
        }
        self.stack[0] = State {
            end: vec![0.0; self.net.activities.len()],
            units: self.net.resources.iter().map(|&n| vec![Unit::default(); n]).collect(),
            used,
            users: self.net.copies.iter().map(|c| c.users).collect(),
            ..State::default()
        };
        self.visit(0, 0);
    }

    fn visit(&mut self, depth: usize, first: usize) {
        self.nodes += 1;
        if self.nodes.is_multiple_of(1024) && !(self.keep_going)() {
            self.stopped = true;
        }
        let n = self.net.activities.len();
        if self.stack[depth].log.len() == n {
            return self.record(depth);
        }
        if self.stopped || self.is_hopeless(depth) {
            return;
        }
        let profile = (first == 0).then(|| self.profile(depth));
        if profile.as_ref().is_some_and(|p| self.is_dominated(p)) {
            return;
        }
        for rank in first..n {
            let i = self.order[rank];
            if self.can_start(depth, i) {
                for way in 0..self.net.activities[i as usize].ways.len() {
                    if self.is_timely(depth, i, way) {
                        self.start(depth, i, way);
                        self.visit(depth + 1, rank + 1);
                    }
                }
            }
        }
        if self.advance(depth) {
            self.visit(depth + 1, 0);
        }
        // Remembered only now: a node must not be compared with those it descends from.
        if let Some(profile) = profile {
            self.remember(profile);
        }
    }

    fn record(&mut self, depth: usize) {
        let s = &self.stack[depth];
        let joules = self.net.standing_watts * s.makespan + s.joules;
        let cost = self.goal.cost(s.makespan, joules);
        if self.goal.in_time(s.makespan) && cost < self.best {
            self.best = cost;
            self.found = Some(s.log.clone());
        }
    }

    fn can_start(&self, depth: usize, i: u32) -> bool {
        let s = &self.stack[depth];
        let a = &self.net.activities[i as usize];
        s.started >> i & 1 == 0
            && self.before[i as usize] & !s.ended == 0
            && !self.has_elder(depth, i)
            && a.makes.iter().all(|&c| {
                let m = self.net.copies[c as usize].memory;
                let bytes = |list: &[u32]| -> u64 {
                    let here = list.iter().map(|&c| self.net.copies[c as usize]);
                    here.filter(|c| c.memory == m).map(|c| c.bytes).sum()
                };
                let m = usize::from(m);
                self.net.capacity[m]
                    .is_none_or(|most| s.used[m] + bytes(&a.makes) <= most + bytes(&a.ends))
            })
    }

    /// Whether a unit is free, and the activity could not have started earlier.
    fn is_timely(&self, depth: usize, i: u32, way: usize) -> bool {
        let s = &self.stack[depth];
        let a = &self.net.activities[i as usize];
        let units = &s.units[usize::from(a.ways[way].resource)];
        let free = units.iter().map(|u| u.free).fold(f64::INFINITY, f64::min);
        if free > s.now {
            return false;
        }
        let ready = a.before.iter().map(|&b| s.end[b as usize]).fold(0.0, f64::max);
        !self.net.copies.is_empty() || ready.max(free) == s.now
    }

    fn start(&mut self, depth: usize, i: u32, way: usize) {
        let (left, right) = self.stack.split_at_mut(depth + 1);
        let (s, old) = (&mut right[0], &left[depth]);
        s.copy_from(old);
        let a = &self.net.activities[i as usize];
        let w = &a.ways[way];
        let end = s.now + w.seconds;
        // The unit that was freed last: those that waited longer may not take what they could have had.
        let idle = s.units[usize::from(w.resource)].iter_mut().enumerate();
        let (unit, slot) = idle
            .filter(|(_, u)| u.free <= old.now)
            .max_by(|a, b| a.1.free.total_cmp(&b.1.free))
            .expect("a free unit was found before");
        *slot = Unit { free: end, tail: self.tails[i as usize] };
        s.started |= 1 << i;
        s.end[i as usize] = end;
        s.joules += w.joules;
        s.makespan = s.makespan.max(end);
        s.sum += end;
        let (start, way, unit) = (s.now, way as u16, unit as u16);
        s.log.push(Started { activity: i, way, unit, start, end });
        for &c in &a.ends {
            let copy = &self.net.copies[c as usize];
            s.used[usize::from(copy.memory)] -= copy.bytes;
        }
        for &c in &a.makes {
            let copy = &self.net.copies[c as usize];
            s.used[usize::from(copy.memory)] += copy.bytes;
        }
    }

    /// The next level becomes the moment of the next end.
    fn advance(&mut self, depth: usize) -> bool {
        let (left, right) = self.stack.split_at_mut(depth + 1);
        let (s, old) = (&mut right[0], &left[depth]);
        let mut running = old.started & !old.ended;
        let mut next = f64::INFINITY;
        let mut rest = running;
        while rest != 0 {
            next = next.min(old.end[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
        if running == 0 {
            return false;
        }
        s.copy_from(old);
        s.now = next;
        while running != 0 {
            let i = running.trailing_zeros() as usize;
            running &= running - 1;
            if s.end[i] > next {
                continue;
            }
            s.ended |= 1 << i;
            for &c in &self.net.activities[i].uses {
                s.users[c as usize] -= 1;
                let copy = &self.net.copies[c as usize];
                if s.users[c as usize] == 0 && !copy.stays {
                    s.used[usize::from(copy.memory)] -= copy.bytes;
                }
            }
        }
        true
    }

    /// Whether nothing below a node can beat the best plan.
    fn is_hopeless(&self, depth: usize) -> bool {
        let s = &self.stack[depth];
        let mut seconds = s.makespan;
        let mut joules = s.joules;
        let mut head = [0.0_f64; MOST];
        for &i in &self.net.topological {
            let i = i as usize;
            if s.started >> i & 1 == 1 {
                head[i] = s.end[i];
                continue;
            }
            let mut h = s.now;
            for &b in &self.net.activities[i].before {
                h = h.max(head[b as usize]);
            }
            head[i] = h + self.shortest[i];
            seconds = seconds.max(head[i] + self.tails[i]);
            joules += self.least[i];
        }
        let limit = self.best * (1.0 - SAME);
        let mut energy = self.net.standing_watts * seconds + joules;
        if !self.goal.in_time(seconds) || self.goal.cost(seconds, energy) >= limit {
            return true;
        }
        let value = |c: &Certificate| c.value(self.net, s, &self.by_tail, &self.tails);
        if let Some(time) = &self.time {
            seconds = seconds.max(value(time));
        }
        for c in &self.energy {
            energy = energy.max(value(c));
        }
        !self.goal.in_time(seconds) || self.goal.cost(seconds, energy) >= limit
    }

    /// What has been started, with columns in a fixed order, and what nodes with the same started are
    /// compared by: all of it the less the better.
    fn profile(&self, depth: usize) -> (u128, Vec<f64>) {
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
                let sets = a.iter().zip(b).map(|(x, y)| (s.started >> x & 1).cmp(&(s.started >> y & 1)));
                sets.chain(all).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
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
    fn is_dominated(&self, (started, profile): &(u128, Vec<f64>)) -> bool {
        let nodes = self.table.get(started);
        nodes.is_some_and(|nodes| nodes.iter().any(|old| covers(old, profile)))
    }

    fn remember(&mut self, (started, profile): (u128, Vec<f64>)) {
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
