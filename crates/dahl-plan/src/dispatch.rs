//! Dispatching by dual prices: units take what they are good at, whenever they become free.
//!
//! The multipliers of the bound price each execution mode of a task; its *reduced cost* is what it costs beyond the
//! task's cheapest mode. Tasks are started in the order of time: a free unit takes, of the ready tasks whose reduced
//! cost there its [`Rule`] allows, the one that scores most, and waits where there is none. Links are taken to be
//! free and memories to be large: the code that turns the choice into a plan sees what becomes of it.

use super::bound::DualBound;
use super::list::{Choice, by_start};
use super::network::{Frame, Network};
use super::problem::Origin;

/// What each mode of each task costs at the multipliers, beyond the cheapest.
pub(crate) fn reduced_costs(frame: &Frame<'_>, dual: &DualBound, v: f64) -> Vec<Vec<f64>> {
    let p = frame.problem;
    let one = |t: usize| {
        let modes = frame.modes[p.tasks[t] as usize].iter();
        let costs: Vec<f64> = modes.map(|w| dual.cost(p, v, t, w)).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        costs.into_iter().map(|c| c - least).collect()
    };
    (0..p.tasks.len()).map(one).collect()
}

/// How units choose. Reduced costs and likings count in costs of a mean task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// For each group, the most that a task's mode there may cost beyond its cheapest.
    pub limits: Vec<f64>,
    /// How much more urgent a task is for being late in the graph: 0 goes by the longest path that follows.
    pub depth: f64,
    /// What part of the longest path one is worth by which a task's reduced cost is less here than elsewhere: at
    /// 0 units go by urgency alone, far above 1 by what they are best at (HeteroPrio: Agullo et al., 2015).
    pub liking: f64,
}

/// What all plans of one problem share.
pub(crate) struct Dispatch<'a, 'p> {
    frame: &'a Frame<'p>,
    relaxed: &'a Network,
    /// What a mean task costs.
    pub mean: f64,
    /// The longest path that follows each task, itself included, at the relaxation's times.
    tail: Vec<f64>,
    /// The longest path that precedes each task, at the shortest times.
    head: Vec<f64>,
    reads: Vec<Vec<u32>>,
}

/// The best mode of a task on a group; an infinite reduced cost if there is none.
#[derive(Clone, Copy)]
struct Offer {
    mode: usize,
    reduced_cost: f64,
    score: f64,
}

/// The state of one plan.
struct Now {
    time: f64,
    /// For each task and group.
    offers: Vec<Offer>,
    end: Vec<f64>,
    memory: Vec<Option<usize>>,
    ready: Vec<u32>,
    waits: Vec<u32>,
    free: Vec<Vec<f64>>,
}

impl<'a, 'p> Dispatch<'a, 'p> {
    /// Plans of this problem, by a dual bound.
    pub(crate) fn new(frame: &'a Frame<'p>, relaxed: &'a Network, dual: &DualBound) -> Self {
        let p = frame.problem;
        let mut reads: Vec<Vec<u32>> = vec![Vec::new(); p.tasks.len()];
        for (i, d) in p.data.iter().enumerate() {
            d.readers
                .iter()
                .for_each(|&r| reads[r as usize].push(i as u32));
        }
        let length = |t: usize| -> f64 {
            let modes = &relaxed.activities[t].modes;
            modes
                .iter()
                .zip(&dual.shares[t])
                .map(|(w, s)| w.seconds * s)
                .sum()
        };
        let length: Vec<f64> = (0..p.tasks.len()).map(length).collect();
        let tail = relaxed.tails(&length);
        Dispatch {
            mean: (dual.value / p.tasks.len().max(1) as f64).max(f64::MIN_POSITIVE),
            tail: tail.iter().zip(&length).map(|(a, b)| a + b).collect(),
            head: relaxed.heads(&relaxed.shortest()),
            frame,
            relaxed,
            reads,
        }
    }

    /// A choice for each task, and urgencies in the order in which tasks started, where units believe in
    /// these reduced costs. `None` if data cannot get where it is needed.
    pub(crate) fn plan(
        &self,
        rule: &Rule,
        reduced_costs: &[Vec<f64>],
    ) -> Option<(Choice, Vec<f64>)> {
        let p = self.frame.problem;
        let n = p.tasks.len();
        let mut now = self.begin(rule, reduced_costs);
        let mut choice = vec![0; n];
        let mut started = vec![0.0; n];
        let mut running: Vec<(f64, u32)> = Vec::new();
        let mut count = 0;
        while count < n {
            let mut any = false;
            for g in 0..p.groups.len() {
                while let Some(unit) = now.free[g].iter().position(|&f| f <= now.time) {
                    let picked = self.pick(&now, g, rule.limits[g] * self.mean);
                    let stuck = running.is_empty() && !any && g + 1 == p.groups.len();
                    let picked = picked.or_else(|| self.any(&now, reduced_costs).filter(|_| stuck));
                    let Some((at, k)) = picked else {
                        break;
                    };
                    let t = now.ready.swap_remove(at) as usize;
                    let mode = &self.frame.modes[p.tasks[t] as usize][k];
                    let group = usize::from(mode.resource);
                    let start = self.arrives(&now, t, p.groups[group].memory);
                    let end = start.unwrap_or(now.time).max(now.time) + mode.seconds;
                    now.free[group][if group == g { unit } else { 0 }] = end;
                    now.end[t] = end;
                    now.memory[t] = Some(p.groups[group].memory);
                    choice[t] = k as u16;
                    // Equal starts keep their order.
                    started[t] = now.time + 1e-9 * count as f64;
                    running.push((end, t as u32));
                    count += 1;
                    any = true;
                }
            }
            let next = running.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
            if !next.is_finite() {
                return None;
            }
            now.time = next;
            running.retain(|&(end, t)| {
                if end <= next {
                    for &a in &self.relaxed.activities[t as usize].after {
                        now.waits[a as usize] -= 1;
                        if now.waits[a as usize] == 0 {
                            now.ready.push(a);
                        }
                    }
                }
                end > next
            });
        }
        Some((choice, by_start(&started)))
    }

