//! First plans from prices: units take what they are good at, whenever they become free.
//!
//! The bound's prices say what each way of a task is worth; its *regret* is what it costs beyond the task's
//! cheapest way. Tasks are started in the order of time: a free unit takes the most urgent ready task whose
//! regret there is at most a limit, and waits where there is none. Links are taken to be free and memories
//! to be large: whoever turns the choice into a plan sees what becomes of it.

use super::bound::Game;
use super::list::Choice;
use super::network::{Frame, Network};
use super::problem::Origin;

/// What each way of each task costs at a game's prices, beyond the cheapest.
pub fn regrets(frame: &Frame<'_>, game: &Game, v: f64) -> Vec<Vec<f64>> {
    let p = frame.problem;
    let one = |t: usize| {
        let ways = frame.ways[p.tasks[t] as usize].iter();
        let costs: Vec<f64> = ways.map(|w| game.cost(p, v, t, w)).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        costs.into_iter().map(|c| c - least).collect()
    };
    (0..p.tasks.len()).map(one).collect()
}

/// What all plans of one problem share.
pub struct Dispatch<'a, 'p> {
    frame: &'a Frame<'p>,
    relaxed: &'a Network,
    regrets: &'a [Vec<f64>],
    /// The longest path that follows each task, itself included, at the relaxation's times.
    tail: Vec<f64>,
    reads: Vec<Vec<u32>>,
}

/// The state of one plan.
struct Now {
    end: Vec<f64>,
    memory: Vec<Option<usize>>,
    ready: Vec<u32>,
    waits: Vec<u32>,
    free: Vec<Vec<f64>>,
}

impl<'a, 'p> Dispatch<'a, 'p> {
    /// Plans of this problem, with these prices.
    pub fn new(
        frame: &'a Frame<'p>,
        relaxed: &'a Network,
        shares: &[Vec<f64>],
        regrets: &'a [Vec<f64>],
    ) -> Self {
        let p = frame.problem;
        let mut reads: Vec<Vec<u32>> = vec![Vec::new(); p.tasks.len()];
        for (i, d) in p.data.iter().enumerate() {
            d.readers
                .iter()
                .for_each(|&r| reads[r as usize].push(i as u32));
        }
        let mean = |t: usize| -> f64 {
            let ways = &relaxed.activities[t].ways;
            ways.iter()
                .zip(&shares[t])
                .map(|(w, s)| w.seconds * s)
                .sum()
        };
        let mean: Vec<f64> = (0..p.tasks.len()).map(mean).collect();
        let tail = relaxed.tails(&mean);
        Dispatch {
            tail: tail.iter().zip(&mean).map(|(a, b)| a + b).collect(),
            frame,
            relaxed,
            regrets,
            reads,
        }
    }

    /// A choice for each task, and urgencies in the order in which tasks started. `depth` is how much more
    /// urgent a task is for being late in the graph: 0 goes by the longest path that follows.
    /// `None` if data cannot get where it is needed.
    pub fn plan(&self, limit: f64, depth: f64) -> Option<(Choice, Vec<f64>)> {
        let p = self.frame.problem;
        let n = p.tasks.len();
        let head = self.relaxed.heads(&self.relaxed.shortest());
        let waits = self
            .relaxed
            .activities
            .iter()
            .map(|a| a.before.len() as u32);
        let mut now = Now {
            end: vec![0.0; n],
            memory: vec![None; n],
            ready: Vec::new(),
            waits: waits.collect(),
            free: p.groups.iter().map(|g| vec![0.0; g.units]).collect(),
        };
        now.ready = (0..n as u32)
            .filter(|&t| now.waits[t as usize] == 0)
            .collect();
        let urgency: Vec<f64> = (0..n).map(|t| self.tail[t] + depth * head[t]).collect();
        let mut choice = vec![0; n];
        let mut started = vec![0.0; n];
        let mut running: Vec<(f64, u32)> = Vec::new();
        let mut time = 0.0;
        let mut count = 0;
        while count < n {
            let mut any = false;
            for g in 0..p.groups.len() {
                while let Some(unit) = now.free[g].iter().position(|&f| f <= time) {
                    let last_resort = running.is_empty() && !any && g + 1 == p.groups.len();
                    let most = if last_resort { f64::INFINITY } else { limit };
                    let Some((at, k)) = self.pick(&now, g, most, &urgency, time) else {
                        break;
                    };
                    let t = now.ready.swap_remove(at) as usize;
                    let way = &self.frame.ways[p.tasks[t] as usize][k];
                    let start = self.arrives(&now, t, p.groups[usize::from(way.resource)].memory);
                    let end = start.unwrap_or(time).max(time) + way.seconds;
                    let unit = if usize::from(way.resource) == g {
                        unit
                    } else {
                        0
                    };
                    now.free[usize::from(way.resource)][unit] = end;
                    now.end[t] = end;
                    now.memory[t] = Some(p.groups[usize::from(way.resource)].memory);
                    choice[t] = k as u16;
                    // Equal starts keep their order.
                    started[t] = time + 1e-9 * count as f64;
                    running.push((end, t as u32));
                    count += 1;
                    any = true;
                }
            }
            let next = running.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
            if !next.is_finite() {
                return None;
            }
            time = next;
            running.retain(|&(end, t)| {
                if end <= time {
                    for &a in &self.relaxed.activities[t as usize].after {
                        now.waits[a as usize] -= 1;
                        if now.waits[a as usize] == 0 {
                            now.ready.push(a);
                        }
                    }
                }
                end > time
            });
        }
        // Ten times the longest path: beside that, what follows a task is nothing.
        let latest = started.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let nudge = started.iter().map(|s| 10.0 * (1.0 - s / latest)).collect();
        Some((choice, nudge))
    }

    /// The place of the most urgent ready task that group `g` may take, and the way it takes.
    fn pick(
        &self,
        now: &Now,
        g: usize,
        most: f64,
        urgency: &[f64],
        time: f64,
    ) -> Option<(usize, usize)> {
        let p = self.frame.problem;
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, &t) in now.ready.iter().enumerate() {
            let t = t as usize;
            let ways = &self.frame.ways[p.tasks[t] as usize];
            let here = (0..ways.len())
                .filter(|&k| most.is_infinite() || usize::from(ways[k].resource) == g);
            let regret = |&a: &usize, &b: &usize| self.regrets[t][a].total_cmp(&self.regrets[t][b]);
            let Some(k) = here.min_by(regret) else {
                continue;
            };
            let better = best.is_none_or(|b| urgency[t] > b.0);
            let memory = p.groups[usize::from(ways[k].resource)].memory;
            let in_time = |a: f64| a <= time || most.is_infinite();
            if better
                && self.regrets[t][k] <= most
                && self.arrives(now, t, memory).is_some_and(in_time)
            {
                best = Some((urgency[t], at, k));
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
