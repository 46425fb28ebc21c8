//! The frontier: for iteration times from the fastest possible to the thriftiest, the least joules found and a bound.
//!
//! A unit that waits draws W watts, so the joules of S stages in T seconds are S·W·T plus, for each computation, its
//! joules above waiting. Over convex combinations of options this is the time–cost trade-off problem; its dual is a
//! circulation (Kelley 1961, Fulkerson 1961). Flow through a computation is what a second less of it is worth, flow
//! back from the end to the begin what a second less of the iteration is. Any flow gives a lower bound by weak duality,
//! which is evaluated with the options themselves: that the flow was found in whole numbers does not matter.

use dahl_core::report::Table;
use dahl_core::{Joules, Watts};
use serde::Serialize;

use super::dive;
use super::iteration::Iteration;
use super::options::{Choice, EnergyError, OptionTable};
use super::round::Rounding;
use super::rounds::Rounds;
use super::simplex::{Arc, FREE, Simplex};
use super::splice;

/// One point of a frontier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EnergyPoint {
    /// How long an iteration takes.
    pub seconds: f64,
    /// What it costs, waiting included.
    pub joules: f64,
    /// No choice of frequencies costs less in that time.
    pub lower_bound: f64,
}

/// Points from the fastest to the thriftiest.
#[derive(Clone, Debug, Serialize)]
pub struct EnergyFrontier {
    /// Rising seconds, falling joules.
    pub points: Vec<EnergyPoint>,
}

impl EnergyFrontier {
    /// For people.
    pub fn table(&self) -> Table {
        let mut table = Table::new(">time|>energy|>no less than|>gap|>mean power");
        for point in &self.points {
            let gap = 100.0 * (point.joules / point.lower_bound - 1.0);
            table.row([
                format!("{:.6} s", point.seconds),
                Joules(point.joules).to_string(),
                Joules(point.lower_bound).to_string(),
                format!("{gap:.3} %"),
                Watts(point.joules / point.seconds.max(f64::MIN_POSITIVE)).to_string(),
            ]);
        }
        table
    }
}

/// How finely time and power are counted inside: picoseconds and microwatts.
pub(super) const PICO: f64 = 1e12;
const MICRO: f64 = 1e6;
/// How far above its bound a point is good enough.
const NEAR: f64 = 1.002;
/// How much nearer to the fastest time options are left out anew.
const NEARER: f64 = 8.0;
/// Times that differ by less than this part are the same.
const SAME: f64 = 1e-9;
/// More computations than this take too long.
const MOST: usize = 100_000;

