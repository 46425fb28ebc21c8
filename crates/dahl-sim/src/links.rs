//! Links: who may use them now, by the rule of [`dahl_core::machine::network`].
//!
//! A transfer occupies every channel of its link (the link itself, ports, limited switches) from when it begins to when
//! it ends; more wait in line, first come first served. That is how copy engines work, which take one copy after the
//! other, and how the runtime's own devices do. It also keeps a transfer's end fixed from the moment it begins, where
//! fair sharing would move the ends of all others at each start.
//!
//! Nobody waits for ever: who asked first of all that wait is the first in every line it stands in.

use std::collections::VecDeque;

use dahl_core::machine::Channels;
use dahl_core::{Bytes, Machine};

use super::prediction::LinkUse;

/// One channel's state.
#[derive(Debug, Default)]
struct Lane {
    /// Transfers that it may carry beside those it does.
    room: u32,
    /// Transfers that wait for it, each with its link.
    queue: VecDeque<(u32, u16)>,
}

/// All links.
#[derive(Debug)]
pub(super) struct Lanes {
    channels: Channels,
    lanes: Vec<Lane>,
    /// Channels where somebody may begin; empty between calls.
    look: Vec<u32>,
    /// What each link has carried.
    pub used: Vec<LinkUse>,
}

impl Lanes {
    /// Those of a machine, all free.
    pub(crate) fn new(machine: &Machine) -> Lanes {
        let channels = machine.channels();
        let free = |c: &dahl_core::machine::Channel| Lane {
            room: c.at_once,
            queue: VecDeque::new(),
        };
        Lanes {
            lanes: channels.all.iter().map(free).collect(),
            channels,
            look: Vec::new(),
            used: vec![LinkUse::default(); machine.links.len()],
        }
    }

    /// Whether a transfer that asks for a link now may begin at once.
    pub(crate) fn is_free(&self, link: u16) -> bool {
        let channels = self.channels.of_link[usize::from(link)].iter();
        let mut lanes = channels.map(|&c| &self.lanes[c as usize]);
        lanes.all(|lane| lane.room > 0 && lane.queue.is_empty())
    }

    /// A transfer asks for a link; true if it may begin at once, else it stands in line.
    pub(crate) fn enter(&mut self, link: u16, transfer: u32) -> bool {
        let is_free = self.is_free(link);
        for &c in &self.channels.of_link[usize::from(link)] {
            let lane = &mut self.lanes[c as usize];
            match is_free {
                true => lane.room -= 1,
                false => lane.queue.push_back((transfer, link)),
            }
        }
        is_free
    }

    /// A transfer has left a link: adds those that may begin now, each with its link.
    pub(crate) fn leave(&mut self, link: u16, begin: &mut Vec<(u32, u16)>) {
        let (lanes, of_link) = (&mut self.lanes, &self.channels.of_link);
        for &c in &of_link[usize::from(link)] {
            let lane = &mut lanes[c as usize];
            lane.room += 1;
            if !lane.queue.is_empty() {
                self.look.push(c);
            }
        }
        while let Some(c) = self.look.pop() {
            while let Some(&first) = lanes[c as usize].queue.front() {
                let channels = &of_link[usize::from(first.1)];
                let admits = |c: &u32| {
                    let lane = &lanes[*c as usize];
                    lane.room > 0 && lane.queue.front() == Some(&first)
                };
                if !channels.iter().all(admits) {
                    break;
                }
                for &c in channels {
                    lanes[c as usize].queue.pop_front();
                    lanes[c as usize].room -= 1;
                }
                begin.push(first);
                // Who stood behind it elsewhere is the first there now.
                self.look.extend(channels);
            }
        }
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
