//! Conflict analysis: from a conflict to a learned clause.
//!
//! The literals that contradict each other are replaced by their reasons, the latest first, until one literal of the
//! last decision's consequences is left (the first unique implication point): with the others it suffices for the
//! conflict. That they do not all hold is a clause, which the search would have needed earlier. It never meets the
//! same conflict again, wherever else in the search these literals come together.

use std::collections::{BinaryHeap, HashMap};

use super::arcs::Arcs;
use super::clauses::Clauses;
use super::trail::{Literal, NONE, Reason, Trail, Var};

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
    /// By entry, for which bound it was asked whether it follows from others that are needed, and the answer.
    asked: HashMap<u32, (i64, bool)>,
    spare: Vec<Literal>,
}

/// What was learned.
#[derive(Debug)]
pub(super) struct LearnedClause {
    /// One of these holds: the first, once the search is back at `level`.
    pub literals: Vec<Literal>,
    pub level: u32,
    /// Over how many decisions they spread.
    pub spread: u32,
}

/// How much less an older conflict counts than the one after it.
const FADING: f64 = 0.95;

/// Reasons of reasons that are looked at to leave out a literal.
const DEPTH: u32 = 12;

impl Analysis {
    /// How much a number was involved in conflicts, lately.
    pub(super) fn activity(&self, var: Var) -> f64 {
        self.activity.get(var.index() / 2).copied().unwrap_or(0.0)
    }

    /// Learns from the trail's conflict. `None` if it needs no decision at all: there is no plan.
    pub(super) fn learned_clause(
        &mut self,
        trail: &Trail,
        from: Known<'_>,
    ) -> Option<LearnedClause> {
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
        for &literal in &trail.conflict {
            self.need(trail, literal);
        }
        let first = loop {
            let at = self.heap.pop();
            let at = at.expect("of the conflict's own level a literal is always left");
            let entry = &trail.entries[at as usize];
            let var = entry.literal.var;
            if self.entry[var.index()] != at {
                continue;
            }
            self.entry[var.index()] = NONE;
            if self.open == 1 {
                break var.at_least(self.bound[var.index()]);
            }
            self.open -= 1;
            let bound = self.bound[var.index()];
            for_reasons(trail, from, at, bound, |f| self.need(trail, f));
        };
        Some(self.finish(trail, from, first))
    }

    fn need(&mut self, trail: &Trail, literal: Literal) {
        let v = literal.var.index();
        let old = self.entry[v];
        if old != NONE && self.bound[v] >= literal.least {
            return;
        }
        let Some(at) = trail.entry_of(literal) else {
            return;
        };
        let level = trail.entries[at as usize].level;
        if level == 0 {
            return;
        }
        self.bound[v] = literal.least;
        if old == at {
            return;
        }
        if old != NONE && trail.entries[old as usize].level == self.level {
            self.open -= 1;
        }
        self.entry[v] = at;
        self.bump(literal.var);
        if level == self.level {
            self.open += 1;
            self.heap.push(at);
        } else if old == NONE {
            self.kept.push(literal.var);
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

    /// Whether the literal of an entry, for this bound, follows from earlier ones that are needed: only from earlier ones, or
    /// two could each be left out for the other.
    fn follows(
        &mut self,
        trail: &Trail,
        from: Known<'_>,
        (at, bound): (u32, i64),
        depth: u32,
    ) -> bool {
        if depth == 0 || matches!(trail.entries[at as usize].reason, Reason::Given) {
            return false;
        }
        if let Some(&(known, follows)) = self.asked.get(&at)
            && (if follows {
                bound <= known
            } else {
                bound >= known
            })
        {
            return follows;
        }
        let mut follows = true;
        let mut literals = std::mem::take(&mut self.spare);
        let begin = literals.len();
        for_reasons(trail, from, at, bound, |f| literals.push(f));
        self.spare = literals;
        for k in begin..self.spare.len() {
            let f = self.spare[k];
            let v = f.var.index();
            let is_needed = self.entry[v] < at && self.bound[v] >= f.least;
            follows = is_needed
                || match trail.entry_of(f) {
                    None => true,
                    Some(e) if trail.entries[e as usize].level == 0 => true,
                    Some(e) => self.follows(trail, from, (e, f.least), depth - 1),
                };
            if !follows {
                break;
            }
        }
        self.spare.truncate(begin);
        self.asked.insert(at, (bound, follows));
        follows
    }

    /// The clause, without literals that follow from its others.
    fn finish(&mut self, trail: &Trail, from: Known<'_>, first: Literal) -> LearnedClause {
        self.step = self.step.max(1.0) / FADING;
        self.asked.clear();
        let mut literals = vec![!first];
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_unstable();
        kept.dedup();
        for &var in &kept {
            let at = self.entry[var.index()];
            // Raised to the current level since, where it was replaced.
            if at == NONE || trail.entries[at as usize].level == self.level {
                continue;
            }
            let bound = self.bound[var.index()];
            if !self.follows(trail, from, (at, bound), DEPTH) {
                literals.push(!var.at_least(bound));
            }
        }
        let level = |f: &Literal| trail.level_of(!*f);
        let mut levels: Vec<u32> = literals[1..].iter().map(level).collect();
        let back = levels.iter().copied().max().unwrap_or(0);
        if let Some(second) = levels.iter().position(|&l| l == back) {
            literals.swap(1, second + 1);
        }
        levels.sort_unstable();
        levels.dedup();
        for var in kept {
            self.entry[var.index()] = NONE;
        }
        self.heap.drain().for_each(|at| {
            self.entry[trail.entries[at as usize].literal.var.index()] = NONE;
        });
        LearnedClause {
            literals,
            level: back,
            spread: levels.len() as u32 + 1,
        }
    }
}

/// What reasons refer to.
#[derive(Clone, Copy)]
pub(super) struct Known<'m> {
    pub clauses: &'m Clauses,
    pub arcs: &'m Arcs,
}

/// The literals from which it follows that the number of an entry is at least this, which may be less than what was found.
fn for_reasons(trail: &Trail, from: Known<'_>, at: u32, least: i64, mut each: impl FnMut(Literal)) {
    match trail.entries[at as usize].reason {
        Reason::Given => {}
        Reason::Clause(c) => from.clauses.literals(c)[1..].iter().for_each(|&f| each(!f)),
        Reason::Arc(a) => from.arcs.reasons(a, least, each),
        Reason::Facts(from, to) => trail.because[from as usize..to as usize]
            .iter()
            .for_each(|&f| each(f)),
    }
}
