//! The best performance of a network, layer by layer: all partial plans with one activity started, then
//! those with two, and so on.
//!
//! A partial plan is looked at when something has just ended. Each set of activities that can start is
//! tried, and then the next end; not to start anything is one of the choices. That covers every plan in
//! which things start only when others end, which contains a best one. Left out are
//!
//! - plans in which an activity starts later than it could have on a unit that waited all the while;
//! - plans whose [bound](Facts::bound) is no better than the best plan known;
//! - plans [covered](super::compare) by another one of their layer;
//! - beyond a *width*, those with the worst bounds.
//!
//! The search begins with a small width and repeats with larger ones. What it leaves out for lack of
//! width had a least bound: no plan can cost less than that and than the best plan found, so every round
//! may raise the lower bound and better the plan. When nothing was left out the best plan is proven.
//!
//! That leaving covered plans out loses nothing: count activities not yet started, then plans of a layer
//! in the order in which they came. What covers a plan came earlier in the same layer, or is kept; what a
//! plan goes on to is in a later layer. So going from a covered plan to the one that covers it, and from
//! a plan to its best successor, ends, with a plan that is no worse.

use std::collections::HashMap;

use dahl_core::hash::FastBuild;

use super::compare::{Front, Profile};
use super::facts::Facts;
use super::moment::{Moment, Slot};
use super::room::Room;
use crate::plan::timeline::Started;

/// Width of the first round; each further round has this many times more.
const WIDTH: usize = 40;
const WIDER: usize = 8;

/// Most partial plans of one layer that are kept: what fits in about a gigabyte.
const MOST_KEPT: usize = 2_000_000;

/// How a partial plan came about: what was started, when, and after what.
struct Step {
    parent: u32,
    start: f64,
    from: u32,
    to: u32,
}

/// A partial plan of a layer.
struct Kept {
    moment: Moment,
    /// No plan that begins like this costs less.
    bound: f64,
    /// What its own moment says, which tells apart what comes from the same plan.
    rank: f64,
    step: u32,
}

/// The partial plan that others come from.
#[derive(Clone, Copy)]
struct Origin {
    layer: usize,
    step: u32,
    bound: f64,
}

/// Partial plans with as many activities started.
#[derive(Default)]
struct Layer {
    kept: Vec<Option<Kept>>,
    fronts: HashMap<[u128; 3], Front, FastBuild>,
    count: usize,
}

/// What is searched and what is found.
pub(super) struct Layers<'a, 'n> {
    facts: &'a Facts<'n>,
    /// Plans this little better are not looked for, as a part of the cost.
    tolerance: f64,
    keep_going: &'a mut dyn FnMut() -> bool,
    layers: Vec<Layer>,
    steps: Vec<Step>,
    moves: Vec<(u8, u8)>,
    /// What is being started at the present moment.
    choice: Vec<(u8, u8)>,
    room: Room,
    profile: Profile,
    /// The least bound of what was left out.
    dropped: f64,
    /// Most partial plans of one layer that are kept.
    pub widest: usize,
    /// Partial plans looked at.
    pub nodes: u64,
    /// Whether it ended without a proof: `keep_going` said no, or the widest beam left something out.
    pub stopped: bool,
    /// The cost of the best plan known.
    pub best: f64,
    /// No plan costs less.
    pub floor: f64,
    /// The plan, if it was found here.
    pub found: Option<Found>,
}

/// A plan: what starts when, and where memories are open which side each task is on.
pub(super) struct Found {
    pub log: Vec<Started>,
    pub on: [u128; 2],
}

impl<'a, 'n> Layers<'a, 'n> {
    /// Prepares a search for something cheaper than `best`.
    pub fn new(
        facts: &'a Facts<'n>,
        best: f64,
        tolerance: f64,
        keep_going: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        Layers {
            facts,
            tolerance,
            keep_going,
            layers: Vec::new(),
            steps: Vec::new(),
            moves: Vec::new(),
            choice: Vec::new(),
            room: Room::default(),
            profile: Profile::default(),
            dropped: f64::INFINITY,
            widest: MOST_KEPT,
            nodes: 0,
            stopped: false,
            best,
            floor: f64::NEG_INFINITY,
            found: None,
        }
    }

