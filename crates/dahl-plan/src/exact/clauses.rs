//! Clauses: lists of literals of which at least one holds in every plan that is still of interest.
//!
//! Two literals of each clause are watched. While neither is false the clause says nothing; when one
//! becomes false another is watched instead, or the last one left must hold (unit propagation).

use super::trail::{Conflict, Literal, Reason, Trail, Var};

/// A clause that is woken when a number reaches a bound, unless another of its literals holds.
#[derive(Clone, Copy, Debug)]
struct Watch {
    clause: u32,
    at: i64,
    other: Literal,
}

#[derive(Debug)]
struct Clause {
    literals: Vec<Literal>,
    /// Decisions that its literals spread over when it was learned: the fewer, the more use it is. 0 if it
    /// was not learned but is part of the problem.
    spread: u32,
}

/// All clauses.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    all: Vec<Clause>,
    /// By the number whose bound makes the watched literal false.
    watches: Vec<Vec<Watch>>,
    learned: usize,
}

impl Clauses {
    /// The literals of a clause; the first is the one that follows from it, if one does.
    pub(super) fn literals(&self, clause: u32) -> &[Literal] {
        &self.all[clause as usize].literals
    }

    /// Adds a clause of the problem.
    pub(super) fn require(
        &mut self,
        trail: &mut Trail,
        mut literals: Vec<Literal>,
    ) -> Result<(), Conflict> {
        if trail.level() == 0 {
            literals.retain(|&f| !trail.fails(f));
        }
        // What is open or holds goes first, then what became false last.
        let late = |f: &Literal| match trail.fails(*f) {
            true => trail.level_of(!*f),
            false => u32::MAX,
        };
        literals.sort_by_key(|f| std::cmp::Reverse(late(f)));
        let [first, second, ..] = literals[..] else {
            return match literals.first() {
                Some(&one) => trail.follow(one, &[]),
                None => Err(trail.refuse(&[])),
            };
        };
        let id = self.add(trail, literals, 0);
        if trail.fails(first) {
            let all: Vec<Literal> = self.literals(id).iter().map(|&f| !f).collect();
            return Err(trail.refuse(&all));
        }
        if trail.fails(second) && !trail.holds(first) {
            trail.enter(first, Reason::Clause(id));
        }
        Ok(())
    }

    /// Adds a clause of two literals or more that is learned: the first will hold, the second is the one
    /// that became false last.
    pub(super) fn learn(&mut self, trail: &Trail, literals: Vec<Literal>, spread: u32) -> u32 {
        self.learned += 1;
        self.add(trail, literals, spread.max(1))
    }

    fn add(&mut self, trail: &Trail, literals: Vec<Literal>, spread: u32) -> u32 {
        let id = self.all.len() as u32;
        self.watches.resize(trail.numbers(), Vec::new());
        self.watch(literals[0], literals[1], id);
        self.watch(literals[1], literals[0], id);
        self.all.push(Clause { literals, spread });
        id
    }

    fn watch(&mut self, literal: Literal, other: Literal, clause: u32) {
        let Literal { var, least: at } = !literal;
        self.watches[var.index()].push(Watch { clause, at, other });
    }

    /// What follows from a bound that was raised.
    pub(super) fn raised(&mut self, trail: &mut Trail, var: Var) -> Result<(), Conflict> {
        let Some(list) = self.watches.get_mut(var.index()) else {
            return Ok(());
        };
        let mut list = std::mem::take(list);
        let mut kept = 0;
        let mut result = Ok(());
        for at in 0..list.len() {
            let watch = list[at];
            if result.is_err()
                || watch.at > trail.least(var)
                || trail.holds(watch.other)
                || self.wake(trail, watch, var, &mut result)
            {
                list[kept] = watch;
                kept += 1;
            }
        }
        list.truncate(kept);
        list.append(&mut self.watches[var.index()]);
        self.watches[var.index()] = list;
        result
    }

    /// A watched literal is false. Whether it stays watched.
    fn wake(
        &mut self,
        trail: &mut Trail,
        watch: Watch,
        var: Var,
        result: &mut Result<(), Conflict>,
    ) -> bool {
        let literals = &mut self.all[watch.clause as usize].literals;
        let wrong = !var.at_least(watch.at);
        if literals[0] == wrong {
            literals.swap(0, 1);
        }
        if trail.holds(literals[0]) {
            return true;
        }
        if let Some(k) = (2..literals.len()).find(|&k| !trail.fails(literals[k])) {
            literals.swap(1, k);
            let (other, literal) = (literals[0], literals[1]);
            self.watch(literal, other, watch.clause);
            return false;
        }
        if trail.fails(literals[0]) {
            trail.conflict.clear();
            trail.conflict.extend(literals.iter().map(|&f| !f));
            *result = Err(Conflict);
        } else {
            trail.enter(literals[0], Reason::Clause(watch.clause));
        }
        true
    }

    /// Forgets half of what was learned if it is more than this, those first that are of least use; only
    /// while nothing is decided.
    pub(super) fn forget(&mut self, trail: &Trail, most: usize) {
        if self.learned <= most {
            return;
        }
        let mut spreads: Vec<u32> = self.all.iter().map(|c| c.spread).collect();
        spreads.retain(|&s| s > 0);
        spreads.sort_unstable();
        let middle = spreads[spreads.len() / 2].max(3);
        let old = std::mem::take(self);
        for clause in old.all {
            let useful = clause.spread < middle && !clause.literals.iter().any(|&f| trail.holds(f));
            if useful || clause.spread == 0 {
                self.learned += usize::from(clause.spread > 0);
                self.add(trail, clause.literals, clause.spread);
            }
        }
    }
}
