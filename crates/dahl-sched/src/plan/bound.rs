//! Lower bounds: what no plan can beat, and why.
//!
//! The bound is the value of a linear relaxation in which tasks may be divided between ways. For weights
//! `w` of time and `v` of joules, with `p(i)` the expected time of task `i` under its division,
//!
//! ```text
//! minimise  w × T + v × Σ joules     subject to
//!   T ≥ Σ p(i) over the tasks of any path                                        (critical path)
//!   T ≥ h + q + Σ p(i on r) / units(r)  over tasks with head ≥ h and tail ≥ q     (work on r)
//! ```
//!
//! where heads and tails are the longest paths before and after a task at the shortest times. It is
//! solved as a game (Brown's fictitious play): one side divides the tasks, the other spreads the weight
//! `w` over the right-hand sides. The second side's average is a price for each task's time on each
//! resource, and *any* prices give a valid bound: each task takes its cheapest way. So iterations only
//! make the bound better, and stopping early never makes it wrong.

use super::network::Network;
use super::problem::{Goal, Objective};

/// What a lower bound rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// No plan costs less.
    pub cost: f64,
    /// No plan is faster.
    pub seconds: f64,
    /// No plan (within the deadline) uses fewer joules.
    pub joules: f64,
    /// Part of the weight of time that rests on critical paths.
    pub path: f64,
    /// Part that rests on the work of each resource.
    pub work: Vec<f64>,
}

/// The result of a game.
#[derive(Clone, Debug)]
pub struct Game {
    /// A lower bound on `w × T + v × joules` beyond the standing ones.
    pub value: f64,
    /// The constant of the best prices.
    pub constant: f64,
    /// Best prices: for each activity, the part that follows from paths.
    pub path: Vec<f64>,
    /// Best prices: for each activity and resource, the part that follows from work.
    pub work: Vec<f64>,
    /// Flow of the path prices: what starts at each activity.
    pub source: Vec<f64>,
    /// What comes from each predecessor, in the order of `before`.
    pub inflow: Vec<Vec<f64>>,
    /// What ends at each activity.
    pub sink: Vec<f64>,
    /// Average use of each way of each activity.
    pub shares: Vec<Vec<f64>>,
    /// Weight on each resource's work.
    pub on_work: Vec<f64>,
    /// Weight on paths.
    pub on_path: f64,
}

/// How many steps heads and tails are told apart by.
const STEPS: usize = 12;

/// Which right-hand sides a game may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// All of them.
    All,
    /// Paths, and work from 0 to `T`.
    Plain,
    /// Work from 0 to `T` alone.
    Work,
}

/// Plays a game of this many rounds.
pub fn play(net: &Network, w: f64, v: f64, rounds: usize, sides: Sides) -> Game {
    let n = net.activities.len();
    let resources = net.resources.len();
    let windows = Windows::new(net, sides == Sides::All);
    let mut now = Game {
        value: 0.0,
        constant: 0.0,
        path: vec![0.0; n],
        work: vec![0.0; n * resources],
        source: vec![0.0; n],
        inflow: net
            .activities
            .iter()
            .map(|a| vec![0.0; a.before.len()])
            .collect(),
        sink: vec![0.0; n],
        shares: net
            .activities
            .iter()
            .map(|a| vec![0.0; a.ways.len()])
            .collect(),
        on_work: vec![0.0; resources],
        on_path: 0.0,
    };
    let mut best = now.clone();
    best.value = f64::NEG_INFINITY;
    let mut time = vec![0.0; n];
    let mut time_on = vec![0.0; n * resources];
    for round in 0..rounds {
        // The divider answers the average price; its answer's value is the bound.
        let step = 2.0 / (round as f64 + 2.0);
        let mut value = now.constant;
        for (i, a) in net.activities.iter().enumerate() {
            let mut cheapest = (f64::INFINITY, 0);
            for (k, way) in a.ways.iter().enumerate() {
                let price = now.path[i] + now.work[i * resources + usize::from(way.resource)];
                let cost = v * way.joules + price * way.seconds;
                if cost < cheapest.0 {
                    cheapest = (cost, k);
                }
            }
            value += cheapest.0;
            for way in &a.ways {
                time_on[i * resources + usize::from(way.resource)] = 0.0;
            }
            time[i] = 0.0;
            for (k, (share, way)) in now.shares[i].iter_mut().zip(&a.ways).enumerate() {
                *share = *share * (1.0 - step) + if k == cheapest.1 { step } else { 0.0 };
                time[i] += *share * way.seconds;
                time_on[i * resources + usize::from(way.resource)] += *share * way.seconds;
            }
        }
        if value > best.value {
            now.value = value;
            best.clone_from(&now);
        }
        // The other side answers the average division.
        now.scale(1.0 - step);
        let (length, path) = longest(net, &time);
        let window = windows.best(net, &time_on);
        if window.seconds > length || sides == Sides::Work {
            now.constant += step * w * window.offset;
            now.on_work[window.resource] += step;
            let price = step * w / net.resources[window.resource] as f64;
            for i in windows.inside(&window) {
                now.work[i * resources + window.resource] += price;
            }
        } else {
            now.on_path += step;
            for (k, &i) in path.iter().enumerate() {
                now.path[i] += step * w;
                match k.checked_sub(1).map(|k| path[k]) {
                    None => now.source[i] += step * w,
                    Some(last) => {
                        let before = &net.activities[i].before;
                        let slot = before.iter().position(|&b| b as usize == last);
                        now.inflow[i][slot.expect("paths follow edges")] += step * w;
                    }
                }
            }
            if let Some(&last) = path.last() {
                now.sink[last] += step * w;
            }
        }
    }
    best.shares = now.shares;
    best
}

