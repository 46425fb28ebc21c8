//! First plans from prices: units take what they are good at, whenever they become free.
//!
//! The bound's prices say what each way of a task is worth; its *regret* is what it costs beyond the task's
//! cheapest way. Tasks are started in the order of time: a free unit takes, of the ready tasks whose regret
//! there its [`Rule`] allows, the one that scores most, and waits where there is none. Links are taken to be
//! free and memories to be large: whoever turns the choice into a plan sees what becomes of it.

use super::bound::Game;
use super::list::{Choice, by_start};
use super::network::{Frame, Network};
use super::problem::Origin;

/// What each way of each task costs at a game's prices, beyond the cheapest.
pub(crate) fn regrets(frame: &Frame<'_>, game: &Game, v: f64) -> Vec<Vec<f64>> {
    let p = frame.problem;
    let one = |t: usize| {
        let ways = frame.ways[p.tasks[t] as usize].iter();
        let costs: Vec<f64> = ways.map(|w| game.cost(p, v, t, w)).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        costs.into_iter().map(|c| c - least).collect()
    };
    (0..p.tasks.len()).map(one).collect()
}

/// How units choose. Regrets and likings count in costs of a mean task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// For each group, the most that a task's way there may cost beyond its cheapest.
    pub limits: Vec<f64>,
    /// How much more urgent a task is for being late in the graph: 0 goes by the longest path that follows.
    pub depth: f64,
    /// What part of the longest path one is worth by which a task's regret is less here than elsewhere: at
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

/// The best way of a task on a group; a regret without end if there is none.
#[derive(Clone, Copy)]
struct Offer {
    way: usize,
    regret: f64,
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
    /// Plans of this problem, by what a game found.
    pub(crate) fn new(frame: &'a Frame<'p>, relaxed: &'a Network, game: &Game) -> Self {
        let p = frame.problem;
        let mut reads: Vec<Vec<u32>> = vec![Vec::new(); p.tasks.len()];
        for (i, d) in p.data.iter().enumerate() {
            d.readers
                .iter()
                .for_each(|&r| reads[r as usize].push(i as u32));
        }
        let length = |t: usize| -> f64 {
            let ways = &relaxed.activities[t].ways;
            ways.iter()
                .zip(&game.shares[t])
                .map(|(w, s)| w.seconds * s)
                .sum()
        };
        let length: Vec<f64> = (0..p.tasks.len()).map(length).collect();
        let tail = relaxed.tails(&length);
        Dispatch {
            mean: (game.value / p.tasks.len().max(1) as f64).max(f64::MIN_POSITIVE),
            tail: tail.iter().zip(&length).map(|(a, b)| a + b).collect(),
            head: relaxed.heads(&relaxed.shortest()),
            frame,
            relaxed,
            reads,
        }
    }

    /// A choice for each task, and urgencies in the order in which tasks started, where units believe in
    /// these regrets. `None` if data cannot get where it is needed.
    pub(crate) fn plan(&self, rule: &Rule, regrets: &[Vec<f64>]) -> Option<(Choice, Vec<f64>)> {
        let p = self.frame.problem;
        let n = p.tasks.len();
        let mut now = self.begin(rule, regrets);
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
                    let picked = picked.or_else(|| self.any(&now, regrets).filter(|_| stuck));
                    let Some((at, k)) = picked else {
                        break;
                    };
                    let t = now.ready.swap_remove(at) as usize;
                    let way = &self.frame.ways[p.tasks[t] as usize][k];
                    let group = usize::from(way.resource);
                    let start = self.arrives(&now, t, p.groups[group].memory);
                    let end = start.unwrap_or(now.time).max(now.time) + way.seconds;
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

    fn begin(&self, rule: &Rule, regrets: &[Vec<f64>]) -> Now {
        let p = self.frame.problem;
        let n = p.tasks.len();
        let activities = &self.relaxed.activities;
        let longest = self.tail.iter().copied().fold(0.0, f64::max);
        let liking = rule.liking * longest / self.mean;
        let mut offers = Vec::with_capacity(n * p.groups.len());
        for (t, regrets) in regrets.iter().enumerate() {
            let from = offers.len();
            let none = Offer {
                way: 0,
                regret: f64::INFINITY,
                score: self.tail[t] + rule.depth * self.head[t],
            };
            offers.resize(from + p.groups.len(), none);
            let here = &mut offers[from..];
            let ways = &self.frame.ways[p.tasks[t] as usize];
            for (way, (w, &regret)) in ways.iter().zip(regrets).enumerate() {
                let offer = &mut here[usize::from(w.resource)];
                if regret < offer.regret {
                    (offer.way, offer.regret) = (way, regret);
                }
            }
            for g in 0..here.len() {
                let others = here.iter().enumerate().filter(|o| o.0 != g);
                let other = others.map(|o| o.1.regret).fold(f64::INFINITY, f64::min);
                if other.is_finite() {
                    here[g].score += liking * (other - here[g].regret);
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

    /// The place of the ready task that scores most on group `g`, and the way it takes.
    fn pick(&self, now: &Now, g: usize, most: f64) -> Option<(usize, usize)> {
        let groups = &self.frame.problem.groups;
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, &t) in now.ready.iter().enumerate() {
            let offer = &now.offers[t as usize * groups.len() + g];
            if offer.regret <= most
                && best.is_none_or(|b| offer.score > b.0)
                && offer.regret.is_finite()
                && let Some(arrives) = self.arrives(now, t as usize, groups[g].memory)
                && arrives <= now.time
            {
                best = Some((offer.score, at, offer.way));
            }
        }
        best.map(|b| (b.1, b.2))
    }

    /// A ready task on whatever group regrets it least, whenever its data arrives.
    fn any(&self, now: &Now, regrets: &[Vec<f64>]) -> Option<(usize, usize)> {
        let p = self.frame.problem;
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, &t) in now.ready.iter().enumerate() {
            let t = t as usize;
            for (k, w) in self.frame.ways[p.tasks[t] as usize].iter().enumerate() {
                let memory = p.groups[usize::from(w.resource)].memory;
                if best.is_none_or(|b| regrets[t][k] < b.0)
                    && self.arrives(now, t, memory).is_some()
                {
                    best = Some((regrets[t][k], at, k));
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
