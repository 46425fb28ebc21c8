//! Proven best plans of small problems: first the memory of each task, then everything else.
//!
//! Where there is one memory only the second part is left. Otherwise memories are tried task by task, in
//! an order in which each task comes after those it waits for; a branch is cut off when the prices of the
//! [relaxation](super::bound), with the transfers that are already certain, leave no room for anything
//! better. With all memories known, `layers` finds the best units, states and order.
//!
//! Nothing here guesses: when it is stopped it says so, and what it has found is not called a proof.

mod certificate;
mod compare;
mod facts;
mod layers;
mod moment;
mod room;
mod symmetry;

use super::bound::{Carries, Game, Sides, play};
use super::network::Frame;
use super::problem::{Goal, Objective, Origin};
use super::timeline::Started;
use facts::Facts;
use layers::Layers;
use symmetry::{Labelled, columns, hash};

pub use moment::MOST;

/// Plans within this part of each other count as equal.
const SAME: f64 = 1e-9;

/// What an exact search found.
#[derive(Clone, Debug)]
pub struct Exact {
    /// The cost of the best plan known, whoever found it; infinite if there is none.
    pub cost: f64,
    /// If a plan better than the one to beat was found: each task's memory, and the plan.
    pub found: Option<(Vec<usize>, Vec<Started>)>,
    /// Whether nothing better exists, but for the tolerance.
    pub proven: bool,
    /// No plan costs less, whether proven or not; may be negative infinity.
    pub floor: f64,
    /// Nodes looked at.
    pub nodes: u64,
}

/// Looks for a plan that costs less than `beat`, which may be infinite, by more than the part `tolerance`,
/// until there is none or `keep_going` says no.
pub fn solve(
    frame: &Frame<'_>,
    goal: &Goal,
    beat: f64,
    tolerance: f64,
    keep_going: &mut dyn FnMut() -> bool,
) -> Exact {
    let tasks = frame.problem.tasks.len();
    let choices: Vec<Vec<usize>> = (0..tasks).map(|t| frame.memories_of(t)).collect();
    let open = choices.iter().any(|c| c.len() > 1);
    let relaxed = frame.relaxed();
    let standing = relaxed.standing_watts;
    let rounds = if open { 1000 } else { 1 };
    let (carries, none) = (Carries::new(frame), Carries::default());
    let game = |carries, w, v, rounds| play(&relaxed, carries, w, v, rounds, Sides::All);
    // In the order of `Places::prices`.
    let games = [
        (0.0, game(&carries, 1.0, 0.0, rounds)),
        (1.0, game(&carries, standing, 1.0, rounds)),
        (1.0, game(&none, standing, 1.0, rounds)),
        (1.0, game(&none, 0.0, 1.0, 1)),
    ];
    let priced = |(v, game): &(f64, Game)| -> Vec<Vec<f64>> {
        (0..tasks)
            .map(|t| {
                choices[t]
                    .iter()
                    .map(|&m| price(frame, game, *v, t, m))
                    .collect()
            })
            .collect()
    };
    let mut search = Places {
        prices: games.each_ref().map(priced),
        constants: games.each_ref().map(|g| g.1.constant),
        memory: vec![None; tasks],
        columns: if open {
            task_columns(frame)
        } else {
            Vec::new()
        },
        rounds: if open { 80 } else { 2000 },
        result: Exact {
            cost: beat,
            found: None,
            proven: true,
            floor: f64::NEG_INFINITY,
            nodes: 0,
        },
        alone: !open,
        tolerance: tolerance.max(SAME),
        frame,
        goal,
        choices,
        keep_going,
    };
    search.visit(0);
    let mut result = search.result;
    if result.proven {
        result.floor = result.cost * (1.0 - tolerance.max(SAME));
    }
    result
}

/// The cheapest way of a task in a memory at a game's prices.
fn price(frame: &Frame<'_>, game: &Game, v: f64, task: usize, memory: usize) -> f64 {
    let ways = frame.ways_in(task, Some(memory));
    let costs = ways.iter().map(|w| game.cost(frame.problem, v, task, w));
    costs.fold(f64::INFINITY, f64::min)
}