    /// Searches. Afterwards `best` and `found` hold the best plan, and unless `stopped` there is none
    /// better.
    pub fn run(&mut self) {
        let mut width = WIDTH;
        loop {
            self.round(width.min(self.widest));
            if self.stopped {
                return;
            }
            let limit = self.limit();
            self.floor = self.floor.max(self.dropped.min(limit));
            if self.dropped >= limit {
                return;
            }
            if width >= self.widest {
                self.stopped = true;
                return;
            }
            width *= WIDER;
        }
    }

    /// What a plan must cost less than to be looked for.
    fn limit(&self) -> f64 {
        self.best * (1.0 - self.tolerance)
    }

    fn round(&mut self, width: usize) {
        let n = self.facts.net.activities.len();
        self.layers.clear();
        self.layers.resize_with(n, Layer::default);
        self.steps.clear();
        self.moves.clear();
        self.dropped = f64::INFINITY;
        let root = Moment::new(self.facts.of.len());
        self.room.occupy(self.facts.net, &root);
        if n == 0 || !self.room.holds(self.facts.net) {
            return;
        }
        self.layers[0].kept.push(Some(Kept {
            bound: f64::NEG_INFINITY,
            rank: f64::NEG_INFINITY,
            moment: root,
            step: u32::MAX,
        }));
        for layer in 0..n {
            let all = std::mem::take(&mut self.layers[layer]);
            for kept in self.narrow(all, width) {
                self.nodes += 1;
                if self.nodes.is_multiple_of(128) && !(self.keep_going)() {
                    self.stopped = true;
                }
                if self.stopped {
                    return;
                }
                if kept.bound < self.limit() {
                    self.expand(layer, kept);
                }
            }
        }
    }

    /// The plans of a layer with the best bounds, the best first.
    fn narrow(&mut self, layer: Layer, width: usize) -> Vec<Kept> {
        let limit = self.limit();
        let mut all: Vec<Kept> = layer.kept.into_iter().flatten().collect();
        all.retain(|k| k.bound < limit);
        all.sort_by(|a, b| a.rank.total_cmp(&b.rank));
        let left_out = all.iter().skip(width).map(|k| k.bound);
        self.dropped = left_out.fold(self.dropped, f64::min);
        all.truncate(width);
        all
    }

    /// Tries whatever can follow a partial plan.
    fn expand(&mut self, layer: usize, kept: Kept) {
        let mut m = kept.moment;
        let from = Origin {
            layer,
            step: kept.step,
            bound: kept.bound,
        };
        loop {
            self.room.occupy(self.facts.net, &m);
            let ended = m.ended();
            let facts = self.facts;
            let ready: Vec<u32> = facts
                .order
                .iter()
                .copied()
                .filter(|&i| !m.has_started(i as usize) && facts.before[i as usize] & !ended == 0)
                .collect();
            self.choose(from, &mut m, &ready, ended);
            // Nothing starts before the next end.
            if !m.advance() || self.facts.bound(&m) >= self.limit() {
                return;
            }
        }
    }

