//! What memories hold at a moment of the exact search. Where none is limited, nothing is counted.

use super::moment::Moment;
use crate::plan::network::Network;

/// Bytes in each memory.
#[derive(Debug, Default)]
pub(super) struct Room {
    used: Vec<u64>,
}

impl Room {
    /// Counts the copies that exist.
    pub fn occupy(&mut self, net: &Network, m: &Moment) {
        if net.copies.is_empty() {
            return;
        }
        self.used.clear();
        self.used.resize(net.capacity.len(), 0);
        let mut users: Vec<u32> = net.copies.iter().map(|c| c.users).collect();
        let mut exists: Vec<bool> = net.copies.iter().map(|c| c.initial).collect();
        let ended = m.ended();
        for (i, a) in net.activities.iter().enumerate() {
            if ended >> i & 1 == 1 {
                a.uses.iter().for_each(|&c| users[c as usize] -= 1);
            }
            if m.has_started(i) {
                a.makes.iter().for_each(|&c| exists[c as usize] = true);
            }
        }
        for (i, a) in net.activities.iter().enumerate() {
            if m.has_started(i) {
                a.ends.iter().for_each(|&c| exists[c as usize] = false);
            }
        }
        for (c, copy) in net.copies.iter().enumerate() {
            if exists[c] && (copy.stays || users[c] > 0) {
                self.used[usize::from(copy.memory)] += copy.bytes;
            }
        }
    }

    /// Whether memories hold what is in them.
    pub fn holds(&self, net: &Network) -> bool {
        let mut each = self.used.iter().zip(&net.capacity);
        each.all(|(&used, most)| most.is_none_or(|most| used <= most))
    }

    /// Whether there is room for what an activity makes.
    pub fn fits(&self, net: &Network, activity: usize) -> bool {
        net.fits(&self.used, activity)
    }

    /// An activity starts.
    pub fn start(&mut self, net: &Network, activity: usize) {
        let a = &net.activities[activity];
        self.change(net, &a.makes, &a.ends);
    }

    /// It does not start after all.
    pub fn take_back(&mut self, net: &Network, activity: usize) {
        let a = &net.activities[activity];
        self.change(net, &a.ends, &a.makes);
    }

    fn change(&mut self, net: &Network, more: &[u32], less: &[u32]) {
        for &c in more {
            let copy = &net.copies[c as usize];
            self.used[usize::from(copy.memory)] += copy.bytes;
        }
        for &c in less {
            let copy = &net.copies[c as usize];
            self.used[usize::from(copy.memory)] -= copy.bytes;
        }
    }
}
