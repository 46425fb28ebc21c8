//! Local search in the steady state: changes of a plan that make a step of a run cheaper, by the simulator.
//!
//! The planner's equations know one step alone. Here every change is judged by what follows it: a run in which steps
//! overlap and tasks fetch what they lack. Moves: a task to another unit, a unit's tasks to another one, the order of
//! two neighbours, and frequency states of a task, of all tasks of a class or of a unit.

use dahl_core::random::Random;
use dahl_core::{Unit, UnitId};
use dahl_plan::{Goal, Orders};

use super::candidate::Candidate;

/// Changes in a row that help nobody, per task, after which the search ends.
const PATIENCE: usize = 12;

/// Improves orders that cost so much, until told to stop or until they are cheap enough. Returns what they cost then.
pub(super) fn improve(
    candidate: &Candidate,
    goal: &Goal,
    orders: &mut Orders,
    mut cost: f64,
    (enough, seed): (f64, u64),
    keep_going: &mut dyn FnMut() -> bool,
) -> f64 {
    let Some(mut search) = Search::new(candidate, orders, seed) else {
        return cost;
    };
    let mut in_vain = 0;
    while cost > enough && in_vain < 100 + PATIENCE * search.tasks && keep_going() {
        in_vain += 1;
        let Some(next) = search.changed(orders) else {
            continue;
        };
        let Some(takes) = candidate.follow(&next) else {
            continue;
        };
        let found = takes.cost(goal);
        if found < cost * (1.0 - 1e-9) {
            (cost, in_vain) = (found, 0);
            *orders = next;
            search.look(orders);
        }
    }
    cost
}

struct Search<'a> {
    candidate: &'a Candidate,
    random: Random,
    drawn: u64,
    tasks: usize,
    /// When each task begins in a step alone.
    starts: Vec<f64>,
    /// Whether any unit has states.
    states: bool,
}

impl<'a> Search<'a> {
    fn new(candidate: &'a Candidate, orders: &Orders, seed: u64) -> Option<Search<'a>> {
        let units = &candidate.durations.machine.units;
        let mut search = Search {
            candidate,
            random: Random::new(seed, 17),
            drawn: 0,
            tasks: orders.states.len(),
            starts: Vec::new(),
            states: units.iter().any(|u| !u.states.is_empty()),
        };
        search.look(orders);
        let worth = !search.starts.is_empty() && (units.len() > 1 || search.states);
        worth.then_some(search)
    }

    /// Looks when tasks begin.
    fn look(&mut self, orders: &Orders) {
        if let Some([_, run]) = self.candidate.alone(orders) {
            let last = run.launches.len() - 1;
            self.starts.resize(self.tasks, 0.0);
            for span in run.runs.iter().filter(|r| r.task.launch == last) {
                self.starts[span.task.task as usize] = span.start.0;
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        self.random.below(self.drawn, n.max(1) as u64) as usize
    }

    /// The orders after a random change; `None` if it is none.
    fn changed(&mut self, orders: &Orders) -> Option<Orders> {
        let task = self.below(self.tasks) as u32;
        let from = orders.units.iter().position(|o| o.contains(&task))?;
        let mut next = orders.clone();
        let kind = self.below(if self.states { 7 } else { 4 });
        match kind {
            0 | 1 => {
                let to = self.other_unit(from, task)?;
                self.carry(&mut next, from, to, &[task]);
            }
            2 => {
                let order = &mut next.units[from];
                let at = order.iter().position(|&t| t == task)?;
                if at + 1 >= order.len() {
                    return None;
                }
                order.swap(at, at + 1);
            }
            3 => {
                let to = self.other_unit(from, task)?;
                // Those of a codelet, or all.
                let graph = &self.candidate.lowered.graph;
                let class = graph.tasks[task as usize].class;
                let all = self.below(2) == 0;
                let own = orders.units[from].iter().copied();
                let moved = own.filter(|&t| all || graph.tasks[t as usize].class == class);
                let moved: Vec<u32> = moved.filter(|&t| self.can(to, t)).collect();
                self.carry(&mut next, from, to, &moved);
            }
            _ => {
                let units = &self.candidate.durations.machine.units;
                let count = units[from].states.len() + 1;
                let state = self.below(count) as u8;
                let graph = &self.candidate.lowered.graph;
                let class = graph.tasks[task as usize].class;
                for (u, order) in orders.units.iter().enumerate() {
                    let state = state.min(units[u].states.len() as u8);
                    for &t in order {
                        // Where changing it is not free, all tasks of a unit have one state.
                        let chosen = match kind {
                            4 => t == task && !keeps_state(&units[u]),
                            5 => graph.tasks[t as usize].class == class && !keeps_state(&units[u]),
                            _ => u == from,
                        };
                        if chosen {
                            next.states[t as usize] = state;
                        }
                    }
                }
            }
        }
        (next != *orders).then_some(next)
    }

    fn can(&self, unit: usize, task: u32) -> bool {
        let class = self.candidate.lowered.graph.tasks[task as usize].class;
        let times = &self.candidate.durations.times;
        times.get(class, UnitId(unit as u16)).is_some()
    }

    fn other_unit(&mut self, from: usize, task: u32) -> Option<usize> {
        let units = self.candidate.durations.machine.units.len();
        let to = self.below(units);
        (to != from && self.can(to, task)).then_some(to)
    }

    /// Moves tasks to another unit, where they stand by when they begin.
    fn carry(&self, orders: &mut Orders, from: usize, to: usize, tasks: &[u32]) {
        let unit = &self.candidate.durations.machine.units[to];
        let most = unit.states.len() as u8;
        let kept = orders.units[to].first().filter(|_| keeps_state(unit));
        let kept = kept.map(|&t| orders.states[t as usize]);
        let kept = kept.or((keeps_state(unit) && tasks.len() > 1).then_some(0));
        orders.units[from].retain(|t| !tasks.contains(t));
        for &task in tasks {
            let start = self.starts[task as usize];
            let order = &mut orders.units[to];
            let at = order.partition_point(|&t| self.starts[t as usize] <= start);
            order.insert(at, task);
            let state = &mut orders.states[task as usize];
            *state = kept.unwrap_or(*state).min(most);
        }
    }
}

/// Whether a unit's tasks share one frequency state: what changing takes is not known to be nothing.
fn keeps_state(unit: &Unit) -> bool {
    !unit.states.is_empty() && unit.switch_seconds.is_none_or(|s| s.0 > 0.0)
}
