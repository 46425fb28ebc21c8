//! The bound of a step of a run by branching over the memories that tasks run in.
//!
//! The [dual bound](super::bound) may divide tasks between memories, and a cycle by itself does not know what work it leaves to
//! a unit. Where it is decided which memories some tasks run in, more is certain: what their units do, what is
//! carried between them, and so the [cycles](super::critical_cycle). A node of the tree says for each task where it may run; its
//! children decide one task more. What a node asks for:
//!
//! ```text
//! T ≥ each cycle, and the longest path / steps in flight, at the best placement that the node allows
//! T ≥ work of tasks that run in a memory for certain / units there, and between the ends of a cycle after heads and before tails
//! T ≥ certain transfers over a link / how many it carries at once
//! T, w × T + joules ≥ what the root's multipliers give where each task takes the cheapest mode of those allowed
//! joules ≥ each task's cheapest mode of those allowed, and certain transfers
//! ```
//!
//! Every plan is in one of the nodes that have no children yet, so the least of their bounds is one of all plans. A plan keeps
//! each task in one memory in all steps, which is what its cycles close by: a policy that changes its mind from step to
//! step is in several nodes at once, and the bound is none of its runs.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::bound::{Cut, Cycle, DualBound, Duals, PossibleTransfers};
use super::critical_cycle::{Cycles, Placements};
use super::network::{Frame, Network};
use super::problem::Goal;

/// Nodes that are branched between two questions whether to go on.
const ASKED: usize = 8;

/// What is the same in all nodes.
pub(super) struct Root<'a> {
    pub frame: &'a Frame<'a>,
    pub net: &'a Network,
    pub transfers: &'a PossibleTransfers,
    pub placements: &'a Placements<'a>,
    pub cycles: &'a Cycles,
    pub duals: &'a Duals,
    pub in_flight: usize,
    pub goal: &'a Goal,
}

/// What came of it.
pub(super) struct Branched {
    /// The least of all nodes.
    pub cost: f64,
    pub seconds: f64,
    pub joules: f64,
    pub nodes: usize,
}

/// Where tasks may run, and what that asks for.
#[derive(Clone, Debug)]
struct Node {
    cost: f64,
    seconds: f64,
    joules: f64,
    /// For each task, a mask of memories.
    allowed: Vec<u64>,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    /// The cheapest is the greatest: it is branched first. Of equal ones that is the one where most is decided.
    fn cmp(&self, other: &Self) -> Ordering {
        let open = |n: &Node| n.allowed.iter().map(|m| m.count_ones()).sum::<u32>();
        let by_cost = other.cost.total_cmp(&self.cost);
        by_cost.then_with(|| open(other).cmp(&open(self)))
    }
}

