//! Bounds for the nodes of a search: prices found once, applied to what remains.
//!
//! With `π(r)` the price of a second on a unit of `r`, `φ` a flow of price along edges, and
//! `Σ units(r) π(r) + |φ| = w`, for any partial plan
//!
//! ```text
//! w × T + v × J ≥ v × J(started) + Σ_remaining min_ways ( v × joules + (π(r) + φ(i)) × seconds )
//!               + Σ_r π(r) Σ_units free(unit)                 no unit is free before that
//!               + Σ_{flow from a started task or from nowhere} φ × end        the flow resumes there
//! ```
//!
//! and, with other prices and no flow, counting only remaining tasks of tail ≥ `q`, which must be done by
//! `T − q`: the same with `w × q` added. The best `q` is taken.

use super::sequence::State;
use crate::plan::bound::{Carries, Sides, play};
use crate::plan::network::Network;

/// Prices for `w × T + v × joules`.
#[derive(Debug)]
pub(super) struct Certificate {
    w: f64,
    v: f64,
    price: Vec<f64>,
    source: Vec<f64>,
    inflow: Vec<Vec<f64>>,
    sink: Vec<f64>,
    cost: Vec<f64>,
    work_price: Vec<f64>,
    work_cost: Vec<f64>,
    least: Vec<f64>,
    /// A bound on the whole.
    pub root: f64,
}

impl Certificate {
    /// Finds prices in this many rounds.
    pub fn new(net: &Network, w: f64, v: f64, rounds: usize) -> Self {
        let resources = net.resources.len();
        // Memories are known here, and transfers are activities.
        let none = Carries::default();
        let game = play(net, &none, w, v, rounds, Sides::Plain);
        let work = play(net, &none, w, v, rounds, Sides::Work);
        let price: Vec<f64> = (0..resources)
            .map(|r| game.work.get(r).copied().unwrap_or(0.0))
            .collect();
        let work_price: Vec<f64> = (0..resources)
            .map(|r| work.work.get(r).copied().unwrap_or(0.0))
            .collect();
        let cheapest = |i: usize, price: &[f64], flow: f64| {
            let cost = |w: &crate::plan::network::Way| {
                v * w.joules + (price[usize::from(w.resource)] + flow) * w.seconds
            };
            net.activities[i]
                .ways
                .iter()
                .map(cost)
                .fold(f64::INFINITY, f64::min)
        };
        let all = 0..net.activities.len();
        let free = vec![0.0; resources];
        Certificate {
            w,
            v,
            cost: all
                .clone()
                .map(|i| cheapest(i, &price, game.path[i]))
                .collect(),
            work_cost: all.clone().map(|i| cheapest(i, &work_price, 0.0)).collect(),
            least: all.map(|i| cheapest(i, &free, 0.0)).collect(),
            price,
            work_price,
            source: game.source,
            inflow: game.inflow,
            sink: game.sink,
            root: game.value.max(work.value),
        }
    }

    /// A bound for a partial plan. `by_tail` lists activities by tail, the longest first.
    pub fn value(&self, net: &Network, s: &State, by_tail: &[u32], tails: &[f64]) -> f64 {
        let mut value = self.v * s.joules;
        for (r, units) in s.units.iter().enumerate() {
            if self.price[r] > 0.0 {
                let free: f64 = units.iter().map(|u| u.free.max(s.now)).sum();
                value += self.price[r] * free;
            }
        }
        for (i, a) in net.activities.iter().enumerate() {
            if s.started >> i & 1 == 1 {
                value += self.sink[i] * s.end[i];
                continue;
            }
            value += self.cost[i] + self.source[i] * s.now;
            for (&b, &flow) in a.before.iter().zip(&self.inflow[i]) {
                if flow > 0.0 && s.started >> b & 1 == 1 {
                    value += flow * s.end[b as usize].max(s.now);
                }
            }
        }
        value.max(self.by_tails(s, by_tail, tails))
    }

    fn by_tails(&self, s: &State, by_tail: &[u32], tails: &[f64]) -> f64 {
        let mut value = self.v * s.joules;
        let mut running: [(f64, f64); 64] = [(0.0, 0.0); 64];
        let mut runs = 0;
        for (r, units) in s.units.iter().enumerate() {
            for u in units {
                value += self.work_price[r] * s.now;
                if u.free > s.now && runs < running.len() && self.work_price[r] > 0.0 {
                    running[runs] = (u.tail, self.work_price[r] * (u.free - s.now));
                    runs += 1;
                }
            }
        }
        for &i in by_tail {
            if s.started >> i & 1 == 0 {
                value += self.least[i as usize];
            }
        }
        let mut best = f64::NEG_INFINITY;
        let mut sum = value;
        for (k, &i) in by_tail.iter().enumerate() {
            if s.started >> i & 1 == 1 {
                continue;
            }
            sum += self.work_cost[i as usize] - self.least[i as usize];
            let q = tails[i as usize];
            // Only where the tail changes: a longer set at the same tail is better.
            let next = by_tail[k + 1..].iter().find(|&&j| s.started >> j & 1 == 0);
            if next.is_some_and(|&j| tails[j as usize] == q) {
                continue;
            }
            let busy: f64 = running[..runs]
                .iter()
                .filter(|u| u.0 >= q)
                .map(|u| u.1)
                .sum();
            best = best.max(sum + busy + self.w * q);
        }
        best
    }
}
