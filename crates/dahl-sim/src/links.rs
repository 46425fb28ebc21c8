//! Links: who may use them now.
//!
//! A link carries a fixed number of transfers at once, each at its full speed; more wait in line, first
//! come first served. That is how copy engines work, which take one copy after the other, and how the
//! runtime's own devices do. It also keeps a transfer's end fixed from the moment it begins, where fair
//! sharing would move the ends of all others at each start.

use std::collections::VecDeque;

use dahl_core::{Bytes, Machine};

use super::prediction::LinkUse;

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
    pub(crate) fn new(machine: &Machine) -> Lanes {
        Lanes {
            lanes: machine.links.iter().map(|_| Lane::default()).collect(),
            used: vec![LinkUse::default(); machine.links.len()],
        }
    }

    /// Whether a transfer that asks for a link now may begin at once.
    pub(crate) fn is_free(&self, machine: &Machine, link: u16) -> bool {
        self.lanes[usize::from(link)].busy < machine.links[usize::from(link)].at_once
    }

    /// A transfer asks for a link; true if it may begin at once, else it stands in line.
    pub(crate) fn enter(&mut self, machine: &Machine, link: u16, transfer: u32) -> bool {
        let is_free = self.is_free(machine, link);
        let lane = &mut self.lanes[usize::from(link)];
        if is_free {
            lane.busy += 1;
            return true;
        }
        lane.queue.push_back(transfer);
        false
    }

    /// A transfer has left a link: the one that may begin in its place.
    pub(crate) fn leave(&mut self, link: u16) -> Option<u32> {
        let lane = &mut self.lanes[usize::from(link)];
        let next = lane.queue.pop_front();
        if next.is_none() {
            lane.busy -= 1;
        }
        next
    }

    /// Notes what copies that begin together take and cost; returns how long they last.
    pub(crate) fn carry(&mut self, machine: &Machine, link: u16, copies: usize, bytes: u64) -> f64 {
        let seconds = machine.links[usize::from(link)].duration(Bytes(bytes)).0;
        let used = &mut self.used[usize::from(link)];
        used.transfers += copies as u64;
        used.bytes.0 += bytes;
        used.busy.0 += seconds;
        seconds
    }
}