/// The frontier of an iteration of 1F1B over so many micro-batches, at so many times; a waiting unit draws `watts`.
///
/// # Errors
/// If a number makes no sense.
pub fn energy_frontier(
    table: &OptionTable,
    micro_batches: usize,
    watts: f64,
    points: usize,
) -> Result<EnergyFrontier, EnergyError> {
    let stages = table.stages.len();
    let lacking = |text: String| Err(EnergyError::Lacking(text));
    if micro_batches == 0 || points == 0 {
        return lacking(
            "an iteration needs at least one micro-batch, and a frontier one point".into(),
        );
    }
    if stages.saturating_mul(2 * micro_batches) > MOST {
        return lacking(format!(
            "{stages} stages with {micro_batches} micro-batches have more than {MOST} computations; give fewer"
        ));
    }
    if !(watts.is_finite() && watts >= 0.0) {
        return lacking(format!(
            "waiting at {watts} W; give watts that are not negative"
        ));
    }
    let iteration = Iteration::one_f_one_b(stages, micro_batches);
    let options = table.useful(watts);
    let rounding = Rounding {
        iteration: &iteration,
        options: &options,
        corners: hulls(&options, watts)
            .into_iter()
            .map(|s| s.map(|all| all.into_iter().map(|(choice, _)| choice).collect()))
            .collect(),
        watts,
    };
    let mut dual = Dual::new(&iteration, &options, watts, f64::INFINITY);
    let fastest: Vec<f64> = dual.seconds(|all| all[0].seconds);
    let shortest = iteration.makespan(&fastest);
    let longest = dual.thriftiest().max(shortest);
    let rounds = Rounds::new(&rounding);
    let mut found: Vec<Found> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    for place in (0..points).rev() {
        // Closer to each other where the frontier is steep.
        let part = place as f64 / (points.max(2) - 1) as f64;
        let end = shortest + (longest - shortest) * part * part;
        // What is impossible in more time is impossible in less: solving from the beginning pays where much more is.
        let nearer = (end - shortest) * NEARER <= dual.until - shortest;
        if nearer && dual.has_too_slow(end) {
            dual = Dual::new(&iteration, &options, watts, end);
        }
        let windows = dual.windows(end);
        lines.push(dual.line());
        let mut chosen = rounding.round(&windows, end);
        let even = rounds.best(&rounding, end);
        if rounding.rate(&even).1 < rounding.rate(&chosen).1 {
            chosen = even;
        }
        // A few computations at a time where all at once loses too much.
        if rounding.rate(&chosen).1 > lines[lines.len() - 1].at(end) * NEAR {
            chosen = dive::best(&dual, &rounding, chosen, end);
        }
        found.push(Found::new(&rounding, end, chosen));
        if longest <= shortest {
            break;
        }
    }
    splice::improve(&rounding, &mut found);
    let points = found.iter().map(|found| EnergyPoint {
        seconds: found.seconds,
        joules: found.joules,
        lower_bound: lines
            .iter()
            .map(|line| line.at(found.seconds))
            .fold(0.0, f64::max),
    });
    let mut points: Vec<EnergyPoint> = points.collect();
    points.sort_by(|a, b| {
        a.seconds
            .total_cmp(&b.seconds)
            .then(a.joules.total_cmp(&b.joules))
    });
    let mut kept: Vec<EnergyPoint> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|last| point.joules < last.joules) {
            kept.push(point);
        }
    }
    Ok(EnergyFrontier { points: kept })
}

/// Options of all computations that end in time, and what they come to.
pub(super) struct Found {
    /// When all must have ended.
    pub(super) end: f64,
    pub(super) chosen: Vec<usize>,
    pub(super) seconds: f64,
    pub(super) joules: f64,
}

impl Found {
    pub(super) fn new(rounding: &Rounding<'_>, end: f64, chosen: Vec<usize>) -> Found {
        let (seconds, joules) = rounding.rate(&chosen);
        Found {
            end,
            chosen,
            seconds,
            joules,
        }
    }
}

/// A lower bound for every iteration time, or for those up to some time: by weak duality a flow gives one that is linear in it.
struct Line {
    at_zero: f64,
    watts: f64,
    until: f64,
}

impl Line {
    fn at(&self, seconds: f64) -> f64 {
        match seconds <= self.until * (1.0 + SAME) {
            // Sums of thousands of terms: allow for their rounding.
            true => (self.at_zero + self.watts * seconds) * (1.0 - 1e-12),
            false => 0.0,
        }
    }
}

/// The circulation and what it means.
pub(super) struct Dual<'a> {
    pub(super) iteration: &'a Iteration,
    options: &'a [[Vec<Choice>; 2]],
    watts: f64,
    pub(super) simplex: Simplex,
    /// For each computation, its first and last arc.
    pub(super) arcs: Vec<(usize, usize)>,
    /// The arc from the end to the begin.
    back: usize,
    /// Which iteration times it is for: options are left out with which none up to that is possible.
    until: f64,
    /// How many options of each computation are left, the fastest.
    left: Vec<usize>,
    /// The longest way through each computation beside itself, all others at their fastest.
    beside: Vec<f64>,
}

