//! Which side a task is on, where memories are open: decided when it starts, or before, where something
//! rests on it.
//!
//! - What is moved must be read on the other side, so the last reader that can be there has to.
//! - Data that the step before has left is where the task is that writes it again, so whoever reads it
//!   where it is, or moves it, decides the side of that task.

use super::moment::Moment;
use super::open::{Home, Open};

impl Open {
    /// Decides what follows from starting an activity now, where `ended` has ended. False if it cannot
    /// start, or if it leads nowhere; sides are then left in disorder.
    pub fn start(&self, m: &mut Moment, i: usize, way: usize, ended: u128) -> bool {
        let resource = usize::from(self.net.activities[i].ways[way].resource);
        let side = usize::from(self.sides[resource]);
        match i.checked_sub(self.tasks) {
            Some(k) => self.carry(m, k, side),
            None => self.is_there(m, i, side, ended) && self.bind(m, i, side),
        }
    }

    /// Whether all that a task reads is there; what could be is then there for good.
    fn is_there(&self, m: &mut Moment, task: usize, side: usize, ended: u128) -> bool {
        self.reads[task].iter().all(|&k| {
            let item = &self.items[k as usize];
            match (self.home(m, item), item.home) {
                (Some(home), _) => home == side || ended >> (self.tasks + k as usize) & 1 == 1,
                (None, Home::With(w)) => self.bind(m, w as usize, side),
                (None, Home::Side(_)) => false,
            }
        })
    }

    /// Moves an item to a side, if that can be of use.
    fn carry(&self, m: &mut Moment, k: usize, to: usize) -> bool {
        let item = &self.items[k];
        let from = match (self.home(m, item), item.home) {
            (None, Home::With(w)) => self.bind(m, w as usize, 1 - to),
            (home, _) => home == Some(1 - to),
        };
        from && self.settle(m, k, to)
    }

    /// A task has to be on a side.
    pub fn bind(&self, m: &mut Moment, task: usize, side: usize) -> bool {
        match m.side(task) {
            Some(s) => s == side,
            None if self.seconds[task][side] == f64::INFINITY => false,
            None => {
                m.on[side] |= 1 << task;
                self.reads[task].iter().all(|&k| {
                    let item = &self.items[k as usize];
                    let moved = m.has_started(self.tasks + k as usize);
                    match self.home(m, item) {
                        Some(home) if moved => self.settle(m, k as usize, 1 - home),
                        _ => true,
                    }
                })
            }
        }
    }

    /// What moves to a side is read there: if only one reader can be there, it has to.
    fn settle(&self, m: &mut Moment, k: usize, to: usize) -> bool {
        let readers = &self.items[k].readers;
        if readers.iter().any(|&r| m.side(r as usize) == Some(to)) {
            return true;
        }
        let can = |r: &&u32| {
            let r = **r as usize;
            m.side(r).is_none() && self.seconds[r][to] < f64::INFINITY
        };
        let mut rest = readers.iter().filter(can);
        match (rest.next(), rest.next()) {
            (None, _) => false,
            (Some(&only), None) => self.bind(m, only as usize, to),
            _ => true,
        }
    }
}
