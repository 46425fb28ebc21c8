//! Exact search where memories are limited, or more than two: a memory for each task first, then the rest.
//!
//! Memories are tried task by task, in an order in which each task comes after those it waits for; a
//! branch is cut off when the prices of the [relaxation](crate::plan::bound), with the transfers that are
//! already certain, leave no room for anything better. With all memories known, `layers` finds the best
//! units, states and order.

use super::prices::Prices;
use super::symmetry::Columns;
use super::{Exact, FEWER_ROUNDS};
use crate::plan::bound::Carries;
use crate::plan::network::Frame;
use crate::plan::problem::{Goal, Origin};

/// Searches all memories of all tasks.
pub(super) fn search(
    frame: &Frame<'_>,
    goal: &Goal,
    result: Exact,
    tolerance: f64,
    keep_going: &mut dyn FnMut() -> bool,
) -> Exact {
    let tasks = frame.problem.tasks.len();
    let choices: Vec<Vec<usize>> = (0..tasks).map(|t| frame.memories_of(t)).collect();
    let mut search = Places {
        prices: Prices::new(frame, &frame.relaxed(), &Carries::new(frame)),
        memory: vec![None; tasks],
        columns: decided_columns(frame),
        result,
        tolerance,
        frame,
        goal,
        choices,
        keep_going,
    };
    search.visit(0);
    search.result.floor = f64::NEG_INFINITY;
    search.result
}

/// Interchangeable columns of tasks, each in the order in which tasks are decided.
fn decided_columns(frame: &Frame<'_>) -> Vec<Columns> {
    let mut place = vec![0; frame.topological.len()];
    for (k, &t) in frame.topological.iter().enumerate() {
        place[t as usize] = k;
    }
    let mut groups = super::symmetry::columns_of(frame);
    for group in &mut groups {
        // All columns in the order of the first one's rows.
        group
            .iter_mut()
            .for_each(|c| c.retain(|&i| (i as usize) < place.len()));
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
    prices: Prices,
    memory: Vec<Option<usize>>,
    /// Groups of interchangeable columns of tasks, each in the order in which tasks are decided.
    columns: Vec<Columns>,
    tolerance: f64,
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
        let mut order = self.choices[task].clone();
        order.sort_by(|&a, &b| {
            let price = |memory| self.prices.of(self.goal, task, memory);
            price(a).total_cmp(&price(b))
        });
        for memory in order {
            self.memory[task] = Some(memory);
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
        let (seconds, joules) = self.prices.floor(|t| self.memory[t], path, moves);
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
        let (tolerance, going) = (self.tolerance, &mut *self.keep_going);
        self.result.close(
            self.frame,
            self.goal,
            memory,
            FEWER_ROUNDS,
            tolerance,
            going,
        );
    }
}