/// The corners of the lower convex hull of options: which, and what a second less than it has costs.
fn hull(all: &[Choice], watts: f64) -> Vec<(usize, f64)> {
    let cost = |c: &Choice| c.joules - watts * c.seconds;
    let slope = |a: &Choice, b: &Choice| (cost(a) - cost(b)) / (b.seconds - a.seconds);
    let mut kept: Vec<usize> = Vec::new();
    for (c, choice) in all.iter().enumerate() {
        while let [.., a, b] = kept[..]
            && slope(&all[a], &all[b]) <= slope(&all[b], choice)
        {
            kept.pop();
        }
        kept.push(c);
    }
    let faster = kept
        .windows(2)
        .map(|w| (w[1], slope(&all[w[0]], &all[w[1]])));
    let first = kept.first().map(|&c| (c, f64::INFINITY));
    first.into_iter().chain(faster).collect()
}

/// How many options, the fastest first, take no more than so many seconds; the fastest does.
fn in_time(all: &[Choice], seconds: f64) -> usize {
    let fits = all.partition_point(|c| c.seconds <= seconds);
    fits.max(1)
}

/// The hulls of all stages.
fn hulls(options: &[[Vec<Choice>; 2]], watts: f64) -> Vec<[Vec<(usize, f64)>; 2]> {
    let stages = options.iter();
    stages
        .map(|s| s.each_ref().map(|all| hull(all, watts)))
        .collect()
}