impl Game {
    fn scale(&mut self, by: f64) {
        self.constant *= by;
        self.on_path *= by;
        let all = [
            &mut self.path,
            &mut self.work,
            &mut self.source,
            &mut self.sink,
            &mut self.on_work,
        ];
        for list in all.into_iter().chain(&mut self.inflow) {
            list.iter_mut().for_each(|x| *x *= by);
        }
    }
}

/// The longest path for these times, first activity first.
fn longest(net: &Network, time: &[f64]) -> (f64, Vec<usize>) {
    let mut end = vec![0.0_f64; time.len()];
    let mut from = vec![usize::MAX; time.len()];
    let mut last = (0.0, usize::MAX);
    for &i in &net.topological {
        let i = i as usize;
        let mut head = 0.0;
        for &b in &net.activities[i].before {
            if end[b as usize] > head {
                head = end[b as usize];
                from[i] = b as usize;
            }
        }
        end[i] = head + time[i];
        if last.1 == usize::MAX || end[i] > last.0 {
            last = (end[i], i);
        }
    }
    let mut path = Vec::new();
    let mut at = last.1;
    while at != usize::MAX {
        path.push(at);
        at = from[at];
    }
    path.reverse();
    (last.0, path)
}

/// Sets of tasks by their least head and tail.
struct Windows {
    heads: Vec<f64>,
    tails: Vec<f64>,
    /// The number of steps each activity's head and tail reach.
    at: Vec<(u8, u8)>,
}

struct Window {
    seconds: f64,
    offset: f64,
    resource: usize,
    head: usize,
    tail: usize,
}

/// Steps through a list of values, the first always 0.
fn steps(values: &[f64], many: bool) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let mut steps = vec![0.0];
    if many && sorted.len() > 1 {
        let wanted = STEPS.min(sorted.len() - 1);
        steps.extend((1..=wanted).map(|k| sorted[k * (sorted.len() - 1) / wanted]));
        steps.dedup();
    }
    steps
}

impl Windows {
    fn new(net: &Network, many: bool) -> Self {
        let shortest = net.shortest();
        let (head, tail) = (net.heads(&shortest), net.tails(&shortest));
        let (heads, tails) = (steps(&head, many), steps(&tail, many));
        let reach = |steps: &[f64], x: f64| (steps.partition_point(|&s| s <= x) - 1) as u8;
        let at = head
            .iter()
            .zip(&tail)
            .map(|(&h, &q)| (reach(&heads, h), reach(&tails, q)))
            .collect();
        Windows { heads, tails, at }
    }

    /// The window that asks for most time.
    fn best(&self, net: &Network, time_on: &[f64]) -> Window {
        let (resources, columns) = (net.resources.len(), self.tails.len());
        let mut best = Window {
            seconds: -1.0,
            offset: 0.0,
            resource: 0,
            head: 0,
            tail: 0,
        };
        let mut sums = vec![0.0; self.heads.len() * columns];
        for (r, &units) in net.resources.iter().enumerate() {
            sums.fill(0.0);
            for (i, &(h, q)) in self.at.iter().enumerate() {
                sums[usize::from(h) * columns + usize::from(q)] += time_on[i * resources + r];
            }
            // Sums over all larger heads and tails.
            for h in (0..self.heads.len()).rev() {
                let mut row = 0.0;
                for q in (0..columns).rev() {
                    row += sums[h * columns + q];
                    let above = if h + 1 < self.heads.len() {
                        sums[(h + 1) * columns + q]
                    } else {
                        0.0
                    };
                    sums[h * columns + q] = row + above;
                    if sums[h * columns + q] <= 0.0 {
                        continue;
                    }
                    let offset = self.heads[h] + self.tails[q];
                    let seconds = offset + sums[h * columns + q] / units as f64;
                    if seconds > best.seconds {
                        best = Window {
                            seconds,
                            offset,
                            resource: r,
                            head: h,
                            tail: q,
                        };
                    }
                }
            }
        }
        best
    }

