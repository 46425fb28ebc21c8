//! The trail: integer variables between bounds, and why: decisions and what propagation derived from them.
//!
//! Every bound is a lower bound: for each variable `x` there is a second one, `−x`, whose lower bound is the
//! upper bound of `x`. A choice is a variable between 0 and 1. So there is one kind of [literal](Literal), `x ≥ v`,
//! and its negation, `−x ≥ 1 − v`, is of the same kind: all values are whole.

use std::ops::Not;

/// A number: `x` if even, and `−x` the odd one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Var(pub u32);

impl Var {
    /// The place of what is kept for it in a list.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// That it is at least this.
    pub(super) fn at_least(self, least: i64) -> Literal {
        Literal { var: self, least }
    }

    /// That it is at most this.
    pub(super) fn at_most(self, most: i64) -> Literal {
        Literal {
            var: !self,
            least: -most,
        }
    }
}

impl Not for Var {
    type Output = Var;

    /// `−x`.
    fn not(self) -> Var {
        Var(self.0 ^ 1)
    }
}

/// That a number is at least this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    pub var: Var,
    pub least: i64,
}

impl Not for Literal {
    type Output = Literal;

    fn not(self) -> Literal {
        Literal {
            var: !self.var,
            least: 1 - self.least,
        }
    }
}

/// Why a bound holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reason {
    /// It was decided, or holds in every plan.
    Given,
    /// All other literals of this clause are false.
    Clause(u32),
    /// This arc.
    Arc(u32),
    /// These literals of [`Trail::because`] hold.
    Facts(u32, u32),
}

/// A bound that was raised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub literal: Literal,
    /// The entry before of the same number.
    pub before: u32,
    pub reason: Reason,
    pub level: u32,
}

/// Something cannot be: the literals that contradict each other are in [`Trail::conflict`].
#[derive(Debug)]
pub(super) struct Conflict;

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// All bounds, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Trail {
    pub entries: Vec<Entry>,
    /// The lower bound of each number: in all plans, and as it is now; and its last entry.
    first: Vec<i64>,
    now: Vec<i64>,
    last: Vec<u32>,
    /// Reasons that are no clauses.
    pub because: Vec<Literal>,
    /// Where entries and reasons of each level begin.
    levels: Vec<(u32, u32)>,
    /// Facts that hold and contradict each other.
    pub conflict: Vec<Literal>,
    /// For each number, the one of the two whose bound was raised last before it was forgotten.
    leaning: Vec<Option<Var>>,
}

impl Trail {
    /// A new number between these bounds, in all plans.
    pub(super) fn number(&mut self, least: i64, most: i64) -> Var {
        let var = Var(self.last.len() as u32);
        self.leaning.push(None);
        self.last.extend([NONE; 2]);
        self.first.extend([least, -most]);
        self.now.extend([least, -most]);
        var
    }

    /// How many there are, counting `x` and `−x`.
    pub(super) fn numbers(&self) -> usize {
        self.last.len()
    }

    /// The lower bound.
    pub(super) fn least(&self, var: Var) -> i64 {
        self.now[var.index()]
    }

    /// The upper bound.
    pub(super) fn most(&self, var: Var) -> i64 {
        -self.least(!var)
    }

    /// Both bounds in all plans.
    pub(super) fn always(&self, var: Var) -> (i64, i64) {
        (self.first[var.index()], -self.first[(!var).index()])
    }

    /// Whether it is known to be true.
    pub(super) fn holds(&self, literal: Literal) -> bool {
        self.least(literal.var) >= literal.least
    }

    /// Whether it is known to be false.
    pub(super) fn fails(&self, literal: Literal) -> bool {
        self.holds(!literal)
    }

    /// The entry that made a literal true, which holds; none if it always does.
    pub(super) fn entry_of(&self, literal: Literal) -> Option<u32> {
        if self.first[literal.var.index()] >= literal.least {
            return None;
        }
        let mut at = self.last[literal.var.index()];
        loop {
            let before = self.entries[at as usize].before;
            if before == NONE || self.entries[before as usize].literal.least < literal.least {
                return Some(at);
            }
            at = before;
        }
    }

    /// How many decisions had been taken when a literal became true, which holds.
    pub(super) fn level_of(&self, literal: Literal) -> u32 {
        self.entry_of(literal)
            .map_or(0, |at| self.entries[at as usize].level)
    }

    /// How many decisions have been taken.
    pub(super) fn level(&self) -> u32 {
        self.levels.len() as u32
    }

    /// Decides a literal that is open.
    pub(super) fn decide(&mut self, literal: Literal) {
        let begin = (self.entries.len() as u32, self.because.len() as u32);
        self.levels.push(begin);
        self.enter(literal, Reason::Given);
    }

    /// Notes that a literal follows from others, which hold.
    pub(super) fn follow(&mut self, literal: Literal, because: &[Literal]) -> Result<(), Conflict> {
        if self.holds(literal) {
            return Ok(());
        }
        if self.fails(literal) {
            self.conflict.clear();
            self.conflict.extend_from_slice(because);
            self.conflict.push(!literal);
            return Err(Conflict);
        }
        let from = self.because.len() as u32;
        self.because.extend_from_slice(because);
        let to = self.because.len() as u32;
        self.enter(literal, Reason::Facts(from, to));
        Ok(())
    }

    /// Notes that these literals, which hold, cannot hold together.
    pub(super) fn refuse(&mut self, literals: &[Literal]) -> Conflict {
        self.conflict.clear();
        self.conflict.extend_from_slice(literals);
        Conflict
    }

    /// Enters a literal that is open.
    pub(super) fn enter(&mut self, literal: Literal, reason: Reason) {
        self.now[literal.var.index()] = literal.least;
        let slot = &mut self.last[literal.var.index()];
        let before = std::mem::replace(slot, self.entries.len() as u32);
        self.entries.push(Entry {
            literal,
            before,
            reason,
            level: self.levels.len() as u32,
        });
    }

    /// A choice as it was made last time, if it was.
    pub(super) fn leaning(&self, literal: Literal) -> Option<Literal> {
        let var = self.leaning[literal.var.index() / 2]?;
        Some(if var == literal.var {
            literal
        } else {
            !literal
        })
    }

    /// Makes a choice so, if nothing speaks against it, when its turn comes.
    pub(super) fn set_phase(&mut self, literal: Literal) {
        self.leaning[literal.var.index() / 2] = Some(literal.var);
    }

    /// Forgets all that was decided after this many decisions.
    pub(super) fn back_to(&mut self, level: u32) {
        let Some(&(entries, because)) = self.levels.get(level as usize) else {
            return;
        };
        for at in (entries as usize..self.entries.len()).rev() {
            let Entry {
                literal, before, ..
            } = self.entries[at];
            let v = literal.var.index();
            self.last[v] = before;
            self.now[v] = match before {
                NONE => self.first[v],
                before => self.entries[before as usize].literal.least,
            };
            self.leaning[v / 2] = Some(literal.var);
        }
        self.entries.truncate(entries as usize);
        self.because.truncate(because as usize);
        self.levels.truncate(level as usize);
    }
}