impl Root<'_> {
    /// Branches until there are so many nodes, or everything is decided where the bound is least.
    pub(super) fn branch(&self, most: usize, keep_going: &mut dyn FnMut() -> bool) -> Branched {
        let order = self.order();
        let memories = |t: usize| self.frame.memories_of(t).into_iter();
        let allowed = (0..self.net.tasks).map(|t| memories(t).fold(0, |mask, m| mask | 1 << m));
        let mut open = BinaryHeap::from([self.node(allowed.collect(), 0.0)]);
        let (mut nodes, mut branched) = (1, 0_usize);
        while nodes < most
            && (!branched.is_multiple_of(ASKED) || keep_going())
            && let Some(node) = open.pop()
        {
            let undecided = |t: &&usize| node.allowed[**t].count_ones() > 1;
            let Some(&task) = order.iter().find(undecided) else {
                open.push(node);
                break;
            };
            for m in memories(task) {
                let mut allowed = node.allowed.clone();
                allowed[task] = 1 << m;
                open.push(self.node(allowed, node.cost));
                nodes += 1;
            }
            branched += 1;
        }
        let least = |of: fn(&Node) -> f64| open.iter().map(of).fold(f64::INFINITY, f64::min);
        Branched {
            cost: least(|n| n.cost),
            seconds: least(|n| n.seconds),
            joules: least(|n| n.joules),
            nodes,
        }
    }

    /// Tasks, those first whose memory makes most of a difference to their time.
    fn order(&self) -> Vec<usize> {
        let memories = self.frame.problem.memories.len();
        let spread = |t: usize| {
            let all = (0..memories).map(|m| self.placements.at(t, m));
            let all = all.filter(|s| s.is_finite());
            let (least, most) = all.fold((f64::INFINITY, 0.0_f64), |a, s| (a.0.min(s), a.1.max(s)));
            most - least
        };
        let mut order: Vec<usize> = (0..self.net.tasks).collect();
        order.sort_by(|&a, &b| spread(b).total_cmp(&spread(a)));
        order
    }

    /// A node, of which is known already that it costs so much.
    fn node(&self, allowed: Vec<u64>, known: f64) -> Node {
        let placements = self.placements.within(&allowed);
        let (round, cycle) = self.cycles.critical(&placements);
        let (carried, carrying) = self.carried(&allowed);
        let seconds = round
            .max(placements.longest() / self.in_flight.max(1) as f64)
            .max(self.work(&allowed, &placements, &cycle))
            .max(carrying)
            .max(self.value(&self.duals.time, 0.0, &allowed));
        let standing = self.net.standing_watts;
        let least = carried + self.sum(&allowed, |_, mode| mode.joules);
        let price = self.duals.energy.price;
        let cuts = [
            Cut {
                value: standing * seconds + least,
                price: 0.0,
            },
            Cut {
                value: self.value(&self.duals.energy, 1.0, &allowed),
                price,
            },
        ];
        Node {
            cost: self.goal.floor(seconds, &cuts).max(known),
            seconds,
            joules: cuts[0].value,
            allowed,
        }
    }

    /// What the tasks cost in their cheapest modes of those allowed.
    fn sum(&self, allowed: &[u64], of: impl Fn(usize, &crate::network::ExecMode) -> f64) -> f64 {
        let groups = &self.frame.problem.groups;
        let least = |t: usize| {
            let modes = self.net.activities[t].modes.iter();
            let here = modes.filter(|w| {
                let memory = groups[usize::from(w.resource)].memory;
                allowed[t] & (1 << memory) != 0
            });
            here.map(|w| of(t, w)).fold(f64::INFINITY, f64::min)
        };
        (0..self.net.tasks).map(least).sum()
    }

    /// What multipliers are worth where each task takes the cheapest mode of those allowed.
    fn value(&self, dual: &DualBound, v: f64, allowed: &[u64]) -> f64 {
        let problem = self.frame.problem;
        dual.constant + self.sum(allowed, |t, mode| dual.cost(problem, v, t, mode))
    }

    /// Joules of the transfers that are certain, and how long they keep a link.
    fn carried(&self, allowed: &[u64]) -> (f64, f64) {
        let mut joules = 0.0;
        let mut work = vec![0.0; self.net.resources.len()];
        for transfer in &self.transfers.all {
            let here = 1_u64 << transfer.to;
            let written = allowed.get(transfer.writer as usize);
            let is_read = |&r: &u32| allowed[r as usize] == here;
            if written.is_none_or(|w| w & here == 0) && transfer.readers.iter().any(is_read) {
                joules += transfer.joules;
                if let Some(link) = transfer.link {
                    work[link] += transfer.seconds;
                }
            }
        }
        let each = work.iter().zip(&self.net.resources);
        (joules, each.map(|(w, &n)| w / n as f64).fold(0.0, f64::max))
    }

    /// How long the units of any memory take for the tasks that run there for certain: all of them, and those of a
    /// cycle between two of its ends.
    fn work(&self, allowed: &[u64], placements: &Placements<'_>, cycle: &Cycle) -> f64 {
        let problem = self.frame.problem;
        let mut most = 0.0_f64;
        for m in 0..problem.memories.len() {
            let units = problem.groups.iter().filter(|g| g.memory == m);
            let units: usize = units.map(|g| g.units).sum();
            let mut here: Vec<usize> = (0..self.net.tasks)
                .filter(|&t| allowed[t] == 1 << m)
                .collect();
            let seconds = |t: usize| placements.at(t, m) / units as f64;
            most = most.max(here.iter().map(|&t| seconds(t)).sum());
            here.retain(|&t| cycle.inside[t]);
            // By falling tail, so that the last taken has the least.
            here.sort_by(|&a, &b| cycle.tail[b].total_cmp(&cycle.tail[a]));
            for &first in &here {
                let head = cycle.head[first];
                let mut sum = 0.0;
                for &t in here.iter().filter(|&&t| cycle.head[t] >= head) {
                    sum += seconds(t);
                    most = most.max(head + sum + cycle.tail[t]);
                }
            }
        }
        most
    }
}
