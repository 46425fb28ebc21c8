//! Links: who may use them now, and the way from any memory to any other.
//!
//! A link carries a fixed number of transfers at once, each at its full speed; more wait in line, first
//! come first served. That is how copy engines work, which take one copy after the other, and how the
//! runtime's own devices do. It also keeps a transfer's end fixed from the moment it begins, where fair
//! sharing would move the ends of all others at each start.

use std::collections::VecDeque;

use dahl_core::{Bytes, Machine, Seconds};

use super::outcome::LinkUse;
use crate::batch::is_small;

/// The ways, by first and last memory: numbers of links.
#[derive(Debug)]
pub(super) struct Ways {
    memories: usize,
    ways: Vec<Option<Vec<u16>>>,
    /// How long a mebibyte takes, and how long nothing does.
    far: Vec<f64>,
    start: Vec<f64>,
}

impl Ways {
    /// The fastest ways for a mebibyte.
    pub fn new(machine: &Machine) -> Ways {
        let n = machine.memories.len();
        let mut cost = vec![f64::INFINITY; n * n];
        let mut ways: Vec<Option<Vec<u16>>> = vec![None; n * n];
        for m in 0..n {
            cost[m * n + m] = 0.0;
            ways[m * n + m] = Some(Vec::new());
        }
        for (i, link) in machine.links.iter().enumerate() {
            let at = usize::from(link.from.0) * n + usize::from(link.to.0);
            cost[at] = link.duration(Bytes(1 << 20)).0;
            ways[at] = Some(vec![i as u16]);
        }
        // Floyd and Warshall's algorithm; memories are few.
        for via in 0..n {
            for from in 0..n {
                for to in 0..n {
                    let sum = cost[from * n + via] + cost[via * n + to];
                    if sum < cost[from * n + to]
                        && let (Some(first), Some(then)) =
                            (&ways[from * n + via], &ways[via * n + to])
                    {
                        let whole = [first.as_slice(), then.as_slice()].concat();
                        cost[from * n + to] = sum;
                        ways[from * n + to] = Some(whole);
                    }
                }
            }
        }
        let mut found = Ways {
            memories: n,
            ways,
            far: Vec::new(),
            start: Vec::new(),
        };
        let all = |bytes| {
            let ends = (0..n * n).map(|at| (at / n, at % n));
            ends.map(|(from, to)| found.duration(machine, from, to, bytes))
                .collect()
        };
        (found.far, found.start) = (all(1 << 20), all(0));
        found
    }

    /// The nearest to a memory of those in a mask.
    #[inline]
    pub fn nearest(&self, places: u64, memory: usize) -> usize {
        // Most values are current in one place.
        if places.is_power_of_two() {
            return places.trailing_zeros() as usize;
        }
        let all = (0..self.memories).filter(|m| places & (1 << m) != 0);
        let far = |m: &usize| self.far[*m * self.memories + memory];
        all.min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
    }

    /// The links from one memory to another, in order; `None` if there is no way.
    pub fn get(&self, from: usize, to: usize) -> Option<&[u16]> {
        self.ways[from * self.memories + to].as_deref()
    }

    /// How long it takes to move anything at all.
    #[inline]
    pub fn start(&self, from: usize, to: usize) -> f64 {
        self.start[from * self.memories + to]
    }

    /// Whether this much is small for a way, so that it travels with others; ways of several links count
    /// as one.
    pub fn is_small(&self, machine: &Machine, from: usize, to: usize, bytes: u64) -> bool {
        let whole = self.duration(machine, from, to, bytes);
        is_small(Seconds(self.start(from, to)), Seconds(whole), 1.0)
    }

    /// How long it takes to move this much when nothing else uses the links.
    pub fn duration(&self, machine: &Machine, from: usize, to: usize, bytes: u64) -> f64 {
        match self.get(from, to) {
            None => f64::INFINITY,
            Some(way) => way
                .iter()
                .map(|&l| machine.links[usize::from(l)].duration(Bytes(bytes)).0)
                .sum(),
        }
    }
}

/// One link's state.
#[derive(Debug, Default)]
struct Lane {
    busy: u32,
    queue: VecDeque<u32>,
}

/// All links.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// What each has carried.
    pub used: Vec<LinkUse>,
}

impl Lanes {
    /// Those of a machine, all free.
    pub fn new(machine: &Machine) -> Lanes {
        Lanes {
            lanes: machine.links.iter().map(|_| Lane::default()).collect(),
            used: vec![LinkUse::default(); machine.links.len()],
        }
    }

    /// A transfer asks for a link; true if it may begin at once, else it stands in line.
    pub fn enter(&mut self, machine: &Machine, link: u16, transfer: u32) -> bool {
        let lane = &mut self.lanes[usize::from(link)];
        if lane.busy < machine.links[usize::from(link)].at_once {
            lane.busy += 1;
            return true;
        }
        lane.queue.push_back(transfer);
        false
    }

    /// A transfer has left a link: the one that may begin in its place.
    pub fn leave(&mut self, link: u16) -> Option<u32> {
        let lane = &mut self.lanes[usize::from(link)];
        let next = lane.queue.pop_front();
        if next.is_none() {
            lane.busy -= 1;
        }
        next
    }

    /// Notes what copies that begin together take and cost; returns how long they last.
    pub fn carry(&mut self, machine: &Machine, link: u16, copies: usize, bytes: u64) -> f64 {
        let seconds = machine.links[usize::from(link)].duration(Bytes(bytes)).0;
        let used = &mut self.used[usize::from(link)];
        used.transfers += copies as u64;
        used.bytes.0 += bytes;
        used.busy.0 += seconds;
        seconds
    }
}