    /// Starts one of the ready activities, and perhaps others after it in their order.
    fn choose(&mut self, from: Origin, m: &mut Moment, ready: &[u32], ended: u128) {
        let net = self.facts.net;
        for (k, &i) in ready.iter().enumerate() {
            let i = i as usize;
            if !self.room.fits(net, i) || self.facts.has_elder(m, i) {
                continue;
            }
            for way in 0..net.activities[i].ways.len() {
                let r = usize::from(net.activities[i].ways[way].resource);
                let mut slots = self.facts.first[r]..self.facts.first[r + 1];
                let idle = |&s: &usize| m.slots[s].runs().is_none();
                let Some(slot) = slots.clone().find(idle) else {
                    continue;
                };
                let waited = |s: usize| idle(&s) && m.slots[s].free < m.now;
                if !self.facts.is_new(m, i) && slots.any(waited) {
                    continue;
                }
                let (old, joules, on) = (m.slots[slot], m.joules, m.on);
                if let Some(open) = self.facts.open
                    && !open.start(m, i, way, ended)
                {
                    m.on = on;
                    continue;
                }
                m.start(net, i, way, slot);
                self.room.start(net, i);
                self.choice.push((i as u8, way as u8));
                self.emit(from, m);
                self.choose(from, m, &ready[k + 1..], ended);
                self.choice.pop();
                self.room.take_back(net, i);
                m.started &= !(1 << i);
                (m.slots[slot], m.joules, m.on) = (old, joules, on);
            }
        }
    }

    /// Nothing else starts now: on to the next end, and into the layer, if it is worth it.
    fn emit(&mut self, origin: Origin, m: &Moment) {
        let count = origin.layer + self.choice.len();
        if m.started & self.facts.all == self.facts.all {
            let seconds = m.makespan();
            let joules = self.facts.net.standing_watts * seconds + m.joules;
            let cost = self.facts.goal.cost(seconds, joules);
            if self.facts.goal.in_time(seconds) && cost < self.best {
                self.best = cost;
                let log = self.replay(origin.step, m.now);
                self.found = Some(Found { log, on: m.on });
            }
            return;
        }
        let mut next = m.clone();
        next.advance();
        let rank = self.facts.bound(&next);
        let bound = rank.max(origin.bound);
        if bound >= self.limit() {
            return;
        }
        let set = self.facts.profile(&next, &mut self.profile);
        let into = &mut self.layers[count];
        let front = into.fronts.entry(set).or_default();
        let number = into.kept.len() as u32;
        let gone = |k: u32| {
            into.kept[k as usize] = None;
            into.count -= 1;
        };
        if !front.add(&self.profile, number, gone) {
            return;
        }
        into.count += 1;
        if into.count > 2 * MOST_KEPT {
            self.stopped = true;
        }
        let from = self.moves.len() as u32;
        self.moves.extend(&self.choice);
        into.kept.push(Some(Kept {
            moment: next,
            bound,
            rank,
            step: self.steps.len() as u32,
        }));
        self.steps.push(Step {
            parent: origin.step,
            start: m.now,
            from,
            to: self.moves.len() as u32,
        });
    }

    /// The plan that led here, with the present choice at its end.
    fn replay(&self, mut step: u32, now: f64) -> Vec<Started> {
        let mut starts: Vec<(f64, u8, u8)> = Vec::new();
        let push = |starts: &mut Vec<_>, moves: &[(u8, u8)], at: f64| {
            starts.extend(moves.iter().rev().map(|&(i, way)| (at, i, way)));
        };
        push(&mut starts, &self.choice, now);
        while step != u32::MAX {
            let s = &self.steps[step as usize];
            push(
                &mut starts,
                &self.moves[s.from as usize..s.to as usize],
                s.start,
            );
            step = s.parent;
        }
        let mut slots = vec![Slot::IDLE; self.facts.of.len()];
        let net = self.facts.net;
        let begin = |(start, i, way): (f64, u8, u8)| {
            let w = &net.activities[usize::from(i)].ways[usize::from(way)];
            let r = usize::from(w.resource);
            let units = &mut slots[self.facts.first[r]..self.facts.first[r + 1]];
            let unit = units.iter().position(|s| s.free <= start).unwrap_or(0);
            units[unit].free = start + w.seconds;
            Started {
                activity: u32::from(i),
                way: u16::from(way),
                unit: unit as u16,
                start,
                end: start + w.seconds,
            }
        };
        starts.into_iter().rev().map(begin).collect()
    }
}
