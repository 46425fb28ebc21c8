//! Load levelling: equal units made to end at the same time, the last digits of a plan that is limited by work.
//!
//! Where nothing but work limits a plan, equal units should all end at the mean of their ends. Local search gets
//! there to a part in ten thousand; the rest is number partitioning. Exchanges of two tasks between two units that
//! by themselves leave no gap are combined, two and four at a time, so that both units end together; then the next
//! two, the most unequal first. If the exchanges together leave a gap after all they are not made. Some random
//! exchanges between tries give other numbers to add.
//!
//! Only for few tasks, where there is one memory with room enough. Execution modes are not changed.

use dahl_core::random::Random;

use super::network::Network;
use super::problem::Goal;
use super::timeline::Started;

/// Most combinations that are performed for one unit in one try.
const PERFORMED: usize = 400;

/// Random exchanges before each try; this many if there are gaps, a few if there are none.
const SHUFFLES: usize = 2000;
const FEW: usize = 24;

/// Most tasks of a plan that is worth it: with more of them, local search gets near enough.
const MOST: usize = 128;

/// Exchanges that are combined.
const EXCHANGES: usize = 250;

/// Pairs of units evened out in one try.
const LEVELS: usize = 40;

/// Tasks in the order in which each unit runs them.
#[derive(Clone)]
struct UnitOrders {
    units: Vec<Vec<u32>>,
    ends: Vec<f64>,
}

/// An exchange of two tasks between two units, by their places, and what the first unit gains.
#[derive(Clone, Copy)]
struct Exchange {
    gain: f64,
    first: u16,
    second: u16,
}

struct Leveller<'n> {
    net: &'n Network,
    /// Seconds and mode of each task.
    seconds: Vec<f64>,
    mode: Vec<u16>,
    /// Units of each resource: where they begin.
    from: Vec<usize>,
    /// When each task starts and ends in the plan performed last.
    start: Vec<f64>,
    end: Vec<f64>,
    next: Vec<usize>,
    dice: (Random, u64),
}

