//! A problem as numbers with bounds: starts, ends, choices of ways, needed transfers, and orders.
//!
//! Times are in ticks, so short that rounding down loses nothing of interest. [`make`](super::make) builds it.

use super::arcs::Arcs;
use super::budget::Budget;
use super::clauses::Clauses;
use super::trail::{Fact, Trail, Var};
use super::work::Work;

/// That something is so; if there is no fact, it always is.
pub(super) type If = Option<Fact>;

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

/// A way of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    /// That it is chosen.
    pub here: If,
    /// The group of units.
    pub group: usize,
    /// Its place among the ways of the task's class.
    pub way: usize,
}

/// An order that may have to be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// That `first` ends before `second` starts.
    pub before: Fact,
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

/// What several share at once, up to a limit: units, channels of a link, bytes of a memory.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub limit: u64,
    /// Who takes how much.
    pub takers: Vec<(Span, u64)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Model {
    pub trail: Trail,
    pub clauses: Clauses,
    pub arcs: Arcs,
    pub works: Vec<Work>,
    pub budget: Budget,
    pub orders: Vec<Order>,
    pub tasks: Vec<(Span, Vec<Chosen>)>,
    pub crossings: Vec<Crossing>,
    /// Where orders become choices when there is a crowd.
    pub shares: Vec<Share>,
}

impl Model {
    /// A new choice.
    pub(super) fn choice(&mut self) -> Fact {
        self.trail.number(0, 1).at_least(1)
    }

    /// That one goes before another, if both are.
    pub(super) fn put(&mut self, first: Span, second: Span, before: Fact) {
        let conditions: Vec<Fact> = [Some(before), first.here, second.here]
            .into_iter()
            .flatten()
            .collect();
        self.arcs.add(first.end, second.start, 0, &conditions);
    }
}
