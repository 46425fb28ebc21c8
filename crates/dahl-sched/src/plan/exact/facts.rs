//! What the exact search knows of a network before it begins: who waits for whom, what is alike, and
//! prices that bound whatever remains of a partial plan.

use super::certificate::{Certificate, Sided, place, sided};
use super::moment::{MOST, Moment};
use super::open::Open;
use super::paths::Paths;
use super::symmetry::{Columns, Labelled, columns, hash};
use crate::plan::bound::Line;
use crate::plan::network::{Activity, Network, Way};
use crate::plan::problem::{Goal, Objective};

/// A network, a goal, and what follows from them.
pub(super) struct Facts<'n> {
    pub net: &'n Network,
    pub goal: Goal,
    /// Where memories are open: what follows from that.
    pub open: Option<&'n Open>,
    /// Activities that every plan performs: all but transfers that are among the choices.
    pub all: u128,
    /// What must have ended before each activity starts.
    pub before: Vec<u128>,
    /// Activities in the order in which they are tried, and the place of each in it.
    pub order: Vec<u32>,
    pub rank: Vec<u32>,
    /// The resource of each slot, and the first slot of each resource.
    pub of: Vec<u16>,
    pub first: Vec<usize>,
    /// Groups of interchangeable columns, and for each activity its group, column and row.
    pub columns: Vec<Columns>,
    pub cell: Vec<Option<(u16, u16, u16)>>,
    least: Vec<Sided>,
    pub tails: Vec<f64>,
    pub by_tail: Vec<u32>,
    path: Paths,
    time: Option<Certificate>,
    /// For prices of time beside the standing watts.
    energy: Vec<(f64, Paths, Certificate)>,
}

impl<'n> Facts<'n> {
    /// Finds prices in this many rounds.
    pub fn new(net: &'n Network, goal: Goal, rounds: usize, open: Option<&'n Open>) -> Self {
        let n = net.activities.len();
        let needed = open.map_or(n, |o| o.tasks);
        let shortest = net.shortest();
        let tails = net.tails(&shortest);
        let mask = |list: &[u32]| list.iter().fold(0_u128, |m, &b| m | 1 << b);
        let by = |key: &dyn Fn(usize) -> f64| {
            let mut order: Vec<u32> = (0..needed as u32).collect();
            order.sort_by(|&a, &b| key(b as usize).total_cmp(&key(a as usize)).then(a.cmp(&b)));
            order
        };
        let mut order: Vec<u32> = (needed as u32..n as u32).collect();
        order.extend(by(&|i| tails[i] + shortest[i]));
        let mut rank = vec![0; n];
        for (place, &i) in order.iter().enumerate() {
            rank[i as usize] = place as u32;
        }
        let sides = open.map_or(&[][..], |o| &o.sides);
        let needs = open.map_or(net, |o| &o.relaxed);
        let (time, energy) = certificates(needs, open, &goal, rounds);
        let tasks = &net.activities[..needed];
        let least = tasks.iter().map(|a| sided(a, sides, |w| w.joules));
        let (mut of, mut first) = (Vec::new(), Vec::new());
        for (r, &count) in net.resources.iter().enumerate() {
            first.push(of.len());
            of.extend(std::iter::repeat_n(r as u16, count));
        }
        first.push(of.len());
        let columns = open.map_or_else(|| alike(net), |o| o.columns.clone());
        let mut cell = vec![None; n];
        for (g, group) in columns.iter().enumerate() {
            for (c, column) in group.iter().enumerate() {
                for (r, &i) in column.iter().enumerate() {
                    cell[i as usize] = Some((g as u16, c as u16, r as u16));
                }
            }
        }
        Facts {
            before: net.activities.iter().map(|a| mask(&a.before)).collect(),
            by_tail: by(&|i| tails[i]),
            least: least.collect(),
            all: (0..needed).fold(0, |all, i| all | 1 << i),
            open,
            order,
            rank,
            of,
            first,
            columns,
            cell,
            path: Paths::new(needs, open, 1.0, false),
            tails,
            time,
            energy,
            net,
            goal,
        }
    }

