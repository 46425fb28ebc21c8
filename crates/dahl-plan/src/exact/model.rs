//! A problem as integer variables: starts, ends, choices of modes, needed transfers, and precedences.
//!
//! Times are in ticks, so short that rounding down loses nothing of interest. [`build`](super::build) makes it.

use super::arcs::Arcs;
use super::budget::Budget;
use super::clauses::Clauses;
use super::energetic::Energetic;
use super::trail::{Literal, Trail, Var};

/// That something is so; if there is no literal, it always is.
pub(super) type If = Option<Literal>;

/// When something runs or exists, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: Var,
    pub end: Var,
    pub here: If,
}

impl Span {
    /// Whether it takes place for certain.
    pub(super) fn is_certain(&self, trail: &Trail) -> bool {
        self.here.is_none_or(|h| trail.holds(h))
    }

    /// Whether two overlap when everything starts as early as it can.
    pub(super) fn overlaps(&self, other: &Span, trail: &Trail) -> bool {
        let before = |a: &Span, b: &Span| trail.least(a.end) <= trail.least(b.start);
        !before(self, other) && !before(other, self)
    }
}

/// A mode of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    /// That it is chosen.
    pub here: If,
    /// The group of units.
    pub group: usize,
    /// Its place among the modes of the task's class.
    pub mode: usize,
}

/// A precedence that may have to be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Precedence {
    /// That `first` ends before `second` starts.
    pub before: Literal,
    pub first: Span,
    pub second: Span,
}

/// A datum that may cross a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub datum: u32,
    pub link: u32,
    pub span: Span,
}

/// A cumulative resource: units, channels of a link or of what links share, bytes of a memory.
#[derive(Clone, Debug)]
pub(super) struct Cumulative {
    pub limit: u64,
    /// Who takes how much.
    pub demands: Vec<(Span, u64)>,
}

#[derive(Debug)]
pub(super) struct Model {
    pub trail: Trail,
    pub clauses: Clauses,
    pub arcs: Arcs,
    pub works: Vec<Energetic>,
    pub budget: Budget,
    pub orders: Vec<Precedence>,
    pub tasks: Vec<(Span, Vec<Chosen>)>,
    pub crossings: Vec<Crossing>,
    /// Where orders become choices when there is a conflict set.
    pub cumulatives: Vec<Cumulative>,
}

impl Model {
    /// A new choice.
    pub(super) fn choice(&mut self) -> Literal {
        self.trail.number(0, 1).at_least(1)
    }

    /// That one goes before another, if both are.
    pub(super) fn put(&mut self, first: Span, second: Span, before: Literal) {
        let conditions: Vec<Literal> = [Some(before), first.here, second.here]
            .into_iter()
            .flatten()
            .collect();
        self.arcs.add(first.end, second.start, 0, &conditions);
    }
}
