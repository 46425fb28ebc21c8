//! What a contradiction teaches.
//!
//! The facts that contradict each other are replaced by their reasons, the latest first, until one fact
//! of the last decision's consequences is left: with the others it suffices for the contradiction. That
//! they do not all hold is a clause, which the search would have needed earlier. It never meets the same
//! contradiction again, wherever else in the search these facts come together.

use std::collections::BinaryHeap;

use super::clauses::Clauses;
use super::trail::{Fact, NONE, Reason, Trail, Var};

/// Room for it, and how often each number was involved lately.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    /// For each number the entry that is needed, and the bound.
    entry: Vec<u32>,
    bound: Vec<i64>,
    /// Entries that are needed, the latest first.
    heap: BinaryHeap<u32>,
    /// How many of the level looked at.
    open: u32,
    level: u32,
    /// Numbers that are needed of other levels.
    kept: Vec<Var>,
    activity: Vec<f64>,
    step: f64,
}

/// What was learned.
#[derive(Debug)]
pub(super) struct Lesson {
    /// One of these holds: the first, once the search is back at `level`.
    pub facts: Vec<Fact>,
    pub level: u32,
    /// Over how many decisions they spread.
    pub spread: u32,
}

/// How much less an older contradiction counts than the one after it.
const FADING: f64 = 0.95;

impl Analysis {
    /// How much a number was involved in contradictions, lately.
    pub fn activity(&self, var: Var) -> f64 {
        self.activity.get(var.index() / 2).copied().unwrap_or(0.0)
    }

    /// Learns from the trail's conflict. `None` if it needs no decision at all: there is no plan.
    pub fn lesson(&mut self, trail: &Trail, clauses: &Clauses) -> Option<Lesson> {
        self.entry.resize(trail.numbers(), NONE);
        self.bound.resize(trail.numbers(), 0);
        self.activity.resize(trail.numbers() / 2, 0.0);
        self.heap.clear();
        self.kept.clear();
        self.open = 0;
        let levels = trail.conflict.iter().map(|&f| trail.level_of(f));
        self.level = levels.max().unwrap_or(0);
        if self.level == 0 {
            return None;
        }
        for &fact in &trail.conflict {
            self.need(trail, fact);
        }
        let first = loop {
            let at = self.heap.pop();
            let at = at.expect("of the conflict's own level a fact is always left");
            let entry = &trail.entries[at as usize];
            let var = entry.fact.var;
            if self.entry[var.index()] != at {
                continue;
            }
            self.entry[var.index()] = NONE;
            if self.open == 1 {
                break var.at_least(self.bound[var.index()]);
            }
            self.open -= 1;
            for_reasons(trail, clauses, at, |f| self.need(trail, f));
        };
        Some(self.finish(trail, clauses, first))
    }

    fn need(&mut self, trail: &Trail, fact: Fact) {
        let v = fact.var.index();
        let old = self.entry[v];
        if old != NONE && self.bound[v] >= fact.least {
            return;
        }
        let Some(at) = trail.entry_of(fact) else {
            return;
        };
        let level = trail.entries[at as usize].level;
        if level == 0 {
            return;
        }
        self.bound[v] = fact.least;
        if old == at {
            return;
        }
        if old != NONE && trail.entries[old as usize].level == self.level {
            self.open -= 1;
        }
        self.entry[v] = at;
        self.bump(fact.var);
        if level == self.level {
            self.open += 1;
            self.heap.push(at);
        } else if old == NONE {
            self.kept.push(fact.var);
        }
    }

    fn bump(&mut self, var: Var) {
        let activity = &mut self.activity[var.index() / 2];
        *activity += self.step.max(1.0);
        if *activity > 1e100 {
            self.activity.iter_mut().for_each(|a| *a *= 1e-100);
            self.step *= 1e-100;
        }
    }

    /// The clause, without facts that follow from its others.
    fn finish(&mut self, trail: &Trail, clauses: &Clauses, first: Fact) -> Lesson {
        self.step = self.step.max(1.0) / FADING;
        let mut facts = vec![!first];
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_unstable();
        kept.dedup();
        for &var in &kept {
            let at = self.entry[var.index()];
            // Raised to the current level since, where it was replaced.
            if at == NONE || trail.entries[at as usize].level == self.level {
                continue;
            }
            let mut implied = !matches!(trail.entries[at as usize].reason, Reason::Given);
            // Only by earlier ones, or two could each be left out for the other.
            for_reasons(trail, clauses, at, |f| {
                let v = f.var.index();
                let needed = self.entry[v] < at && self.bound[v] >= f.least;
                implied &= needed || trail.level_of(f) == 0;
            });
            if !implied {
                facts.push(!var.at_least(self.bound[var.index()]));
            }
        }
        let level = |f: &Fact| trail.level_of(!*f);
        let mut levels: Vec<u32> = facts[1..].iter().map(level).collect();
        let back = levels.iter().copied().max().unwrap_or(0);
        if let Some(second) = levels.iter().position(|&l| l == back) {
            facts.swap(1, second + 1);
        }
        levels.sort_unstable();
        levels.dedup();
        for var in kept {
            self.entry[var.index()] = NONE;
        }
        self.heap.drain().for_each(|at| {
            self.entry[trail.entries[at as usize].fact.var.index()] = NONE;
        });
        Lesson {
            facts,
            level: back,
            spread: levels.len() as u32 + 1,
        }
    }
}

/// The facts from which an entry follows.
fn for_reasons(trail: &Trail, clauses: &Clauses, at: u32, mut each: impl FnMut(Fact)) {
    match trail.entries[at as usize].reason {
        Reason::Given => {}
        Reason::Clause(c) => clauses.facts(c)[1..].iter().for_each(|&f| each(!f)),
        Reason::Facts(from, to) => trail.because[from as usize..to as usize]
            .iter()
            .for_each(|&f| each(f)),
    }
}