    fn inside<'a>(&'a self, w: &'a Window) -> impl Iterator<Item = usize> + 'a {
        let inside = |&(_, &(h, q)): &(usize, &(u8, u8))| {
            usize::from(h) >= w.head && usize::from(q) >= w.tail
        };
        self.at.iter().enumerate().filter(inside).map(|(i, _)| i)
    }
}

/// A proven line under all plans: `joules ≥ value − price × T`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The joules at `T = 0`.
    pub value: f64,
    /// How many a second more may save; not negative.
    pub price: f64,
}

impl Goal {
    /// The least cost of anything that takes at least `seconds` and lies above all lines.
    pub(super) fn floor(&self, seconds: f64, lines: &[Line]) -> f64 {
        let joules = |t: f64| {
            let under = |l: &Line| match l.price {
                0.0 => l.value,
                price => l.value - price * t,
            };
            lines.iter().map(under).fold(0.0, f64::max)
        };
        match self.objective {
            Objective::Time => seconds,
            Objective::Energy => joules(self.deadline.unwrap_or(f64::INFINITY)),
            // On each line the product is concave in T, so it is least where lines meet or T begins.
            Objective::Edp => {
                let mut least = seconds * joules(seconds);
                for (i, a) in lines.iter().enumerate() {
                    for b in &lines[..i] {
                        let t = (a.value - b.value) / (a.price - b.price);
                        if t > seconds && t.is_finite() {
                            least = least.min(t * joules(t));
                        }
                    }
                }
                let end = self.deadline.unwrap_or(f64::INFINITY).max(seconds);
                if end.is_finite() {
                    least = least.min(end * joules(end));
                }
                least
            }
        }
    }
}

/// The bound of a network for a goal.
pub fn bound(net: &Network, goal: &Goal, rounds: usize) -> (Bound, Game) {
    let standing = net.standing_watts;
    let time = play(net, 1.0, 0.0, rounds, Sides::All);
    let seconds = time.value.max(0.0);
    let mut energy = play(net, standing, 1.0, rounds, Sides::All);
    let least = energy.value.max(standing * seconds + least_joules(net));
    let mut lines = vec![Line {
        value: least,
        price: 0.0,
    }];
    // Prices of time beside the standing watts. Which one is best depends on what the deadline or the
    // product is worth; the bound is concave in the price, so a coarse search and a finer one do.
    if goal.deadline.is_some() || goal.objective == Objective::Edp {
        let unit = standing
            .max(least / seconds.max(f64::MIN_POSITIVE))
            .max(1e-9);
        let mut best = (goal.floor(seconds, &lines), 0.0);
        let mut at = |price: f64, lines: &mut Vec<Line>, best: &mut (f64, f64)| {
            let game = play(net, standing + price, 1.0, rounds / 4 + 1, Sides::All);
            lines.push(Line {
                value: game.value,
                price,
            });
            let floor = goal.floor(seconds, lines);
            if floor > best.0 {
                *best = (floor, price);
                energy = game;
            }
        };
        for power in -3..=5 {
            at(unit * 2.0_f64.powi(power), &mut lines, &mut best);
        }
        for step in [1.4, 1.2, 1.1] {
            let centre = best.1;
            at(centre * step, &mut lines, &mut best);
            at(centre / step, &mut lines, &mut best);
        }
    }
    let joules = Goal {
        objective: Objective::Energy,
        ..*goal
    }
    .floor(seconds, &lines);
    let cost = goal.floor(seconds, &lines);
    let game = if goal.objective == Objective::Time {
        time
    } else {
        energy
    };
    let bound = Bound {
        cost,
        seconds,
        joules,
        path: game.on_path,
        work: game.on_work.clone(),
    };
    (bound, game)
}

/// What the tasks cost when each takes its cheapest way.
pub fn least_joules(net: &Network) -> f64 {
    let least = |i: usize| {
        net.activities[i]
            .ways
            .iter()
            .map(|w| w.joules)
            .fold(f64::INFINITY, f64::min)
    };
    (0..net.activities.len()).map(least).sum()
}
