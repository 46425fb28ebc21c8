//! The dual bound by Brown's fictitious play: multipliers of the constraints on time against divisions of tasks.
//!
//! Each side answers the other's average so far: the division takes every task's cheapest mode at the multipliers,
//! the multipliers go to the constraint that the division violates most. Nothing here knows what the weights mean.

use super::transfers::{Leg, NOBODY, PossibleTransfers};
use super::windows::Windows;
use crate::network::{ExecMode, Network};
use crate::problem::Problem;

/// The multipliers and the bound they give.
#[derive(Clone, Debug)]
pub(crate) struct DualBound {
    /// A lower bound on `w × T + v × joules` beyond the standing ones.
    pub value: f64,
    /// What a second costs in it beside the standing watts; set by the caller that tries several.
    pub price: f64,
    /// The constant of the best multipliers.
    pub constant: f64,
    /// Best multipliers: for each activity, the part that follows from paths.
    pub path: Vec<f64>,
    /// Best multipliers: for each activity and resource, the part that follows from work.
    pub work: Vec<f64>,
    /// Best multipliers: for each activity and memory, what follows from transfers if it runs there.
    pub place: Vec<f64>,
    /// Average use of each mode of each activity.
    pub shares: Vec<Vec<f64>>,
    /// Weight on each resource's work.
    pub on_work: Vec<f64>,
    /// Weight on paths.
    pub on_path: f64,
}

/// Iterations before the first question whether to go on, as multipliers are of no use before, and between two of them.
const LEAST: usize = 80;
const ASKED: usize = 16;

/// A step of a path: an activity, and by which of its legs the path came, if by one.
type Step = (usize, Option<usize>);

/// Which steps the time of a step is bounded for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Steps<'a> {
    /// One alone: paths and windows hold it.
    Alone,
    /// One of many that overlap: the work of units and links holds it, and a cycle through what a step leaves to the
    /// next. All of the cycle lies between two ends of its last task, so windows hold its tasks; those of other steps are
    /// between other ends.
    Overlapping(&'a Cycle),
}

/// Paths from tasks that read what the step before left to the task that leaves it.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    /// Whether an activity is on such a path.
    pub inside: Vec<bool>,
    /// Whether one begins with it.
    pub first: Vec<bool>,
    /// Where all of them end.
    pub last: usize,
    /// The least time from the end of `last` in the step before to the begin of each activity inside; 0 elsewhere.
    pub head: Vec<f64>,
    /// The least time from the end of each activity inside to the end of `last`; 0 elsewhere.
    pub tail: Vec<f64>,
}

impl Cycle {
    /// No paths among so many activities.
    pub(crate) fn none(activities: usize) -> Cycle {
        Cycle {
            inside: vec![false; activities],
            first: vec![false; activities],
            last: usize::MAX,
            head: vec![0.0; activities],
            tail: vec![0.0; activities],
        }
    }
}

/// Iterates so often, or less if `keep_going` says no, for the weights `w` and `v`.
pub(crate) fn dual_ascent(
    net: &Network,
    transfers: &PossibleTransfers,
    (w, v): (f64, f64),
    steps: Steps<'_>,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> DualBound {
    let n = net.activities.len();
    let resources = net.resources.len();
    let windows = match steps {
        Steps::Alone => Windows::new(net),
        Steps::Overlapping(cycle) => Windows::of(&cycle.head, &cycle.tail),
    };
    let mut now = DualBound::new(net, transfers);
    let mut best = now.clone();
    best.value = f64::NEG_INFINITY;
    let mut time = vec![0.0; n];
    let mut time_on = vec![0.0; n * resources];
    let mut places = vec![0.0; n * transfers.memories];
    for round in 0..rounds {
        if round >= LEAST && round.is_multiple_of(ASKED) && !keep_going() {
            break;
        }
        // The division answers the average multipliers; its value is the bound.
        let step = 2.0 / (round as f64 + 2.0);
        let value = now.divide(
            net,
            transfers,
            v,
            step,
            &mut time,
            &mut time_on,
            &mut places,
        );
        if value > best.value {
            now.value = value;
            best.clone_from(&now);
        }
        // The multipliers answer the average division.
        now.scale(1.0 - step);
        let needs: Vec<(u32, f64)> = transfers
            .all
            .iter()
            .map(|c| transfers.needed(c, &places))
            .collect();
        for (c, &(reader, _)) in needs.iter().enumerate() {
            now.charge(transfers, c, reader, step * v * transfers.all[c].joules);
        }
        let (length, path) = longest(net, transfers, &time, &places, steps);
        let window = windows.best(net, &time_on);
        let (busiest, link) = busiest(net, transfers, &needs);
        if busiest > length.max(window.seconds) {
            now.on_work[link] += step;
            let price = step * w / net.resources[link] as f64;
            for (c, &(reader, _)) in needs.iter().enumerate() {
                let transfer = &transfers.all[c];
                if transfer.link == Some(link) {
                    now.charge(transfers, c, reader, price * transfer.seconds);
                }
            }
        } else if window.seconds > length {
            now.constant += step * w * window.offset;
            now.on_work[window.resource] += step;
            let price = step * w / net.resources[window.resource] as f64;
            for i in windows.inside(&window) {
                now.work[i * resources + window.resource] += price;
            }
        } else {
            now.follow(transfers, &path, step, step * w, &places);
        }
    }
    best.shares = now.shares;
    best
}

