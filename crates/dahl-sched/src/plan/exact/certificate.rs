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
//! where memories are open, with the [tolls](super::tolls) of transfers; and, with other prices and no flow, counting only remaining tasks of tail ≥ `q`, which must be done by
//! `T − q`: the same with `w × q` added. The best `q` is taken.

use super::facts::Facts;
use super::moment::{MOST, Moment};
use super::open::Open;
use super::tolls::Tolls;
use crate::plan::bound::{Carries, Game, Sides, play};
use crate::plan::network::{Activity, Network, Way};

/// Something of each activity: on either side, or where its side is not decided or does not matter.
pub(super) type Sided = [f64; 3];

/// The least of something over the ways of an activity, by side; `sides` has that of each resource.
pub(super) fn sided(a: &Activity, sides: &[u8], of: impl Fn(&Way) -> f64) -> Sided {
    let least = |keep: &dyn Fn(&Way) -> bool| {
        let kept = a.ways.iter().filter(|w| keep(w));
        kept.map(&of).fold(f64::INFINITY, f64::min)
    };
    let on = |side: u8| least(&|w| sides.get(usize::from(w.resource)) == Some(&side));
    [on(0), on(1), least(&|_| true)]
}

/// Where to look in a [`Sided`].
pub(super) fn place(m: &Moment, i: usize) -> usize {
    m.side(i).unwrap_or(2)
}

/// Prices for `w × T + v × joules`.
#[derive(Debug)]
pub(super) struct Certificate {
    w: f64,
    v: f64,
    price: Vec<f64>,
    source: Vec<f64>,
    inflow: Vec<Vec<f64>>,
    sink: Vec<f64>,
    cost: Vec<Sided>,
    work_price: Vec<f64>,
    work_cost: Vec<Sided>,
    least: Vec<Sided>,
    /// Where memories are open.
    tolls: Option<Tolls>,
    /// A bound on the whole.
    pub root: f64,
}

impl Certificate {
    /// Finds prices in this many rounds.
    pub fn new(net: &Network, open: Option<&Open>, w: f64, v: f64, rounds: usize) -> Self {
        // Where memories are known transfers are activities.
        let none = Carries::default();
        let game = play(
            net,
            open.map_or(&none, |o| &o.carries),
            w,
            v,
            rounds,
            Sides::Plain,
        );
        let work = play(net, &none, w, v, rounds, Sides::Work);
        let prices = |game: &Game| -> Vec<f64> {
            let weights = game.on_work.iter().zip(&net.resources);
            weights.map(|(on, &units)| w * on / units as f64).collect()
        };
        let (price, work_price) = (prices(&game), prices(&work));
        let sides = open.map_or(&[][..], |o| &o.sides);
        let cheapest = |i: usize, price: &[f64], flow: f64| {
            sided(&net.activities[i], sides, |w| {
                v * w.joules + (price[usize::from(w.resource)] + flow) * w.seconds
            })
        };
        let all = 0..net.activities.len();
        let free = vec![0.0; price.len()];
        Certificate {
            w,
            v,
            cost: all
                .clone()
                .map(|i| cheapest(i, &price, game.path[i]))
                .collect(),
            work_cost: all.clone().map(|i| cheapest(i, &work_price, 0.0)).collect(),
            least: all.map(|i| cheapest(i, &free, 0.0)).collect(),
            tolls: open.map(|o| Tolls::new(o, &game)),
            price,
            work_price,
            source: game.source,
            inflow: game.inflow,
            sink: game.sink,
            root: game.value.max(work.value),
        }
    }

    /// A bound for a partial plan. `end` has the ends of what runs, and the present for what has ended.
    pub fn value(&self, facts: &Facts<'_>, m: &Moment, end: &[f64; MOST]) -> f64 {
        let mut value = self.v * m.joules;
        for (s, &r) in m.slots.iter().zip(&facts.of) {
            value += self.price[usize::from(r)] * s.free.max(m.now);
        }
        let activities = &facts.net.activities[..self.cost.len()];
        for (i, a) in activities.iter().enumerate() {
            if m.has_started(i) {
                value += self.sink[i] * end[i];
                continue;
            }
            value += self.source[i] * m.now;
            value += match (&self.tolls, facts.open) {
                (Some(tolls), Some(open)) => tolls.least(open, m, i, &self.cost[i]),
                _ => self.cost[i][place(m, i)],
            };
            for (&b, &flow) in a.before.iter().zip(&self.inflow[i]) {
                if flow > 0.0 && m.has_started(b as usize) {
                    value += flow * end[b as usize];
                }
            }
        }
        value.max(self.by_tails(facts, m))
    }

    fn by_tails(&self, facts: &Facts<'_>, m: &Moment) -> f64 {
        let (of, tails) = (&facts.of, &facts.tails);
        let mut sum = self.v * m.joules;
        for &r in of {
            sum += self.work_price[usize::from(r)] * m.now;
        }
        let mut left = facts
            .by_tail
            .iter()
            .map(|&i| i as usize)
            .filter(|&i| !m.has_started(i));
        sum += left
            .clone()
            .map(|i| self.least[i][place(m, i)])
            .sum::<f64>();
        let mut best = f64::NEG_INFINITY;
        let mut next = left.next();
        while let Some(i) = next {
            let at = place(m, i);
            sum += self.work_cost[i][at] - self.least[i][at];
            let q = tails[i];
            next = left.next();
            // Only where the tail changes: a longer set at the same tail is better.
            if next.is_some_and(|j| tails[j] == q) {
                continue;
            }
            let mut busy = 0.0;
            for (s, &r) in m.slots.iter().zip(of) {
                if s.runs().is_some_and(|i| tails[i] >= q) {
                    busy += self.work_price[usize::from(r)] * (s.free - m.now);
                }
            }
            best = best.max(sum + busy + self.w * q);
        }
        best
    }
}
