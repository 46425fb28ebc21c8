//! A partial plan at a moment: what was started, what still runs and where.
//!
//! Of what has ended only the fact is kept. Nothing here chooses.

use crate::plan::network::Network;

/// Most activities a network may have here.
pub const MOST: usize = 128;

/// In the place of an activity: the unit is idle.
const NOBODY: u8 = u8::MAX;

/// A unit of a group, or a channel of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// When it is free, or since when it has been.
    pub free: f64,
    who: u8,
}

impl Slot {
    /// A unit without work.
    pub const IDLE: Slot = Slot {
        free: 0.0,
        who: NOBODY,
    };

    /// What runs on it.
    pub fn runs(&self) -> Option<usize> {
        (self.who != NOBODY).then_some(usize::from(self.who))
    }
}

/// A partial plan.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// Activities that have started.
    pub started: u128,
    /// The present.
    pub now: f64,
    /// Joules of what was started, beyond those that flow anyway.
    pub joules: f64,
    /// All units and channels, those of the first resource first.
    pub slots: Vec<Slot>,
    /// What ended just now.
    pub fresh: u128,
    /// Where memories are open: tasks that run, or must run, on each side.
    pub on: [u128; 2],
}

impl Moment {
    /// Nothing has started.
    pub fn new(slots: usize) -> Self {
        Moment {
            started: 0,
            now: 0.0,
            joules: 0.0,
            slots: vec![Slot::IDLE; slots],
            fresh: 0,
            on: [0; 2],
        }
    }

    /// Whether an activity has started.
    pub fn has_started(&self, activity: usize) -> bool {
        self.started >> activity & 1 == 1
    }

    /// Where memories are open: the side of a task, if it is decided.
    pub fn side(&self, task: usize) -> Option<usize> {
        (0..2).find(|&s| self.on[s] >> task & 1 == 1)
    }

    /// What runs, with its end.
    pub fn running(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.slots
            .iter()
            .filter_map(|s| s.runs().map(|i| (i, s.free)))
    }

    /// Activities that have ended.
    pub fn ended(&self) -> u128 {
        self.running().fold(self.started, |m, (i, _)| m & !(1 << i))
    }

    /// The latest end so far.
    pub fn makespan(&self) -> f64 {
        self.running().fold(self.now, |t, (_, end)| t.max(end))
    }

    /// Starts an activity in a way, on an idle slot.
    pub fn start(&mut self, net: &Network, activity: usize, way: usize, slot: usize) {
        let w = &net.activities[activity].ways[way];
        self.started |= 1 << activity;
        self.joules += w.joules;
        self.slots[slot] = Slot {
            free: self.now + w.seconds,
            who: activity as u8,
        };
    }

    /// Goes on to the next end. False if nothing runs.
    pub fn advance(&mut self) -> bool {
        let next = self.running().fold(f64::INFINITY, |t, (_, end)| t.min(end));
        if next == f64::INFINITY {
            return false;
        }
        self.now = next;
        self.fresh = 0;
        for s in &mut self.slots {
            if let (Some(i), true) = (s.runs(), s.free <= next) {
                self.fresh |= 1 << i;
                s.who = NOBODY;
            }
        }
        true
    }
}
