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

use dahl_core::hash::FastBuild;

use super::certificate::Certificate;
use super::symmetry::Columns;
use crate::plan::bound::Line;
use crate::plan::network::Network;
use crate::plan::problem::{Goal, Objective};
use crate::plan::timeline::Started;

/// Most activities a network may have here.
pub const MOST: usize = 128;

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
    pub makespan: f64,
    pub sum: f64,
    used: Vec<u64>,
    users: Vec<u32>,
    /// How many activities were started.
    count: usize,
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
        self.count = other.count;
    }
}

/// What a search is given and what it finds.
pub(super) struct Search<'a> {
    pub(super) net: &'a Network,
    goal: Goal,
    before: Vec<u128>,
    shortest: Vec<f64>,
    least: Vec<f64>,
    tails: Vec<f64>,
    by_tail: Vec<u32>,
    /// Activities in the order in which they are tried.
    order: Vec<u32>,
    pub(super) rank: Vec<u32>,
    /// Groups of interchangeable columns, and for each activity its group, column and row.
    pub(super) columns: Vec<Columns>,
    pub(super) cell: Vec<Option<(u16, u16, u16)>>,
    time: Option<Certificate>,
    /// For prices of time beside the standing watts.
    energy: Vec<(f64, Certificate)>,
    pub(super) stack: Vec<State>,
    /// What was started to get to the node.
    path: Vec<Started>,
    pub(super) table: HashMap<u128, Vec<Vec<f64>>, FastBuild>,
    pub(super) remembered: usize,
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
        let time = timed.then(|| Certificate::new(net, 1.0, 0.0, rounds));
        let mut energy = Vec::new();
        if goal.objective != Objective::Time {
            let free = Certificate::new(net, standing, 1.0, rounds);
            let seconds = time.as_ref().map_or(0.0, |t| t.root);
            let power = free.root / seconds.max(f64::MIN_POSITIVE);
            let mut lines = vec![Line {
                value: free.root,
                price: 0.0,
            }];
            energy.push((0.0, free));
            // Prices of time, where a deadline or the product makes them worth it.
            let prices = if timed {
                vec![0.25, 0.5, 1.0, 3.0]
            } else {
                Vec::new()
            };
            for price in prices.into_iter().map(|k| k * power) {
                let c = Certificate::new(net, standing + price, 1.0, rounds);
                let before = goal.floor(seconds, &lines);
                lines.push(Line {
                    value: c.root,
                    price,
                });
                if goal.floor(seconds, &lines) > before * (1.0 + 1e-6) {
                    energy.push((price, c));
                } else {
                    lines.pop();
                }
            }
        }
        let mut search = Search {
            before: net.activities.iter().map(|a| mask(&a.before)).collect(),
            by_tail: by(&|i| tails[i]),
            rank: vec![0; n],
            columns: Vec::new(),
            cell: vec![None; n],
            least: net
                .activities
                .iter()
                .map(|a| {
                    a.ways
                        .iter()
                        .map(|w| w.joules)
                        .fold(f64::INFINITY, f64::min)
                })
                .collect(),
            order,
            shortest,
            tails,
            time,
            energy,
            stack: vec![State::default(); 2 * n + 2],
            path: Vec::with_capacity(n),
            table: HashMap::default(),
            remembered: 0,
            nodes: 0,
            stopped: false,
            found: None,
            net,
            goal,
            best,
            keep_going,
        };
        for (rank, &i) in search.order.iter().enumerate() {
            search.rank[i as usize] = rank as u32;
        }
        search.find_columns();
        search
    }

    /// Searches. Afterwards `best` and `found` hold the best plan, and unless `stopped` there is none
    /// better.
    pub fn run(&mut self) {
        let mut used = vec![0_u64; self.net.capacity.len()];
        for c in self
            .net
            .copies
            .iter()
            .filter(|c| c.initial && (c.stays || c.users > 0))
        {
            used[usize::from(c.memory)] += c.bytes;
        }
        if used
            .iter()
            .zip(&self.net.capacity)
            .any(|(&u, c)| c.is_some_and(|c| u > c))
        {
            return;
        }
        self.stack[0] = State {
            end: vec![0.0; self.net.activities.len()],
            units: self
                .net
                .resources
                .iter()
                .map(|&n| vec![Unit::default(); n])
                .collect(),
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
        if self.stack[depth].count == n {
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
        let n = self.net.activities.len();
        let s = &self.stack[depth];
        let joules = self.net.standing_watts * s.makespan + s.joules;
        let cost = self.goal.cost(s.makespan, joules);
        if self.goal.in_time(s.makespan) && cost < self.best {
            self.best = cost;
            self.found = Some(self.path[..n].to_vec());
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
        let ready = a
            .before
            .iter()
            .map(|&b| s.end[b as usize])
            .fold(0.0, f64::max);
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
        *slot = Unit {
            free: end,
            tail: self.tails[i as usize],
        };
        s.started |= 1 << i;
        s.end[i as usize] = end;
        s.joules += w.joules;
        s.makespan = s.makespan.max(end);
        s.sum += end;
        let (start, way, unit) = (s.now, way as u16, unit as u16);
        self.path.truncate(s.count);
        self.path.push(Started {
            activity: i,
            way,
            unit,
            start,
            end,
        });
        s.count += 1;
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
        energy = energy.max(self.net.standing_watts * seconds + joules);
        let mut lines = [Line {
            value: energy,
            price: 0.0,
        }; 8];
        for (line, (price, c)) in lines[1..].iter_mut().zip(&self.energy) {
            *line = Line {
                value: value(c),
                price: *price,
            };
        }
        let lines = &lines[..=self.energy.len().min(7)];
        !self.goal.in_time(seconds) || self.goal.floor(seconds, lines) >= limit
    }
}