impl DualBound {
    fn new(net: &Network, transfers: &PossibleTransfers) -> Self {
        let n = net.activities.len();
        let resources = net.resources.len();
        let zeros = |len: usize| vec![0.0; len];
        DualBound {
            value: 0.0,
            price: 0.0,
            constant: 0.0,
            path: zeros(n),
            work: zeros(n * resources),
            place: zeros(n * transfers.memories),
            shares: net
                .activities
                .iter()
                .map(|a| zeros(a.modes.len()))
                .collect(),
            on_work: zeros(resources),
            on_path: 0.0,
        }
    }

    /// What a mode of a task costs at the best multipliers, with joules at the weight `v`.
    pub(crate) fn cost(&self, problem: &Problem, v: f64, task: usize, mode: &ExecMode) -> f64 {
        let resource = usize::from(mode.resource);
        // Empty where transfers are not priced.
        let place = task * problem.memories.len() + problem.groups[resource].memory;
        let place = self.place.get(place).copied().unwrap_or(0.0);
        let price = self.path[task] + self.work[task * self.on_work.len() + resource];
        v * mode.joules + price * mode.seconds + place
    }

    /// Each activity takes its cheapest mode; the averages follow. Returns what all of them cost.
    #[allow(clippy::too_many_arguments)]
    fn divide(
        &mut self,
        net: &Network,
        transfers: &PossibleTransfers,
        v: f64,
        step: f64,
        time: &mut [f64],
        time_on: &mut [f64],
        places: &mut [f64],
    ) -> f64 {
        let (resources, memories) = (net.resources.len(), transfers.memories);
        let mut value = self.constant;
        for (i, a) in net.activities.iter().enumerate() {
            let mut cheapest = (f64::INFINITY, 0);
            for (k, mode) in a.modes.iter().enumerate() {
                let resource = usize::from(mode.resource);
                let price = self.path[i] + self.work[i * resources + resource];
                let mut cost = v * mode.joules + price * mode.seconds;
                if memories > 0 {
                    cost += self.place[i * memories + transfers.memory[resource]];
                }
                if cost < cheapest.0 {
                    cheapest = (cost, k);
                }
            }
            value += cheapest.0;
            for mode in &a.modes {
                time_on[i * resources + usize::from(mode.resource)] = 0.0;
            }
            time[i] = 0.0;
            places[i * memories..(i + 1) * memories].fill(0.0);
            for (k, (share, mode)) in self.shares[i].iter_mut().zip(&a.modes).enumerate() {
                let resource = usize::from(mode.resource);
                *share = *share * (1.0 - step) + if k == cheapest.1 { step } else { 0.0 };
                time[i] += *share * mode.seconds;
                time_on[i * resources + resource] += *share * mode.seconds;
                if memories > 0 {
                    places[i * memories + transfers.memory[resource]] += *share;
                }
            }
        }
        value
    }

    fn scale(&mut self, by: f64) {
        self.constant *= by;
        self.on_path *= by;
        let all = [
            &mut self.path,
            &mut self.work,
            &mut self.place,
            &mut self.on_work,
        ];
        for list in all {
            list.iter_mut().for_each(|x| *x *= by);
        }
    }

