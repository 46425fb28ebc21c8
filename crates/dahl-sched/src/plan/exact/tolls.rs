//! Prices of transfers where memories are open: what a task pays for running away from what it reads.
//!
//! A reader of an item pays a toll on a side, and its writer is paid as much for being on that side: together
//! never more than the transfer costs, whether it is needed or not. Once it is known where the item is, only
//! readers on the other side pay; once it moves, its cost is counted as such and nobody pays.

use super::moment::Moment;
use super::open::Open;
use crate::plan::bound::Game;

/// What a reader pays for an item on a side.
#[derive(Clone, Copy, Debug)]
struct Toll {
    item: u32,
    reader: u32,
    price: f64,
}

/// All tolls, by task and side.
#[derive(Debug)]
pub(super) struct Tolls {
    paid: Vec<[Vec<Toll>; 2]>,
    /// To those in whose memory items are.
    received: Vec<[Vec<Toll>; 2]>,
}

impl Tolls {
    /// The prices that a game has found.
    pub fn new(open: &Open, game: &Game) -> Self {
        let none = || vec![[Vec::new(), Vec::new()]; open.tasks];
        let mut tolls = Tolls {
            paid: none(),
            received: none(),
        };
        for (carry, charges) in open.carries.all.iter().zip(&game.charges) {
            let item = open.items.iter().position(|i| i.datum == carry.datum);
            let side = open.memories.iter().position(|&m| m == carry.to);
            let (Some(item), Some(side)) = (item, side) else {
                continue;
            };
            for (&reader, &price) in carry.readers.iter().zip(charges) {
                if price <= 0.0 {
                    continue;
                }
                let toll = Toll {
                    item: item as u32,
                    reader,
                    price,
                };
                tolls.paid[reader as usize][side].push(toll);
                if let Some(writer) = tolls.received.get_mut(carry.writer as usize) {
                    writer[side].push(toll);
                }
            }
        }
        tolls
    }

    /// The least that a task costs that has not started, `costs` being that of its time and joules by side.
    pub fn least(&self, open: &Open, m: &Moment, task: usize, costs: &[f64]) -> f64 {
        let decided = m.side(task);
        let on = |side: usize| {
            let mut cost = costs[side];
            for toll in &self.paid[task][side] {
                let item = &open.items[toll.item as usize];
                let moves = m.has_started(open.tasks + toll.item as usize);
                if !moves && open.home(m, item) != Some(side) {
                    cost += toll.price;
                }
            }
            if decided.is_none() {
                for toll in &self.received[task][side] {
                    if !m.has_started(toll.reader as usize) {
                        cost -= toll.price;
                    }
                }
            }
            cost
        };
        match decided {
            Some(side) => on(side),
            None => on(0).min(on(1)),
        }
    }
}