/// Interchangeable columns of tasks and data, reduced to the tasks.
fn task_columns(frame: &Frame<'_>) -> Vec<Vec<Vec<u32>>> {
    let p = frame.problem;
    let n = p.tasks.len() + p.data.len();
    let mut graph = Labelled {
        labels: p.tasks.iter().map(|&c| u64::from(c)).collect(),
        before: vec![Vec::new(); n],
        after: vec![Vec::new(); n],
    };
    let mut edges: Vec<(u32, u32)> = frame.edges.clone();
    for (i, d) in p.data.iter().enumerate() {
        let node = (p.tasks.len() + i) as u32;
        let kind = match d.origin {
            Origin::Task(t) => {
                edges.push((t, node));
                0
            }
            Origin::Memory(m) => 1 + m as u64,
            Origin::LeftBy(o) => {
                edges.push((p.tasks.len() as u32 + o, node));
                u64::from(u32::MAX)
            }
        };
        graph.labels.push(hash(("datum", d.bytes, kind, d.kept)));
        edges.extend(d.readers.iter().map(|&r| (node, r)));
        edges.extend(d.replaces.map(|old| (p.tasks.len() as u32 + old, node)));
    }
    for (a, b) in edges {
        graph.after[a as usize].push(b);
        graph.before[b as usize].push(a);
    }
    let mut place = vec![0; p.tasks.len()];
    for (k, &t) in frame.topological.iter().enumerate() {
        place[t as usize] = k;
    }
    let mut groups = columns(&graph);
    for group in &mut groups {
        // All columns in the order of the first one's rows.
        group
            .iter_mut()
            .for_each(|c| c.retain(|&i| (i as usize) < p.tasks.len()));
        let mut rows: Vec<usize> = (0..group[0].len()).collect();
        rows.sort_by_key(|&r| place[group[0][r] as usize]);
        for column in group.iter_mut() {
            *column = rows.iter().map(|&r| column[r]).collect();
        }
    }
    groups
}

struct Places<'a, 'p> {
    frame: &'a Frame<'p>,
    goal: &'a Goal,
    choices: Vec<Vec<usize>>,
    /// The price of each task in each memory it can be in: of time, of energy, of energy without the
    /// transfers, and the joules of the tasks alone.
    prices: [Vec<Vec<f64>>; 4],
    constants: [f64; 4],
    memory: Vec<Option<usize>>,
    /// Groups of interchangeable columns of tasks, each in the order in which tasks are decided.
    columns: Vec<Vec<Vec<u32>>>,
    rounds: usize,
    tolerance: f64,
    /// Whether there is only one way to give tasks memories.
    alone: bool,
    keep_going: &'a mut dyn FnMut() -> bool,
    result: Exact,
}

impl Places<'_, '_> {
    fn visit(&mut self, depth: usize) {
        self.result.nodes += 1;
        if self.result.nodes.is_multiple_of(64) && !(self.keep_going)() {
            self.result.proven = false;
        }
        if !self.result.proven || self.is_mirrored() || self.is_hopeless() {
            return;
        }
        let Some(&task) = self.frame.topological.get(depth) else {
            return self.leaf();
        };
        let task = task as usize;
        let prices = &self.prices[usize::from(self.goal.objective != Objective::Time)][task];
        let mut order: Vec<usize> = (0..prices.len()).collect();
        order.sort_by(|&a, &b| prices[a].total_cmp(&prices[b]));
        for k in order {
            self.memory[task] = Some(self.choices[task][k]);
            self.visit(depth + 1);
        }
        self.memory[task] = None;
    }

    /// Whether exchanging two columns gives memories that come earlier: only sorted ones are looked at.
    fn is_mirrored(&self) -> bool {
        let above = |a: &[u32], b: &[u32]| {
            for (&x, &y) in a.iter().zip(b) {
                match (self.memory[x as usize], self.memory[y as usize]) {
                    (Some(x), Some(y)) if x == y => {}
                    (Some(x), Some(y)) => return x > y,
                    _ => return false,
                }
            }
            false
        };
        self.columns
            .iter()
            .any(|g| g.windows(2).any(|w| above(&w[0], &w[1])))
    }