impl<'a> Dual<'a> {
    /// Of iterations of no more than so many seconds.
    fn new(
        iteration: &'a Iteration,
        options: &'a [[Vec<Choice>; 2]],
        watts: f64,
        until: f64,
    ) -> Dual<'a> {
        let count = iteration.len();
        let (begin, end) = (2 * count as u32, 2 * count as u32 + 1);
        let of = |v: usize| {
            let (stage, instruction) = iteration.kind[v];
            &options[stage][instruction]
        };
        let fastest: Vec<f64> = (0..count).map(|v| of(v)[0].seconds).collect();
        let (heads, tails) = (iteration.heads(&fastest), iteration.tails(&fastest));
        let beside: Vec<f64> = heads.iter().zip(&tails).map(|(h, t)| h + t).collect();
        let left: Vec<usize> = (0..count)
            .map(|v| in_time(of(v), until * (1.0 + 2.0 * SAME) - beside[v]))
            .collect();
        let whole = hulls(options, watts);
        let mut arcs = Vec::new();
        let mut ranges = Vec::with_capacity(count);
        for (v, &(stage, instruction)) in iteration.kind.iter().enumerate() {
            let first = arcs.len();
            let mut carried = 0;
            let own = match left[v] < of(v).len() {
                true => &hull(&of(v)[..left[v]], watts),
                false => &whole[stage][instruction],
            };
            // The slowest first: the first watts are worth all of its time.
            for &(choice, slope) in own.iter().rev() {
                let seconds = options[stage][instruction][choice].seconds;
                let total = (slope * MICRO).clamp(1.0, FREE as f64) as i64;
                if total > carried {
                    arcs.push(Arc {
                        from: 2 * v as u32,
                        to: 2 * v as u32 + 1,
                        capacity: if total >= FREE { FREE } else { total - carried },
                        // Rounded down, so that no way is longer than it is.
                        cost: -((seconds * PICO).floor() as i64),
                    });
                    carried = total;
                }
            }
            ranges.push((first, arcs.len() - 1));
        }
        let free = |from: u32, to: u32| Arc {
            from,
            to,
            capacity: FREE,
            cost: 0,
        };
        // The tree leads from everywhere to the end, along the longest ways.
        let slowest: Vec<f64> = (0..count)
            .map(|v| -(arcs[ranges[v].0].cost as f64))
            .collect();
        let tails = iteration.tails(&slowest);
        let way = |v: u32| tails[v as usize] + slowest[v as usize];
        let mut link = vec![u32::MAX; 2 * count + 2];
        for v in 0..count {
            link[2 * v] = ranges[v].0 as u32;
            let next = iteration.next[v].iter().copied();
            let longest = next.max_by(|&a, &b| way(a).total_cmp(&way(b)));
            for &w in &iteration.next[v] {
                if Some(w) == longest {
                    link[2 * v + 1] = arcs.len() as u32;
                }
                arcs.push(free(2 * v as u32 + 1, 2 * w));
            }
            if longest.is_none() {
                link[2 * v + 1] = arcs.len() as u32;
                arcs.push(free(2 * v as u32 + 1, end));
            }
        }
        let starts = (0..count as u32).filter(|&v| iteration.waits[v as usize].is_empty());
        let mut longest = f64::NEG_INFINITY;
        for v in starts {
            if way(v) > longest {
                longest = way(v);
                link[begin as usize] = arcs.len() as u32;
            }
            arcs.push(free(begin, 2 * v));
        }
        let back = arcs.len();
        arcs.push(Arc {
            from: end,
            to: begin,
            capacity: FREE,
            cost: i64::MAX / 8,
        });
        Dual {
            iteration,
            options,
            watts,
            simplex: Simplex::new(arcs, link, end),
            arcs: ranges,
            back,
            until,
            left,
            beside,
        }
    }

    /// The options of a computation that may be possible.
    pub(super) fn of(&self, v: usize) -> &'a [Choice] {
        let (stage, instruction) = self.iteration.kind[v];
        &self.options[stage][instruction][..self.left[v]]
    }

    /// Whether it has options with which no iteration of so many seconds is possible.
    fn has_too_slow(&self, end: f64) -> bool {
        (0..self.left.len())
            .any(|v| in_time(self.of(v), end * (1.0 + 2.0 * SAME) - self.beside[v]) < self.left[v])
    }

    fn seconds(&self, of: impl Fn(&[Choice]) -> f64) -> Vec<f64> {
        (0..self.iteration.len()).map(|v| of(self.of(v))).collect()
    }

    /// The time at which a second more costs as much in waiting as it saves.
    fn thriftiest(&mut self) -> f64 {
        let watts = self.watts * self.options.len() as f64;
        let slowest = self.seconds(|all| all[all.len() - 1].seconds);
        let mut high = self.iteration.makespan(&slowest);
        let mut low = self.iteration.makespan(&self.seconds(|all| all[0].seconds));
        // The worth of a second falls with time.
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if self.at(middle) <= watts {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// Solves for an iteration time; what a second less of it is worth, in watts.
    fn at(&mut self, end: f64) -> f64 {
        let steps = 200 * self.simplex.arcs.len() + 1000;
        self.simplex
            .set_cost(self.back, (end * PICO).ceil() as i64 + 1);
        self.simplex.solve(steps);
        self.simplex.flow[self.back] as f64 / MICRO
    }

    /// When each computation may begin and must have ended in an iteration of so many seconds.
    fn windows(&mut self, end: f64) -> Vec<(f64, f64)> {
        self.at(end);
        let price = &self.simplex.price;
        let begin = price[2 * self.iteration.len()];
        let seconds = |node: usize| (begin - price[node]) as f64 / PICO;
        (0..self.iteration.len())
            .map(|v| (seconds(2 * v), seconds(2 * v + 1)))
            .collect()
    }

    /// Joules that no choice undercuts, by the flow of the last solution.
    fn line(&self) -> Line {
        let flow = |arcs: (usize, usize)| -> f64 {
            let whole: i64 = self.simplex.flow[arcs.0..=arcs.1].iter().sum();
            whole as f64 / MICRO
        };
        let cheapest = (0..self.iteration.len()).map(|v| {
            let worth = flow(self.arcs[v]);
            let cost = |c: &Choice| c.joules - self.watts * c.seconds + worth * c.seconds;
            self.of(v).iter().map(cost).fold(f64::INFINITY, f64::min)
        });
        Line {
            at_zero: cheapest.sum::<f64>(),
            watts: self.watts * self.options.len() as f64 - flow((self.back, self.back)),
            until: self.until,
        }
    }
}