    /// No plan that begins like this costs less; infinite if none keeps the deadline.
    pub fn bound(&self, m: &Moment) -> f64 {
        // The end of what runs; what has ended is there now.
        let mut end = [m.now; MOST];
        for (i, t) in m.running() {
            end[i] = t;
        }
        let mut seconds = self.path.longest(self, m, &end);
        let certain = self.open.map_or(0.0, |o| o.certain_joules(m));
        let mut joules = m.joules + certain;
        let mut open_joules = m.joules;
        for (i, least) in self.least.iter().enumerate() {
            if !m.has_started(i) {
                joules += least[place(m, i)];
                open_joules += least[2];
            }
        }
        let value = |c: &Certificate| c.value(self, m, &end);
        if let Some(time) = &self.time {
            seconds = seconds.max(value(time));
        }
        let mut whole = 0.0;
        if let Some(open) = self.open {
            (seconds, whole) = open.floor(m, seconds, certain);
        }
        if !self.goal.in_time(seconds) {
            return f64::INFINITY;
        }
        let mut lines = [Line {
            value: whole.max(self.net.standing_watts * seconds + joules),
            price: 0.0,
        }; 8];
        for (line, (price, paths, c)) in lines[1..].iter_mut().zip(&self.energy) {
            let path = open_joules + paths.longest(self, m, &end);
            *line = Line {
                value: value(c).max(path),
                price: *price,
            };
        }
        self.goal
            .floor(seconds, &lines[..=self.energy.len().min(7)])
    }
}

/// Prices of time, and of energy for several prices of time.
fn certificates(
    net: &Network,
    open: Option<&Open>,
    goal: &Goal,
    rounds: usize,
) -> (Option<Certificate>, Vec<(f64, Paths, Certificate)>) {
    let standing = net.standing_watts;
    let timed = goal.deadline.is_some() || goal.objective != Objective::Energy;
    let time = timed.then(|| Certificate::new(net, open, 1.0, 0.0, rounds));
    let mut energy = Vec::new();
    if goal.objective != Objective::Time {
        let free = Certificate::new(net, open, standing, 1.0, rounds);
        let seconds = time.as_ref().map_or(0.0, |t| t.root);
        let power = free.root / seconds.max(f64::MIN_POSITIVE);
        let mut lines = vec![Line {
            value: free.root,
            price: 0.0,
        }];
        energy.push((0.0, Paths::new(net, open, standing, true), free));
        // Prices of time, where a deadline or the product makes them worth it.
        let prices: &[f64] = if timed { &[0.25, 0.5, 1.0, 3.0] } else { &[] };
        for price in prices.iter().map(|k| k * power) {
            let c = Certificate::new(net, open, standing + price, 1.0, rounds);
            let before = goal.floor(seconds, &lines);
            lines.push(Line {
                value: c.root,
                price,
            });
            if goal.floor(seconds, &lines) > before * (1.0 + 1e-6) {
                energy.push((price, Paths::new(net, open, standing + price, true), c));
            } else {
                lines.pop();
            }
        }
    }
    (time, energy)
}

/// Activities with the same ways, tied together in the same way. Copies tie in other ways too, so there
/// are no columns where memory is limited.
fn alike(net: &Network) -> Vec<Columns> {
    if !net.copies.is_empty() {
        return Vec::new();
    }
    let label = |a: &Activity| {
        let way = |w: &Way| (w.resource, w.seconds.to_bits(), w.joules.to_bits());
        hash(a.ways.iter().map(way).collect::<Vec<_>>())
    };
    let all = &net.activities;
    columns(&Labelled {
        labels: all.iter().map(label).collect(),
        before: all.iter().map(|a| a.before.clone()).collect(),
        after: all.iter().map(|a| a.after.clone()).collect(),
    })
}