    fn is_hopeless(&self) -> bool {
        let Some((moves, path)) = self.moves_and_path() else {
            return true;
        };
        let sum = |kind: usize| {
            let price = |(t, prices): (usize, &Vec<f64>)| match self.memory[t] {
                Some(m) => prices[self.choices[t].iter().position(|&c| c == m).unwrap_or(0)],
                None => prices.iter().copied().fold(f64::INFINITY, f64::min),
            };
            self.constants[kind] + self.prices[kind].iter().enumerate().map(price).sum::<f64>()
        };
        let seconds = path.max(sum(0));
        let standing = self.frame.problem.standing_watts();
        let alone = standing * seconds + sum(3) + moves;
        let joules = sum(1).max(sum(2) + moves).max(alone);
        let limit = self.result.cost * (1.0 - self.tolerance);
        !self.goal.in_time(seconds) || self.goal.cost(seconds, joules) >= limit
    }

    /// Joules of the transfers that are certain, and the longest path with their times. `None` if data
    /// cannot get where it is needed.
    fn moves_and_path(&self) -> Option<(f64, f64)> {
        let p = self.frame.problem;
        let mut joules = 0.0;
        let mut arrives: Vec<(u32, u32, f64)> = Vec::new();
        let mut crossed: Vec<u32> = Vec::new();
        for (i, d) in p.data.iter().enumerate() {
            let Some(origin) = self.frame.origin(i, &self.memory) else {
                continue;
            };
            crossed.clear();
            for &reader in &d.readers {
                let Some(to) = self.memory[reader as usize] else {
                    continue;
                };
                let route = self.frame.routes[origin][to].as_ref()?;
                let mut delay = 0.0;
                for &link in route {
                    let l = &p.links[link as usize];
                    delay += l.seconds(d.bytes);
                    if !crossed.contains(&link) {
                        crossed.push(link);
                        joules += l.joules_per_byte * d.bytes as f64;
                    }
                }
                let writer = match d.origin {
                    Origin::Task(t) => t,
                    _ => u32::MAX,
                };
                arrives.push((reader, writer, delay));
            }
        }
        arrives.sort_by_key(|a| a.0);
        let mut end = vec![0.0_f64; p.tasks.len()];
        let mut head = vec![0.0_f64; p.tasks.len()];
        let mut longest = 0.0_f64;
        let mut after: Vec<Vec<u32>> = vec![Vec::new(); p.tasks.len()];
        for &(a, b) in &self.frame.edges {
            after[a as usize].push(b);
        }
        for &t in &self.frame.topological {
            let from = arrives.partition_point(|a| a.0 < t);
            for &(_, writer, delay) in arrives[from..].iter().take_while(|a| a.0 == t) {
                let exists = end.get(writer as usize).copied().unwrap_or(0.0);
                head[t as usize] = head[t as usize].max(exists + delay);
            }
            let t = t as usize;
            let ways = &self.frame.ways[p.tasks[t] as usize];
            let here = ways.iter().filter(|w| {
                self.memory[t].is_none_or(|m| p.groups[usize::from(w.resource)].memory == m)
            });
            end[t] = head[t] + here.map(|w| w.seconds).fold(f64::INFINITY, f64::min);
            longest = longest.max(end[t]);
            for &b in &after[t] {
                head[b as usize] = head[b as usize].max(end[t]);
            }
        }
        Some((joules, longest))
    }

    fn leaf(&mut self) {
        let memory: Vec<usize> = self.memory.iter().map(|m| m.unwrap_or(0)).collect();
        let Some(net) = self.frame.network(&memory) else {
            return;
        };
        if net.activities.len() > MOST {
            self.result.proven = false;
            return;
        }
        let facts = Facts::new(&net, *self.goal, self.rounds);
        let mut search = Layers::new(&facts, self.result.cost, self.tolerance, self.keep_going);
        search.run();
        if self.alone {
            self.result.floor = search.floor;
        }
        self.result.nodes += search.nodes;
        self.result.proven &= !search.stopped;
        if let Some(log) = search.found.take() {
            self.result.cost = search.best;
            self.result.found = Some((memory, log));
        }
    }
}