/// A better plan than `log` and its cost, looked for until it costs at most `enough`, for so many tries
/// at most. `None` if this one cannot be bettered here.
pub(crate) fn level_loads(
    net: &Network,
    goal: &Goal,
    log: &[Started],
    enough: f64,
    tries: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> Option<(f64, Vec<Started>)> {
    let moves = net.activities.len() != net.tasks;
    if !net.copies.is_empty() || moves || log.len() != net.tasks || net.tasks > MOST {
        return None;
    }
    let mut from = vec![0];
    for &count in &net.resources {
        from.push(from.last()? + count);
    }
    let units = *from.last()?;
    let mut order: Vec<&Started> = log.iter().collect();
    order.sort_by(|a, b| a.start.total_cmp(&b.start));
    let mut start = UnitOrders {
        units: vec![Vec::new(); units],
        ends: vec![0.0; units],
    };
    let (mut seconds, mut mode) = (vec![0.0; net.tasks], vec![0; net.tasks]);
    let mut joules = 0.0;
    for s in order {
        let w = &net.activities[s.activity as usize].modes[usize::from(s.mode)];
        let unit = from[usize::from(w.resource)] + usize::from(s.unit);
        start.units[unit].push(s.activity);
        seconds[s.activity as usize] = w.seconds;
        mode[s.activity as usize] = s.mode;
        joules += w.joules;
    }
    let mut leveller = Leveller {
        net,
        seconds,
        mode,
        start: vec![0.0; net.tasks],
        end: vec![0.0; net.tasks],
        next: Vec::new(),
        from,
        dice: (Random::new(1, 23), 0),
    };
    if !leveller.perform(&mut start) {
        return None;
    }
    let latest = |p: &UnitOrders| p.ends.iter().copied().fold(0.0, f64::max);
    let cost = |p: &UnitOrders| match latest(p) {
        late if !goal.in_time(late) => f64::INFINITY,
        seconds => goal.cost(seconds, joules + net.standing_watts * seconds),
    };
    let sum = |p: &UnitOrders| p.ends.iter().sum::<f64>();
    let (first, mut best) = (latest(&start), start.clone());
    let mut now = start;
    for _ in 0..tries {
        let mut plan = now.clone();
        leveller.shuffle(&mut plan);
        for r in 0..net.resources.len() {
            leveller.level(&mut plan, r);
        }
        if latest(&plan) < latest(&best) {
            best = plan.clone();
        }
        // Fewer gaps are worth more than an earlier end.
        if sum(&plan) < sum(&now) * (1.0 - 1e-9) || latest(&plan) < latest(&now) {
            now = plan;
        }
        if cost(&best) <= enough || !keep_going() {
            break;
        }
    }
    (latest(&best) < first).then(|| (cost(&best), leveller.log(&mut best)))
}

impl Leveller<'_> {
    /// Starts everything as early as it can, in the order of its unit. False if tasks wait in a circle.
    fn perform(&mut self, plan: &mut UnitOrders) -> bool {
        self.next.clear();
        self.next.resize(plan.units.len(), 0);
        self.end.fill(f64::NAN);
        plan.ends.fill(0.0);
        let mut left = self.net.tasks;
        while left > 0 {
            let before = left;
            for (u, tasks) in plan.units.iter().enumerate() {
                while let Some(&t) = tasks.get(self.next[u]) {
                    let mut start = plan.ends[u];
                    for &b in &self.net.activities[t as usize].before {
                        // Not a number if it has not run yet, and stays that.
                        let end = self.end[b as usize];
                        start = if end > start || end.is_nan() {
                            end
                        } else {
                            start
                        };
                        if end.is_nan() {
                            break;
                        }
                    }
                    if start.is_nan() {
                        break;
                    }
                    self.start[t as usize] = start;
                    plan.ends[u] = start + self.seconds[t as usize];
                    self.end[t as usize] = plan.ends[u];
                    self.next[u] += 1;
                    left -= 1;
                }
            }
            if left == before {
                return false;
            }
        }
        true
    }

    /// Whether a plan can be performed with no more gaps than the ends so far allow.
    fn holds(&mut self, plan: &mut UnitOrders, ends: f64) -> bool {
        self.perform(plan) && plan.ends.iter().sum::<f64>() <= ends * (1.0 + 1e-12)
    }

    fn below(&mut self, n: usize) -> usize {
        self.dice.1 += 1;
        self.dice.0.below(self.dice.1, n.max(1) as u64) as usize
    }

    /// Random exchanges between equal units, or in the order of one, that leave no more gaps than there
    /// are; many, and moves from one place to another too, while there are any.
    fn shuffle(&mut self, plan: &mut UnitOrders) {
        let work: f64 = self.seconds.iter().sum();
        let mut ends: f64 = plan.ends.iter().sum();
        for k in 0..SHUFFLES {
            let gaps = ends > work * (1.0 + 1e-9);
            if k >= FEW && !gaps {
                break;
            }
            let r = self.below(self.net.resources.len());
            let (from, to) = (self.from[r], self.from[r + 1]);
            let a = from + self.below(to - from);
            let b = from + self.below(to - from);
            let (i, j) = (
                self.below(plan.units[a].len()),
                self.below(plan.units[b].len()),
            );
            if i < plan.units[a].len() && j < plan.units[b].len() && (a, i) != (b, j) {
                let mut next = plan.clone();
                if gaps && self.below(2) == 0 {
                    let task = next.units[a].remove(i);
                    let at = j.min(next.units[b].len());
                    next.units[b].insert(at, task);
                } else {
                    swap(&mut next, a, b, i, j);
                }
                if self.holds(&mut next, ends) {
                    *plan = next;
                    ends = plan.ends.iter().sum();
                }
            }
        }
    }

    /// Evens out the ends of a resource's units, the most unequal pair first, until no pair can be.
    fn level(&mut self, plan: &mut UnitOrders, resource: usize) {
        let units = self.from[resource]..self.from[resource + 1];
        for _ in 0..LEVELS {
            let mut pairs: Vec<(usize, usize)> = Vec::new();
            for a in units.clone() {
                let later = |&b: &usize| plan.ends[a] > plan.ends[b];
                pairs.extend(units.clone().filter(later).map(|b| (a, b)));
            }
            let by = |&(a, b): &(usize, usize)| plan.ends[b] - plan.ends[a];
            pairs.sort_by(|x, y| by(x).total_cmp(&by(y)));
            if !pairs.into_iter().any(|(a, b)| self.settle(plan, a, b)) {
                return;
            }
        }
    }

    /// Exchanges tasks between two units so that they end as nearly together as can be found; false if
    /// that is no nearer than now.
    fn settle(&mut self, plan: &mut UnitOrders, a: usize, b: usize) -> bool {
        let ends: f64 = plan.ends.iter().sum();
        let want = (plan.ends[a] - plan.ends[b]) / 2.0;
        if want <= 1e-9 * plan.ends[a] {
            return false;
        }
        let mut single = vec![Exchange {
            gain: 0.0,
            first: u16::MAX,
            second: u16::MAX,
        }];
        let (rows, columns) = (plan.units[a].len(), plan.units[b].len());
        // All of them, or so many from a random one on.
        let first = self.below(rows * columns);
        for k in 0..rows * columns {
            let at = (first + k) % (rows * columns);
            let (i, j) = (at / columns, at % columns);
            let mut next = plan.clone();
            swap(&mut next, a, b, i, j);
            if self.holds(&mut next, ends) {
                let of = |t: u32| self.seconds[t as usize];
                single.push(Exchange {
                    gain: of(plan.units[a][i]) - of(plan.units[b][j]),
                    first: i as u16,
                    second: j as u16,
                });
            }
            if single.len() == EXCHANGES {
                break;
            }
        }
        let mut double: Vec<(f64, u16, u16)> = Vec::new();
        for (x, s) in single.iter().enumerate() {
            for (y, t) in single[..x].iter().enumerate() {
                if apart(s, t) {
                    double.push((s.gain + t.gain, x as u16, y as u16));
                }
            }
        }
        double.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Those of four that come nearest.
        let mut near: Vec<(f64, usize, usize)> = Vec::new();
        let within = want.min(1e-5 * plan.ends[a]);
        for (k, d) in double.iter().enumerate() {
            let low = double.partition_point(|e| e.0 < want - d.0 - within);
            for (l, e) in double.iter().enumerate().skip(low.max(k + 1)) {
                let off = d.0 + e.0 - want;
                if off > within {
                    break;
                }
                near.push((off.abs(), k, l));
            }
        }
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(PERFORMED);
        // Or of two, however near.
        let far = |d: &(f64, u16, u16)| (d.0 - want).abs();
        let mut pairs: Vec<usize> = (0..double.len())
            .filter(|&k| far(&double[k]) < want)
            .collect();
        pairs.sort_by(|&a, &b| far(&double[a]).total_cmp(&far(&double[b])));
        pairs.truncate(PERFORMED);
        let four = near.into_iter().map(|(_, k, l)| vec![k, l]);
        for combined in four.chain(pairs.into_iter().map(|k| vec![k])) {
            let each = combined.iter().flat_map(|&k| [double[k].1, double[k].2]);
            let all: Vec<Exchange> = each.map(|x| single[usize::from(x)]).collect();
            let clash = |(x, e): (usize, &Exchange)| all[..x].iter().any(|o| !apart(e, o));
            if all.iter().enumerate().any(clash) {
                continue;
            }
            let mut next = plan.clone();
            for x in all.iter().filter(|x| x.first != u16::MAX) {
                swap(&mut next, a, b, usize::from(x.first), usize::from(x.second));
            }
            if self.holds(&mut next, ends) && next.ends[a].max(next.ends[b]) < plan.ends[a] {
                *plan = next;
                return true;
            }
        }
        false
    }

    fn log(&mut self, plan: &mut UnitOrders) -> Vec<Started> {
        self.perform(plan);
        let mut log = Vec::with_capacity(self.net.tasks);
        for range in self.from.windows(2) {
            for u in range[0]..range[1] {
                for &t in &plan.units[u] {
                    log.push(Started {
                        activity: t,
                        mode: self.mode[t as usize],
                        unit: (u - range[0]) as u16,
                        start: self.start[t as usize],
                        end: self.end[t as usize],
                    });
                }
            }
        }
        log.sort_by(|a, b| a.start.total_cmp(&b.start));
        log
    }
}

/// Whether two exchanges have no task in common.
fn apart(a: &Exchange, b: &Exchange) -> bool {
    let none = a.first == u16::MAX || b.first == u16::MAX;
    none || (a.first != b.first && a.second != b.second)
}

fn swap(plan: &mut UnitOrders, a: usize, b: usize, i: usize, j: usize) {
    let x = plan.units[a][i];
    plan.units[a][i] = plan.units[b][j];
    plan.units[b][j] = x;
}