    fn begin(&self, rule: &Rule, reduced_costs: &[Vec<f64>]) -> Now {
        let p = self.frame.problem;
        let n = p.tasks.len();
        let activities = &self.relaxed.activities;
        let longest = self.tail.iter().copied().fold(0.0, f64::max);
        let liking = rule.liking * longest / self.mean;
        let mut offers = Vec::with_capacity(n * p.groups.len());
        for (t, reduced_costs) in reduced_costs.iter().enumerate() {
            let from = offers.len();
            let none = Offer {
                mode: 0,
                reduced_cost: f64::INFINITY,
                score: self.tail[t] + rule.depth * self.head[t],
            };
            offers.resize(from + p.groups.len(), none);
            let here = &mut offers[from..];
            let modes = &self.frame.modes[p.tasks[t] as usize];
            for (mode, (w, &reduced_cost)) in modes.iter().zip(reduced_costs).enumerate() {
                let offer = &mut here[usize::from(w.resource)];
                if reduced_cost < offer.reduced_cost {
                    (offer.mode, offer.reduced_cost) = (mode, reduced_cost);
                }
            }
            for g in 0..here.len() {
                let others = here.iter().enumerate().filter(|o| o.0 != g);
                let other = others
                    .map(|o| o.1.reduced_cost)
                    .fold(f64::INFINITY, f64::min);
                if other.is_finite() {
                    here[g].score += liking * (other - here[g].reduced_cost);
                }
            }
        }
        let waits: Vec<u32> = activities.iter().map(|a| a.before.len() as u32).collect();
        Now {
            time: 0.0,
            offers,
            end: vec![0.0; n],
            memory: vec![None; n],
            ready: (0..n as u32).filter(|&t| waits[t as usize] == 0).collect(),
            waits,
            free: p.groups.iter().map(|g| vec![0.0; g.units]).collect(),
        }
    }

    /// The place of the ready task that scores most on group `g`, and the mode it takes.
    fn pick(&self, now: &Now, g: usize, most: f64) -> Option<(usize, usize)> {
        let groups = &self.frame.problem.groups;
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, &t) in now.ready.iter().enumerate() {
            let offer = &now.offers[t as usize * groups.len() + g];
            if offer.reduced_cost <= most
                && best.is_none_or(|b| offer.score > b.0)
                && offer.reduced_cost.is_finite()
                && let Some(arrives) = self.arrives(now, t as usize, groups[g].memory)
                && arrives <= now.time
            {
                best = Some((offer.score, at, offer.mode));
            }
        }
        best.map(|b| (b.1, b.2))
    }

    /// A ready task on whatever group reduced costs it least, whenever its data arrives.
    fn any(&self, now: &Now, reduced_costs: &[Vec<f64>]) -> Option<(usize, usize)> {
        let p = self.frame.problem;
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, &t) in now.ready.iter().enumerate() {
            let t = t as usize;
            for (k, w) in self.frame.modes[p.tasks[t] as usize].iter().enumerate() {
                let memory = p.groups[usize::from(w.resource)].memory;
                if best.is_none_or(|b| reduced_costs[t][k] < b.0)
                    && self.arrives(now, t, memory).is_some()
                {
                    best = Some((reduced_costs[t][k], at, k));
                }
            }
        }
        best.map(|b| (b.1, b.2))
    }

    /// When all that a task reads can be in a memory; `None` if a link is missing.
    fn arrives(&self, now: &Now, task: usize, memory: usize) -> Option<f64> {
        let p = self.frame.problem;
        let mut latest = 0.0_f64;
        for &d in &self.reads[task] {
            let datum = &p.data[d as usize];
            // What the step before left is where its writer will be; nobody knows yet.
            let Some(from) = self.frame.origin(d as usize, &now.memory) else {
                continue;
            };
            let mut at = match datum.origin {
                Origin::Task(w) => now.end[w as usize],
                _ => 0.0,
            };
            for &l in self.frame.routes[from][memory].as_ref()? {
                at += p.links[l as usize].seconds(datum.bytes);
            }
            latest = latest.max(at);
        }
        Some(latest)
    }
}
