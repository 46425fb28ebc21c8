//! A network being performed, in virtual time: what runs, what is free, what memories hold.
//!
//! Time only moves forward. The caller decides what starts; nothing here chooses.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::network::Network;

/// An activity that was started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Started {
    /// Which.
    pub activity: u32,
    /// Which of its modes.
    pub mode: u16,
    /// Which unit or channel of the resource.
    pub unit: u16,
    /// When it started.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// An end to come, the earliest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ending(pub f64, pub u32);

impl Eq for Ending {}

impl Ord for Ending {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Ending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The state of a performance.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<'n> {
    net: &'n Network,
    /// The present.
    pub now: f64,
    /// The latest end of anything started.
    pub makespan: f64,
    /// Joules of everything started, beyond those that flow anyway.
    pub joules: f64,
    /// Most bytes ever in each memory.
    pub peak: Vec<u64>,
    /// What was started, in that order.
    pub log: Vec<Started>,
    started: Vec<bool>,
    waits: Vec<u32>,
    idle: Vec<Vec<u16>>,
    running: BinaryHeap<Ending>,
    place: Vec<(u16, u16)>,
    used: Vec<u64>,
    users: Vec<u32>,
}

impl<'n> Timeline<'n> {
    /// Nothing has started. `None` if what exists from the beginning does not fit.
    pub(crate) fn new(net: &'n Network) -> Option<Self> {
        let mut used = vec![0_u64; net.capacity.len()];
        for c in net
            .copies
            .iter()
            .filter(|c| c.initial && (c.stays || c.users > 0))
        {
            used[usize::from(c.memory)] += c.bytes;
        }
        if used
            .iter()
            .zip(&net.capacity)
            .any(|(&u, c)| c.is_some_and(|c| u > c))
        {
            return None;
        }
        Some(Timeline {
            net,
            now: 0.0,
            makespan: 0.0,
            joules: 0.0,
            peak: used.clone(),
            log: Vec::with_capacity(net.activities.len()),
            started: vec![false; net.activities.len()],
            waits: net
                .activities
                .iter()
                .map(|a| a.before.len() as u32)
                .collect(),
            idle: net
                .resources
                .iter()
                .map(|&n| (0..n as u16).rev().collect())
                .collect(),
            running: BinaryHeap::new(),
            place: vec![(0, 0); net.activities.len()],
            used,
            users: net.copies.iter().map(|c| c.users).collect(),
        })
    }

    /// Whether all that an activity waits for has ended, and it has not started.
    pub(crate) fn is_ready(&self, activity: u32) -> bool {
        !self.started[activity as usize] && self.waits[activity as usize] == 0
    }

    /// Whether a resource has a free unit.
    pub(crate) fn is_free(&self, resource: u16) -> bool {
        !self.idle[usize::from(resource)].is_empty()
    }

    /// Whether all that an activity occupies in a mode is free.
    pub(crate) fn is_free_for(&self, activity: u32, mode: usize) -> bool {
        let resource = self.net.activities[activity as usize].modes[mode].resource;
        let also = self.net.sharing.also(resource);
        self.is_free(resource) && also.iter().all(|&r| self.is_free(r))
    }

    /// Whether memories have room for what an activity makes.
    pub(crate) fn fits(&self, activity: u32) -> bool {
        self.net.fits(&self.used, activity as usize)
    }

    /// Starts an activity now, which must be ready, fit, and find its resources free.
    pub(crate) fn start(&mut self, activity: u32, mode: usize) {
        let a = &self.net.activities[activity as usize];
        let w = &a.modes[mode];
        let unit = self.idle[usize::from(w.resource)]
            .pop()
            .expect("a free unit was promised");
        for &r in self.net.sharing.also(w.resource) {
            self.idle[usize::from(r)].pop();
        }
        let end = self.now + w.seconds;
        self.started[activity as usize] = true;
        self.place[activity as usize] = (w.resource, unit);
        self.running.push(Ending(end, activity));
        self.makespan = self.makespan.max(end);
        self.joules += w.joules;
        let (start, mode) = (self.now, mode as u16);
        self.log.push(Started {
            activity,
            mode,
            unit,
            start,
            end,
        });
        for &c in &a.ends {
            let copy = &self.net.copies[c as usize];
            self.used[usize::from(copy.memory)] -= copy.bytes;
        }
        for &c in &a.makes {
            let copy = &self.net.copies[c as usize];
            self.used[usize::from(copy.memory)] += copy.bytes;
        }
        for &c in &a.makes {
            let m = usize::from(self.net.copies[c as usize].memory);
            self.peak[m] = self.peak[m].max(self.used[m]);
        }
    }

    /// Moves to the next end and frees what ends then; `freed` gets what became ready. False if nothing
    /// runs.
    pub(crate) fn advance(&mut self, freed: &mut Vec<u32>) -> bool {
        let Some(&Ending(next, _)) = self.running.peek() else {
            return false;
        };
        self.now = next;
        while let Some(&Ending(end, activity)) = self.running.peek() {
            if end > next {
                break;
            }
            self.running.pop();
            let (resource, unit) = self.place[activity as usize];
            self.idle[usize::from(resource)].push(unit);
            let a = &self.net.activities[activity as usize];
            for &r in self.net.sharing.also(resource) {
                // Which of them it was, nobody asks.
                self.idle[usize::from(r)].push(0);
            }
            for &c in &a.uses {
                self.users[c as usize] -= 1;
                if self.users[c as usize] == 0 {
                    self.drop_copy(c as usize);
                }
            }
            for &n in &a.after {
                self.waits[n as usize] -= 1;
                if self.waits[n as usize] == 0 {
                    freed.push(n);
                }
            }
        }
        true
    }

    fn drop_copy(&mut self, copy: usize) {
        let c = &self.net.copies[copy];
        if !c.stays {
            self.used[usize::from(c.memory)] -= c.bytes;
        }
    }

    /// Whether everything has been started.
    pub(crate) fn is_complete(&self) -> bool {
        self.log.len() == self.net.activities.len()
    }

    /// Joules in all, once complete.
    pub(crate) fn total_joules(&self) -> f64 {
        self.net.standing_watts * self.makespan + self.joules
    }
}
