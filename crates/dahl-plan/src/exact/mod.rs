//! Proven best plans of small problems: branch and bound with lazy clause generation.
//!
//! A decision chooses the execution mode of a task, or which of two activities goes first on a unit. Propagation
//! finds what follows: earliest starts, latest ends, what no longer fits, a lower bound of the cost. A conflict is
//! analysed into a learned clause (`analyse`), so the same few literals are never tried together again.
//!
//! Everything that is known is a bound of an integer variable (`trail`): starts, ends, choices, the cost. The
//! propagators are
//!
//! - `clauses`: of some literals at least one holds (two watched literals each);
//! - `arcs`: precedences, under conditions;
//! - `energetic`: what must run on a resource between two moments has to fit there;
//! - `budget`: the cost of the modes that are left, by the cuts of the dual bound.
//!
//! Disjunctions on units and links, and of copies in a memory, are no choices beforehand: where more overlap than
//! there is room for, one has to wait for another, and only then their order becomes a choice
//! (`resource_conflicts`). Most never do.
//!
//! Nothing here guesses: when it is stopped it says so, and what it has found is not called a proof.

mod analyse;
mod arcs;
mod budget;
mod build;
mod clauses;
mod cuts;
mod energetic;
mod extract;
mod model;
mod resource_conflicts;
mod search;
mod symmetry;
mod trail;
mod transfers;

use super::network::Frame;
use super::problem::Goal;
use super::timeline::Started;
use build::build;
use search::{BranchAndBound, Step};
use trail::Conflict;

pub(crate) use extract::Hint;

/// Plans within this part of each other count as equal.
const SAME: f64 = 1e-9;

/// Rounds in which prices for bounds are found: so many for each task, up to so many.
const ROUNDS: usize = 40;
const MOST_ROUNDS: usize = 2000;

/// What an exact search found.
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    /// The cost of the best plan known, however it was found; infinite if there is none.
    pub cost: f64,
    /// If a plan better than the one to beat was found: each task's memory, and the plan.
    pub found: Option<(Vec<usize>, Vec<Started>)>,
    /// Whether nothing better exists, but for the tolerance.
    pub proven: bool,
    /// No plan costs less, whether proven or not; may be negative infinity.
    pub floor: f64,
    /// Conflicts met.
    pub conflicts: u64,
}

/// Looks for a plan that costs less than `beat`, which may be infinite, by more than the part `tolerance`,
/// until there is none or `keep_going` says no. A `hint` is a plan near which to look first.
pub(crate) fn solve(
    frame: &Frame<'_>,
    goal: &Goal,
    beat: f64,
    hint: Option<&Hint>,
    tolerance: f64,
    keep_going: &mut dyn FnMut() -> bool,
) -> Exact {
    let tolerance = tolerance.max(SAME);
    let mut result = Exact {
        cost: beat,
        found: None,
        proven: false,
        floor: f64::NEG_INFINITY,
        conflicts: 0,
    };
    let rounds = (ROUNDS * frame.problem.tasks.len()).min(MOST_ROUNDS);
    match build(frame, goal, rounds, keep_going) {
        Ok(model) => {
            let mut search = BranchAndBound::new(model);
            if let Some(hint) = hint {
                search.suggest(frame, hint);
            }
            run(frame, goal, search, &mut result, tolerance, keep_going);
        }
        Err(Conflict) => result.proven = true,
    }
    if result.proven {
        result.floor = result.cost * (1.0 - tolerance);
    }
    result
}

/// Improves what is known until nothing better is left.
fn run(
    frame: &Frame<'_>,
    goal: &Goal,
    mut search: BranchAndBound,
    result: &mut Exact,
    tolerance: f64,
    keep_going: &mut dyn FnMut() -> bool,
) {
    let mut limit = result.cost * (1.0 - tolerance);
    result.proven = search.limit(limit, goal).is_err();
    while !result.proven {
        match search.step(keep_going) {
            Step::Nothing => result.proven = true,
            Step::Stopped => break,
            Step::Complete => {
                let Some(plan) = search.plan(frame) else {
                    break;
                };
                let cost = goal.cost(plan.seconds, plan.joules);
                if cost < result.cost && goal.in_time(plan.seconds) {
                    result.cost = cost;
                    result.found = Some((plan.memory, plan.log));
                }
                limit = limit.min(cost * (1.0 - tolerance));
                result.proven = search.limit(limit, goal).is_err();
            }
        }
    }
    result.conflicts = search.conflicts;
    result.floor = search.floor().min(result.cost);
}