    /// A reader pays for being where a carry goes, unless the writer is there.
    fn charge(&mut self, transfers: &PossibleTransfers, c: usize, reader: u32, price: f64) {
        if reader == NOBODY || price == 0.0 {
            return;
        }
        let transfer = &transfers.all[c];
        let at = |t: u32| t as usize * transfers.memories + transfer.to;
        self.place[at(reader)] += price;
        if transfer.writer != NOBODY {
            self.place[at(transfer.writer)] -= price;
        }
    }

    /// Puts a price on the times along a path.
    fn follow(
        &mut self,
        transfers: &PossibleTransfers,
        path: &[Step],
        weight: f64,
        price: f64,
        places: &[f64],
    ) {
        self.on_path += weight;
        for &(i, leg) in path {
            self.path[i] += price;
            if let Some(leg) = leg {
                for &c in &transfers.legs[i][leg].transfers {
                    let transfer = &transfers.all[c as usize];
                    if transfers.part(transfer, i as u32, places) > 0.0 {
                        self.charge(transfers, c as usize, i as u32, price * transfer.delay);
                    }
                }
            }
        }
    }
}

/// The longest path for these times and places, first activity first.
fn longest(
    net: &Network,
    transfers: &PossibleTransfers,
    time: &[f64],
    places: &[f64],
    steps: Steps<'_>,
) -> (f64, Vec<Step>) {
    // Where paths may begin; nothing is reached before.
    let begin = |i: usize| match steps {
        Steps::Overlapping(cycle) if !cycle.first[i] => f64::NEG_INFINITY,
        _ => 0.0,
    };
    // When what nobody of this step wrote exists. Among others, what counts is the end of the cycle's last task.
    let found = |leg: &Leg| match steps {
        Steps::Overlapping(cycle) if transfers.writer(leg) != Some(cycle.last) => f64::NEG_INFINITY,
        _ => 0.0,
    };
    let mut end = vec![0.0_f64; time.len()];
    let mut from: Vec<(usize, Option<usize>)> = vec![(usize::MAX, None); time.len()];
    let mut last = (0.0, usize::MAX);
    for &i in &net.topological {
        let i = i as usize;
        if let Steps::Overlapping(cycle) = steps
            && !cycle.inside[i]
        {
            end[i] = f64::NEG_INFINITY;
            continue;
        }
        let mut head = begin(i);
        for &b in &net.activities[i].before {
            if end[b as usize] > head {
                head = end[b as usize];
                from[i] = (b as usize, None);
            }
        }
        for (k, leg) in transfers.legs.get(i).into_iter().flatten().enumerate() {
            let delay: f64 = leg
                .transfers
                .iter()
                .map(|&c| &transfers.all[c as usize])
                .map(|c| transfers.part(c, i as u32, places).max(0.0) * c.delay)
                .sum();
            let exists = end.get(leg.after as usize).copied();
            let exists = exists.unwrap_or_else(|| found(leg));
            if delay > 0.0 && exists + delay > head {
                head = exists + delay;
                let before = if leg.after == NOBODY {
                    usize::MAX
                } else {
                    leg.after as usize
                };
                from[i] = (before, Some(k));
            }
        }
        end[i] = head + time[i];
        let ends = match steps {
            Steps::Overlapping(cycle) => i == cycle.last,
            Steps::Alone => last.1 == usize::MAX || end[i] > last.0,
        };
        if ends {
            last = (end[i], i);
        }
    }
    let mut path = Vec::new();
    let mut at = last.1;
    while at != usize::MAX {
        path.push((at, from[at].1));
        at = from[at].0;
    }
    path.reverse();
    (last.0, path)
}

/// The link with most to carry, and the seconds that takes.
fn busiest(net: &Network, transfers: &PossibleTransfers, needs: &[(u32, f64)]) -> (f64, usize) {
    let mut work = vec![0.0; net.resources.len()];
    for (c, need) in transfers.all.iter().zip(needs) {
        if let Some(link) = c.link {
            work[link] += need.1 * c.seconds;
        }
    }
    let each = work.iter().zip(&net.resources).enumerate();
    each.map(|(r, (&work, &n))| (work / n as f64, r))
        .fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a })
}
